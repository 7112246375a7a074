"""Tells of alerts: urgent falls at once, all else in one message of a night on each channel.

What is untold lies in the warehouse, not in the process that found it: whoever comes next tells
it. An alert is stored before its message is sent, and each channel that took it is kept, so a
message that no channel took is sent by the next try and one that was taken is never sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from nightbench.alerts import Channel, Delivery, Links, Message, News, drifts, message, noise, send
from nightbench.alerts.news import Composer
from nightbench.alerts.routing import Routed, Router
from nightbench.core.errors import UserError
from nightbench.core.hours import zone
from nightbench.core.model import VerdictKind
from nightbench.core.run_plan import RunPlan
from nightbench.spool import Spool
from nightbench.spool.plans import read_plan
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connect

NIGHT, URGENT = "night", "urgent"

Row = dict[str, Any]


@dataclass(frozen=True)
class Voice:
    """How what is told gets out."""

    resolve: Callable[[str], str] | None = None
    """Airflow Connection id -> Apprise URL, for channels that are named so."""
    links: Links | None = None


def tell(
    warehouse: Warehouse, plan: RunPlan, voice: Voice, night: date | None = None
) -> tuple[Delivery, ...]:
    """Tell all that is untold of a suite's alerts, unless it waits.

    The night's message waits while a suspect of it is being measured again, and what comes after
    that message waits for the next night's.

    Args:
        warehouse: its connection locks the cluster's alerts.
        plan: of the run that brought the news: its channels, routes and policy.
        voice: how it gets out.
        night: whose message it is; the latest of all that is untold where None.

    Raises:
        UserError: a message was refused by every channel that it goes to.
    """
    return _Telling(warehouse, plan, voice).tell(night)


def tell_run(
    spool: Spool,
    run_id: str,
    connect: Connect,
    *,
    resolve: Callable[[str], str] | None = None,
    base_url: str | None = None,
    night: date | None = None,
) -> tuple[Delivery, ...]:
    """Tell what a run, or its suite, has left untold and what waits for nothing any more.

    May be called at any time and again: nothing is told twice.

    Args:
        spool: holds the run's plan.
        run_id: the run.
        connect: opens a connection to the warehouse.
        resolve: see `Voice`.
        base_url: of Airflow's API server, for links.
        night: see `tell`.

    Raises:
        WarehouseUnavailable: the warehouse is away.
        UserError: no channel took a message, or the run's plan is gone.
    """
    plan = read_plan(spool.run(run_id))
    with closing(connect()) as connection:
        warehouse = Warehouse(connection)
        warehouse.alerts.lock(plan.run.cluster)
        voice = Voice(resolve, Links(base_url) if base_url else None)
        return tell(warehouse, plan, voice, night)


def tell_leftovers(
    spool: Spool,
    connect: Connect,
    *,
    resolve: Callable[[str], str] | None = None,
    base_url: str | None = None,
    now: datetime | None = None,
) -> tuple[list[Delivery], list[str]]:
    """Tell what no night has told: its process died, or its suite did not run again.

    A message of the last night that has ended goes out late, but it goes out.

    Returns:
        The deliveries, and what kept a suite from being told of, in a sentence each.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    with closing(connect()) as connection:
        left = Warehouse(connection).messages.unnotified_suites()
    deliveries: list[Delivery] = []
    problems = []
    for row in left:
        try:
            plan = read_plan(spool.run(row["run_id"]))
            ended = night_of(now or datetime.now(UTC), plan.zone) - timedelta(days=1)
            own = night_of(row["started_at"], plan.zone)
            deliveries += tell_run(
                spool,
                row["run_id"],
                connect,
                resolve=resolve,
                base_url=base_url,
                night=max(own, ended),
            )
        except UserError as error:
            problems.append(f"{row['suite']} on {row['cluster']}: {error}")
    return deliveries, problems


def night_of(at: datetime, zone_name: str) -> date:
    """The night that a moment belongs to: it lasts from noon to noon by its suite's clock."""
    return (at.astimezone(zone(zone_name)) - timedelta(hours=12)).date()


