"""Alerts: their life, users' actions on them, and their messages."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import psycopg2.errors
from psycopg2.extras import Json

from nightbench.core.errors import UserError, WarehouseRefused, WarehouseUnavailable
from nightbench.core.model import Verdict
from nightbench.warehouse.connection import LOCK_TIMEOUT_S, Connection
from nightbench.warehouse.repository import Repository, Row

LIVE = ("open", "acknowledged")
"""States of an alert that still need a user."""

LARGEST = 2**63 - 1
"""Number of an alert: a bigint."""

ItemKey = tuple[str, str, str]
"""Key of a notification: kind, subject and news, as the columns of `raw.delivery`."""


class MoveRefused(WarehouseRefused):
    """There is no such alert, or a function of schema triage refuses the change."""


class AlertRepository(Repository):
    """Alerts as nights open, follow and end them."""

    def lock(self, cluster: str) -> None:
        """Be the only one who decides on a cluster's alerts, until the connection is closed.

        Raises:
            WarehouseUnavailable: another one has had it for longer than the lock's time limit.
        """
        name = f"alerts of {cluster}"
        give_up_at = time.monotonic() + LOCK_TIMEOUT_S
        while not self._try_session_lock(name):
            if time.monotonic() > give_up_at:
                raise WarehouseUnavailable(
                    f"Another process has locked the {name} for more than {LOCK_TIMEOUT_S:.0f} s "
                    "(table raw.lock has its pid). Try again when it has ended."
                )
            time.sleep(0.2)

    def open(self, verdict: Verdict) -> bool:
        """Open an alert for the verdict's series and return whether it is new.

        A series with an open or acknowledged alert gets no second one; the one that it has then
        follows the newest verdict. A run opens no second alert for a series after the first was
        closed.
        """
        series = (verdict.case_id, verdict.cluster)
        with self._transaction(f"open an alert for {verdict.case_id}"):
            return bool(
                self._function("triage.open_alert", *series, *_night_of(verdict), verdict.metric)
            )

    def end(self, alert_id: int, run_id: str, why: str) -> bool:
        """Resolve a live alert, or end the event of a dismissed one; return whether it did."""
        return self.change("resolve_by_run", alert_id, run_id, why)

    def reopen(self, alert_id: int, verdict: Verdict) -> bool:
        """Open a dismissed alert again with a night's values; return whether it was dismissed."""
        return self.change("reopen_by_run", alert_id, *_night_of(verdict))

    def change(self, name: str, alert_id: int, *given: Any) -> bool:
        """Change an alert by a function of schema triage; return whether it changed anything."""
        with self._transaction(f"change alert {alert_id} ({name})"):
            return bool(self._function(f"triage.{name}", alert_id, *given))

    def find(
        self,
        states: Sequence[str] | None = LIVE,
        case_id: str | None = None,
        cluster: str | None = None,
        limit: int = 200,
        alert_id: int | None = None,
        group: str | None = None,
    ) -> list[Row]:
        """Alerts, newest first: rows of `marts.fct_alert`; `states` None means all."""
        if alert_id is not None and abs(alert_id) > LARGEST:
            return []
        return self.read(
            "alerts",
            states=states,
            case_id=case_id,
            cluster=cluster,
            alert_id=alert_id,
            group_key=group,
            max_rows=limit,
        )

    def get(self, alert_id: int) -> Row:
        """An alert: a row of `marts.fct_alert`.

        Raises:
            UserError: there is none.
        """
        for row in self.find(states=None, alert_id=alert_id):
            return row
        raise UserError(f"There is no alert {alert_id}. To list all: `nightbench alert list --all`")

    def store_ranks(self, ranks: Sequence[Mapping[str, Any]]) -> int:
        """Store the ranks of alerts; return how many were new or different."""
        with self._transaction("store the ranks of alerts"):
            return self._store("alert_rank", ranks, "alert_id")

    def store_shared_changes(self, rows: Sequence[Row]) -> int:
        """Store the shared changes of a run; `members` is a JSON object."""
        stored = [row | {"members": Json(row["members"])} for row in rows]
        with self._transaction("store the shared changes"):
            return self._store("shared_change", stored, "run_id factor name since")

    def shared_changes(self, alert_ids: Sequence[int]) -> dict[int, Row]:
        """The newest shared change of each alert that has one: `sentence` and `members`."""
        rows = self.read("shared_changes_of_alerts", alert_ids=alert_ids)
        return {row["alert_id"]: row for row in rows}


