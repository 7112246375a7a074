"""What schedules promised and what came of it, in the warehouse."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg2.extras import RealDictCursor

from nightbench.core.timetable import Night, NightRun, Standing
from nightbench.warehouse.connection import Connection, reported
from nightbench.warehouse.statements import statement

Row = dict[str, Any]

_LOCK = 0x6E62_646C  # "nbdl"


class NightBook:
    """Keeps the nights of suites, one for each time of their schedules.

    Every method raises `WarehouseUnavailable` where PostgreSQL is away and `WarehouseRefused`
    where it refuses the data; in both cases nothing of the call was stored.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    # --- writing ----------------------------------------------------------------------------

    def lock(self) -> bool:
        """Be the only one who checks, until the connection is closed; False where another is."""
        with reported("lock the deadlines"), self._connection.cursor() as cursor:
            cursor.execute("select pg_try_advisory_lock(%s)", (_LOCK,))
            found = cursor.fetchone()
        return bool(found and found[0])

    def watch(self, suite: str, cluster: str, timetable: str, now: datetime) -> datetime:
        """Say that a suite has a schedule; since when its nights are expected.

        Another cluster or timetable begins anew, and so does a suite that the last check did not
        see: it was gone then.
        """
        rows, last = self._rows("watched_suite", suite=suite), self.last_check()
        since = now
        if (
            rows
            and (rows[0]["cluster"], rows[0]["timetable"]) == (cluster, timetable)
            and (last is None or rows[0]["seen_at"] >= last["checked_at"])
        ):
            since = rows[0]["since"]
        self._execute(
            "watch_suite",
            {
                "suite": suite,
                "cluster": cluster,
                "timetable": timetable,
                "since": since,
                "now": now,
            },
        )
        return since

    def watched(self, suite: str) -> tuple[str, str] | None:
        """Cluster and timetable of a suite when it was last seen whole."""
        rows = self._rows("watched_suite", suite=suite)
        return (rows[0]["cluster"], rows[0]["timetable"]) if rows else None

    def store(
        self,
        suite: str,
        cluster: str,
        night: Night,
        found: Standing,
        now: datetime,
        *,
        was_paused: bool = False,
        is_silence: bool = False,
    ) -> None:
        """Store how a night stands; what was told of it stays."""
        self._execute(
            "store_night",
            {
                "suite": suite,
                "cluster": cluster,
                "scheduled_at": night.scheduled_at,
                "until": night.until,
                "due_at": night.due_at,
                "why": night.why,
                "state": found.state.value,
                "sentence": found.sentence,
                "run_id": found.run_id,
                "without": list(found.without),
                "is_empty": found.is_empty,
                "was_paused": was_paused,
                "is_silence": is_silence,
                "now": now,
            },
        )

    def mark_told(
        self, suite: str, cluster: str, scheduled_at: datetime, now: datetime, *, end: bool
    ) -> None:
        """Say that a channel took the message: that a night is missing, or of its `end`."""
        self._execute(
            "mark_night_end_told" if end else "mark_night_told",
            {"suite": suite, "cluster": cluster, "scheduled_at": scheduled_at, "now": now},
        )

    def checked(self, suites: int, missing: int, now: datetime) -> None:
        """Say that all deadlines were checked."""
        self._execute("store_deadline_check", {"suites": suites, "missing": missing, "now": now})

    # --- reading ----------------------------------------------------------------------------

    def unfinished(self, suite: str, cluster: str, since: datetime) -> list[Row]:
        """Nights that something may still come of, or be told of, oldest first."""
        return self._rows("unfinished_nights", suite=suite, cluster=cluster, since=since)

    def runs(self, suite: str, cluster: str, since: datetime) -> list[NightRun]:
        """Scheduled runs of a suite that are planned in the warehouse, oldest first."""
        return [
            NightRun(**row | {"without": tuple(row["without"])})
            for row in self._rows("night_runs", suite=suite, cluster=cluster, since=since)
        ]

    def heard(self, cluster: str) -> datetime | None:
        """When a run began that brought a figure of a cluster, the newest one."""
        found: datetime | None = self._rows("cluster_heard", cluster=cluster)[0]["at"]
        return found

    def nights(
        self,
        suite: str | None = None,
        cluster: str | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
        limit: int = 200,
    ) -> list[Row]:
        """Nights that were promised, newest first: rows of `marts.fct_night`."""
        return self._rows(
            "nights",
            suite=suite,
            cluster=cluster,
            states=None if states is None else list(states),
            since=since,
            max_rows=limit,
        )

    def first_run(self) -> datetime | None:
        """When anything was measured first."""
        found: datetime | None = self._rows("first_run")[0]["at"]
        return found

    def last_check(self) -> Row | None:
        """When deadlines were last checked, of how many suites, how many nights were missing."""
        rows = self._rows("deadline_check")
        return rows[0] if rows else None

    def _execute(self, name: str, row: Row) -> None:
        with (
            reported(f"store the nights ({name})"),
            self._connection,
            self._connection.cursor() as cursor,
        ):
            cursor.execute(statement(name), row)

    def _rows(self, name: str, **parameters: Any) -> list[Row]:
        with (
            reported(f"read the nights ({name})"),
            self._connection.cursor(cursor_factory=RealDictCursor) as cursor,
        ):
            cursor.execute(statement(name), parameters)
            return [dict(row) for row in cursor.fetchall()]
