"""Notification of a suite's news: urgent drops at once, the rest in one message of a night.

A message goes to each channel once (`nightbench.alerts.outbox`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self

from nightbench.alerts import Delivery, Links, Message, Picture, message, outbox
from nightbench.alerts.channels import ResolveConnection
from nightbench.alerts.message import AGAIN, DRIFTS, GRADES, NOISE
from nightbench.alerts.message_builder import MessageBuilder
from nightbench.alerts.notes import confirmation_notes, drift_notes, noise_notes
from nightbench.alerts.outbox import Item, Outbox, Router
from nightbench.alerts.ranking import store_ranks
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
"""Kinds of messages."""


@dataclass(frozen=True)
class Notifier:
    """How messages are sent."""

    resolve: ResolveConnection | None = None
    """For channels that an Airflow Connection names."""
    links: Links | None = None

    @classmethod
    def of(cls, resolve: ResolveConnection | None, base_url: str | None) -> Self:
        """Return a notifier whose messages link to Airflow's API server if its URL is known."""
        return cls(resolve, Links(base_url.rstrip("/")) if base_url else None)


def notify(
    warehouse: Warehouse, plan: RunPlan, notifier: Notifier, night: date | None = None
) -> tuple[Delivery, ...]:
    """Send the messages about a suite's unnotified alerts, unless they wait; return the deliveries.

    The night's message waits while a suspect of it is being measured again, and what comes after
    that message waits for the next night's.

    Args:
        warehouse: its connection locks the cluster's alerts.
        plan: of the run with the news.
        notifier: how messages are sent.
        night: whose message it is; that of the latest unnotified alert if None.

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


class _Notification:
    def __init__(self, warehouse: Warehouse, plan: RunPlan, notifier: Notifier) -> None:
        self.warehouse, self.plan, self.notifier = warehouse, plan, notifier
        self.outbox = Outbox(warehouse.messages, notifier.resolve)

    def send_all(self, night: date | None) -> tuple[Delivery, ...]:
        run, messages = self.plan.run, self.warehouse.messages
        ours = {"suite": run.suite, "cluster": run.cluster}
        store_ranks(self.warehouse, run.cluster)
        rows = messages.read("unnotified_alerts", **ours)
        router = Router(self.plan.owner, self.plan.channels, self.plan.routes)
        alerts = [router.of(row) for row in rows]
        for each in alerts:
            if each.is_news and each.row["owner"] is None:
                self.warehouse.alerts.change("route_alert", each.alert_id, each.owner, each.news)
        found = messages.read("unnotified_notes", **ours, until=run.started_at)
        notes = [router.note(row) for row in found]
        latest = max([run.started_at, *(row["of_run_at"] for row in rows)])
        self._send(alerts, notes, night or night_of(latest, self.plan.zone))
        if self.outbox.refusals:
            raise UserError(
                f"no channel of suite {run.suite} accepted {'. Nor '.join(self.outbox.refusals)}. "
                "The alerts are stored; the message is sent when the run gets verdicts again."
            )
        return tuple(self.outbox.deliveries)

    def _send(self, alerts: Sequence[Item], notes: Sequence[Item], night: date) -> None:
        run = self.plan.run
        builder = MessageBuilder(self.warehouse, self.plan, alerts)
        about = {"suite": run.suite, "cluster": run.cluster, "night": night, "run_id": run.run_id}
        urgent = [each for each in alerts if each.is_news and self._is_urgent(builder, each)]
        self.outbox.send(
            urgent,
            lambda batch: self._compose(batch, builder, is_urgent=True),
            about | {"kind": URGENT},
        )
        rest = [each for each in alerts if each not in urgent]
        if any(each.row["is_awaited"] for each in rest):
            return
        self.outbox.send(
            [*rest, *notes],
            lambda batch: self._compose(batch, builder, is_urgent=False),
            about | {"kind": NIGHT},
            late=self.warehouse.messages.night_channels(run.suite, run.cluster, night),
        )

    def _is_urgent(self, builder: MessageBuilder, each: Item) -> bool:
        verdict = builder.verdict(each.row)
        return (
            verdict.kind is VerdictKind.REGRESSED
            and verdict.gain is not None
            and verdict.gain <= -self.plan.policy.urgent
        )

    def _compose(
        self, batch: Sequence[Item], builder: MessageBuilder, *, is_urgent: bool
    ) -> tuple[Message, list[Picture]]:
        fresh = [each for each in batch if each.is_news]
        news = [builder.news(each) for each in fresh]
        again = {item.verdict.case_id for item in news}
        # If another alert of the series replaced this alert, it is no recovery.
        ended = [
            builder.ended(each)
            for each in batch
            if each.kind == outbox.ALERT_END and each.row["case_id"] not in again
        ]
        notes = {
            AGAIN: confirmation_notes(self._confirmations) if news else [],
            GRADES: [row["below"] for row in _rows(outbox.GRADE, batch)],
            NOISE: noise_notes(_rows(outbox.NOISE, batch)),
            DRIFTS: drift_notes(_rows(outbox.DRIFT, batch)),
        }
        composed = message(
            self.plan.run,
            ", ".join(sorted({each.owner for each in batch})),
            news,
            ended,
            self.notifier.links,
            is_urgent=is_urgent,
            notes=None if is_urgent else notes,
        )
        return composed, builder.pictures(fresh)

    @property
    def _confirmations(self) -> list[dict[str, Any]]:
        return self.warehouse.experiments.find(
            run_id=self.plan.run.run_id, kinds=[ExperimentKind.CONFIRM]
        )


def _rows(kind: str, batch: Sequence[Item]) -> list[Mapping[str, Any]]:
    return [each.row for each in batch if each.kind == kind]
