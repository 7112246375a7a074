"""When a case has enough repeats, and what it is worth when it has to end early: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nightbench.core.model import CaseStatus, JobSpec
from nightbench.core.statistics import close_enough, enough
from nightbench.gang.events import RepeatOutcome

FAILURES_IN_A_ROW = 2


@dataclass(frozen=True)
class End:
    """How a case ends."""

    status: CaseStatus
    reason: str | None = None


def end_of(job: JobSpec, outcomes: Sequence[RepeatOutcome]) -> End | None:
    """How the case ends after these repeats; None where another one is launched.

    A failed launch is one of the protocol's; a disturbed one is made good for, as long as the
    budget lasts. Anybody who reads the same records decides the same, so that a controller that
    takes over neither launches more nor fewer.

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
        return End(CaseStatus.OK)
    if len(good) + len(failed) >= protocol.repeats:
        return End(CaseStatus.OK) if good else _failed(outcomes, failed)
    if len(disturbed) > job.neighbours.budget:
        if len(good) >= enough(protocol):
            return End(CaseStatus.OK)
        return End(
            CaseStatus.FAILED,
            f"disturbed: {len(disturbed)} of {len(outcomes)} repeats, more than the budget of "
            f"{job.neighbours.budget}; the last: {disturbed[-1].reason}",
        )
    return None


def end_by_deadline(job: JobSpec, outcomes: Sequence[RepeatOutcome]) -> End:
    """How the case ends where no further repeat can finish in time."""
    good = sum(r.status == "ok" for r in outcomes)
    needed = enough(job.protocol)
    if good >= needed:
        return End(CaseStatus.OK)
    at = f"{job.deadline.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if job.deadline else "?"
    return End(
        CaseStatus.LEFT_OUT,
        f"the window ended at {at} after {good} good of {job.protocol.repeats} repeats; "
        f"{needed} are needed",
    )


def too_late(job: JobSpec, outcomes: Sequence[RepeatOutcome], now: datetime) -> bool:
    """Whether a repeat that is started now may run beyond the job's deadline.

    Args:
        job: the job.
        outcomes: all repeats so far: the longest says how long another one takes.
        now: the controller's date.
    """
    if job.deadline is None:
        return False
    known = [r.seconds for r in outcomes if r.seconds is not None]
    usual = job.expected_repeat_s or job.limits.repeat_s
    return now + timedelta(seconds=max(known, default=usual)) > job.deadline


def _failing(outcomes: Sequence[RepeatOutcome]) -> bool:
    """Whether the last launches failed, so often in a row that another would be no use."""
    last = outcomes[-FAILURES_IN_A_ROW:]
    return len(last) == FAILURES_IN_A_ROW and all(r.failed for r in last)


def _failed(outcomes: Sequence[RepeatOutcome], failed: Sequence[RepeatOutcome]) -> End:
    return End(
        CaseStatus.FAILED,
        f"{len(failed)} of {len(outcomes)} launches failed, the last: {failed[-1].reason}",
    )
