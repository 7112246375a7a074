from __future__ import annotations

import dataclasses

import pytest

from nightbench.core.model import Limits, Reason, ReasonCode
from nightbench.core.sentences import sentences
from nightbench.gang.decisions import GangAction, NodeView, ProcessView, Timing, decide

LIMITS = Limits(ready_s=10, repeat_s=100, progress_s=30, lease_s=20, term_s=3)
TRAINERS = ("trainer-0", "trainer-1")
NOW = 1000.0
GONE = Timing(prepared_s=NOW - 5, started_s=NOW - 4)


def view(node, state=None, agent="running", process=None, **changes):
    number = int(node[1:]) - 1
    processes = {f"trainer-{number}": process} if process else {}
    return NodeView(
        node,
        answered_s=NOW,
        agent=agent,
        state=state,
        state_changed_s=NOW,
        processes=processes,
        **changes,
    )


def act(*views, timing=GONE, now=NOW):
    return decide(views, TRAINERS, timing, LIMITS, now)


EXITED = Reason(ReasonCode.PROCESS_EXITED, "n2", "trainer-1", "code 1", "code 0")
LEASE = Reason(ReasonCode.LEASE_EXPIRED, "n1", observed="60 s")


def test_waits_for_all_to_be_ready_then_says_go():
    timing = Timing(prepared_s=NOW)
    assert act(view("n1", "ready"), view("n2"), timing=timing).action is GangAction.WAIT
    assert act(view("n1", "ready"), view("n2", "ready"), timing=timing).action is GangAction.GO
    # One that has gone already waits for the other: the go is said again.
    assert act(view("n1", "running"), view("n2", "ready")).action is GangAction.GO


def test_a_node_that_is_late_aborts():
    late = act(view("n1", "ready"), view("n2"), timing=Timing(NOW - 11))
    assert late.action is GangAction.ABORT
    assert sentences(late.reasons) == "n2: the node was not ready within 10 s"
    stuck = act(view("n1", "running"), view("n2", "ready"), timing=Timing(NOW - 30, NOW - 11))
    assert sentences(stuck.reasons) == "n2: did not start within 10 s after the start signal"


def test_drains_when_every_window_is_closed():
    draining, stepping = ProcessView("drain", 3), ProcessView("window", 7)
    one = view("n1", "running", process=draining)
    assert act(one, view("n2", "running", process=stepping)).action is GangAction.WAIT
    assert act(one, view("n2", "running", process=draining)).action is GangAction.DRAIN
    gone = view("n2", "done", process=ProcessView("finish", 0, exit_code=0))
    assert act(one, gone).action is GangAction.DRAIN


def test_finishes_when_every_trainer_is_done():
    over = ProcessView("finish", 0, exit_code=0)
    one, two = view("n1", "running", process=over), view("n2", "done", process=over)
    assert act(one, two).action is GangAction.FINISH
    assert act(dataclasses.replace(one, state="done"), two).action is GangAction.COLLECT


def test_a_failure_aborts_with_its_reason_before_anything_else():
    silent = view("n1", "running")
    silent = dataclasses.replace(silent, answered_s=NOW - 21, last_error="no route")
    failed = view("n2", "failed", reasons=(EXITED,))
    decision = act(silent, failed)
    assert decision.action is GangAction.ABORT
    assert decision.reasons == (EXITED,)


def test_silence_is_borne_as_long_as_the_lease():
    silent = dataclasses.replace(
        view("n1", "running"), answered_s=NOW - 19, last_error="no route", state_changed_s=NOW - 19
    )
    assert act(silent, view("n2", "running")).action is GangAction.WAIT
    gone = act(dataclasses.replace(silent, answered_s=NOW - 21), view("n2", "running"))
    assert sentences(gone.reasons) == "n1: unreachable: no answer for 21 s (no route)"


def test_an_agent_that_has_ended_aborts():
    ended = view("n1", "running", agent="ended", agent_reasons=(LEASE,))
    found = act(ended, view("n2", "running")).reasons
    assert [r.code for r in found] == [ReasonCode.AGENT_GONE, ReasonCode.LEASE_EXPIRED]
    # With its result written nothing is wrong.
    assert (
        act(dataclasses.replace(ended, state="done"), view("n2", "running")).action
        is GangAction.WAIT
    )


def test_an_agent_that_writes_nothing_is_looked_after():
    mute = dataclasses.replace(view("n2", "running"), state_changed_s=NOW - 16)
    decision = act(view("n1", "running"), mute)
    assert (decision.action, decision.nodes) == (GangAction.RESTART_AGENT, ("n2",))


def test_the_controller_ends_what_no_agent_ends():
    late = Timing(NOW - 140, NOW - 131)
    assert act(view("n1", "running"), view("n2", "running"), timing=late).action is GangAction.ABORT


@pytest.mark.parametrize(
    ("views", "after_s", "expected"),
    [
        ((view("n1", "running"), view("n2", "aborted")), 1, GangAction.WAIT),
        ((view("n1", "running"), view("n2", "aborted")), 34, GangAction.COLLECT),
        ((view("n1", "aborted"), view("n2", "aborted")), 1, GangAction.COLLECT),
        ((view("n1", "running", last_error="cut"), view("n2", "failed")), 1, GangAction.COLLECT),
        ((view("n1", None, agent="ended"), view("n2", "failed")), 1, GangAction.COLLECT),
    ],
)
def test_after_an_abort_it_waits_for_those_that_answer(views, after_s, expected):
    timing = Timing(NOW - 50, NOW - 40, aborted_s=NOW)
    assert act(*views, timing=timing, now=NOW + after_s).action is expected