@dataclass
class _Telling:
    """One try to tell all that is untold."""

    warehouse: Warehouse
    plan: RunPlan
    voice: Voice
    deliveries: list[Delivery] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    fallen: list[Row] = field(default_factory=list)
    """Grades of the detector that are not good enough any more and that nobody was told of."""
    turned: list[Row] = field(default_factory=list)
    """Series that became noisy or steady, of which nobody was told."""
    drifts: list[Row] = field(default_factory=list)
    """Series that creep, of which nobody was told."""

    def tell(self, night: date | None) -> tuple[Delivery, ...]:
        run = self.plan.run
        rows = self.warehouse.messages.unnotified(run.suite, run.cluster)
        router = Router(self.plan)
        untold = [router.of(row) for row in rows]
        for each in untold:
            if each.is_news and each.row["owner"] is None:
                self.warehouse.alerts.route(each.alert_id, each.owner, each.row["of_run_id"])
        self.fallen = self.warehouse.grades.unnotified(run.suite, run.cluster, run.started_at)
        self.turned = self.warehouse.series.noise_events(
            suite=run.suite, cluster=run.cluster, until=run.started_at, unnotified=True
        )
        self.drifts = self.warehouse.series.drifts(
            suite=run.suite, cluster=run.cluster, unnotified_until=run.started_at
        )
        if untold or self._notes:
            latest = max([run.started_at, *(row["of_run_at"] for row in rows)])
            self._tell(untold, night or night_of(latest, self.plan.zone), router.own)
        if self.refusals:
            raise UserError(
                f"no channel of suite {run.suite} took {'. Nor '.join(self.refusals)}. "
                "The alerts are stored; the message is sent when the run is judged again."
            )
        return tuple(self.deliveries)

    def _tell(self, untold: Sequence[Routed], night: date, own: Sequence[Channel]) -> None:
        composer = Composer(self.warehouse, self.plan, untold)
        urgent = [each for each in untold if each.is_news and self._is_urgent(composer, each)]
        self._send(URGENT, urgent, composer, night, had=set())
        rest = [each for each in untold if each not in urgent]
        if any(each.row["is_awaited"] for each in rest):
            return
        run = self.plan.run
        had = self.warehouse.messages.night_channels(run.suite, run.cluster, night)
        sent_before = len(self.deliveries)
        self._send(NIGHT, rest, composer, night, had)
        if self._notes:
            names = {channel.name for channel in own}
            sent = [each for each in self.deliveries[sent_before:] if each.channel in names]
            self._tell_notes(own, sent, composer, night, had)

    def _tell_notes(
        self,
        own: Sequence[Channel],
        sent: Sequence[Delivery],
        composer: Composer,
        night: date,
        had: set[str],
    ) -> None:
        """Mark what the night's messages said beside alerts; else say it in one of its own.

        It concerns the suite, so only its own channels count, and what was sent to these, not one
        that a route alone names.
        """
        if own and not sent:
            on_time = [channel for channel in own if channel.name not in had]
            said = self._compose(NIGHT, [], composer)
            sent = send(on_time, said.title, said.body, self.voice.resolve)
            self.deliveries += sent
            for channel, delivery in zip(on_time, sent, strict=True):
                if delivery.sent:
                    self._keep(NIGHT, channel, [], night, said)
            if on_time and not any(delivery.sent for delivery in sent):
                reasons = "; ".join(f"{d.channel}: {d.error}" for d in sent)
                self.refusals.append(f'the message "{said.title}": {reasons}')
        if not own or any(delivery.sent for delivery in sent):
            self.warehouse.grades.mark_notified(self.fallen)
            for run_id in {row["run_id"] for row in self.turned}:
                self.warehouse.series.mark_noise_notified(run_id)
            self.warehouse.series.mark_drifts_notified(self.drifts)

    @property
    def _notes(self) -> bool:
        """Something is to be said beside alerts."""
        return bool(self.fallen or self.turned or self.drifts)

    def _is_urgent(self, composer: Composer, each: Routed) -> bool:
        verdict = composer.verdict(each.row)
        return (
            verdict.kind is VerdictKind.REGRESSED
            and verdict.change is not None
            and verdict.change <= -self.plan.policy.urgent
        )

    def _send(
        self, kind: str, items: Sequence[Routed], composer: Composer, night: date, had: set[str]
    ) -> None:
        """Send to each channel what it has not had; what is then told everywhere is marked."""
        told = self.warehouse.messages.notified_items([each.alert_id for each in items])
        took = {each: [c for c in each.channels if (*each.key, c.name) in told] for each in items}
        waits: set[Routed] = set()
        for channels, batch in _batches(items, took):
            late = [channel for channel in channels if channel.name in had]
            if late:
                waits.update(batch)
            on_time = [channel for channel in channels if channel.name not in had]
            if not on_time:
                continue
            said = self._compose(kind, batch, composer)
            pictures = composer.pictures([each for each in batch if each.is_news])
            sent = send(on_time, said.title, said.body, self.voice.resolve, pictures)
            self.deliveries += sent
            for channel, delivery in zip(on_time, sent, strict=True):
                if delivery.sent:
                    self._keep(kind, channel, batch, night, said)
                    for each in batch:
                        took[each].append(channel)
            if not any(delivery.sent for delivery in sent):
                reasons = "; ".join(f"{d.channel}: {d.error}" for d in sent)
                self.refusals.append(f'the message "{said.title}": {reasons}')
        self.warehouse.messages.mark_notified(
            [
                each.document
                for each in items
                if each not in waits and (took[each] or not each.channels)
            ]
        )

    def _compose(self, kind: str, batch: Sequence[Routed], composer: Composer) -> Message:
        news: list[News] = [composer.news(each) for each in batch if each.is_news]
        again = {item.verdict.case_id for item in news}
        # An alert that gave way to another one of its series is no recovery.
        over = [e for e in batch if not e.is_news and e.row["case_id"] not in again]
        ended = [composer.ended(each) for each in over]
        owner = ", ".join(sorted({each.owner for each in batch})) or self.plan.owner
        is_urgent = kind == URGENT
        return message(
            self.plan.run,
            owner,
            news,
            ended,
            self.voice.links,
            is_urgent=is_urgent,
            notes=[] if is_urgent else [row["below"] for row in self.fallen],
            series=[] if is_urgent else noise.notes(self.turned),
            drifts=[] if is_urgent else drifts.notes(self.drifts),
        )

    def _keep(
        self, kind: str, channel: Channel, batch: Iterable[Routed], night: date, said: Message
    ) -> None:
        run = self.plan.run
        self.warehouse.messages.store(
            {
                "suite": run.suite,
                "cluster": run.cluster,
                "night": night,
                "kind": kind,
                "channel": channel.name,
                "run_id": run.run_id,
                "title": said.title,
            },
            [each.document for each in batch],
        )


def _batches(
    items: Sequence[Routed], took: dict[Routed, list[Channel]]
) -> list[tuple[list[Channel], list[Routed]]]:
    """What each channel is still to be told, channels that are told the same together."""
    by_channel: dict[Channel, list[Routed]] = {}
    for each in items:
        for channel in each.channels:
            if channel not in took[each]:
                by_channel.setdefault(channel, []).append(each)
    batches: dict[tuple[Routed, ...], list[Channel]] = {}
    for channel, several in by_channel.items():
        batches.setdefault(tuple(several), []).append(channel)
    return [(channels, list(several)) for several, channels in batches.items()]
