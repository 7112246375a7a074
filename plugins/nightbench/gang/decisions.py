"""Decisions about a gang as pure functions: the next action of a repeat, the end of a case.

The controller polls all nodes, calls `decide`, carries out the action, and polls again. `decide`
returns an action for as long as its cause lasts; carrying it out twice changes nothing. After
each repeat `conclude` decides from the records whether the case has ended.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from nightbench.core.model import CaseStatus, JobSpec, Limits, Reason, ReasonCode
from nightbench.core.statistics import close_enough, enough
from nightbench.spool import RepeatOutcome

ENDED = frozenset({"done", "failed", "aborted"})
"""States of a repeat that has its result.json."""

PREPARING = "preparing"
"""State of a repeat that its node has accepted; foreign work on the node may delay it."""

SERVING = frozenset({"idle", "preparing", "ready", "running"})
"""States of an agent that holds its node's lock."""

HEARTBEAT_S = 8.0
"""An agent rewrites a repeat's state every second; after so long without one it is restarted."""

ANSWER_TIMEOUT_S = 5.0
"""A node is polled every second; after so long without an answer the poll hangs."""

ABORT_GRACE_S = 30.0
"""Time in which a node must end its processes, beyond the job's time to terminate."""

REPEAT_GRACE_S = 30.0
"""The agents enforce the time limit of a repeat; the controller does so this much later."""

FAILURES_IN_A_ROW = 2
"""Failed launches in a row after which a case has failed."""


class GangAction(StrEnum):
    """The controller's next action in a repeat."""

    WAIT = "wait"
    GO = "go"
    DRAIN = "drain"
    FINISH = "finish"
    RESTART_AGENT = "restart_agent"
    """Start the agents of the named nodes, which have stopped writing their state."""
    ABORT = "abort"
    COLLECT = "collect"


@dataclass(frozen=True)
class ProcessView:
    """A process as state.json describes it."""

    phase: str = ""
    step: int = 0
    t_s: float | None = None
    """The node's monotonic clock at the process's last record, s."""
    exit_code: int | None = None


@dataclass(frozen=True)
class NodeView:
    """A node as of its last answer; times are seconds on the controller's monotonic clock."""

    node: str
    answered_s: float
    """Time of its last answer."""
    agent: str | None = None
    """State of its agent."""
    agent_reasons: tuple[Reason, ...] = ()
    lock_holder: Mapping[str, object] | None = None
    """The job that holds the node's lock while the agent waits for it."""
    state: str | None = None
    """State of the repeat."""
    reasons: tuple[Reason, ...] = ()
    """Why the repeat ended, is ending, or waits for foreign work to end."""
    ports: Mapping[str, int] = field(default_factory=dict)
    processes: Mapping[str, ProcessView] = field(default_factory=dict)
    state_changed_s: float = 0.0
    """Time at which a new state of the repeat was last read."""
    state_written_s: float | None = None
    """The node's own clock when it wrote the repeat's state, s."""
    last_error: str | None = None
    """Error of the last poll; None if it was answered."""
    pid: int | None = None
    """The agent's process id."""
    rebooted: bool = False
    """Whether the node has rebooted since the job was first seen there."""
    lost: Reason | None = None
    """Why the node cannot come back: its pod has ended. None if it may answer again."""

    def answers(self, now: float) -> bool:
        """Return whether the last poll was answered and no later one hangs."""
        return self.last_error is None and now - self.answered_s < ANSWER_TIMEOUT_S


@dataclass(frozen=True)
class Timing:
    """Times of a repeat, in seconds on the controller's monotonic clock."""

    prepared_s: float
    started_s: float | None = None
    aborted_s: float | None = None


@dataclass(frozen=True)
class Decision:
    """An action, with the reasons of an abort and the nodes that it concerns (empty: all)."""

    action: GangAction
    reasons: tuple[Reason, ...] = ()
    nodes: tuple[str, ...] = ()


