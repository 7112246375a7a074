"""The nights that a schedule expects, their deadlines, and the status of each. Pure.

A night can fail without leaving anything to judge: its DAG never ran, the run was not loaded, the
host was down. So expected nights are computed from the suite's file alone, and compared with the
runs that there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from nightbench.core.budget import clock, duration, night_window
from nightbench.core.hours import Clock, Hours

LONGEST_WAIT = timedelta(hours=3)
"""From a run's start to the beginning of its night; later it is another run's night."""

GRACE = timedelta(hours=1)
"""From the end of a night to its deadline: the last case ends, is loaded and judged."""

WITHOUT_END = timedelta(hours=12)
"""From the start of a night that nothing limits to its deadline."""

LONGEST_RUN = timedelta(hours=23)
"""No run of the night before continues for longer: Airflow ends it then."""

EARLY = timedelta(minutes=5)
"""So much before its time a run may have begun: clocks differ a little."""

UNCHECKED = timedelta(hours=1)
"""Deadlines are checked every quarter of an hour: after so long without, something is wrong."""

JUDGING = timedelta(minutes=30)
"""From the loading of a run to its verdicts, at most."""


@dataclass(frozen=True)
class NightSchedule:
    """When a suite's nights are, as its file and its cluster's say."""

    schedule: str
    """Cron expression or preset, UTC."""
    hours: tuple[str, ...] = ()
    """Hours of the cluster and of the suite, if they have any."""
    budget_s: float | None = None
    deadline: str | None = None
    """The suite's own; worked out if None."""

    @property
    def text(self) -> str:
        """The same as one line, for comparing and keeping."""
        return json.dumps(vars(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> NightSchedule:
        """Read what `text` wrote."""
        found = json.loads(text)
        return cls(**{**found, "hours": tuple(found["hours"])})


@dataclass(frozen=True)
class ExpectedNight:
    """One night of a schedule."""

    scheduled_at: datetime
    until: datetime
    """Time of the next scheduled run: a run that begins later belongs to that one."""
    due_at: datetime
    why: str
    """Origin of the deadline, for messages."""


def expected_nights(
    timetable: NightSchedule, after: datetime, to: datetime
) -> Iterator[ExpectedNight]:
    """Return the nights of a suite whose start times are after `after` and not after `to`.

    A time of the schedule whose night begins more than `LONGEST_WAIT` later is none: such a run
    skips itself. If hours or a budget end the night, its deadline is `GRACE` later; if
    nothing does, `WITHOUT_END` after its start.
    """
    from croniter import croniter

    hours = [Hours.parse(text) for text in timetable.hours]
    deadline = Clock.parse(timetable.deadline) if timetable.deadline else None
    times = croniter(timetable.schedule, after.astimezone(UTC))
    at = times.get_next(datetime)
    while at <= to:
        following = times.get_next(datetime)
        found = night_window(hours, timetable.budget_s, at)
        if found is not None and found.start - at <= LONGEST_WAIT:
            if deadline is not None:
                due, why = deadline.after(found.start), str(deadline)
            elif found.end is not None:
                due, why = found.end + GRACE, f"an hour after the end of {found.why}"
            else:
                due = found.start + WITHOUT_END
                why = "twelve hours after its start: the suite names no night.deadline"
            yield ExpectedNight(at, following, due, why)
        at = following


class NightState(StrEnum):
    """Status of an expected night."""

    WAITING = "waiting"
    MET = "met"
    LATE = "late"
    """It was missing, and came after all."""
    MISSING = "missing"
    PAUSED = "paused"
    """The night was not wanted: its DAG was switched off."""
    OVERTAKEN = "overtaken"
    """The run before continued, and took its place."""


@dataclass(frozen=True)
class NightRun:
    """A scheduled run of a suite, as far as anybody knows of it."""

    run_id: str
    started_at: datetime
    loaded_at: datetime | None = None
    is_judged: bool = False
    """It has its verdicts, or there is nothing to judge."""
    planned: int = 0
    """Cases that were to be measured; those that are left out do not count."""
    without: tuple[str, ...] = ()
    """Those of them without any result: neither measured, nor failed, nor cancelled."""
    problem: str | None = None
    """Why its missing cases are unknown."""


@dataclass(frozen=True)
class NightStatus:
    """Status of a night, and why."""

    state: NightState
    sentence: str
    run_id: str | None = None
    without: tuple[str, ...] = ()
    """Cases without a result, if there is a run."""
    is_empty: bool = False
    """Nothing at all came of it so far."""


def night_status(
    night: ExpectedNight,
    runs: Sequence[NightRun],
    now: datetime,
    *,
    was_missing: bool = False,
    is_paused: bool = False,
    problem: str | None = None,
) -> NightStatus:
    """The status of a night, from the runs of its suite.

    A case that a loaded run lacks has a verdict and an alert of its own, case by case. So a night
    is met by a run that was loaded and judged, whatever came of its cases. The runs are the
    scheduled ones of the suite on its cluster, those of the night before too. `is_paused`: its DAG
    is switched off, or was at some time of the night. `problem` is what is known to keep the suite
    from running, as a sentence.
    """
    first, last = night.scheduled_at - EARLY, night.until - EARLY
    own = sorted(
        (run for run in runs if first <= run.started_at < last), key=lambda run: run.started_at
    )
    done = next((run for run in own if run.loaded_at is not None and run.is_judged), None)
    if done is not None:
        loaded_at = done.loaded_at or now
        late = was_missing or loaded_at > night.due_at
        judged = " and got its verdicts too late" if late and loaded_at <= night.due_at else ""
        said = f"{done.run_id} was loaded at {clock(loaded_at)}{judged}"
        return NightStatus(NightState.LATE if late else NightState.MET, said, done.run_id)
    if now < night.due_at:
        return NightStatus(NightState.WAITING, f"due by {clock(night.due_at)}")
    if own:
        return _unfinished(own[-1], now)
    before = [
        run
        for run in runs
        if night.scheduled_at - LONGEST_RUN <= run.started_at < first
        and (run.loaded_at is None or run.loaded_at > night.scheduled_at)
    ]
    if before:
        run_id = before[0].run_id
        return NightStatus(
            NightState.OVERTAKEN, f"{run_id} of the night before had not ended", run_id
        )
    if is_paused:
        return NightStatus(NightState.PAUSED, "its DAG was paused, so no run was expected")
    reason = problem or (
        "no run was planned: its DAG did not run, its plan failed, or the scheduler was down"
    )
    return NightStatus(NightState.MISSING, reason, is_empty=True)


def _unfinished(run: NightRun, now: datetime) -> NightStatus:
    """How a night stands whose time is over, and whose run is not done."""
    if run.loaded_at is not None:
        said = f"{run.run_id} was loaded at {clock(run.loaded_at)}"
        if now - run.loaded_at < JUDGING:
            return NightStatus(NightState.WAITING, f"{said}, and gets its verdicts now", run.run_id)
        return NightStatus(
            NightState.MISSING,
            f"{said}, and has no verdicts: look at the DAG nightbench_verdicts",
            run.run_id,
        )
    if run.problem:
        said = f"{run.run_id} cannot be read: {run.problem}"
        return NightStatus(NightState.MISSING, said, run.run_id)
    if run.without:
        said = f"{len(run.without)} of {run.planned} cases of {run.run_id} have no result"
        return NightStatus(
            NightState.MISSING, said, run.run_id, run.without, len(run.without) == run.planned
        )
    return NightStatus(
        NightState.MISSING,
        f"all {run.planned} cases of {run.run_id} have ended, and no result is in the warehouse: "
        "the run waits in the spool",
        run.run_id,
    )


def unchecked(checked_at: datetime | None, now: datetime) -> str | None:
    """Why a missing night would not be reported; None if deadlines are checked."""
    advice = "look at the DAG nightbench_upkeep: is it paused, does it fail, is Airflow running?"
    if checked_at is None:
        return f"Deadlines were never checked; {advice}"
    ago = now - checked_at
    if ago <= UNCHECKED:
        return None
    return f"Deadlines were last checked {duration(ago.total_seconds())} ago; {advice}"
