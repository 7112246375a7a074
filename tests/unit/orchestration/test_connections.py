"""Connections from the environment, from the home's file and from nowhere, as Airflow has them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, Node
from nightbench.orchestration.connections import get_connection, warehouse_dsn
from nightbench.orchestration.ssh_targets import ssh_targets, ssh_targets_async

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE6Z2wWbFZ0Zx8bS3bPSl8xwTR3bUEdaXvW6sDZs1234"


@pytest.fixture(autouse=True)
def _nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", raising=False)


def ssh(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    connection = {"conn_type": "ssh", "login": "bench", "port": 2200, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_GPU", json.dumps(connection))


def cluster(known_hosts: Path | None = None, **node: Any) -> Cluster:
    return Cluster(
        "c",
        (Node("n1", "gpu01.example.org", "gpu", **node),),
        known_hosts=str(known_hosts) if known_hosts else None,
    )


def test_a_connection_becomes_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    ssh(monkeypatch, key_file="~/.ssh/id", private_key_passphrase="secret", host_key=KEY)

    target = ssh_targets(cluster())["n1"]

    assert (target.host, target.port, target.user) == ("gpu01.example.org", 2200, "bench")
    assert target.client_keys == (str(Path("~/.ssh/id").expanduser()),)
    assert target.passphrase == "secret"
    assert "secret" not in repr(target)
    assert target.known_hosts == f"gpu01.example.org,[gpu01.example.org]:2200 {KEY}\n".encode()


async def test_a_trigger_gets_the_same_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    ssh(monkeypatch, private_key="-----BEGIN PRIVATE KEY-----", host_key=KEY)
    assert await ssh_targets_async(cluster()) == ssh_targets(cluster())


def test_the_node_s_port_is_stronger_than_the_connection_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ssh(monkeypatch, host_key=KEY)
    assert ssh_targets(cluster(port=22))["n1"].port == 22


def test_the_cluster_s_known_hosts_are_stronger_than_the_connection_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for path in (theirs, ours):
        path.write_text(f"gpu01.example.org {KEY}\n")
    ssh(monkeypatch, known_hosts=str(theirs), host_key=KEY)

    assert ssh_targets(cluster(ours))["n1"].known_hosts == str(ours)
    assert ssh_targets(cluster())["n1"].known_hosts == str(theirs)


@pytest.mark.parametrize("extra", [{}, {"no_host_key_check": "true"}, {"known_hosts": "none"}])
def test_without_a_host_key_there_is_no_target(
    monkeypatch: pytest.MonkeyPatch, extra: dict[str, str]
) -> None:
    ssh(monkeypatch, **extra)
    with pytest.raises(UserError, match=r"no host key is known.*ssh-keyscan -p 2200 gpu01"):
        ssh_targets(cluster())


def test_a_host_key_has_the_type_that_is_written_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's own hook calls every ECDSA key `ssh-ecdsa`."""
    key = asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_public_key().decode()
    ssh(monkeypatch, host_key=f"ssh-ecdsa {key.split()[1]}")
    target = ssh_targets(cluster())["n1"]
    assert target.known_hosts == f"gpu01.example.org,[gpu01.example.org]:2200 {key}".encode()


def test_a_host_key_without_its_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ssh(monkeypatch, host_key=KEY.split()[1])
    with pytest.raises(UserError, match=r"expected type and key, as in `ssh-ed25519"):
        ssh_targets(cluster())


def test_known_hosts_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ssh(monkeypatch, known_hosts="/nowhere/known_hosts")
    with pytest.raises(UserError, match="found '/nowhere/known_hosts', which does not exist"):
        ssh_targets(cluster())


def test_a_connection_of_another_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_GPU", "postgres://somebody@somewhere/db")
    with pytest.raises(UserError, match="found type 'postgres'; expected ssh"):
        ssh_targets(cluster())


def test_a_variable_that_is_no_connection_is_named_and_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_GPU", '{"password": "geheim"')
    with pytest.raises(UserError, match="AIRFLOW_CONN_GPU") as raised:
        get_connection("gpu")
    assert "geheim" not in str(raised.value)


def test_a_missing_connection_says_how_to_add_it() -> None:
    with pytest.raises(UserError, match="AIRFLOW_CONN_GPU"):
        ssh_targets(cluster())


def test_the_file_of_the_home_is_read_by_terminals(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    entry = {"conn_type": "ssh", "login": "local", "extra": {"host_key": KEY}}
    (folder / "connections.json").write_text(json.dumps({"gpu": entry}))
    script = (
        "from nightbench.cli.common import configure_airflow\n"
        "configure_airflow()\n"
        "from nightbench.orchestration.connections import get_connection\n"
        "found = get_connection('gpu')\n"
        f"assert (found.login, found.extra) == ('local', {{'host_key': {KEY!r}}})\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_warehouse_s_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE",
        "postgres://loader:p%40ss@db.example.org:5433/warehouse?sslmode=verify-full",
    )
    assert warehouse_dsn() == {
        "host": "db.example.org",
        "port": 5433,
        "dbname": "warehouse",
        "user": "loader",
        "password": "p@ss",
        "sslmode": "verify-full",
    }


def test_the_command_finds_the_warehouse_of_an_airflow_that_it_did_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from nightbench.cli.common import open_warehouse
    from nightbench.core.errors import WarehouseUnavailable

    monkeypatch.delenv("NIGHTBENCH_WAREHOUSE", raising=False)
    monkeypatch.delenv("AIRFLOW__SECRETS__BACKEND", raising=False)
    with pytest.raises(WarehouseUnavailable, match="There is no warehouse yet"):
        open_warehouse("nightbench_reader")
    for conn_id in ("WAREHOUSE", "WAREHOUSE_READER"):
        address = f"postgres://reader@127.0.0.1:1/{conn_id.lower()}"
        monkeypatch.setenv(f"AIRFLOW_CONN_NIGHTBENCH_{conn_id}", address)
    with pytest.raises(WarehouseUnavailable, match="port 1 failed"):
        open_warehouse("nightbench_reader")
    # Migrations have no Connection.
    with pytest.raises(WarehouseUnavailable, match="no Connection of the role nightbench_owner"):
        open_warehouse("nightbench_owner")
