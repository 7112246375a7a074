"""Checks what schedules promised against what came, and tells what is missing. May be done again.

It rests on the suites' files, the warehouse and the spool, and on nothing that a night itself
leaves behind: also a night that never began is found. Each night is told once; one that comes late
ends by itself, and that is told once, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from nightbench.alerts import Delivery
from nightbench.core.budget import clock
from nightbench.core.errors import UserError
from nightbench.core.model import RunKind
from nightbench.core.timetable import (
    LONGEST_RUN,
    UNCHECKED,
    Night,
    NightRun,
    Standing,
    State,
    Timetable,
    nights,
    standing,
    unchecked,
)
from nightbench.night.missing import Kept, Promise, Telling
from nightbench.spool import RunSpool, Spool, SpoolError
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connect
from nightbench.warehouse.nights import NightRepository

log = logging.getLogger(__name__)

LOOK_BACK = timedelta(days=7)
"""Older nights are left as they stand, also after the check itself was away for long."""

LATEST = timedelta(hours=36)
"""A cluster is silent when all that its suites promised in so long came to nothing."""


@dataclass(frozen=True)
class Checked:
    """What a check found."""

    suites: int
    missing: tuple[Kept, ...] = ()
    """All that is missing now, told or not."""
    deliveries: tuple[Delivery, ...] = ()
    refusals: tuple[str, ...] = ()
    """Messages that no channel took: the next check sends them."""
    other_at_work: bool = False

    def sentence(self) -> str:
        """Say it in a line."""
        if self.other_at_work:
            return "another check is at work"
        names = ", ".join(
            f"{k.promise.suite} of {clock(k.night.scheduled_at)}" for k in self.missing
        )
        return f"{self.suites} suites with a schedule; missing: {names or 'nothing'}"


def check_deadlines(
    promises: Sequence[Promise],
    spool: Spool,
    connect: Connect,
    now: datetime,
    *,
    resolve: Callable[[str], str] | None = None,
    base_url: str | None = None,
) -> Checked:
    """Look at every promised night, store how it stands, and tell what is news.

    Args:
        promises: all suites with a schedule.
        spool: runs that were not loaded yet lie there.
        connect: opens a connection to the warehouse, as its loader.
        now: with a time zone.
        resolve: Airflow Connection id -> Apprise URL, for channels that are named so.
        base_url: of Airflow's API server, for the link in a message.

    Raises:
        WarehouseUnavailable: the warehouse is away: what is missing cannot be known.
    """
    with closing(connect()) as connection:
        repository = Warehouse(connection).nights
        if not repository.lock():
            return Checked(len(promises), other_at_work=True)
        kept: list[Kept] = []
        latest: dict[tuple[str, str], Kept] = {}
        for each in promises:
            promise = _whole(each, repository, spool)
            if promise is None or promise.timetable is None:
                continue
            for one in _nights_of(promise, promise.timetable, repository, spool, now):
                kept.append(one)
                if one.night.due_at <= now and now - one.night.scheduled_at <= LATEST:
                    latest[one.promise.cluster, one.promise.suite] = one
        silent = {
            cluster
            for cluster in {cluster for cluster, _ in latest}
            if _is_silent(
                [one for (c, _), one in latest.items() if c == cluster], repository, cluster
            )
        }
        telling = Telling(repository, now, resolve, base_url)
        telling.tell(kept, silent)
        missing = tuple(one for one in kept if one.found.state is State.MISSING)
        repository.store_check(len(promises), len(missing), now)
    return Checked(len(promises), missing, tuple(telling.deliveries), tuple(telling.refusals))


def _whole(promise: Promise, repository: NightRepository, spool: Spool) -> Promise | None:
    """A promise with what its broken file does not say; None where nobody ever knew it."""
    if promise.timetable is None:
        known = repository.watched(promise.suite)
        if known is None:
            return None
        promise = replace(promise, cluster=known[0], timetable=Timetable.from_text(known[1]))
    if promise.channels is None:
        document = next(
            (
                found
                for run in reversed(spool.runs())
                if run.run_id.startswith(f"{promise.suite}-")
                and (found := run.run() or {}).get("suite") == promise.suite
            ),
            {},
        )
        promise = replace(promise, channels=tuple(document.get("channels") or ()))
    return promise


def _nights_of(
    promise: Promise, timetable: Timetable, repository: NightRepository, spool: Spool, now: datetime
) -> list[Kept]:
    """Look at the nights of one suite, oldest first, and store how they stand."""
    since = repository.watch(promise.suite, promise.cluster, timetable.text, now)
    earliest = max(since, now - LOOK_BACK)
    stored = {
        row["scheduled_at"]: row
        for row in repository.unfinished(promise.suite, promise.cluster, now - LOOK_BACK)
    }
    finished = {
        row["scheduled_at"]: row
        for row in repository.nights(promise.suite, promise.cluster, since=now - LOOK_BACK)
        if row["scheduled_at"] not in stored
    }
    # What was promised holds, also when the file says something else since.
    expected = {night.scheduled_at: night for night in nights(timetable, earliest, now)}
    expected |= {at: _night(row) for at, row in stored.items()}
    if not expected:
        return []
    first = min(expected)
    runs = _runs(promise, repository, spool, first - LONGEST_RUN)
    kept = []
    for at in sorted(expected):
        night = expected[at]
        if at in finished:
            row = finished[at]
            found = Standing(State(row["state"]), row["sentence"], row["run_id"])
            kept.append(Kept(promise, night, found, bool(row["notified_at"]), True))
            continue
        row = stored.get(at, {})
        was_paused = bool(row.get("was_paused")) or promise.is_paused
        found = standing(
            night,
            runs,
            now,
            was_missing=row.get("missing_at") is not None,
            is_paused=was_paused,
            problem=promise.problem,
        )
        repository.store(promise.suite, promise.cluster, night, found, now, was_paused=was_paused)
        told, ended = bool(row.get("notified_at")), bool(row.get("end_notified_at"))
        kept.append(Kept(promise, night, found, told, ended))
    return kept


def _night(row: Mapping[str, Any]) -> Night:
    return Night(row["scheduled_at"], row["until"], row["due_at"], row["why"])


def _runs(
    promise: Promise, repository: NightRepository, spool: Spool, since: datetime
) -> list[NightRun]:
    """Scheduled runs by the warehouse; of those that it has not loaded, what their files say."""
    runs = {run.run_id: run for run in repository.runs(promise.suite, promise.cluster, since)}
    for folder in spool.runs():
        known = runs.get(folder.run_id)
        if not folder.run_id.startswith(f"{promise.suite}-") or (known and known.loaded_at):
            continue
        document = folder.run() or {}
        if (
            document.get("suite") != promise.suite
            or document.get("cluster") != promise.cluster
            or document.get("run_kind") != RunKind.NIGHTLY.value
        ):
            continue
        started_at = datetime.fromisoformat(document["started_at"])
        if started_at < since:
            continue
        try:
            planned, without = _lacks(folder)
        except SpoolError as error:
            # One damaged file must not keep all suites' alerts back.
            log.error("what run %s lacks cannot be told: %s", folder.run_id, error)
            run = known or NightRun(folder.run_id, started_at)
            runs[folder.run_id] = replace(run, problem=str(error))
            continue
        runs[folder.run_id] = NightRun(folder.run_id, started_at, None, False, planned, without)
    return sorted(runs.values(), key=lambda run: run.started_at)


def _lacks(folder: RunSpool) -> tuple[int, tuple[str, ...]]:
    """How many cases a run was to measure, and those of which nothing came.

    Whatever came of a case is something: also that it failed, or was cancelled.
    """
    measured = [each["case_id"] for each in folder.planned() if each.get("left_out") is None]
    stores = {case_id: folder.latest(case_id) for case_id in measured}
    without = [c for c, store in stores.items() if store is None or store.outcome() is None]
    return len(measured), tuple(without)


def _is_silent(latest: Sequence[Kept], repository: NightRepository, cluster: str) -> bool:
    """Whether nothing came of any suite of a cluster, though several were to run."""
    wanted = [one for one in latest if one.found.state is not State.PAUSED]
    if len(wanted) < 2 or not all(
        one.found.state is State.MISSING and one.found.is_empty for one in wanted
    ):
        return False
    heard = repository.last_result_at(cluster)
    return heard is None or heard < min(one.night.scheduled_at for one in wanted)


def refuse(checked: Checked) -> None:
    """Complain where a message reached nobody.

    Raises:
        UserError: with the channels' reasons.
    """
    if checked.refusals:
        raise UserError(
            f"No channel took {'; '.join(checked.refusals)}. What is missing is stored; the next "
            "check sends it again."
        )


def require_recent_check(connect: Connect, now: datetime) -> None:
    """Complain where deadlines are not checked, so that a missing night would go unnoticed.

    Raises:
        UserError: the last check is more than an hour old, or the warehouse is away.
    """
    with closing(connect()) as connection:
        repository = Warehouse(connection).nights
        last, first = repository.last_check(), repository.first_run_at()
    if last is None and (first is None or now - first <= UNCHECKED):
        return  # A deployment that has just begun: the first check is on its way.
    problem = unchecked(last["checked_at"] if last else None, now)
    if problem is not None:
        raise UserError(problem)
