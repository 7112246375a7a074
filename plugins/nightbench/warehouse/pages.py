"""Reads of the pages inside Airflow's UI."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2.extras import Json

from nightbench.core.model.experiments import ExperimentKind
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.experiments import ExperimentRepository
from nightbench.warehouse.grades import GradeRepository
from nightbench.warehouse.nights import NightRepository
from nightbench.warehouse.repository import Repository, Row
from nightbench.warehouse.runs import RunRepository
from nightbench.warehouse.series import SeriesRepository

LEFT_OUT = 200
SPARKLINE = 40
"""Medians of a sparkline."""
MISSING_NIGHTS = 25
SIDES = 300
"""Runs, builds, versions that are offered for a comparison."""
BISECTS = 5
GROUP = 1000
NIGHTS_OF_NODES = 28
NIGHTS = timedelta(days=14)
"""How long a night without results is shown."""


class PageRepository(Repository):
    """The content of the pages; reads for one request. None as an argument does not filter."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.runs = RunRepository(connection)
        self.series = SeriesRepository(connection)
        self.experiments = ExperimentRepository(connection)
        self.grades = GradeRepository(connection)
        self.nights = NightRepository(connection)

    def snapshot(self) -> str:
        """Identify what the warehouse shows now."""
        return str(self.read("ui_snapshot")[0]["snapshot"])

    def run(self, run_id: str) -> Row | None:
        """One run; None if the warehouse does not know it."""
        return next(iter(self.runs.find(run_ids=[run_id], imported=True)), None)

    def find_alerts(self, **chosen: Any) -> list[Row]:
        """Alerts with workload, framework and unit, newest first, chosen as `page_alerts` says."""
        names = ("states", "cluster", "framework", "case_id", "alert_ids", "group_key")
        return self.read("page_alerts", **{**dict.fromkeys(names), "skipped": 0, **chosen})

    def alerts(self, alert_ids: Sequence[int]) -> Mapping[int, Row]:
        """Some alerts as `find_alerts` gives them, by their numbers."""
        found = self.find_alerts(alert_ids=alert_ids, max_rows=len(alert_ids))
        return {row["alert_id"]: row for row in found}

    def alert(self, alert_id: int) -> Row | None:
        """One alert as `find_alerts` gives it; None if there is none of that number."""
        return self.alerts([alert_id]).get(alert_id)

    def newest_bisects(self, alert_ids: Sequence[int]) -> Mapping[int, Row]:
        """The newest search for the version behind each of some alerts, by their numbers."""
        found = self.experiments.find(kinds=[ExperimentKind.BISECT], alert_ids=list(alert_ids))
        return {row["alert_id"]: row for row in reversed(found)}

    def group(self, group_key: str) -> Sequence[Row]:
        """The alerts of one cause, newest first."""
        return self.find_alerts(group_key=group_key, max_rows=GROUP)

    def bisects(self, alert_id: int) -> Sequence[Row]:
        """Searches for the version behind an alert, newest first."""
        kinds = [ExperimentKind.BISECT]
        return self.experiments.find(kinds=kinds, alert_ids=[alert_id], limit=BISECTS)

    def missing_nights(self) -> Sequence[Row]:
        """Scheduled nights of the last days without a result, newest first."""
        since = datetime.now(UTC) - NIGHTS
        return self.nights.nights(states=["missing"], since=since, limit=MISSING_NIGHTS)

    def run_of(self, dag_id: str, dag_run_id: str) -> str | None:
        """The run that a DAG run made."""
        row = self.first("page_run_of_dag_run", dag_id=dag_id, dag_run_id=dag_run_id)
        return str(row["run_id"]) if row else None

    def newest_runs(self) -> Sequence[Row]:
        """The newest run of each suite and cluster, a nightly one if it has any."""
        run_ids = [row["run_id"] for row in self.read("ui_newest_runs")]
        return self.runs.find(run_ids=run_ids, limit=len(run_ids))

    def left_out(self, run_ids: Sequence[str]) -> Sequence[Row]:
        """The cases that some runs had no room for."""
        return self.read("ui_left_out", run_ids=run_ids, max_rows=LEFT_OUT)

    def sparklines(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[float]]:
        """The newest medians of some series (case, cluster), oldest first."""
        wanted = sorted(set(keys))
        rows = self.read(
            "ui_sparklines",
            case_ids=[case_id for case_id, _ in wanted],
            clusters=[cluster for _, cluster in wanted],
            max_points=SPARKLINE,
        )
        return {(row["case_id"], row["cluster"]): row["medians"][::-1] for row in rows}

    def find_series(self, axes: Mapping[str, str], **chosen: Any) -> Sequence[Row]:
        """Series with their newest median and verdict, chosen as `ui_series` says."""
        return self.read("ui_series", axes=Json(dict(axes)), **chosen)

    def series_alerts(self, case_id: str, cluster: str) -> Sequence[Row]:
        """The alerts that a series ever had, oldest first."""
        return self.find_alerts(case_id=case_id, cluster=cluster, max_rows=GROUP)[::-1]

    def node_nights(self) -> Sequence[Row]:
        """Cases, faults and quarantine of each node in each of the last nights, oldest first."""
        return self.read("ui_node_nights", nights=NIGHTS_OF_NODES)

    def compare_sides(self, by: str) -> Sequence[Row]:
        """The values of a property that can be compared, newest first."""
        return self.read("ui_compare_sides", by=by, max_rows=SIDES)


OpenPages = Callable[[], AbstractContextManager[PageRepository]]
"""Opens what a request reads from."""
