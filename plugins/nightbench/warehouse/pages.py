"""What the pages inside Airflow's UI read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2.extras import Json

from nightbench.warehouse.alerts import AlertRepository
from nightbench.warehouse.compare_queue import CompareQueue
from nightbench.warehouse.connection import Connection
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
"""How long a night that brought nothing is shown."""


class PageRepository(Repository):
    """What the pages show; reads for one request. None as an argument does not constrain."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._runs = RunRepository(connection)
        self._alerts = AlertRepository(connection)
        self._series = SeriesRepository(connection)
        self.compares = CompareQueue(connection)

    def snapshot(self) -> str:
        """Identify what the warehouse shows now."""
        return str(self._read("ui_snapshot")[0]["snapshot"])

    def run(self, run_id: str) -> Row | None:
        """One run; None where the warehouse does not know it."""
        return next(iter(self._runs.find(run_ids=[run_id], imported=True)), None)

    def results(self, run_id: str, case_id: str | None = None) -> Sequence[Row]:
        """Every planned case of a run, or the one that is named, with figures and verdict."""
        return self._runs.results(run_id, case_id)

    def case_head(self, run_id: str, case_id: str) -> Row | None:
        """Generation, checks that were met and the last good run before; None where unplanned."""
        return self._first("case_head", run_id=run_id, case_id=case_id)

    def case_states(self, case_id: str, run_ids: Sequence[str]) -> Mapping[str, Row]:
        """By run: build, code and fingerprints that a case was measured with."""
        return self._runs.case_states(case_id, run_ids)

    def failed_checks(self, run_id: str, case_id: str) -> Sequence[Row]:
        """Checks that results of a case did not meet."""
        return self._read("case_failed_checks", run_id=run_id, case_id=case_id)

    def ranks(self, run_id: str, case_id: str, generation: int, repeat: int) -> Sequence[Row]:
        """The processes of a repeat with their steps, the longest window first."""
        return self._read(
            "case_ranks", run_id=run_id, case_id=case_id, generation=generation, repeat=repeat
        )

    def find_alerts(
        self,
        states: Sequence[str] | None,
        cluster: str | None,
        framework: str | None,
        limit: int,
        offset: int,
    ) -> Sequence[Row]:
        """Alerts with workload, framework and unit, newest first; None does not constrain."""
        return self._page_alerts(
            states=states,
            cluster=cluster,
            framework=framework,
            max_rows=limit,
            skipped=offset,
        )

    def alert_marks(
        self, states: Sequence[str] | None, cluster: str | None, framework: str | None
    ) -> Sequence[Row]:
        """What alerts are grouped and ranked by, newest first; None does not constrain."""
        return self._read("page_alert_marks", states=states, cluster=cluster, framework=framework)

    def alerts(self, alert_ids: Sequence[int]) -> Mapping[int, Row]:
        """Some alerts as `find_alerts` gives them, by their numbers."""
        found = self._page_alerts(alert_ids=alert_ids, max_rows=len(alert_ids))
        return {row["alert_id"]: row for row in found}

    def alert(self, alert_id: int) -> Row | None:
        """One alert as `find_alerts` gives it; None where there is none of that number."""
        return self.alerts([alert_id]).get(alert_id)

    def newest_bisects(self, alert_ids: Sequence[int]) -> Mapping[int, Row]:
        """The newest search for the version behind each of some alerts, by their numbers."""
        found = self._read("page_bisects", alert_ids=alert_ids)
        return {row["alert_id"]: row for row in found}

    def group(self, group_key: str) -> Sequence[Row]:
        """The alerts of one cause, newest first."""
        return self._page_alerts(group_key=group_key, max_rows=GROUP)

    def alert_events(self, alert_id: int) -> Sequence[Row]:
        """The history of an alert, oldest first."""
        return self._alerts.events(alert_id)

    def bisects(self, alert_id: int) -> Sequence[Row]:
        """Searches for the version behind an alert, newest first, each with its `tests`."""
        found = self._read("bisects", alert_id=alert_id, bisect_id=None, max_rows=BISECTS)
        for row in found:
            row["tests"] = self._read("bisect_steps", bisect_id=row["bisect_id"])
        return found

    def find_bisects(self, limit: int) -> Sequence[Row]:
        """Searches for first bad versions, newest first."""
        return self._read("bisects", alert_id=None, bisect_id=None, max_rows=limit)

    def bisect(self, bisect_id: str) -> Row | None:
        """One search with its `tests`; None where there is none of that name."""
        found = self._first("bisects", alert_id=None, bisect_id=bisect_id, max_rows=1)
        return found and {**found, "tests": self._read("bisect_steps", bisect_id=bisect_id)}

    def noisy(self) -> Sequence[Row]:
        """Series that are noisy now (`marts.noisy_series`)."""
        return self._read("noisy_series", cluster=None)

    def drifts(self) -> Sequence[Row]:
        """Series that drift now (`marts.drifting_series`), the largest fall first."""
        return self._series.drifts()

    def grades(self) -> Sequence[Row]:
        """The newest grades of the detector (`marts.detector_grade`)."""
        return self._read("detector_grades", suite=None, cluster=None, before=None)

    def missing_nights(self) -> Sequence[Row]:
        """Scheduled nights of the last days without a result, newest first."""
        since = datetime.now(UTC) - NIGHTS
        return self._read(
            "nights",
            suite=None,
            cluster=None,
            states=["missing"],
            since=since,
            max_rows=MISSING_NIGHTS,
        )

    def labels(self) -> Sequence[Row]:
        """By cluster: numbers of alerts of the last year by their end."""
        return self._read("page_labels")

    def run_of(self, dag_id: str, dag_run_id: str) -> str | None:
        """The run that a DAG run made."""
        row = self._first("page_run_of_dag_run", dag_id=dag_id, dag_run_id=dag_run_id)
        return str(row["run_id"]) if row else None

    def newest_runs(self) -> Sequence[Row]:
        """The newest run of each suite and cluster, a nightly one where it has any."""
        run_ids = [row["run_id"] for row in self._read("ui_newest_runs")]
        return self._runs.find(run_ids=run_ids, limit=len(run_ids))

    def find_runs(
        self, suite: str | None, cluster: str | None, imported: bool, limit: int, offset: int
    ) -> Sequence[Row]:
        """Runs with the counts of their cases, newest first."""
        return self._runs.find(suite, cluster, limit, imported, skipped=offset)

    def repeats(self, run_id: str, case_id: str) -> Sequence[Row]:
        """Every launch of a case in a run."""
        return self._read("ui_repeats", run_id=run_id, case_id=case_id)

    def verdict_counts(self, run_ids: Sequence[str]) -> Sequence[Row]:
        """How many cases of some runs have which verdict."""
        return self._read("ui_verdict_counts", run_ids=run_ids)

    def left_out(self, run_ids: Sequence[str]) -> Sequence[Row]:
        """The cases that some runs had no room for."""
        return self._read("ui_left_out", run_ids=run_ids, max_rows=LEFT_OUT)

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
        together: str | None,
        limit: int | None,
        offset: int,
    ) -> Sequence[Row]:
        """Series with their newest median and verdict, all where there is no limit.

        `total` says how many there are.
        """
        return self._read(
            "ui_series",
            axes=Json(dict(axes)),
            cluster=cluster,
            suite=suite,
            state=state,
            search=search,
            sort=sort,
            together=together,
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

    def roofline(self, case_id: str, cluster: str, run_id: str) -> Row | None:
        """What a step of a case in a run was bound by; None where it was not measured."""
        rows = self._read("ui_roofline", case_id=case_id, cluster=cluster, run_id=run_id)
        return rows[0] if rows else None

    def fingerprint_fields(self, fingerprint_ids: Sequence[str]) -> Sequence[Row]:
        """What some states of nodes were: `fingerprint_id`, `field`, `value`."""
        return self._read("ui_fingerprint_fields", fingerprint_ids=fingerprint_ids)

    def series_alerts(self, case_id: str, cluster: str) -> Sequence[Row]:
        """The alerts that a series ever had, oldest first."""
        return self._page_alerts(case_id=case_id, cluster=cluster, max_rows=GROUP)[::-1]

    def series_references(self, case_id: str, cluster: str) -> Sequence[Row]:
        """The published figures of a series' cell."""
        return self._read("ui_series_references", case_id=case_id, cluster=cluster)

    def clusters(self) -> Sequence[Row]:
        """The clusters that runs were planned on."""
        return self._read("ui_clusters")

    def nodes(self) -> Sequence[Row]:
        """All nodes that were ever looked at, and where they stand."""
        return self._read("ui_nodes")

    def controls(self) -> Sequence[Row]:
        """The newest control measurement of each node, metric, device and backend."""
        return self._read("ui_controls")

    def unloaded_runs(self, since: datetime) -> Sequence[Row]:
        """Runs that began since then and may be under way, newest first."""
        return self._read("ui_unloaded_runs", since=since)

    def node_use(self) -> Sequence[Row]:
        """Seconds that each node spent on each suite in the last night of its cluster."""
        return self._read("ui_node_use")

    def node_nights(self) -> Sequence[Row]:
        """Cases, faults and quarantine of each node in each of the last nights, oldest first."""
        return self._read("ui_node_nights", nights=NIGHTS_OF_NODES)

    def night_windows(self) -> Sequence[Row]:
        """From when to when each cluster was to measure in its last night."""
        return self._read("ui_night_windows")

    def compare(
        self,
        by: str,
        one: str,
        other: str,
        search: str | None,
        standing: str | None,
        limit: int | None,
        offset: int,
    ) -> Sequence[Row]:
        """Pairs of medians that differ by one property; each row has the counts of all."""
        return self._read(
            "ui_compare",
            by=by,
            one=one,
            other=other,
            search=search,
            shown=standing,
            max_rows=limit,
            skipped=offset,
        )

    def compare_sides(self, by: str) -> Sequence[Row]:
        """What can be compared by some property, the newest first."""
        return self._read("ui_compare_sides", by=by, max_rows=SIDES)

    def compare_proposal(self) -> Row | None:
        """The two newest versions of the framework that moved most between them."""
        return self._first("ui_compare_proposal")

    def overview(self) -> Sequence[Row]:
        """Workloads by framework lines: newest medians against the best, and what is published."""
        return self._read("ui_overview")

    def curves(self, workload: str) -> Sequence[Row]:
        """Newest medians of a workload over devices and over batch sizes, all else equal."""
        return self._read("ui_curves", workload=workload)

    def metrics(self, suite: str | None, cluster: str | None) -> Sequence[Row]:
        """Each series with its newest median and verdict, and the state of its live alert."""
        return self._read("export_metrics", suite=suite, cluster=cluster, case_id=None)

    def published_figures(self) -> Sequence[Row]:
        """The figures of the public benchmarks' documents."""
        return self._read("ui_published_figures")

    def published(self, source_document: str, figure: str | None) -> Sequence[Row]:
        """The cells of a published figure with the medians that match them."""
        return self._read("ui_published", source_document=source_document, figure=figure)

    def _page_alerts(self, **given: Any) -> list[Row]:
        names = ("states", "cluster", "framework", "case_id", "alert_ids", "group_key")
        nothing = dict.fromkeys(names)
        return self._read("page_alerts", **{**nothing, "max_rows": 1, "skipped": 0, **given})


OpenPages = Callable[[], AbstractContextManager[PageRepository]]
"""Opens what a request reads from."""
