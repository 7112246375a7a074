"""Messages: what is unnotified of alerts, and what channels took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from nightbench.warehouse.repository import Repository, Row


class MessageRepository(Repository):
    """Messages about a suite's alerts on a cluster."""

    def unnotified(self, suite: str, cluster: str) -> list[Row]:
        """What is unnotified of a suite's alerts: `what` is `news` or `ended`."""
        return self._read("unnotified_alerts", suite=suite, cluster=cluster)

    def unnotified_suites(self) -> list[Row]:
        """Suites of which something is unnotified: suite, cluster, last run with news of it."""
        return self._read("unnotified_suites")

    def notified_items(self, alert_ids: Sequence[int]) -> set[tuple[int, str, str, str]]:
        """What channels took of some alerts: alert_id, what, run whose news it was, channel."""
        return {
            (row["alert_id"], row["what"], row["of_run_id"], row["channel"])
            for row in self._read("notified_items", alert_ids=alert_ids)
        }

    def night_channels(self, suite: str, cluster: str, night: date) -> set[str]:
        """Channels that had a suite's message of a night on a cluster."""
        rows = self._read("night_messages", suite=suite, cluster=cluster, night=night)
        return {row["channel"] for row in rows}

    def store(self, message: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> None:
        """Store a message that a channel took, and the alerts that it was about.

        The message has suite, cluster, night (a date), kind (`night`, `urgent`), channel, run_id
        and title; an item alert_id, what (`news`, `ended`) and of_run_id.
        """
        with self._transaction(f"store a message of {message['suite']}"):
            (stored,) = self._rows("store_message", **message)
            self._write("store_message_item", *({**item, **stored} for item in items))

    def mark_notified(self, items: Sequence[Mapping[str, Any]]) -> int:
        """Mark items (as of `store_message`) as notified; return how many."""
        names = {"news": "mark_notified", "ended": "mark_end_notified"}
        with self._transaction("mark alerts as notified"):
            return sum(self._write(names[item["what"]], item) for item in items)
