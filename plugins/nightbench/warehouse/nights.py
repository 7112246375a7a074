"""Nights that schedules promise, and what came of them."""

from collections.abc import Sequence
from datetime import datetime

from nightbench.core.expected_nights import ExpectedNight, NightRun, NightStatus
from nightbench.warehouse.repository import Repository, Row


class NightRepository(Repository):
    """Nights of suites, one for each time of their schedules."""

    def lock(self) -> bool:
        """Lock the check of deadlines until the connection is closed; False if it is locked."""
        return self._try_session_lock("deadlines")

    def watch(self, suite: str, cluster: str, timetable: str, now: datetime) -> datetime:
        """Store that a suite has a schedule; returns since when its nights are expected.

        Another cluster or timetable begins again, and so does a suite that the last check did not
        see: it was gone then.
        """
        known, last = self.first("watched_suite", suite=suite), self.first("deadline_check")
        since = now
        if (
            known
            and (known["cluster"], known["timetable"]) == (cluster, timetable)
            and (last is None or known["seen_at"] >= last["checked_at"])
        ):
            since = known["since"]
        row = {"suite": suite, "cluster": cluster, "timetable": timetable}
        with self._transaction(f"store the schedule of suite {suite}"):
            self._store("suite_watch", [{**row, "since": since, "seen_at": now}], "suite")
        return since

    def watched(self, suite: str) -> tuple[str, str] | None:
        """Cluster and timetable of a suite when its definition was last valid."""
        known = self.first("watched_suite", suite=suite)
        return (known["cluster"], known["timetable"]) if known else None

    def store(
        self,
        suite: str,
        cluster: str,
        night: ExpectedNight,
        found: NightStatus,
        now: datetime,
        *,
        was_paused: bool = False,
        is_silence: bool = False,
    ) -> None:
        """Store the state of a night."""
        row = {
            **vars(night),
            **vars(found),
            "suite": suite,
            "cluster": cluster,
            "was_paused": was_paused,
            "is_silence": is_silence,
            "now": now,
        }
        self._do(f"store a night of suite {suite}", "store_night", **row)

    def store_check(self, suites: int, missing: int, now: datetime) -> None:
        """Store that all deadlines were checked."""
        row = {"suites": suites, "missing": missing, "checked_at": now}
        with self._transaction("store the check of deadlines"):
            self._store("deadline_check", [row], "only_one")

    def runs(self, suite: str, cluster: str, since: datetime) -> list[NightRun]:
        """Scheduled runs of a suite that are planned in the warehouse, oldest first."""
        return [
            NightRun(**row | {"without": tuple(row["without"])})
            for row in self.read("night_runs", suite=suite, cluster=cluster, since=since)
        ]

    def nights(
        self,
        suite: str | None = None,
        cluster: str | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
        limit: int = 200,
    ) -> list[Row]:
        """Nights that were promised, newest first: rows of `marts.fct_night`."""
        return self.read(
            "nights", suite=suite, cluster=cluster, states=states, since=since, max_rows=limit
        )