class MessageRepository(Repository):
    """Messages, and which channel took which of their items."""

    def deliveries(self, items: Collection[ItemKey]) -> dict[ItemKey, set[str]]:
        """Channels that took each of some items; an empty name: no channel lacks it."""
        kinds, subjects, news = zip(*items, strict=True) if items else ((), (), ())
        found: dict[ItemKey, set[str]] = {}
        for row in self.read("deliveries", kinds=kinds, subjects=subjects, news=news):
            found.setdefault((row["kind"], row["subject"], row["news"]), set()).add(row["channel"])
        return found

    def night_channels(self, suite: str, cluster: str, night: date) -> set[str]:
        """Channels that had a suite's message of a night on a cluster."""
        rows = self.read("night_messages", suite=suite, cluster=cluster, night=night)
        return {row["channel"] for row in rows}

    def store(self, message: Mapping[str, Any], channels: Mapping[ItemKey, str]) -> None:
        """Store a message that a channel took, and what each of its items calls this channel.

        The message has suite, cluster, night (a date), kind (`night`, `urgent`, `deadline`),
        channel, run_id and title.
        """
        with self._transaction(f"store a message of {message['suite']}"):
            (stored,) = self._rows("store_message", **message)
            rows = [_delivery(item, channel) | stored for item, channel in channels.items()]
            self._store("delivery", rows)

    def settle(self, items: Collection[ItemKey]) -> int:
        """Store that nothing more is to be sent of some items; return of how many it was news."""
        with self._transaction("mark items as notified"):
            return self._store("delivery", [_delivery(item, "") for item in items])


def _delivery(item: ItemKey, channel: str) -> Row:
    kind, subject, news = item
    return {"kind": kind, "subject": subject, "news": news, "channel": channel}


class Triage(Repository):
    """Moves alerts in the name of a person; each call is one transaction.

    Every method returns the state before, and raises `MoveRefused` if there is no such alert or
    the change is not allowed, `WarehouseUnavailable` if the warehouse is away.
    """

    def __init__(self, connection: Connection, by: str) -> None:
        super().__init__(connection)
        self._by = by

    def move(self, alert_id: int, to: str, why: str = "", reason: str | None = None) -> str:
        """Make an alert acknowledged, resolved, open, or dismissed with a reason of ACTIONS."""
        return self._call("move_alert", alert_id, to, self._by, why, reason)

    def snooze(self, alert_id: int, until: datetime, why: str = "") -> str:
        """Send no message of a live alert before a time (with its zone)."""
        return self._call("snooze_alert", alert_id, until, self._by, why)

    def assign(self, alert_id: int, owner: str, why: str = "") -> str:
        """Set the owner of a live alert; an empty name removes the owner."""
        return self._call("assign_alert", alert_id, owner, self._by, why)

    def _call(self, name: str, alert_id: int, *given: Any) -> str:
        if not -LARGEST <= alert_id <= LARGEST:
            # Otherwise PostgreSQL reports an unknown function for such a number.
            raise MoveRefused(_refusal(alert_id, f"there is no alert {alert_id}"))
        try:
            with self._transaction(f"change alert {alert_id}"):
                return str(self._function(f"triage.{name}", alert_id, *given))
        except psycopg2.errors.RaiseException as error:
            raise MoveRefused(_refusal(alert_id, error.diag.message_primary)) from error


def worst_first(
    rows: Iterable[Row], key: Callable[[Row], Any] = lambda row: row["group_key"]
) -> list[list[Row]]:
    """Return rows of `marts.fct_alert` in groups with one key, the worst group and row first.

    An alert without a key is a group of its own.
    """
    groups: dict[Any, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["rank"], row["place"], -row["alert_id"])):
        groups.setdefault(key(row) or row["alert_id"], []).append(row)
    return list(groups.values())


def _night_of(verdict: Verdict) -> tuple[Any, ...]:
    """Return a night's arguments for the alert functions."""
    figures = (verdict.value, verdict.baseline, verdict.change)
    return (verdict.kind, verdict.sentence, *figures, verdict.run_id)


def _refusal(alert_id: int, said: str | None) -> str:
    return (
        f"Cannot change alert {alert_id}: {said}. "
        "`nightbench alert list --all` shows what there is."
    )
