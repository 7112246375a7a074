"""What alerts are put down to: the facts around a change, and what was found out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from psycopg2.extras import Json, RealDictCursor

from nightbench.causes import Member
from nightbench.core.model.alerts import CauseKind
from nightbench.warehouse import to_row
from nightbench.warehouse.connection import Connection, reported
from nightbench.warehouse.statements import statement

Row = dict[str, Any]


class CauseBook:
    """Facts for `nightbench.causes`, as rows; and its answers. Storing again changes nothing.

    Every method raises `WarehouseUnavailable` where PostgreSQL is away.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def unexplained(self, run_id: str) -> list[Row]:
        """Alerts that a run has to explain, with the level and the first night of their change."""
        return self._rows("unexplained_alerts", run_id=run_id)

    def known_groups(self, cluster: str, since: date) -> list[Member]:
        """Alerts of a cluster that have a group."""
        return [
            Member(
                alert_id=row["alert_id"],
                cluster=row["cluster"],
                kind=CauseKind(row["kind"]),
                suspect=row["suspect"],
                night=row["night"],
                group=row["group_key"],
            )
            for row in self._rows("known_groups", cluster=cluster, since=since)
        ]

    def nights(self, case_ids: Sequence[str], cluster: str, until: datetime) -> list[Row]:
        """Good nights of series, oldest first, of the last 90 days."""
        return self._rows("cause_nights", case_ids=list(case_ids), cluster=cluster, until=until)

    def launches(self, case_ids: Sequence[str], run_ids: Sequence[str]) -> dict[str, list[Row]]:
        """What is known of the launches of series in runs.

        Returns:
            `repeats`, `nodes` and `versions`: rows, each with case_id and run_id.
        """
        given = {"case_ids": list(case_ids), "run_ids": list(run_ids)}
        return {
            "repeats": self._rows("cause_repeats", **given),
            "nodes": self.nodes(case_ids, run_ids),
            "versions": self._rows("cause_versions", **given),
        }

    def fingerprints(self, ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """fingerprint/1 documents by id."""
        rows = self._rows("fingerprints", fingerprint_ids=sorted(ids))
        return {row["fingerprint_id"]: row["document"] for row in rows}

    def faults(self, cluster: str, run_ids: Sequence[str]) -> list[Row]:
        """Nodes that made cases of runs fail."""
        return self._rows("cause_faults", cluster=cluster, run_ids=list(run_ids))

    def peers(self, cluster: str, until: datetime) -> list[Row]:
        """What the night that began at `until` said of every series of a cluster."""
        return self._rows("cause_peers", cluster=cluster, until=until)

    def controls(self, cluster: str, since: datetime, until: datetime) -> list[Row]:
        """Control measurements, oldest first."""
        return self._rows("cause_controls", cluster=cluster, since=since, until=until)

    def night_controls(self, cluster: str, until: datetime) -> list[Row]:
        """Control measurements of the nights of the last 180 days, by run."""
        return self._rows("night_controls", cluster=cluster, until=until)

    def nodes(self, case_ids: Sequence[str], run_ids: Sequence[str]) -> list[Row]:
        """Where series ran in runs: case_id, run_id, node, fingerprint_id."""
        return self._rows("cause_nodes", case_ids=list(case_ids), run_ids=list(run_ids))

    def looks(self, cluster: str, since: datetime, until: datetime) -> list[Row]:
        """Preflights, oldest first."""
        return self._rows("cause_looks", cluster=cluster, since=since, until=until)

    def store(self, rows: Sequence[Row]) -> None:
        """Store what a run put alerts down to; `evidence` is a list of sentences."""
        with (
            reported("store the causes of alerts"),
            self._connection,
            self._connection.cursor() as cursor,
        ):
            for row in rows:
                told = {
                    "sentence": to_row.text(row["sentence"]),
                    "suspect": to_row.text(row["suspect"]),
                    "group_key": to_row.text(row["group_key"]),
                    "evidence": Json([to_row.text(each) for each in row["evidence"]]),
                }
                cursor.execute(statement("store_cause"), {**row, **told})

    def _rows(self, name: str, **parameters: Any) -> list[Row]:
        with (
            reported(f"read from the warehouse ({name})"),
            self._connection.cursor(cursor_factory=RealDictCursor) as cursor,
        ):
            cursor.execute(statement(name), parameters)
            return [dict(row) for row in cursor.fetchall()]