def decide(
    views: Sequence[NodeView],
    trainers: Collection[str],
    timing: Timing,
    limits: Limits,
    now: float,
    foreign_wait_s: float = 0.0,
) -> Decision:
    """Return the next action of a repeat.

    Times are seconds of the controller's monotonic clock; `foreign_wait_s` is the extra time to get
    ready for a node that waits for foreign work to end.
    """
    if timing.aborted_s is not None:
        return _after_abort(views, timing.aborted_s, limits, now)
    if all(view.state in ENDED for view in views):
        return Decision(GangAction.COLLECT)
    failure = _failure_reasons(views, limits, now)
    if failure:
        return Decision(GangAction.ABORT, failure)
    exceeded = _limit_reasons(views, timing, limits, now, foreign_wait_s)
    if exceeded:
        return Decision(GangAction.ABORT, exceeded)
    silent = tuple(v.node for v in views if _is_agent_silent(v, timing))
    if silent:
        return Decision(GangAction.RESTART_AGENT, nodes=silent)
    if any(view.state in (None, PREPARING) for view in views):
        return Decision(GangAction.WAIT)
    if any(view.state == "ready" for view in views):
        return Decision(GangAction.GO)
    return Decision(_closing_action(views, trainers))


def _limit_reasons(
    views: Sequence[NodeView], timing: Timing, limits: Limits, now: float, foreign_wait_s: float
) -> tuple[Reason, ...]:
    """Return the reasons of a time limit that has passed; empty if none has."""
    unready = [v.node for v in views if v.state in (None, PREPARING)]
    waiting = any(v.state == PREPARING and v.reasons for v in views)
    limit_s = limits.ready_s + (foreign_wait_s if waiting else 0.0)
    if unready and now - timing.prepared_s > limit_s:
        limit = f"{limit_s:g} s"
        return tuple(Reason(ReasonCode.NODE_NOT_READY, n, expected=limit) for n in unready)
    if timing.started_s is None:
        return ()
    unstarted = [v.node for v in views if v.state == "ready"]
    if unstarted and now - timing.started_s > limits.ready_s:
        limit = f"{limits.ready_s:g} s"
        return tuple(Reason(ReasonCode.NODE_NOT_STARTED, n, expected=limit) for n in unstarted)
    if now - timing.started_s > limits.repeat_s + REPEAT_GRACE_S:
        return (Reason(ReasonCode.REPEAT_TOO_LONG, expected=f"{limits.repeat_s:g} s"),)
    return ()


def _is_agent_silent(view: NodeView, timing: Timing) -> bool:
    """Return whether a node answers while its agent has stopped writing the repeat's state."""
    if view.last_error is not None or view.state in ENDED:
        return False
    # An agent writes no state of a repeat before it has read the prepare command.
    last_s = view.state_changed_s if view.state is not None else timing.prepared_s
    return view.answered_s - last_s > HEARTBEAT_S


def _after_abort(
    views: Sequence[NodeView], aborted_s: float, limits: Limits, now: float
) -> Decision:
    """Wait for the nodes that answer; an unreachable one ends its processes with its lease."""
    unended = [v for v in views if v.state not in ENDED and v.agent in SERVING]
    if not any(view.answers(now) for view in unended):
        return Decision(GangAction.COLLECT)
    if now - aborted_s > limits.term_s + ABORT_GRACE_S:
        return Decision(GangAction.COLLECT)
    return Decision(GangAction.WAIT)


def _failure_reasons(views: Sequence[NodeView], limits: Limits, now: float) -> tuple[Reason, ...]:
    """Return why the repeat cannot succeed any more, the first cause first; empty if it can."""
    for view in views:
        if view.state in ("failed", "aborted"):
            ended = Reason(ReasonCode.ENDED_AS, view.node, observed=view.state)
            return view.reasons or (ended,)
    for view in views:
        # A node writes its reasons before it ends its processes, which may take long.
        if view.reasons and view.state in ("running", "draining"):
            return view.reasons
    lost = tuple(view.lost for view in views if view.lost is not None)
    if lost:
        return lost
    for view in views:
        silent_s = now - view.answered_s
        if silent_s > limits.lease_s:
            return (unreachable(view, silent_s, limits.lease_s),)
    for view in views:
        if view.agent is not None and view.agent not in SERVING and view.state not in ENDED:
            gone = Reason(ReasonCode.AGENT_GONE, view.node, observed=f"it is {view.agent}")
            if view.rebooted:
                return (Reason(ReasonCode.NODE_REBOOTED, view.node), gone, *view.agent_reasons)
            return (gone, *view.agent_reasons)
    return ()


