"""Jump hosts, agents, certificates and hostile values in Airflow Connections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nightbench.config.clusters import OF_FILE
from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, JumpHost, Node
from nightbench.gang import GangError
from nightbench.gang.ssh_login import connect
from nightbench.orchestration.ssh_targets import ssh_targets, ssh_targets_async

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE6Z2wWbFZ0Zx8bS3bPSl8xwTR3bUEdaXvW6sDZs1234"


@pytest.fixture(autouse=True)
def _nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", raising=False)


def connection(monkeypatch: pytest.MonkeyPatch, conn_id: str, login: str, **extra: Any) -> None:
    document = {"conn_type": "ssh", "login": login, "extra": {"host_key": KEY, **extra}}
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(document))


async def test_each_hop_has_its_own_user_key_and_port(monkeypatch: pytest.MonkeyPatch) -> None:
    connection(monkeypatch, "gpu", "bench", private_key="-----BEGIN PRIVATE KEY-----")
    connection(monkeypatch, "gate", "visitor", agent=True)
    connection(monkeypatch, "inner", "me", key_file="/k", certificate_file="~/c.pub")
    cluster = Cluster(
        "c",
        (
            Node("n1", "gpu01", "gpu", user="other"),
            Node("n2", "gpu02", "gpu", jump=()),
            Node("n3", "gpu03", "gpu", jump=(JumpHost(host="near", ssh_conn_id="inner"),)),
        ),
        jump=(
            JumpHost(host="gate.example.org", ssh_conn_id="gate", port=2222),
            JumpHost(host="inner", ssh_conn_id="inner"),
        ),
    )

    targets = ssh_targets(cluster)

    gate, inner = targets["n1"].jump
    assert (gate.user, gate.port, gate.agent, gate.client_keys) == ("visitor", 2222, "", ())
    assert (inner.user, inner.port, inner.agent, inner.client_keys) == ("me", 22, None, ("/k",))
    assert inner.certificates == (str(Path("~/c.pub").expanduser()),)
    assert gate.known_hosts == f"gate.example.org,[gate.example.org]:2222 {KEY}\n".encode()
    assert targets["n1"].user == "other"
    assert targets["n2"].user == "bench"
    assert targets["n2"].jump == ()
    assert [hop.host for hop in targets["n3"].jump] == ["near"]
    assert await ssh_targets_async(cluster) == targets


@pytest.mark.parametrize(
    "login", ["a b", "it's", "$(id)", "a;b", "-o", "a\nb", "имя", "x" * 10_000]
)
def test_a_hostile_login_is_refused(monkeypatch: pytest.MonkeyPatch, login: str) -> None:
    connection(monkeypatch, "gpu", login)
    with pytest.raises(UserError, match="connection gpu: login: found") as caught:
        ssh_targets(Cluster("c", (Node("n1", "gpu01", "gpu"),)))
    assert len(str(caught.value)) < 500


def test_an_agent_that_is_neither_true_nor_false(monkeypatch: pytest.MonkeyPatch) -> None:
    connection(monkeypatch, "gpu", "bench", agent="perhaps")
    with pytest.raises(UserError, match="agent: found 'perhaps'; expected true or false"):
        ssh_targets(Cluster("c", (Node("n1", "gpu01", "gpu"),)))


async def test_an_extra_that_is_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"conn_type": "ssh", "extra": "{private_key: BEGIN"}
    monkeypatch.setenv("AIRFLOW_CONN_GPU", json.dumps(document))
    cluster = Cluster("c", (Node("n1", "gpu01", "gpu"),))
    with pytest.raises(UserError) as caught:
        ssh_targets(cluster)
    assert "BEGIN" not in str(caught.value)
    with pytest.raises(UserError) as caught:
        await ssh_targets_async(cluster)
    assert "BEGIN" not in str(caught.value)


async def test_host_keys_of_a_stored_cluster_come_from_this_machines_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "dags" / "clusters"
    folder.mkdir(parents=True)
    (folder / "c.known_hosts").write_text(f"n {KEY}\n")
    written = "cluster: c\nknown_hosts: c.known_hosts\nnodes: [{hosts: n, ssh_conn_id: gpu}]\n"
    (folder / "c.yaml").write_text(written)
    monkeypatch.setenv("NIGHTBENCH_DAGS", str(tmp_path / "dags"))
    connection(monkeypatch, "gpu", "bench")
    stored = Cluster("c", (Node("n", "n", "gpu"),), known_hosts=OF_FILE)
    for found in (ssh_targets(stored), await ssh_targets_async(stored)):
        assert found["n"].known_hosts == str(folder / "c.known_hosts")


DAMAGED = {
    "missing": ("", "no such Airflow Connection"),
    "no JSON": ("{", "Airflow cannot read it"),
    "another type": ('{"conn_type": "http"}', "expected ssh"),
    "a port": ('{"conn_type": "ssh", "port": 70000}', "expected 1 to 65535"),
    "an extra that is a list": ('{"conn_type": "ssh", "extra": "[]"}', "no host key is known"),
    "an extra that is no JSON": ('{"conn_type": "ssh", "extra": "{"}', "connection damaged"),
    "no host key": ('{"conn_type": "ssh", "login": "me"}', "no host key is known"),
    "a host key": ('{"conn_type": "ssh", "extra": {"host_key": 7}}', "host_key: found"),
    "a login": ('{"conn_type": "ssh", "login": "a b"}', "login: found"),
}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("is_hop", [False, True])
async def test_a_damaged_connection_costs_its_own_node_alone(
    monkeypatch: pytest.MonkeyPatch, damage: str, is_hop: bool
) -> None:
    document, said = DAMAGED[damage]
    monkeypatch.setenv("AIRFLOW_CONN_DAMAGED", document)
    connection(monkeypatch, "gpu", "bench")
    through = (JumpHost(host="gate", ssh_conn_id="damaged"),)
    damaged = Node("n2", "gpu02", "gpu", jump=through) if is_hop else Node("n2", "gpu02", "damaged")
    cluster = Cluster("c", (Node("n1", "gpu01", "gpu"), damaged, Node("n3", "gpu03", "gpu")))
    for targets in (ssh_targets(cluster), await ssh_targets_async(cluster)):
        assert [targets[name].problem for name in ("n1", "n3")] == [None, None]
        assert said in str(targets["n2"].problem)
        with pytest.raises(GangError, match="node n2: "):
            await connect(targets["n2"])
