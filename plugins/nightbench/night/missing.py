"""Tells of nights that are missing, and of those that came after all: each once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nightbench.alerts import Delivery, send
from nightbench.core.budget import clock
from nightbench.core.timetable import Night, Standing, State, Timetable
from nightbench.warehouse.nights import NightRepository

CASES_NAMED = 20


@dataclass(frozen=True)
class Promise:
    """A suite with a schedule."""

    suite: str
    cluster: str
    owner: str
    timetable: Timetable | None
    """None where its file does not say it readably: then what was last known holds."""
    channels: tuple[str, ...] | None = None
    """As the suite names them; those of its last run where None."""
    is_paused: bool = False
    """Its DAG is switched off."""
    problem: str | None = None
    """What keeps it from running, as far as that is known."""
    dag_id: str = ""


@dataclass(frozen=True)
class Kept:
    """A promised night and how it stands."""

    promise: Promise
    night: Night
    found: Standing
    told: bool = False
    end_told: bool = False


@dataclass
class Telling:
    """Sends what nobody was told of."""

    repository: NightRepository
    now: datetime
    resolve: Callable[[str], str] | None
    base_url: str | None
    deliveries: list[Delivery] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def tell(self, kept: Sequence[Kept], silent: Iterable[str]) -> None:
        """One message for each suite, or for a silent cluster with all that it lacks."""
        news = [one for one in kept if one.found.state is State.MISSING and not one.told]
        for cluster in sorted(silent):
            batch = [one for one in news if one.promise.cluster == cluster]
            for one in batch:
                self.repository.store(
                    one.promise.suite, cluster, one.night, one.found, self.now, is_silence=True
                )
            if batch:
                suites = ", ".join(sorted({one.promise.suite for one in batch}))
                title = f"Nightbench: cluster {cluster} is silent: no result of {suites}"
                self._send(title, batch, end=False)
            news = [one for one in news if one not in batch]
        for batch in _by_suite(news):
            self._send(_title(batch), batch, end=False)
        back = [
            one for one in kept if one.found.state is State.LATE and one.told and not one.end_told
        ]
        for batch in _by_suite(back):
            one = batch[0]
            title = f"Nightbench {one.promise.suite} on {one.promise.cluster}: came after all"
            self._send(title, batch, end=True)

    def _send(self, title: str, batch: Sequence[Kept], *, end: bool) -> None:
        channels = list(dict.fromkeys(url for one in batch for url in one.promise.channels or ()))
        if not channels:
            return
        sent = dict(
            zip(channels, send(channels, title, self._body(batch), self.resolve), strict=True)
        )
        self.deliveries += sent.values()
        refused: dict[str, list[Delivery]] = {}
        for one in batch:
            # What another suite's channel took, this one's readers have not seen.
            promise, own = one.promise, [sent[url] for url in one.promise.channels or ()]
            if any(delivery.sent for delivery in own):
                at = one.night.scheduled_at
                self.repository.mark_notified(promise.suite, promise.cluster, at, self.now, end=end)
            elif own:
                refused[promise.suite] = own
        if refused:
            each = dict.fromkeys(delivery for own in refused.values() for delivery in own)
            reasons = "; ".join(f"{d.channel}: {d.error}" for d in each)
            suites = ", ".join(sorted(refused))
            self.refusals.append(f'the message "{title}" for {suites}: {reasons}')

    def _body(self, batch: Sequence[Kept]) -> str:
        parts = []
        for one in batch:
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
        for promise in {one.promise.suite: one.promise for one in batch}.values():
            where.append(f"Suite {promise.suite}, owner {promise.owner}, DAG {promise.dag_id}")
            if self.base_url and promise.dag_id:
                where.append(f"{self.base_url.rstrip('/')}/dags/{promise.dag_id}")
        where.append("All nights: nightbench nights. What comes late ends this by itself.")
        return "\n\n".join([*parts, "\n".join(where)])


def _by_suite(kept: Iterable[Kept]) -> list[list[Kept]]:
    found: dict[tuple[str, str], list[Kept]] = {}
    for one in kept:
        found.setdefault((one.promise.suite, one.promise.cluster), []).append(one)
    return list(found.values())


def _title(batch: Sequence[Kept]) -> str:
    one = batch[-1]
    where = f"Nightbench {one.promise.suite} on {one.promise.cluster}"
    if len(batch) > 1:
        return f"{where}: {len(batch)} nights are missing"
    if one.found.is_empty:
        return f"{where}: nothing came by {clock(one.night.due_at)}"
    if one.found.without:
        return (
            f"{where}: {len(one.found.without)} cases without a result by {clock(one.night.due_at)}"
        )
    return f"{where}: not finished by {clock(one.night.due_at)}"
