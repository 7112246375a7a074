"""The Compose stack: Airflow is set as by `nightbench up`, and each secret is a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nightbench.local import airflow, postgres
from nightbench.local.home import Home, Secrets
from nightbench.local.ports import Ports

DOCKER = Path(__file__).resolve().parents[3] / "docker"
COMPOSE = DOCKER / "compose.yaml"
ELSEWHERE = {
    "AIRFLOW__CORE__DAGS_FOLDER",  # the image's own
    *("AIRFLOW__API__HOST", "AIRFLOW__API__PORT"),  # arguments of the service
}
"""Settings of `up` that Compose gives in another way."""
DIFFER = {
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE",
    "AIRFLOW__API__BASE_URL",
    "AIRFLOW__LOGGING__BASE_LOG_FOLDER",
    "AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY",
    "AIRFLOW__SECRETS__BACKEND_KWARGS",
}
"""Settings whose values are places."""


@pytest.fixture
def stack() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return found


def airflow_services(stack: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: stack["services"][name] for name in airflow.SERVICES}


def test_airflow_is_set_as_on_one_machine(stack: dict[str, Any], tmp_path: Path) -> None:
    wanted = airflow.settings(Home(tmp_path), Ports(1, 2, 3), Secrets())
    wanted = {name: value for name, value in wanted.items() if name.startswith("AIRFLOW__")}
    given: dict[str, str] = {}
    for service in airflow_services(stack).values():
        given |= service["environment"]
    for name in wanted.keys() - ELSEWHERE:
        if f"{name}_CMD" in given:
            continue
        assert name in given, name
        if name not in DIFFER:
            assert given[name] == wanted[name], name
    known = wanted.keys() | {f"{name}_CMD" for name in wanted}
    assert {name for name in given if name.startswith("AIRFLOW__")} <= known


def test_a_service_sees_no_secret_that_it_does_not_need(stack: dict[str, Any]) -> None:
    services = stack["services"]
    seen = {
        name: {each["source"] if isinstance(each, dict) else each for each in it.get("secrets", ())}
        for name, it in services.items()
    }
    roles = {f"{role}_password" for role in (postgres.SUPERUSER, "airflow", *postgres.ROLES)}
    assert roles <= seen["init"]
    assert seen["postgres"] == {"postgres_password"}
    for name in ("scheduler", "dag-processor", "triggerer", "api-server"):
        assert not seen[name] & roles
    assert {name for name in seen if "connections.json" in seen[name]} == {
        "api-server",
        "triggerer",
    }
    for number in range(1, 5):
        assert seen[f"node{number}"] == {"node_key.pub", f"node{number}_host_key", "pip"}
    # None in an environment, none in the network of the nodes.
    for name, service in services.items():
        for key, value in service.get("environment", {}).items():
            assert not key.endswith(("_PASSWORD", "_SECRET", "_KEY")), (name, key)
            assert "://" not in str(value) or "@" not in str(value), (name, key)
    assert {name for name, it in services.items() if "nodes" in it["networks"]} == {
        *("scheduler", "triggerer", "node1", "node2", "node3", "node4")
    }
    assert all(it["read_only"] and it["cap_drop"] == ["ALL"] for it in services.values())


def test_secrets_are_made_once_and_renewed_by_name(tmp_path: Path) -> None:
    script = tmp_path / "make_secrets.py"
    script.write_text((DOCKER / "make_secrets.py").read_text(encoding="utf-8"))
    folder = tmp_path / "secrets"

    def made(*words: str) -> dict[str, str]:
        subprocess.run([sys.executable, str(script), *words], check=True, capture_output=True)
        return {path.name: path.read_text() for path in folder.iterdir()}

    first = made()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert made() == first
    (folder / "own_connections.json").write_text('{"mine": {"conn_type": "ssh"}}')
    later = made("--renew", "nightbench_reader_password")
    changed = {name for name in later if later[name] != first.get(name)}
    assert changed == {"nightbench_reader_password", "connections.json", "own_connections.json"}
    connections = json.loads(later["connections.json"])
    reader = connections["nightbench_warehouse_reader"]
    assert reader["password"] == later["nightbench_reader_password"]
    assert "mine" in connections
    extra = connections["nightbench_compose"]["extra"]
    assert extra["private_key"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert extra["known_hosts"].count("ssh-ed25519") == 4
    stack = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    for entry in stack["secrets"].values():
        assert (tmp_path / entry["file"]).is_file(), entry


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(DOCKER / "make_secrets.py"), "--renew", "all"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "invalid choice: 'all'" in done.stderr
