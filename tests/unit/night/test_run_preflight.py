from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.jobs import sleeping_job

from nightbench.core.errors import UserError, WarehouseRefused
from nightbench.core.model import Cluster, HealthPolicy, Node, PlannedCase, Reason, ReasonCode
from nightbench.core.run_plan import CasePlan
from nightbench.night.cluster_preflight import ClusterHealth, save
from nightbench.night.load_batch import as_launched
from nightbench.night.run_preflight import examine_run, place_around_unhealthy, record
from nightbench.nodes import JudgedNode, NodePreflight, left_out_because
from nightbench.spool import Spool
from nightbench.spool.plans import PlannedJob, load_job, save_cluster, save_job


@pytest.mark.parametrize("error", [UserError("no such connection"), KeyError("foreign")])
def test_an_error_of_the_preflight_is_returned_and_fails_no_run(tmp_path, error):
    async def targets(cluster):
        raise error

    run = Spool(tmp_path).run("r1")
    run.save_planned([])
    save_cluster(run, Cluster("lab", (Node("n1", "10.0.0.1", "c"),)))
    assert error.args[0] in examine_run(run, targets, refuse)


def refuse():
    raise WarehouseRefused("raw.node_event does not exist")


def test_a_warehouse_that_refuses_the_preflight_fails_no_run():
    health = ClusterHealth("lab", datetime(2026, 11, 20, 21, tzinfo=UTC), ())
    assert record("r1", health, HealthPolicy(), refuse) == {}


@pytest.fixture
def planned(tmp_path):
    """A run on two nodes with a case on one of them."""
    cluster = Cluster("lab", (Node("n1", "10.0.0.1", "c"), Node("n2", "10.0.0.2", "c")))
    job = sleeping_job(cluster)
    run = Spool(tmp_path).run("r1")
    save_cluster(run, cluster)
    found = PlannedJob.of(job, cluster)
    save_job(run, found)
    return run, found


def out(run, **found: str) -> None:
    looks = tuple(
        JudgedNode(NodePreflight(node, node, "2026-11-21T01:00:00+00:00", True), ())
        for node in ("n1", "n2")
    )
    health = ClusterHealth("lab", datetime(2026, 11, 21, 1, tzinfo=UTC), looks)
    reasons = {
        node: left_out_because(node, Reason(ReasonCode.CHECK_FAILED, node, "disk", what, "5 GB"))
        for node, what in found.items()
    }
    save(run, health, HealthPolicy(), reasons)


def test_a_case_starts_where_it_was_planned(planned):
    run, found = planned
    assert place_around_unhealthy(run, found) is found
    out(run, n2="0 free")
    assert place_around_unhealthy(run, found) is found


def test_a_case_starts_on_a_node_that_is_left(planned):
    run, found = planned
    out(run, n1="0 free")
    moved = place_around_unhealthy(run, found)
    assert [node.name for node in moved.job.nodes] == ["n2"]
    assert {process.node for process in moved.job.processes} == {"n2"}
    # The triggerer reads the same.
    assert load_job(run, found.job.case.case_id, 0) == moved
    # The ingest expects its processes where they ran.
    job, store = found.job, run.case(found.job.case.case_id)
    store.save_job(moved.job.to_json())
    planned = PlannedCase(job.case, job.build, "d", "samples")
    case = CasePlan(planned, processes=job.processes, units_per_trainer_step=1)
    assert as_launched(case, store).processes == moved.job.processes


def test_a_case_ends_where_no_node_is_left(planned):
    run, found = planned
    out(run, n1="0 free", n2="full")
    with pytest.raises(
        UserError, match="n1: the node is left out: disk: 0 free, expected: 5 GB; too few nodes"
    ):
        place_around_unhealthy(run, found)
