"""A home and a dags/ folder of a test's own, with local nodes that answer SSH."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "from nightbench.cli import main; main()"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        return int(probe.getsockname()[1])


@contextmanager
def local_nodes(place: Path, suite: str, find_links: Path | None = None) -> Iterator[None]:
    """Two local nodes below `place/home`, and the suite `trial` with their cluster.

    Args:
        place: an empty folder.
        suite: text of the suite.
        find_links: folder of wheels that the nodes install from.
    """
    home, port = place / "home", free_port()
    home.mkdir()
    cluster = (REPO / "dags/clusters/local.yaml").read_text()
    if find_links is not None:
        assert "environments:\n" in cluster
        cluster = cluster.replace(
            "environments:\n", f"environments:\n  find_links: [{find_links}]\n"
        )
    for name, text in (("suites/trial.yaml", suite), ("clusters/local.yaml", cluster)):
        path = place / "dags" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    words = ["--home", str(home), "--nodes", "2", "--port", str(port)]
    server = subprocess.Popen(
        [sys.executable, "-m", "nightbench.stack.local_cluster", *words],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == "ready\n"
        known = json.loads((home / "cluster/server.json").read_text())
        extra = {"key_file": known["client_key"], "known_hosts": known["known_hosts"]}
        connection = {
            "conn_type": "ssh",
            "host": "127.0.0.2",
            "port": port,
            "login": known["user"],
            "extra": extra,
        }
        (home / "connections.json").write_text(json.dumps({"nightbench_local": connection}))
        yield
    finally:
        server.terminate()
        server.wait(20)
        server.stdout.close()


def environment(place: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "NIGHTBENCH_"))}
    # The binary that `make setup` fetched, wherever the home of the test lies.
    uv = os.environ.get("NIGHTBENCH_UV") or str(REPO / ".nightbench/tools/uv")
    return {
        **kept,
        **({"NIGHTBENCH_UV": uv} if Path(uv).is_file() else {}),
        "NIGHTBENCH_HOME": str(place / "home"),
        "NIGHTBENCH_DAGS": str(place / "dags"),
        **more,
    }


class Command:
    """`nightbench` as its user calls it, in a place of the test's own."""

    def __init__(self, place: Path, **more: str) -> None:
        self._environment = environment(place, **more)

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )

    def until(self, said: str, *words: str, number: signal.Signals) -> int:
        """Call it and end it by a signal once it has said something; its exit code."""
        running = subprocess.Popen(
            [*COMMAND, *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert running.stdout is not None
        lines = []
        for line in running.stdout:
            lines.append(line)
            if said in line:
                running.send_signal(number)
                break
        else:
            pytest.fail("".join(lines))
        running.communicate(timeout=120)
        return running.returncode
