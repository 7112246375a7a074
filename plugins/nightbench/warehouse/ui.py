"""What the pages inside Airflow's UI read, beside what the other pages do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from psycopg2.extras import Json

from nightbench.warehouse.pages import PageRepository
from nightbench.warehouse.repository import Row

NEWEST_RUNS = 200
"""Runs among which the newest of each suite are looked for."""
LEFT_OUT = 200
SPARKLINE = 40
"""Medians of a sparkline."""


class UiRepository(PageRepository):
    """What the pages inside Airflow's UI show; implements `nightbench.web.UiQueries`."""

    def newest_runs(self) -> Sequence[Row]:
        """The newest runs, imported ones left out, newest first."""
        return self._runs.find(limit=NEWEST_RUNS)

    def find_runs(
        self, suite: str | None, cluster: str | None, imported: bool, limit: int, offset: int
    ) -> Sequence[Row]:
        """Runs with the counts of their cases, newest first."""
        found = self._runs.find(suite, cluster, limit=offset + limit, imported=imported)
        return found[offset:]

    def repeats(self, run_id: str, case_id: str) -> Sequence[Row]:
        """Every launch of a case in a run."""
        return self._read("ui_repeats", run_id=run_id, case_id=case_id)

    def verdict_counts(self, run_ids: Sequence[str]) -> Sequence[Row]:
        """How many cases of some runs have which verdict."""
        return self._read("ui_verdict_counts", run_ids=list(run_ids))

    def left_out(self, run_ids: Sequence[str]) -> Sequence[Row]:
        """The cases that some runs had no room for."""
        return self._read("ui_left_out", run_ids=list(run_ids), max_rows=LEFT_OUT)

    def sparklines(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[float]]:
        """The newest medians of some series (case, cluster), oldest first."""
        wanted = sorted(set(keys))
        rows = self._read(
            "ui_sparklines",
            case_ids=[case_id for case_id, _ in wanted],
            clusters=[cluster for _, cluster in wanted],
            max_points=SPARKLINE,
        )
        return {(row["case_id"], row["cluster"]): row["medians"][::-1] for row in rows}

    def find_series(
        self,
        axes: Mapping[str, str],
        cluster: str | None,
        suite: str | None,
        state: str | None,
        search: str | None,
        sort: str,
        limit: int,
        offset: int,
    ) -> Sequence[Row]:
        """Series with their newest median and verdict; `total` says how many there are."""
        return self._read(
            "ui_series",
            axes=Json(dict(axes)),
            cluster=cluster,
            suite=suite,
            state=state,
            search=search,
            sort=sort,
            max_rows=limit,
            skipped=offset,
        )

    def axis_values(self) -> Sequence[Row]:
        """The axes that series have, each value with the number of its series."""
        return self._read("ui_choices")

    def series_points(
        self, case_id: str, cluster: str, since: datetime | None, until: datetime | None
    ) -> Sequence[Row]:
        """The results of one series, oldest first."""
        return self._read(
            "ui_series_points", case_id=case_id, cluster=cluster, since=since, until=until
        )

    def series_alerts(self, case_id: str, cluster: str) -> Sequence[Row]:
        """The alerts that a series ever had, oldest first."""
        return self._read("ui_series_alerts", case_id=case_id, cluster=cluster)

    def series_references(self, case_id: str, cluster: str) -> Sequence[Row]:
        """The published figures of a series' cell."""
        return self._read("ui_series_references", case_id=case_id, cluster=cluster)
