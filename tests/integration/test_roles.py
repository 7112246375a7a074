"""What a viewer, a user, an op and an admin may do, by Airflow's simple auth manager over REST."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import psutil
import pytest
from tests.contained import folder_of_server

pytestmark = pytest.mark.slow

ROLES = ("viewer", "user", "op", "admin")
WAIT_S = 240.0
DISMISS = {"reason": "expected", "note": ""}
PAGES = "/nightbench/api"
REQUESTS: dict[tuple[str, str], tuple[str, Any]] = {
    # The warehouse is not there: who may read it is told so, and nobody else.
    ("GET", f"{PAGES}/runs"): ("viewer", None),
    ("GET", f"{PAGES}/alerts"): ("viewer", None),
    ("GET", f"{PAGES}/nodes"): ("viewer", None),
    ("GET", f"{PAGES}/runs/r-1/c-1/repeats/0/1/log"): ("viewer", None),
    ("POST", f"{PAGES}/alerts/1/dismiss"): ("user", DISMISS),
    ("GET", f"{PAGES}/experiments?kind=compare"): ("viewer", None),
    ("GET", f"{PAGES}/comparisons/1/comment.md"): ("viewer", None),
    ("POST", f"{PAGES}/comparisons"): ("user", {}),
    ("POST", f"{PAGES}/comparisons/estimate"): ("user", {}),
    ("POST", f"{PAGES}/comparisons/1/cancel"): ("user", {}),
    ("POST", f"{PAGES}/comparisons/1/allow"): ("op", {}),
    ("POST", f"{PAGES}/comparisons/1/refuse"): ("op", {}),
    ("POST", "/api/v2/dags/on_demand/dagRuns"): ("user", {"logical_date": None, "conf": {}}),
    ("PATCH", "/api/v2/dags/on_demand"): ("user", {"is_paused": False}),
    ("GET", "/api/v2/connections"): ("op", None),
}
"""Method and path -> the least role that may, and a body."""
AIRFLOW = """
import sys
from airflow.__main__ import main
for words in (["db", "migrate"], ["dags", "reserialize"], ["api-server", *sys.argv[1:]]):
    sys.argv = ["airflow", *words]
    main()
"""
"""All in one process: to import Airflow takes longer than what the first two do."""


@contextmanager
def api_server(
    place: Path, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[httpx.Client]:
    """Airflow's API server with a user of each role, called like it, all DAGs, and variables."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    settings = {
        "AIRFLOW_HOME": str(place),
        "NIGHTBENCH_HOME": str(place / "home"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{r}:{r}" for r in ROLES),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(place / "passwords.json"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).resolve().parents[2] / "dags"),
        "AIRFLOW__API__BASE_URL": address,
    }
    (place / "passwords.json").write_text(json.dumps({role: role for role in ROLES}))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "NIGHTBENCH"))}
    env = {**kept, **settings, **more}
    words = [sys.executable, "-c", AIRFLOW, "--host", "127.0.0.1", "--port", str(port)]
    with (place / "api-server.log").open("wb") as log, ExitStack() as ending:
        server = psutil.Popen(words, env=env, stdout=log, stderr=log)
        ending.callback(end, server)
        client = ending.enter_context(httpx.Client(base_url=address, timeout=60))
        deadline = time.monotonic() + WAIT_S
        while not answers(client):
            assert server.is_running(), (place / "api-server.log").read_text()[-4000:]
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield client


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/api/v2/version").is_success
    except httpx.TransportError:
        return False


def end(server: psutil.Popen) -> None:
    """End a process with what it has started; nothing if it has ended."""
    with suppress(psutil.NoSuchProcess):
        processes = [*server.children(recursive=True), server]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with api_server(folder_of_server("nbair-")) as opened:
        yield opened


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_what_its_rank_says(client: httpx.Client, role: str) -> None:
    login = client.post("/auth/token", json={"username": role, "password": role})
    bearer = {"Authorization": f"Bearer {login.json()['access_token']}"}
    found, expected = {}, {}
    for (method, path), (least, body) in REQUESTS.items():
        answer = client.request(method, path, headers=bearer, json=body)
        found[method, path] = answer.status_code != 403
        expected[method, path] = ROLES.index(role) >= ROLES.index(least)
        assert answer.status_code != 401, answer.text
    assert found == expected


def test_who_is_not_logged_in_may_nothing(client: httpx.Client) -> None:
    found = {
        (method, path): client.request(method, path, json=body).status_code
        for (method, path), (_, body) in REQUESTS.items()
    }
    assert set(found.values()) == {401}, found