def unreachable(view: NodeView, silent_s: float, lease_s: float) -> Reason:
    """Return the reason of a node that has not answered for longer than a lease."""
    return Reason(
        ReasonCode.NODE_UNREACHABLE,
        view.node,
        observed=f"no answer for {silent_s:.0f} s ({view.last_error or 'the poll hangs'})",
        expected=f"one within {lease_s:g} s",
    )


def _closing_action(views: Sequence[NodeView], trainers: Collection[str]) -> GangAction:
    """Return DRAIN once every window is closed, FINISH once every trainer has exited with 0."""
    processes = {name: p for view in views for name, p in view.processes.items()}
    seen = [processes.get(name, ProcessView()) for name in trainers]
    if all(p.exit_code == 0 for p in seen):
        return GangAction.FINISH
    closed = all(p.exit_code is not None or p.phase in ("drain", "finish") for p in seen)
    if closed and any(p.exit_code is None and p.phase == "drain" for p in seen):
        return GangAction.DRAIN
    return GangAction.WAIT


# --- the end of a case ---------------------------------------------------------------------


@dataclass(frozen=True)
class Conclusion:
    """The end of a case: its status, and why."""

    status: CaseStatus
    reasons: tuple[Reason, ...] = ()


def conclude(job: JobSpec, outcomes: Sequence[RepeatOutcome]) -> Conclusion | None:
    """Return the end of a case after these repeats; None if another one is launched.

    A failed launch counts as one of the protocol's; a disturbed one is repeated, as long as the
    budget lasts. It depends on the records alone, so that a controller that takes over launches
    neither more nor fewer.
    """
    protocol = job.protocol
    good = [r for r in outcomes if r.status == "ok"]
    failed = [r for r in outcomes if r.failed]
    disturbed = [r for r in outcomes if r.status == "disturbed"]
    if _failing(outcomes):
        return _failed(outcomes, failed)
    if close_enough([r.throughput for r in good if r.throughput is not None], protocol):
        return Conclusion(CaseStatus.OK)
    if len(good) + len(failed) >= protocol.repeats:
        return Conclusion(CaseStatus.OK) if good else _failed(outcomes, failed)
    if len(disturbed) > job.neighbours.budget:
        if len(good) >= enough(protocol):
            return Conclusion(CaseStatus.OK)
        return Conclusion(
            CaseStatus.FAILED,
            (
                Reason(
                    ReasonCode.DISTURBED_TOO_OFTEN,
                    observed=f"{len(disturbed)} of {len(outcomes)} repeats",
                    expected=f"{job.neighbours.budget} at most",
                ),
                *disturbed[-1].reasons,
            ),
        )
    return None


def conclude_by_deadline(job: JobSpec, outcomes: Sequence[RepeatOutcome]) -> Conclusion:
    """Return the end of a case in which no further repeat can finish in time."""
    good = sum(r.status == "ok" for r in outcomes)
    needed = enough(job.protocol)
    if good >= needed:
        return Conclusion(CaseStatus.OK)
    at = f"{job.deadline.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if job.deadline else "?"
    return Conclusion(
        CaseStatus.LEFT_OUT,
        (
            Reason(
                ReasonCode.WINDOW_ENDED,
                subject=at,
                observed=f"{good} good of {job.protocol.repeats} repeats",
                expected=f"{needed} good repeats",
            ),
        ),
    )


def is_too_late(job: JobSpec, outcomes: Sequence[RepeatOutcome], now: datetime) -> bool:
    """Return whether a repeat that is started now may run beyond the job's deadline.

    The longest repeat so far is the estimate for another one.
    """
    if job.deadline is None:
        return False
    known = [r.seconds for r in outcomes if r.seconds is not None]
    usual = job.expected_repeat_s or job.limits.repeat_s
    return now + timedelta(seconds=max(known, default=usual)) > job.deadline


def _failing(outcomes: Sequence[RepeatOutcome]) -> bool:
    """Return whether the last launches all failed, so that another launch is useless."""
    last = outcomes[-FAILURES_IN_A_ROW:]
    return len(last) == FAILURES_IN_A_ROW and all(r.failed for r in last)


def _failed(outcomes: Sequence[RepeatOutcome], failed: Sequence[RepeatOutcome]) -> Conclusion:
    return Conclusion(
        CaseStatus.FAILED,
        (
            Reason(
                ReasonCode.LAUNCHES_FAILED, observed=f"{len(failed)} of {len(outcomes)} launches"
            ),
            *failed[-1].reasons,
        ),
    )
