"""Neighbours, deadlines, adaptive repeats and faults of nodes, through the whole controller.

On virtual time: see `simulated`.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta

from tests.unit.gang.bench import EVENING, JOB, PATIENT, said

from nightbench.core.model import CaseStatus, NeighbourPolicy, Protocol, Reason, ReasonCode
from nightbench.core.statistics import half_width
from nightbench.spool import CaseOutcome, RepeatOutcome


def test_disturbed_repeats_are_kept_and_launched_again(bench):
    world = bench.world(JOB)
    world.disturbed = {2}
    outcome = bench.run()
    assert outcome.status is CaseStatus.OK
    assert said(outcome) == ["ok", "disturbed", "ok", "ok"]
    record = bench.store.repeat(2)
    assert [(r["node"], r["code"]) for r in record["reasons"]] == [
        ("n1", "foreign_cpu"),
        ("n2", "foreign_cpu"),
    ]
    assert set(bench.store.results(2)) == {"n1", "n2"}


def test_the_budget_for_disturbed_repeats_ends_the_case(bench):
    world = bench.world(JOB)
    world.disturbed = {2, 3}
    outcome = bench.run()
    assert said(outcome) == ["ok", "disturbed", "disturbed"]
    assert outcome.status is CaseStatus.FAILED
    assert outcome.why.startswith("2 of 3 repeats were disturbed, expected 1 at most")
    assert outcome.faults == (), "neighbours are no fault of the node"


def test_where_neighbours_are_only_recorded_nothing_is_disturbed(bench):
    world = bench.world(dataclasses.replace(JOB, neighbours=NeighbourPolicy(action="record")))
    world.disturbed = {1, 2, 3}
    assert said(bench.run()) == ["ok"] * 3


def test_an_adaptive_protocol_launches_until_it_is_sure(bench):
    bench.world(
        dataclasses.replace(JOB, protocol=Protocol(2, 3, 20, confidence=0.02, min_repeats=5))
    )
    brought = {1: 100.0, 2: 110.0, 3: 100.0, 4: 101.0, 5: 100.0, 6: 100.5}
    seen = []

    def throughput_of(record, results):
        seen.append((record["repeat"], sorted(results)))
        return brought.get(record["repeat"], 101.0)

    outcome = bench.run(throughput_of=throughput_of)
    assert outcome.status is CaseStatus.OK
    n = len(outcome.repeats)
    assert 5 < n < 20
    values = [brought.get(k, 101.0) for k in range(1, n + 1)]
    assert half_width(values) <= 0.02 < half_width(values[:-1])
    assert seen == [(k, ["n1", "n2"]) for k in range(1, n + 1)]


def test_a_controller_that_takes_over_knows_what_the_repeats_before_it_brought(bench):
    bench.world(
        dataclasses.replace(JOB, protocol=Protocol(2, 3, 20, confidence=0.02, min_repeats=5))
    )
    options = {"throughput_of": lambda record, results: 100.0 + record["repeat"] % 2}
    first = bench.start(**options)
    bench.until(lambda: bench.store.repeat(3) is not None)
    first.cancel()
    outcome = bench.run(**options)
    assert len(outcome.repeats) == 5


def test_the_deadline_keeps_what_was_measured(bench):
    bench.world(
        dataclasses.replace(
            JOB,
            protocol=Protocol(2, 3, 7),
            limits=dataclasses.replace(JOB.limits, repeat_s=10),
            deadline=EVENING + timedelta(seconds=12),
        )
    )
    outcome = bench.run(today=bench.today)
    good = len(outcome.repeats)
    assert 1 <= good < 7
    enough = good >= 4
    assert outcome.status is (CaseStatus.OK if enough else CaseStatus.LEFT_OUT)
    assert bench.loop.time() < 20


def test_a_deadline_comes_while_others_have_the_node(bench):
    world = bench.world(dataclasses.replace(JOB, deadline=EVENING + timedelta(seconds=80)))
    world.nodes["n2"].machine.lock = "other"
    outcome = bench.run(today=bench.today)
    assert outcome.status is CaseStatus.LEFT_OUT
    assert "with 0 good of 3 repeats" in outcome.why
    assert world.launches == {}
    assert 15 < bench.loop.time() < 30, "60 s are kept for the first repeat"


def test_a_repeat_that_runs_is_taken_over_although_the_deadline_has_passed(bench):
    world = bench.world(dataclasses.replace(JOB, deadline=EVENING + timedelta(seconds=80)))
    world.run_s = 8.0
    first = bench.start(today=bench.today)
    bench.until(lambda: world.launches.get(("n2", 1)))
    first.cancel()
    outcome = bench.run(today=lambda: EVENING + timedelta(hours=1))
    assert said(outcome) == ["ok"]
    assert outcome.status is CaseStatus.LEFT_OUT


def test_a_reboot_is_noticed_within_the_heartbeat_and_named(bench):
    world = bench.world(PATIENT)
    world.run_s = 15.0
    task = bench.start()
    bench.until(lambda: world.launches.get(("n2", 1)))
    bench.passes(1.0)
    node = world.nodes["n2"]
    node.reboot()
    node.boot()
    at_s = bench.loop.time()
    bench.until(lambda: bench.store.repeat(1) is not None)
    assert bench.loop.time() - at_s < 12
    record = bench.store.repeat(1)
    assert [r["code"] for r in record["reasons"]] == ["node_rebooted", "agent_died"]
    assert [(f["node"], f["code"]) for f in record["faults"]] == [("n2", "node_rebooted")]
    outcome = bench.loop.run_until_complete(task)
    assert said(outcome) == ["failed", "ok", "ok"]
    assert outcome.faults == (), "the case did not fail"


def test_an_agent_that_dies_is_named_and_not_the_node_that_fails_by_it(bench):
    world = bench.world(PATIENT)
    world.run_s = 15.0
    task = bench.start()
    bench.until(lambda: world.launches.get(("n2", 1)))
    bench.passes(1.0)
    world.nodes["n2"].kill_agent()
    world.nodes["n1"].fail_process()  # its ring is broken
    at_s = bench.loop.time()
    bench.until(lambda: bench.store.repeat(1) is not None)
    assert bench.loop.time() - at_s < 5, "the dead agent is looked for at once"
    record = bench.store.repeat(1)
    found = [(r["node"], r["code"]) for r in record["reasons"]]
    assert found == [("n2", "agent_died"), ("n1", "process_exited")]
    assert [(f["node"], f["code"]) for f in record["faults"]] == [("n2", "agent_died")]
    assert record["missing"] == []
    assert said(bench.loop.run_until_complete(task)) == ["failed", "ok", "ok"]


def test_the_fault_of_a_node_that_stays_away_stands_in_the_outcome(bench):
    world = bench.world(JOB)
    task = bench.start()
    bench.until(lambda: world.launches.get(("n2", 1)))
    world.nodes["n2"].silent = True
    outcome = bench.loop.run_until_complete(task)
    assert outcome.status is CaseStatus.FAILED
    (fault,) = outcome.faults
    assert (fault.node, fault.code) == ("n2", ReasonCode.NODE_UNREACHABLE)
    assert bench.store.outcome()["faults"] == [fault.to_json()]


def test_a_node_that_answers_nothing_delays_no_command_to_the_others(bench):
    """n2 swallows every packet, and an access to it hangs for 30 s."""
    world = bench.world(PATIENT)
    world.run_s = 30.0
    bench.start()
    bench.until(lambda: world.launches.get(("n2", 1)))
    world.nodes["n2"].silent = True
    bench.passes(15.0)
    aborted = world.nodes["n1"].job_dir + "/control/abort-001.json"
    # The lease of 12 s, a look, and the command: not the 30 s that an access to n2 hangs.
    assert aborted in world.nodes["n1"].files
    bench.passes(1.0)
    assert world.nodes["n1"].processes == []


def test_what_a_dead_agent_left_is_swept_before_an_agent_starts(bench):
    world = bench.world(JOB)
    world.run_s = 9.0
    task = bench.start()
    bench.until(lambda: world.launches.get(("n2", 1)))
    node = world.nodes["n2"]
    node.kill_agent(leave_daemon=True)
    assert len(node.processes) == 1
    assert said(bench.loop.run_until_complete(task)) == ["failed", "ok", "ok"]
    assert node.processes == []


def test_an_outcome_reads_back_as_it_was_written():
    fault = Reason(ReasonCode.NODE_UNREACHABLE, "n1", observed="no answer")
    failed = Reason(ReasonCode.LAUNCHES_FAILED, observed="1 of 1 launches")
    repeats = (RepeatOutcome(1, "failed", (fault,)),)
    outcome = CaseOutcome(CaseStatus.FAILED, (failed, fault), repeats, "z", (fault,))
    assert CaseOutcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome
