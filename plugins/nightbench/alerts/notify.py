"""Notification of alerts: urgent falls at once, the rest in one message of a night per channel.

Which alerts are unnotified is state of the warehouse, not of the process that found them: the next
process sends them. An alert is stored before its message is sent, and each channel that accepted
it is stored too, so a message that no channel accepted is sent by the next try, and one that was
accepted is never sent twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from nightbench.alerts import (
    AlertItem,
    Channel,
    Delivery,
    Links,
    Message,
    message,
    send,
)
from nightbench.alerts.channels import ResolveConnection, Routed, Router
from nightbench.alerts.message import AGAIN, DRIFTS, GRADES, NOISE
from nightbench.alerts.message_builder import MessageBuilder
from nightbench.alerts.notes import confirmation_notes, drift_notes, noise_notes
from nightbench.core.errors import UserError
from nightbench.core.hours import zone
from nightbench.core.model import VerdictKind
from nightbench.core.model.experiments import ExperimentKind
from nightbench.core.run_plan import RunPlan
from nightbench.spool import Spool
from nightbench.spool.plans import read_plan
from nightbench.warehouse import Warehouse, opened
from nightbench.warehouse.connection import Connect

NIGHT, URGENT = "night", "urgent"

Row = dict[str, Any]


@dataclass(frozen=True)
class Notifier:
    """How messages are sent."""

    resolve: ResolveConnection | None = None
    """For channels that an Airflow Connection names."""
    links: Links | None = None

    @classmethod
    def of(cls, resolve: ResolveConnection | None, base_url: str | None) -> Notifier:
        """Return a notifier whose messages link to Airflow's API server where its URL is known."""
        return cls(resolve, Links(base_url) if base_url else None)


def notify(
    warehouse: Warehouse, plan: RunPlan, notifier: Notifier, night: date | None = None
) -> tuple[Delivery, ...]:
    """Send the messages about a suite's unnotified alerts, unless they wait; return the deliveries.

    The night's message waits while a suspect of it is being measured again, and what comes after
    that message waits for the next night's.

    Args:
        warehouse: its connection locks the cluster's alerts.
        plan: of the run that brought the news.
        notifier: how messages are sent.
        night: whose message it is; that of the latest unnotified alert where None.

    Raises:
        UserError: a message was refused by every channel that it goes to.
    """
    return _Notification(warehouse, plan, notifier).send_all(night)


def notify_run(
    spool: Spool,
    run_id: str,
    connect: Connect,
    notifier: Notifier | None = None,
    night: date | None = None,
) -> tuple[Delivery, ...]:
    """Notify of what a run or its suite left unnotified and waits for nothing any more.

    May be called at any time and again: nothing is sent twice. `night` is that of `notify`.

    Raises:
        WarehouseUnavailable: the warehouse is away.
        UserError: no channel took a message, or the run's plan is gone.
    """
    plan = read_plan(spool.run(run_id))
    with opened(connect) as warehouse:
        warehouse.alerts.lock(plan.run.cluster)
        return notify(warehouse, plan, notifier or Notifier(), night)


def notify_leftovers(
    spool: Spool,
    connect: Connect,
    notifier: Notifier | None = None,
    now: datetime | None = None,
) -> tuple[list[Delivery], list[str]]:
    """Notify of what no night did: its process died, or its suite did not run again.

    The message of the last night that has ended is sent late.

    Returns:
        The deliveries, and for each suite that could not be notified the problem as a sentence.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    with opened(connect) as warehouse:
        left = warehouse.messages.read("unnotified_suites")
    deliveries: list[Delivery] = []
    problems = []
    for row in left:
        try:
            plan = read_plan(spool.run(row["run_id"]))
            ended = night_of(now or datetime.now(UTC), plan.zone) - timedelta(days=1)
            own = night_of(row["started_at"], plan.zone)
            deliveries += notify_run(spool, row["run_id"], connect, notifier, max(own, ended))
        except UserError as error:
            problems.append(f"{row['suite']} on {row['cluster']}: {error}")
    return deliveries, problems


def night_of(at: datetime, zone_name: str) -> date:
    """The night that a moment belongs to: it lasts from noon to noon by its suite's clock."""
    return (at.astimezone(zone(zone_name)) - timedelta(hours=12)).date()


@dataclass
class _Notification:
    """One attempt to send all that is unnotified."""

    warehouse: Warehouse
    plan: RunPlan
    notifier: Notifier
    deliveries: list[Delivery] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    fallen: list[Row] = field(default_factory=list)
    """Unnotified grades of the detector that miss their limits."""
    turned: list[Row] = field(default_factory=list)
    """Unnotified series that became noisy or steady."""
    drifts: list[Row] = field(default_factory=list)
    """Unnotified drifts."""

    def send_all(self, night: date | None) -> tuple[Delivery, ...]:
        run = self.plan.run
        ours = {"suite": run.suite, "cluster": run.cluster}
        rows = self.warehouse.messages.read("unnotified_alerts", **ours)
        router = Router(self.plan)
        unnotified = [router.of(row) for row in rows]
        for each in unnotified:
            if each.is_news and each.row["owner"] is None:
                self.warehouse.alerts.route(each.alert_id, each.owner, each.row["of_run_id"])
        self.fallen = self.warehouse.grades.read("unnotified_grades", **ours, until=run.started_at)
        self.turned = self.warehouse.series.noise_events(
            suite=run.suite, cluster=run.cluster, until=run.started_at, unnotified=True
        )
        self.drifts = self.warehouse.series.drifts(
            suite=run.suite, cluster=run.cluster, unnotified_until=run.started_at
        )
        if unnotified or self._notes:
            latest = max([run.started_at, *(row["of_run_at"] for row in rows)])
            self._send_alerts(unnotified, night or night_of(latest, self.plan.zone), router.own)
        if self.refusals:
            raise UserError(
                f"no channel of suite {run.suite} took {'. Nor '.join(self.refusals)}. "
                "The alerts are stored; the message is sent when the run is judged again."
            )
        return tuple(self.deliveries)

    def _send_alerts(
        self, unnotified: Sequence[Routed], night: date, own: Sequence[Channel]
    ) -> None:
        builder = MessageBuilder(self.warehouse, self.plan, unnotified)
        urgent = [each for each in unnotified if each.is_news and self._is_urgent(builder, each)]
        self._send(URGENT, urgent, builder, night, had=set())
        rest = [each for each in unnotified if each not in urgent]
        if any(each.row["is_awaited"] for each in rest):
            return
        run = self.plan.run
        had = self.warehouse.messages.night_channels(run.suite, run.cluster, night)
        sent_before = len(self.deliveries)
        self._send(NIGHT, rest, builder, night, had)
        if self._notes:
            names = {channel.name for channel in own}
            sent = [each for each in self.deliveries[sent_before:] if each.channel in names]
            if own and not sent:
                on_time = [channel for channel in own if channel.name not in had]
                sent = self._deliver(NIGHT, on_time, [], builder, night)
            # Notes concern the suite: only its own channels count, not those of routes.
            if not own or any(delivery.sent for delivery in sent):
                self._mark_notes()

    def _mark_notes(self) -> None:
        self.warehouse.grades.mark_notified(self.fallen)
        for run_id in {row["run_id"] for row in self.turned}:
            self.warehouse.series.mark_noise_notified(run_id)
        self.warehouse.series.mark_drifts_notified(self.drifts)

    @property
    def _confirmations(self) -> list[Row]:
        return self.warehouse.experiments.find(
            run_id=self.plan.run.run_id, kinds=[ExperimentKind.CONFIRM]
        )

    @property
    def _notes(self) -> bool:
        return bool(self.fallen or self.turned or self.drifts)

    def _is_urgent(self, builder: MessageBuilder, each: Routed) -> bool:
        verdict = builder.verdict(each.row)
        return (
            verdict.kind is VerdictKind.REGRESSED
            and verdict.gain is not None
            and verdict.gain <= -self.plan.policy.urgent
        )

    def _send(
        self,
        kind: str,
        items: Sequence[Routed],
        builder: MessageBuilder,
        night: date,
        had: set[str],
    ) -> None:
        """Send each channel the items that it lacks; mark items that all channels accepted."""
        notified = self.warehouse.messages.notified_items([each.alert_id for each in items])
        took = {
            each: [c for c in each.channels if (*each.key, c.name) in notified] for each in items
        }
        waits: set[Routed] = set()
        for channels, batch in _batches(items, took):
            on_time = [channel for channel in channels if channel.name not in had]
            if len(on_time) < len(channels):
                waits.update(batch)
            sent = self._deliver(kind, on_time, batch, builder, night)
            for channel, delivery in zip(on_time, sent, strict=True):
                if delivery.sent:
                    for each in batch:
                        took[each].append(channel)
        self.warehouse.messages.mark_notified(
            [
                each.document
                for each in items
                if each not in waits and (took[each] or not each.channels)
            ]
        )

    def _deliver(
        self,
        kind: str,
        channels: Sequence[Channel],
        batch: Sequence[Routed],
        builder: MessageBuilder,
        night: date,
    ) -> list[Delivery]:
        """Send one message to channels that lack it, and store which of them took it."""
        if not channels:
            return []
        composed = self._compose(kind, batch, builder)
        pictures = builder.pictures([each for each in batch if each.is_news])
        sent = send(channels, composed.title, composed.body, self.notifier.resolve, pictures)
        self.deliveries += sent
        run = self.plan.run
        row = {"suite": run.suite, "cluster": run.cluster, "night": night, "kind": kind}
        row |= {"run_id": run.run_id, "title": composed.title}
        for delivery in sent:
            if delivery.sent:
                items = [each.document for each in batch]
                self.warehouse.messages.store(row | {"channel": delivery.channel}, items)
        if not any(delivery.sent for delivery in sent):
            reasons = "; ".join(f"{d.channel}: {d.error}" for d in sent)
            self.refusals.append(f'the message "{composed.title}": {reasons}')
        return sent

    def _compose(self, kind: str, batch: Sequence[Routed], builder: MessageBuilder) -> Message:
        news: list[AlertItem] = [builder.news(each) for each in batch if each.is_news]
        again = {item.verdict.case_id for item in news}
        # An alert that was replaced by another one of its series is no recovery.
        over = [e for e in batch if not e.is_news and e.row["case_id"] not in again]
        ended = [builder.ended(each) for each in over]
        owner = ", ".join(sorted({each.owner for each in batch})) or self.plan.owner
        is_urgent = kind == URGENT
        notes = {
            AGAIN: confirmation_notes(self._confirmations) if news else [],
            GRADES: [row["below"] for row in self.fallen],
            NOISE: noise_notes(self.turned),
            DRIFTS: drift_notes(self.drifts),
        }
        return message(
            self.plan.run,
            owner,
            news,
            ended,
            self.notifier.links,
            is_urgent=is_urgent,
            notes=None if is_urgent else notes,
        )


def _batches(
    items: Sequence[Routed], took: dict[Routed, list[Channel]]
) -> list[tuple[list[Channel], list[Routed]]]:
    """Return the items that each channel lacks; channels that lack the same are one batch."""
    by_channel: dict[Channel, list[Routed]] = {}
    for each in items:
        for channel in each.channels:
            if channel not in took[each]:
                by_channel.setdefault(channel, []).append(each)
    batches: dict[tuple[Routed, ...], list[Channel]] = {}
    for channel, several in by_channel.items():
        batches.setdefault(tuple(several), []).append(channel)
    return [(channels, list(several)) for several, channels in batches.items()]
