"""A person's terminal: the command, a home and a dags/ folder, and local nodes that answer SSH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests import command
from tests.command import COMMAND, LIMIT_S
from tests.integration.openssh import local_nodes
from tests.integration.toy_line import installing_from
from tests.marks import marks

from nightbench.cli.results import rows_from_files
from nightbench.spool import RunSpool, Spool

REPO = Path(__file__).resolve().parents[2]
CHECK = ("ab", "bisect", "drill", "results", "run")
"""Commands that hold checks."""

TRIAL = """\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {warmup_steps: 2, measured_steps: 20, repeats: 2}
matrix:
  - workload: sleep
    frameworks: fake
    strategy: collective
    devices: [1x1, 2x1]
    batch_size_per_device: 2
  - workload: sleep
    frameworks: fake
    strategy: parameter_server
    trainers: 2
    sync: async
    batch_size_per_device: 2
"""
"""One of each kind: one process, two ranks, a server with its trainers."""


@dataclass(frozen=True)
class Terminal:
    """Runs `nightbench ...`; neither a scheduler nor a warehouse is there."""

    place: Path
    more: Mapping[str, str] = field(default_factory=dict)
    """Variables beside those that say where home and dags/ are."""

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def spool(self) -> Spool:
        return Spool(self.home / "spool")

    def newest(self) -> RunSpool:
        return max(self.spool.runs(), key=lambda run: str((run.run() or {})["started_at"]))

    def rows(self) -> list[dict[str, Any]]:
        """What `results --json` prints of the newest run, without a process of its own.

        That imports Great Expectations, which costs it more than all else.
        """
        return rows_from_files(self.spool, self.newest().run_id)

    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "NIGHTBENCH"))}
        # The binary that `make setup` fetched, wherever the home of the test lies.
        uv = os.environ.get("NIGHTBENCH_UV") or str(Path(sys.prefix) / "bin" / "uv")
        if Path(uv).is_file():
            kept["NIGHTBENCH_UV"] = uv
        mine = {"NIGHTBENCH_HOME": str(self.home), "NIGHTBENCH_DAGS": str(self.place / "dags")}
        return {**kept, **mine, **self.more}

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever that is; `more` are variables for it alone."""
        return command.run(*words, env={**self.environment(), **more}, checks=words[0] in CHECK)

    def begin(self, *words: str, until: str) -> subprocess.Popen[str]:
        """Start a command and read what it says up to a line that holds some words."""
        running = subprocess.Popen(
            [*COMMAND, *words],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert running.stdout is not None
        said = []
        for line in running.stdout:
            said.append(line)
            if until in line:
                return running
        pytest.fail("".join(said))


@contextmanager
def terminal(
    place: Path, suite: str, find_links: Path | None = None, **more: str
) -> Iterator[Terminal]:
    """A terminal with the suite `trial` on the two nodes of cluster `local`.

    Args:
        place: an empty folder.
        suite: text of the suite.
        find_links: folder of wheels that the nodes install from.
        more: variables for every command.
    """
    cluster = (REPO / "dags/clusters/local.yaml").read_text()
    if find_links is not None:
        cluster = installing_from(cluster, find_links)
    for name, text in (("suites/trial.yaml", suite), ("clusters/local.yaml", cluster)):
        path = place / "dags" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    made = Terminal(place, more)
    with local_nodes(made.home) as nodes:
        target = nodes.targets["n1"]
        connection = {
            "conn_type": "ssh",
            "host": target.host,
            "port": target.port,
            "login": target.user,
            "extra": {"key_file": target.client_keys[0], "known_hosts": target.known_hosts},
        }
        (made.home / "connections.json").write_text(json.dumps({"nightbench_local": connection}))
        yield made


def marked(run_id: str) -> list[int]:
    """Processes on this machine that carry the mark of a run or a comparison."""
    return list(marks(f"{run_id}/"))


def wait_for_a_launch(run_id: str, running: subprocess.Popen[str]) -> None:
    """Until a process of it runs; otherwise what the command that should start it has said."""
    limit = time.monotonic() + LIMIT_S
    while running.poll() is None and time.monotonic() < limit:
        if marked(run_id):
            return
        time.sleep(0.05)
    running.kill()
    pytest.fail(f"no launch; {running.poll()}: {running.communicate()[0]}")
