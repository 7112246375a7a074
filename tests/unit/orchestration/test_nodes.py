from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.unit.sleeping import sleeping_job

from nightbench.core.errors import UserError
from nightbench.core.model import (
    Cluster,
    EnvironmentPolicy,
    HealthPolicy,
    JumpHost,
    NeighbourPolicy,
    Node,
)
from nightbench.night.preflight import ClusterHealth, save
from nightbench.nodes import JudgedNode, NodePreflight
from nightbench.orchestration import places
from nightbench.orchestration.jobs import PlannedJob, load_job, save_job
from nightbench.orchestration.nodes import (
    _book,
    around_ill_nodes,
    examine_run,
    load_cluster,
    save_cluster,
)
from nightbench.spool import Spool
from nightbench.warehouse import WarehouseRefused


def test_cluster_comes_back_as_it_was_planned(tmp_path):
    cluster = Cluster(
        "lab",
        (
            Node("n1", "10.0.0.1", "c", port=2222, cpus=(0, 1), env={"A": "b"}),
            Node("n2", "10.0.0.2", "c", devices=("GPU-1",), jump=(JumpHost("j", "c", 22),)),
        ),
        device_kind="gpu",
        environments=EnvironmentPolicy(paths={"pytorch": "/opt/t"}, lock_dir="/locks"),
        role_env={"pserver": {"X": "1"}},
        jump=(JumpHost("gate", "gate"),),
        neighbours=NeighbourPolicy(action="wait"),
        health=HealthPolicy(expected_devices=8, min_link_mbps=1000),
    )
    run = Spool(tmp_path).run("r1")
    save_cluster(run, cluster)
    assert load_cluster(run) == cluster


def test_run_of_another_version_is_refused(tmp_path):
    with pytest.raises(UserError, match="planned-cluster/1"):
        load_cluster(Spool(tmp_path).run("r1"))


@pytest.mark.parametrize("error", [UserError("no such connection"), KeyError("foreign")])
def test_what_goes_wrong_with_looking_is_told_and_fails_no_run(tmp_path, monkeypatch, error):
    async def look(run, cluster):
        raise error

    monkeypatch.setattr(places, "spool", lambda: Spool(tmp_path))
    monkeypatch.setattr("nightbench.orchestration.nodes._look", look)
    save_cluster(Spool(tmp_path).run("r1"), Cluster("lab", (Node("n1", "10.0.0.1", "c"),)))
    assert error.args[0] in examine_run("r1")["problem"]


def test_a_warehouse_that_refuses_the_preflight_fails_no_run(monkeypatch):
    def connect():
        raise WarehouseRefused("raw.node_event does not exist")

    monkeypatch.setattr("nightbench.orchestration.runs.connect", connect)
    health = ClusterHealth("lab", datetime(2026, 11, 20, 21, tzinfo=UTC), ())
    assert _book("r1", health, HealthPolicy()) == {}


@pytest.fixture
def planned(tmp_path):
    """A run on two nodes with a case on one of them."""
    cluster = Cluster("lab", (Node("n1", "10.0.0.1", "c"), Node("n2", "10.0.0.2", "c")))
    job = sleeping_job(cluster)
    run = Spool(tmp_path).run("r1")
    save_cluster(run, cluster)
    found = PlannedJob(job, known_hosts=None)
    save_job(run, found)
    return run, found


def out(run, **reasons: str) -> None:
    looks = tuple(
        JudgedNode(NodePreflight(node, node, "2026-11-21T01:00:00+00:00", True), ())
        for node in ("n1", "n2")
    )
    health = ClusterHealth("lab", datetime(2026, 11, 21, 1, tzinfo=UTC), looks)
    save(run, health, HealthPolicy(), reasons)


def test_a_case_starts_where_it_was_planned(planned):
    run, found = planned
    assert around_ill_nodes(run, found) is found
    out(run, n2="disk: 0 free")
    assert around_ill_nodes(run, found) is found


def test_a_case_starts_on_a_node_that_is_left(planned):
    run, found = planned
    out(run, n1="disk: 0 free")
    moved = around_ill_nodes(run, found)
    assert [node.name for node in moved.job.nodes] == ["n2"]
    assert {process.node for process in moved.job.processes} == {"n2"}
    # The triggerer reads the same.
    assert load_job(run, found.job.case.case_id, 0) == moved


def test_a_case_ends_where_no_node_is_left(planned):
    run, found = planned
    out(run, n1="disk: 0 free", n2="reach: no answer")
    with pytest.raises(UserError, match="node unavailable: n1: disk: 0 free"):
        around_ill_nodes(run, found)
