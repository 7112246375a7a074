"""Checks expected nights against their runs, and notifies of missing ones. Idempotent.

Expected nights follow from the suites' files alone, so a night that never began is found, too.
Each missing night is notified once, and once more when its result arrives late, by the outbox that
sends alerts (`nightbench.alerts.outbox`).
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from nightbench.alerts import Message, Picture, outbox
from nightbench.alerts.outbox import Item, Outbox, Router
from nightbench.core.budget import clock
from nightbench.core.errors import UserError
from nightbench.core.expected_nights import (
    LONGEST_RUN,
    ExpectedNight,
    NightRun,
    NightSchedule,
    NightState,
    NightStatus,
    expected_nights,
    night_status,
)
from nightbench.core.model import RunKind, VerdictKind
from nightbench.night.scheduled_suites import ScheduledSuite
from nightbench.spool import RunSpool, Spool, SpoolError
from nightbench.warehouse import opened
from nightbench.warehouse.connection import Connect
from nightbench.warehouse.nights import NightRepository

log = logging.getLogger(__name__)

LOOK_BACK = timedelta(days=7)
"""Age of nights that are checked; older ones keep their status."""

CASES_NAMED = 20
"""Cases without a result that a message lists; the rest is counted."""

OTHER_AT_WORK = "another check is running"

UNFINISHED = (NightState.WAITING, NightState.MISSING)

LATEST = timedelta(hours=36)
"""Period without any result of any suite after which a cluster counts as silent."""


@dataclass(frozen=True)
class CheckedNight:
    """An expected night and its status."""

    promise: ScheduledSuite
    night: ExpectedNight
    found: NightStatus

    def item(self, kind: str) -> Item:
        """Return it as an item of the outbox, for the channels of its suite."""
        promise = self.promise
        row = {
            "kind": kind,
            "subject": f"{promise.suite} on {promise.cluster}",
            "news": self.night.scheduled_at.isoformat(),
            "axes": None,
            "cluster": promise.cluster,
            "verdict": VerdictKind.MISSING,
            "owner": None,
            "checked": self,
        }
        return Router(promise.owner, promise.channels or (), promise.routes).of(row)


def check_deadlines(
    promises: Sequence[ScheduledSuite],
    spool: Spool,
    connect: Connect,
    now: datetime,
    *,
    resolve: Callable[[str], str] | None = None,
    base_url: str | None = None,
) -> str:
    """Check every expected night of all suites with a schedule; store and notify of what is new.

    Returns:
        All nights that are missing now, notified or not, in one line.

    Raises:
        WarehouseUnavailable: the warehouse is away.
        UserError: no channel accepted a message; the next check sends the message again.
    """
    with opened(connect) as warehouse:
        if not warehouse.nights.lock():
            return OTHER_AT_WORK
        kept: list[CheckedNight] = []
        latest: dict[str, dict[str, CheckedNight]] = defaultdict(dict)
        for each in promises:
            promise = _whole(each, warehouse.nights, spool)
            if promise is None or promise.timetable is None:
                continue
            for one in _nights_of(promise, promise.timetable, warehouse.nights, spool, now):
                kept.append(one)
                if one.night.due_at <= now and now - one.night.scheduled_at <= LATEST:
                    latest[one.promise.cluster][one.promise.suite] = one
        silent = [
            cluster
            for cluster, by_suite in latest.items()
            if _is_silent(by_suite.values(), warehouse.nights, cluster)
        ]
        sent = Outbox(warehouse.messages, resolve)
        _MissingNightNotifier(warehouse.nights, sent, now, base_url).send_all(kept, silent)
        missing = [
            f"{one.promise.suite} of {clock(one.night.scheduled_at)}"
            for one in kept
            if one.found.state is NightState.MISSING
        ]
        warehouse.nights.store_check(len(promises), len(missing), now)
    for delivery in sent.deliveries:
        if not delivery.sent:
            log.warning("%s accepted no message: %s", delivery.channel, delivery.error)
    if sent.refusals:
        raise UserError(
            f"No channel accepted {'. Nor '.join(sent.refusals)}. The missing nights are "
            "stored; the next check sends the message again."
        )
    return f"{len(promises)} suites with a schedule; missing: {', '.join(missing) or 'nothing'}"


def _whole(
    promise: ScheduledSuite, repository: NightRepository, spool: Spool
) -> ScheduledSuite | None:
    """Return the suite, completed from its last readable file; None if it was never read."""
    if promise.timetable is None:
        known = repository.watched(promise.suite)
        if known is None:
            return None
        promise = replace(promise, cluster=known[0], timetable=NightSchedule.from_text(known[1]))
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
    promise: ScheduledSuite,
    timetable: NightSchedule,
    repository: NightRepository,
    spool: Spool,
    now: datetime,
) -> list[CheckedNight]:
    """Return the nights of one suite with their status, oldest first, and store them."""
    since = repository.watch(promise.suite, promise.cluster, timetable.text, now)
    earliest = max(since, now - LOOK_BACK)
    stored = {
        row["scheduled_at"]: row
        for row in repository.read(
            "stored_nights", suite=promise.suite, cluster=promise.cluster, since=now - LOOK_BACK
        )
    }
    # A stored expected night stays, even if the file has changed since.
    expected = {night.scheduled_at: night for night in expected_nights(timetable, earliest, now)}
    expected |= {
        at: ExpectedNight(at, row["until"], row["due_at"], row["why"])
        for at, row in stored.items()
        if row["state"] in UNFINISHED
    }
    if not expected:
        return []
    first = min(expected)
    runs = _runs(promise, repository, spool, first - LONGEST_RUN)
    kept = []
    for at in sorted(expected):
        night, row = expected[at], stored.get(at, {})
        if row and row["state"] not in UNFINISHED:
            found = NightStatus(NightState(row["state"]), row["sentence"], row["run_id"])
            kept.append(CheckedNight(promise, night, found))
            continue
        was_paused = bool(row.get("was_paused")) or promise.is_paused
        found = night_status(
            night,
            runs,
            now,
            was_missing=row.get("missing_at") is not None,
            is_paused=was_paused,
            problem=promise.problem,
        )
        repository.store(promise.suite, promise.cluster, night, found, now, was_paused=was_paused)
        kept.append(CheckedNight(promise, night, found))
    return kept


def _runs(
    promise: ScheduledSuite, repository: NightRepository, spool: Spool, since: datetime
) -> list[NightRun]:
    """Return scheduled runs from the warehouse, and from the spool those that are not loaded."""
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
            # One damaged file must not block the alerts of all suites.
            log.error("missing cases of run %s cannot be read: %s", folder.run_id, error)
            run = known or NightRun(folder.run_id, started_at)
            runs[folder.run_id] = replace(run, problem=str(error))
            continue
        runs[folder.run_id] = NightRun(folder.run_id, started_at, None, False, planned, without)
    return sorted(runs.values(), key=lambda run: run.started_at)


def _lacks(folder: RunSpool) -> tuple[int, tuple[str, ...]]:
    """Return the number of planned cases of a run, and the cases without a result.

    Failed and cancelled cases have a result.
    """
    measured = [each["case_id"] for each in folder.planned() if each.get("left_out") is None]
    return len(measured), tuple(x for x in measured if folder.outcome(x) is None)


def _is_silent(latest: Iterable[CheckedNight], repository: NightRepository, cluster: str) -> bool:
    """Return whether no suite of a cluster had a result, though several were scheduled."""
    wanted = [one for one in latest if one.found.state is not NightState.PAUSED]
    if len(wanted) < 2 or not all(
        one.found.state is NightState.MISSING and one.found.is_empty for one in wanted
    ):
        return False
    heard = repository.first("cluster_heard", cluster=cluster)
    return heard is None or heard["at"] < min(one.night.scheduled_at for one in wanted)


# --- messages --------------------------------------------------------------------------------


@dataclass
class _MissingNightNotifier:
    repository: NightRepository
    outbox: Outbox
    now: datetime
    base_url: str | None

    def send_all(self, kept: Sequence[CheckedNight], silent: Iterable[str]) -> None:
        """Send one message for each suite, or one for a silent cluster."""
        missing = [one.item(outbox.NIGHT) for one in kept if one.found.state is NightState.MISSING]
        news = self.outbox.unsent(missing)
        for cluster in sorted(silent):
            batch = [each for each in news if _night_of(each).promise.cluster == cluster]
            for one in map(_night_of, batch):
                self.repository.store(
                    one.promise.suite, cluster, one.night, one.found, self.now, is_silence=True
                )
            if batch:
                suites = sorted({_night_of(each).promise.suite for each in batch})
                title = f"Nightbench: cluster {cluster} has sent no result of {', '.join(suites)}"
                self._send(title, batch)
            news = [each for each in news if each not in batch]
        for batch in _by_suite(news):
            self._send(_title([_night_of(each) for each in batch]), batch)
        late = [one for one in kept if one.found.state is NightState.LATE]
        told = self.outbox.messages.deliveries([one.item(outbox.NIGHT).key for one in late])
        back = [one.item(outbox.NIGHT_END) for one in late if one.item(outbox.NIGHT).key in told]
        for batch in _by_suite(self.outbox.unsent(back)):
            promise = _night_of(batch[0]).promise
            title = f"Nightbench {promise.suite} on {promise.cluster}: arrived late"
            self._send(title, batch)

    def _send(self, title: str, items: Sequence[Item]) -> None:
        nights = [_night_of(each) for each in items]
        composed: tuple[Message, tuple[Picture, ...]] = (Message(title, self._body(items)), ())
        about = {
            "suite": ", ".join(sorted({one.promise.suite for one in nights})),
            "cluster": nights[0].promise.cluster,
            "night": nights[0].night.scheduled_at.date(),
            "kind": "deadline",
            "run_id": None,
        }
        self.outbox.send(items, lambda _: composed, about)

    def _body(self, items: Sequence[Item]) -> str:
        parts = []
        for one in map(_night_of, items):
            night, found = one.night, one.found
            lines = [
                f"{one.promise.suite}, run of {clock(night.scheduled_at)}, due by "
                f"{clock(night.due_at)} ({night.why}): {found.sentence}"
            ]
            lines += [f"- {case_id}" for case_id in found.without[:CASES_NAMED]]
            if len(found.without) > CASES_NAMED:
                lines.append(f"- and {len(found.without) - CASES_NAMED} more")
            parts.append("\n".join(lines))
        where = []
        for each in {_night_of(each).promise.suite: each for each in items}.values():
            promise = _night_of(each).promise
            where.append(f"Suite {promise.suite}, owner {each.owner}, DAG {promise.dag_id}")
            if self.base_url and promise.dag_id:
                where.append(f"{self.base_url.rstrip('/')}/dags/{promise.dag_id}")
        where.append("List all nights: nightbench nights. A late result ends this report.")
        return "\n\n".join([*parts, "\n".join(where)])


def _night_of(item: Item) -> CheckedNight:
    night: CheckedNight = item.row["checked"]
    return night


def _by_suite(items: Iterable[Item]) -> list[list[Item]]:
    found: dict[str, list[Item]] = {}
    for each in items:
        found.setdefault(each.subject, []).append(each)
    return list(found.values())


def _title(batch: Sequence[CheckedNight]) -> str:
    one = batch[-1]
    where = f"Nightbench {one.promise.suite} on {one.promise.cluster}"
    if len(batch) > 1:
        return f"{where}: {len(batch)} nights are missing"
    if one.found.is_empty:
        return f"{where}: no result by {clock(one.night.due_at)}"
    if one.found.without:
        return (
            f"{where}: {len(one.found.without)} cases without a result by {clock(one.night.due_at)}"
        )
    return f"{where}: not finished by {clock(one.night.due_at)}"
