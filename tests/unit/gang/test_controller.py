"""The controller of a gang against simulated nodes: everything but SSH and processes."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.gang.bench import JOB, PATIENT, said
from tests.unit.gang.simulated import SimTransport

from nightbench.core.model import CaseStatus, reasons_from_json
from nightbench.core.sentences import sentences
from nightbench.gang import Superseded
from nightbench.gang.errors import NodeUnreachable
from nightbench.gang.gang_context import GangContext


def why(document):
    """The reasons of a document as people read them."""
    return sentences(reasons_from_json(document["reasons"]))


def test_every_repeat_is_launched_once_on_every_node(bench):
    world = bench.world(JOB)
    outcome = bench.run()
    assert outcome.status is CaseStatus.OK
    assert said(outcome) == ["ok"] * 3
    assert bench.launched("n1") == bench.launched("n2") == [1, 2, 3]
    assert bench.store.repeat(1)["clocks"]["n1"]["offset_s"] == pytest.approx(1000, abs=0.1)
    assert world.nodes["n1"].agent is None


def test_every_gang_takes_locks_in_the_same_order(bench):
    transports = {name: SimTransport(node) for name, node in bench.world(JOB).nodes.items()}
    orders = [
        GangContext(dataclasses.replace(JOB, nodes=nodes), transports, bench.store).in_lock_order()
        for nodes in (JOB.nodes, JOB.nodes[::-1])
    ]
    assert [[client.name for client in order] for order in orders] == [["n1", "n2"]] * 2


def test_one_failure_is_recorded_and_the_next_repeat_runs(bench):
    bench.world(JOB).fails = {("n2", 2)}
    outcome = bench.run()
    assert said(outcome) == ["ok", "failed", "ok"]
    assert outcome.status is CaseStatus.OK
    record = bench.store.repeat(2)
    assert why(record) == "n2: trainer-1 exited with code 1"
    assert record["log_tail"] == "log of n2"


def test_the_first_two_failures_end_the_case(bench):
    bench.world(JOB).fails = {("n1", 1), ("n1", 2), ("n1", 3)}
    outcome = bench.run()
    assert outcome.status is CaseStatus.FAILED
    assert len(outcome.repeats) == 2
    assert "2 of 2 launches failed" in outcome.why
    assert bench.launched() == [1, 2]


def test_a_short_cut_of_the_connection_is_survived(bench):
    world = bench.world(PATIENT)
    world.run_s = 15.0
    task = bench.start()
    bench.until(bench.launched)
    world.nodes["n2"].refused = True
    bench.passes(4.0)
    world.nodes["n2"].refused = False
    assert said(bench.end(task)) == ["ok"] * 3
    assert bench.launched() == [1, 2, 3]
    kinds = [e.kind for e in bench.events if e.node == "n2"]
    assert kinds.count("lost") == kinds.count("back") == 1


def test_a_node_that_stays_away_fails_the_repeat_and_frees_the_others(bench):
    world = bench.world(PATIENT)
    world.run_s = 30.0
    task = bench.start()
    bench.until(bench.launched)
    world.nodes["n2"].refused = True
    outcome = bench.end(task)
    record = bench.store.repeat(1)
    assert record["status"] == "failed"
    assert why(record).startswith("n2: unreachable: no answer for")
    assert "the cable is cut" in why(record)
    assert record["missing"] == ["n2"]
    assert f"{world.nodes['n1'].job_dir}/control/abort-001.json" in world.nodes["n1"].files
    assert outcome.status is CaseStatus.FAILED
    assert said(outcome) == ["failed", "failed"]
    assert bench.launched("n1") == [1], "nothing is launched without all nodes"


def test_a_node_that_was_never_there_is_an_error_and_no_outcome(bench):
    bench.world(JOB).nodes["n2"].refused = True
    with pytest.raises(NodeUnreachable, match="n2"):
        bench.run()
    assert bench.store.outcome() is None
    assert bench.launched("n1") == []


def test_nodes_are_freed_when_nothing_can_be_launched(bench):
    """The first node's agent would hold its lock until the lease ends."""
    world = bench.world(JOB)

    def on_event(event):
        if event.message == "agent started":
            world.nodes["n2"].refused = True

    with pytest.raises(NodeUnreachable, match="n2"):
        bench.run(on_event=on_event)
    bench.passes(1.0)
    assert world.nodes["n1"].agent is None
    assert bench.launched("n1") == []


def test_a_new_controller_goes_on_with_the_running_repeat(bench):
    bench.world(JOB)
    first = bench.start()
    bench.until(lambda: bench.launched() == [1, 2])
    bench.stop(first)
    assert said(bench.run()) == ["ok"] * 3
    assert bench.launched("n1") == bench.launched("n2") == [1, 2, 3]
    assert [bench.store.repeat(k)["epoch"] for k in (1, 2)] == [1, 2]


def test_a_result_that_nobody_fetched_is_fetched_by_the_next_controller(bench):
    world = bench.world(JOB)
    first = bench.start()
    bench.until(bench.launched)
    bench.stop(first)
    bench.passes(30.0)
    assert world.nodes["n1"].agent is None, "its lease has ended"
    assert said(bench.run()) == ["ok"] * 3
    assert bench.launched("n1") == [1, 2, 3]


def test_the_lower_epoch_stops_controlling(bench):
    bench.world(PATIENT).run_s = 15.0
    first = bench.start()
    bench.until(bench.launched)
    second = bench.start()
    with pytest.raises(Superseded):
        bench.end(first)
    assert bench.end(second).status is CaseStatus.OK
    assert bench.launched("n1") == [1, 2, 3]


def test_a_gang_that_does_not_get_ready_is_aborted(bench):
    bench.world(JOB).nodes["n2"].deaf = True
    outcome = bench.run()
    assert outcome.status is CaseStatus.FAILED
    assert "n2: the node was not ready within 15 s" in outcome.why
    assert bench.launched("n1") == []


def test_foreign_work_delays_a_launch_longer_than_a_node_may_take_to_get_ready(bench):
    node = bench.world(JOB).nodes["n2"]
    node.busy = True
    task = bench.start()
    bench.passes(30.0)
    shown = bench.store.progress()
    assert "40% of the cores: cc1" in shown["message"]
    assert bench.launched("n1") == []
    node.busy = False
    assert said(bench.end(task)) == ["ok"] * 3


def test_a_controller_that_was_stopped_blames_no_node(bench):
    """As a triggerer on a machine that was suspended: nobody was unreachable but itself."""
    bench.world(PATIENT).run_s = 15.0
    task = bench.start()
    bench.until(bench.launched)
    bench.passes(2.0)
    bench.suspend(60.0)
    outcome = bench.end(task)
    assert [(r.status, r.reasons) for r in outcome.repeats] == [("ok", ())] * 3
    assert [event.kind for event in bench.events].count("paused") == 1


def test_a_job_that_is_cancelled_has_an_end_also_where_a_node_is_away(bench):
    bench.world(JOB).nodes["n1"].refused = True
    with pytest.raises(NodeUnreachable):
        bench.cancel("enough")
    outcome = bench.store.outcome()
    assert (outcome["status"], why(outcome)) == ("cancelled", "cancelled: enough")
