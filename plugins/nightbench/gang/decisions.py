"""The decisions about a gang as pure functions: the next act of a repeat, the end of a case.

The controller looks at all nodes, calls `decide`, carries out the act, and looks again. `decide`
returns an act for as long as its reason lasts; carrying it out twice changes nothing. After each
repeat `conclude` decides from the records whether the case has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from nightbench.core.model import CaseStatus, JobSpec, Limits, Reason, ReasonCode
from nightbench.core.statistics import close_enough, enough
from nightbench.spool import RepeatOutcome

ENDED = frozenset({"done", "failed", "aborted"})
"""States of a repeat after which its result.json is there."""

PREPARING = "preparing"
"""State of a repeat that its node has taken up and is not ready for: its neighbours are busy."""

SERVING = frozenset({"idle", "preparing", "ready", "running"})
"""States of an agent that holds its node's lock."""

HEARTBEAT_S = 8.0
"""An agent rewrites a repeat's state about every second; after so long it is looked after."""

UNHEARD_S = 5.0
"""A node is looked at about every second: after so long an access to it hangs."""

ABORT_GRACE_S = 30.0
"""What a node may take, beyond its time to terminate, to end a gang."""

REPEAT_GRACE_S = 30.0
"""The agents watch the time limit themselves; the controller steps in so much later."""

FAILURES_IN_A_ROW = 2
"""After so many failed launches in a row a case has failed."""


class Act(StrEnum):
    """What the controller does next."""

    WAIT = "wait"
    GO = "go"
    DRAIN = "drain"
    FINISH = "finish"
    START = "start"
    """Call the agent's `start` on the named nodes: nothing has been heard of them."""
    ABORT = "abort"
    COLLECT = "collect"


@dataclass(frozen=True)
class ProcessView:
    """A process as state.json shows it."""

    phase: str = ""
    step: int = 0
    t_s: float | None = None
    """Node's monotonic clock at its last record."""
    exit_code: int | None = None


@dataclass(frozen=True)
class NodeView:
    """A node as it was seen last; times are on the controller's monotonic clock."""

    node: str
    heard_s: float
    """When it answered last."""
    agent: str | None = None
    """State of its agent."""
    agent_reasons: tuple[Reason, ...] = ()
    holder: Mapping[str, object] | None = None
    """Who has the node's lock while its agent waits for it."""
    state: str | None = None
    """State of the repeat."""
    reasons: tuple[Reason, ...] = ()
    """Why it ended, is about to end, or waits for its neighbours."""
    ports: Mapping[str, int] = field(default_factory=dict)
    processes: Mapping[str, ProcessView] = field(default_factory=dict)
    beat_s: float = 0.0
    """When the repeat's state was seen to be written last."""
    written_s: float | None = None
    """The node's own clock when it wrote the repeat's state."""
    silence: str | None = None
    """What was wrong at the last attempt; None when it answered."""
    pid: int | None = None
    """Of the agent."""
    boot_id: str | None = None
    """The boot in which the agent runs, or ran; None where it does not say."""
    rebooted: bool = False
    """The node was started anew since the job came to it."""

    def answers(self, now: float) -> bool:
        """Whether it did at the last attempt, and an attempt is not hanging since."""
        return self.silence is None and now - self.heard_s < UNHEARD_S


@dataclass(frozen=True)
class Timing:
    """Moments of a repeat on the controller's monotonic clock."""

    prepared_s: float
    gone_s: float | None = None
    aborted_s: float | None = None


@dataclass(frozen=True)
class Decision:
    """An act, with the reasons of an abort and the nodes where it does not concern all."""

    act: Act
    reasons: tuple[Reason, ...] = ()
    nodes: tuple[str, ...] = ()


def decide(
    views: Sequence[NodeView],
    trainers: Collection[str],
    timing: Timing,
    limits: Limits,
    now: float,
    patience_s: float = 0.0,
) -> Decision:
    """The next act of a repeat.

    Args:
        views: all nodes of the gang.
        trainers: names of all its trainers.
        timing: when it was prepared, gone, aborted.
        limits: the job's limits in seconds.
        now: the controller's monotonic clock.
        patience_s: how much longer a node may take to get ready that waits for its neighbours.
    """
    if timing.aborted_s is not None:
        return _after_abort(views, timing.aborted_s, limits, now)
    if all(view.state in ENDED for view in views):
        return Decision(Act.COLLECT)
    broken = _broken(views, limits, now)
    if broken:
        return Decision(Act.ABORT, broken)
    late = _late(views, timing, limits, now, patience_s)
    if late:
        return Decision(Act.ABORT, late)
    dead = tuple(v.node for v in views if _mute(v, timing))
    if dead:
        return Decision(Act.START, nodes=dead)
    if any(view.state in (None, PREPARING) for view in views):
        return Decision(Act.WAIT)
    if any(view.state == "ready" for view in views):
        return Decision(Act.GO)
    return Decision(_towards_the_end(views, trainers))


