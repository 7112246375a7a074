"""What the web pages read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from nightbench.warehouse.alerts import LIVE, AlertRepository
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.repository import Repository, Row
from nightbench.warehouse.runs import RunRepository
from nightbench.warehouse.series import SeriesRepository

POINTS = 180
"""Results of a series that are drawn."""

RUNS = 25
BISECTS = 5
GROUP = 1000
NIGHTS = timedelta(days=14)
"""How long a night that brought nothing is shown."""


class PageRepository(Repository):
    """What the pages show; implements `nightbench.web.PageQueries`."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._runs = RunRepository(connection)
        self._alerts = AlertRepository(connection)
        self._series = SeriesRepository(connection)

    def series(
        self, workload: str | None, framework: str | None, cluster: str | None
    ) -> Sequence[Row]:
        """Results of all series, oldest first."""
        return self._read(
            "page_series",
            workload=workload,
            framework=framework,
            cluster=cluster,
            case_id=None,
            max_points=POINTS,
        )

    def series_of(self, case_id: str, cluster: str) -> Sequence[Row]:
        """The results of one series."""
        return self._read(
            "page_series",
            workload=None,
            framework=None,
            cluster=cluster,
            case_id=case_id,
            max_points=POINTS,
        )

    def choices(self) -> Sequence[Row]:
        """Combinations that have results."""
        return self._read("page_choices")

    def runs(self) -> Sequence[Row]:
        """The newest runs."""
        return self._runs.find(limit=RUNS)

    def run(self, run_id: str) -> Row | None:
        """One run with its counts."""
        return self._first(
            "runs", run_id=run_id, suite=None, cluster=None, imported=True, max_rows=1
        )

    def results(self, run_id: str) -> Sequence[Row]:
        """Every planned case of a run."""
        return self._runs.results(run_id)

    def alerts(self) -> Sequence[Row]:
        """Live alerts."""
        return self.find_alerts(LIVE, None, None, 50)

    def find_alerts(
        self,
        states: Sequence[str] | None,
        cluster: str | None,
        framework: str | None,
        limit: int,
    ) -> Sequence[Row]:
        """Alerts with what their case is."""
        return self._page_alerts(
            states=None if states is None else list(states),
            cluster=cluster,
            framework=framework,
            max_rows=limit,
        )

    def alert(self, alert_id: int) -> Row | None:
        """One alert."""
        found = self._page_alerts(alert_id=alert_id)
        return found[0] if found else None

    def group(self, group_key: str) -> Sequence[Row]:
        """The alerts of one cause."""
        return self._page_alerts(group_key=group_key, max_rows=GROUP)

    def alert_events(self, alert_id: int) -> Sequence[Row]:
        """The history of an alert."""
        return self._alerts.events(alert_id)

    def bisects(self, alert_id: int) -> Sequence[Row]:
        """Searches for the version behind an alert, with their tests."""
        found = self._read("bisects", alert_id=alert_id, bisect_id=None, max_rows=BISECTS)
        for row in found:
            row["tests"] = self._read("bisect_steps", bisect_id=row["bisect_id"])
        return found

    def noisy(self) -> Sequence[Row]:
        """Series that are noisy now."""
        return self._read("noisy_series", cluster=None)

    def drifts(self) -> Sequence[Row]:
        """Series that creep now."""
        return self._series.drifts()

    def grades(self) -> Sequence[Row]:
        """The newest grades of the detector."""
        return self._read("detector_grades", suite=None, cluster=None, before=None)

    def missing_nights(self) -> Sequence[Row]:
        """Nights of late that brought nothing."""
        since = datetime.now(UTC) - NIGHTS
        return self._read(
            "nights", suite=None, cluster=None, states=["missing"], since=since, max_rows=RUNS
        )

    def labels(self) -> Sequence[Row]:
        """What people made of the alerts of the last year."""
        return self._read("page_labels")

    def run_of(self, dag_id: str, dag_run_id: str) -> str | None:
        """The run that a DAG run made."""
        row = self._first("page_run_of_dag_run", dag_id=dag_id, dag_run_id=dag_run_id)
        return str(row["run_id"]) if row else None

    def _page_alerts(self, **given: Any) -> list[Row]:
        nothing = dict.fromkeys(("states", "cluster", "framework", "alert_id", "group_key"))
        return self._read("page_alerts", **{**nothing, "max_rows": 1, **given})
