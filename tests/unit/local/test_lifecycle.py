"""How `up` tells which of its services run and are healthy."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nightbench.core.errors import UserError
from nightbench.local import deployment, lifecycle, processes
from nightbench.local.deployment import Stack
from nightbench.local.home import Home, load_or_create_secrets
from nightbench.local.ports import Ports

HEALTHY = """\
import http.server, json, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"scheduler": {"status": "healthy"}}).encode())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    home = Home(tmp_path / "state")
    home.make()
    home.airflow.mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    yield Stack(home, Ports(api=port), load_or_create_secrets(home))
    for service in deployment.SERVICES:
        processes.stop(home.run / f"{service}.pid")


def start(stack: Stack, service: str, *words: str) -> None:
    command = [sys.executable, "-c", *words]
    processes.start(stack.home, service, command, env=dict(os.environ))


def wait_for_answer(port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_stranger_that_took_our_port_first_is_not_taken_for_our_api_server(stack: Stack) -> None:
    start(stack, "api-server", "import time; time.sleep(600)")
    with subprocess.Popen([sys.executable, "-c", HEALTHY, str(stack.ports.api)]) as stranger:
        try:
            wait_for_answer(stack.ports.api)
            assert deployment.airflow_health(stack) == {}
        finally:
            stranger.kill()
    processes.stop(stack.pid_file("api-server"))
    start(stack, "api-server", HEALTHY, str(stack.ports.api))
    wait_for_answer(stack.ports.api)
    assert deployment.airflow_health(stack) == {"scheduler": {"status": "healthy"}}


def test_the_port_that_airflows_processes_know_stays_while_one_of_them_runs(stack: Stack) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        stack.home.ports_file.write_text(json.dumps({"api": port}))
        start(stack, "triggerer", "import time; time.sleep(600)")
        with (
            ExitStack() as reserved,
            pytest.raises(UserError, match=rf"Port {port} .* nightbench down; nightbench up"),
        ):
            lifecycle._prepare(stack.home, reserved)
        stranger.close()
        with ExitStack() as reserved:
            assert lifecycle._prepare(stack.home, reserved).ports.api == port
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        processes.stop(stack.pid_file("triggerer"))
        with ExitStack() as reserved:
            assert lifecycle._prepare(stack.home, reserved).ports.api != port


def test_what_ends_while_up_waits_is_started_again_once(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler gives up a while after its database went away: `up` may come in between."""
    short = "import time; time.sleep(0.2)"
    monkeypatch.setattr(lifecycle.airflow, "command", lambda *words: [sys.executable, "-c", short])
    for service in lifecycle.airflow.SERVICES[1:]:
        start(stack, service, "import time; time.sleep(600)")
    start(stack, "api-server", short)
    said = lifecycle._await_airflow(stack, set(), hung=())

    assert next(said) == "Airflow: api-server had ended, starting it again"
    with pytest.raises(UserError, match="Airflow's api-server ended"):
        next(said)


def test_what_a_watchdog_saw_hang_is_restarted_without_another_wait(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "import time; time.sleep(600)"
    monkeypatch.setattr(lifecycle.airflow, "command", lambda *words: [sys.executable, "-c", long])
    for service in lifecycle.airflow.SERVICES:
        start(stack, service, long)
    before = {service: stack.running(service) for service in lifecycle.airflow.SERVICES}
    sick = iter([["scheduler", "triggerer"], ["scheduler"], []])
    monkeypatch.setattr(lifecycle, "unhealthy", lambda stack: next(sick))

    said = list(lifecycle._await_airflow(stack, set(), hung=["triggerer"]))

    assert said[0] == "Airflow: triggerer reports no heartbeat, restarting it"
    assert len(said) == 2
    changed = {s for s in lifecycle.airflow.SERVICES if stack.running(s) != before[s]}
    assert changed == {"triggerer"}


def test_without_the_extra_up_starts_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "ONLY_LOCAL", ("psutil", "no_such_package"))
    home = Home(tmp_path / "state")
    with pytest.raises(UserError, match="found no no_such_package; expected the extra `local`"):
        list(lifecycle.up(home))
    assert not home.root.exists()


def test_a_first_up_that_fails_is_not_taken_for_a_stack(tmp_path: Path) -> None:
    home = Home(tmp_path / "state")
    home.make()
    # No folder of data, and no place for one.
    home.postgres.write_text("in the way")
    with pytest.raises((UserError, OSError)):
        list(lifecycle.up(home))
    assert not home.secrets_file.exists()
    assert not home.ports_file.exists()
    assert not home.connections_file.exists()
    assert processes.leftovers(home.root, home.postgres) == {}
    with pytest.raises(UserError, match="Nothing was started"):
        deployment.load(home)