def _late(
    views: Sequence[NodeView], timing: Timing, limits: Limits, now: float, patience_s: float
) -> tuple[Reason, ...]:
    """Which limit has passed."""
    unready = [v.node for v in views if v.state in (None, PREPARING)]
    waiting = any(v.state == PREPARING and v.reasons for v in views)
    limit_s = limits.ready_s + (patience_s if waiting else 0.0)
    if unready and now - timing.prepared_s > limit_s:
        limit = f"{limit_s:g} s"
        return tuple(Reason(ReasonCode.NODE_NOT_READY, n, expected=limit) for n in unready)
    if timing.gone_s is None:
        return ()
    still = [v.node for v in views if v.state == "ready"]
    if still and now - timing.gone_s > limits.ready_s:
        limit = f"{limits.ready_s:g} s"
        return tuple(Reason(ReasonCode.NODE_NOT_STARTED, n, expected=limit) for n in still)
    if now - timing.gone_s > limits.repeat_s + REPEAT_GRACE_S:
        return (Reason(ReasonCode.REPEAT_TOO_LONG, expected=f"{limits.repeat_s:g} s"),)
    return ()


def _mute(view: NodeView, timing: Timing) -> bool:
    """Whether a node answers and its agent, which ought to write, does not."""
    if view.silence is not None or view.state in ENDED:
        return False
    # Before it has taken the repeat up it writes nothing of it.
    last_s = view.beat_s if view.state is not None else timing.prepared_s
    return view.heard_s - last_s > HEARTBEAT_S


def _after_abort(
    views: Sequence[NodeView], aborted_s: float, limits: Limits, now: float
) -> Decision:
    """Wait for the nodes that answer; one that is gone kills its gang when its lease ends."""
    open_ended = [v for v in views if v.state not in ENDED and v.agent in SERVING]
    if not any(view.answers(now) for view in open_ended):
        return Decision(Act.COLLECT)
    if now - aborted_s > limits.term_s + ABORT_GRACE_S:
        return Decision(Act.COLLECT)
    return Decision(Act.WAIT)


def _broken(views: Sequence[NodeView], limits: Limits, now: float) -> tuple[Reason, ...]:
    """Why the repeat cannot succeed any more, its first cause first."""
    for view in views:
        if view.state in ("failed", "aborted"):
            ended = Reason(ReasonCode.ENDED_AS, view.node, observed=view.state)
            return view.reasons or (ended,)
    for view in views:
        # The node says why before it ends its processes, which may take them a while.
        if view.reasons and view.state in ("running", "draining"):
            return view.reasons
    for view in views:
        silent = now - view.heard_s
        if silent > limits.lease_s:
            return (unreachable(view, silent, limits.lease_s),)
    for view in views:
        if view.agent is not None and view.agent not in SERVING and view.state not in ENDED:
            gone = Reason(ReasonCode.AGENT_GONE, view.node, observed=f"it is {view.agent}")
            if view.rebooted:
                return (Reason(ReasonCode.NODE_REBOOTED, view.node), gone, *view.agent_reasons)
            return (gone, *view.agent_reasons)
    return ()


def unreachable(view: NodeView, silent_s: float, lease_s: float) -> Reason:
    """The reason of a node that has not answered for so long."""
    return Reason(
        ReasonCode.NODE_UNREACHABLE,
        view.node,
        observed=f"no answer for {silent_s:.0f} s ({view.silence or 'an access hangs'})",
        expected=f"one within {lease_s:g} s",
    )


def _towards_the_end(views: Sequence[NodeView], trainers: Collection[str]) -> Act:
    """Drain once every window is closed; finish once every trainer is done."""
    processes = {name: p for view in views for name, p in view.processes.items()}
    seen = [processes.get(name, ProcessView()) for name in trainers]
    if all(p.exit_code == 0 for p in seen):
        return Act.FINISH
    closed = all(p.exit_code is not None or p.phase in ("drain", "finish") for p in seen)
    if closed and any(p.exit_code is None and p.phase == "drain" for p in seen):
        return Act.DRAIN
    return Act.WAIT


# --- the end of a case ---------------------------------------------------------------------


@dataclass(frozen=True)
class Conclusion:
    """The end of a case: its status, and why."""

    status: CaseStatus
    reasons: tuple[Reason, ...] = ()


def conclude(job: JobSpec, outcomes: Sequence[RepeatOutcome]) -> Conclusion | None:
    """Return the end of a case after these repeats; None where another one is launched.

    A failed launch counts as one of the protocol's; a disturbed one is repeated, as long as the
    budget lasts. It depends on the records alone, so that a controller that takes over launches
    neither more nor fewer.

    Args:
        job: the job.
        outcomes: all repeats so far, in order.
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
                expected=f"{needed} good ones",
            ),
        ),
    )


def too_late(job: JobSpec, outcomes: Sequence[RepeatOutcome], now: datetime) -> bool:
    """Tell whether a repeat that is started now may run beyond the job's deadline.

    Args:
        job: the job.
        outcomes: all repeats so far; the longest is the estimate for another one.
        now: the controller's date.
    """
    if job.deadline is None:
        return False
    known = [r.seconds for r in outcomes if r.seconds is not None]
    usual = job.expected_repeat_s or job.limits.repeat_s
    return now + timedelta(seconds=max(known, default=usual)) > job.deadline


def _failing(outcomes: Sequence[RepeatOutcome]) -> bool:
    """Tell whether so many of the last launches failed that another one is useless."""
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
