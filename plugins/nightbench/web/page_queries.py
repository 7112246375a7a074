"""Interface of the queries behind the API; the app gets an implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

Row = Mapping[str, Any]


class PageQueries(Protocol):
    """Reads for one request; a method raises `UserError` where the warehouse is away."""

    def snapshot(self) -> str:
        """Identify what the warehouse shows now: the same text, the same rows."""

    def run(self, run_id: str) -> Row | None:
        """One run; None where the warehouse does not know it."""

    def results(self, run_id: str, case_id: str | None = None) -> Sequence[Row]:
        """Every planned case of a run, or the one that is named, with figures and verdict."""

    def case_head(self, run_id: str, case_id: str) -> Row | None:
        """Generation, checks that were met and the last good run before; None where unplanned."""

    def case_states(self, case_id: str, run_ids: Sequence[str]) -> Mapping[str, Row]:
        """By run: build, code and fingerprints that a case was measured with."""

    def failed_checks(self, run_id: str, case_id: str) -> Sequence[Row]:
        """Checks that results of a case did not meet."""

    def ranks(self, run_id: str, case_id: str, generation: int, repeat: int) -> Sequence[Row]:
        """The processes of a repeat with their steps, the longest window first."""

    def find_alerts(
        self,
        states: Sequence[str] | None,
        cluster: str | None,
        framework: str | None,
        limit: int,
        offset: int,
    ) -> Sequence[Row]:
        """Alerts with workload, framework and unit, newest first; None does not constrain."""

    def alert_marks(
        self, states: Sequence[str] | None, cluster: str | None, framework: str | None
    ) -> Sequence[Row]:
        """What alerts are grouped and ranked by, newest first; None does not constrain."""

    def alerts(self, alert_ids: Sequence[int]) -> Mapping[int, Row]:
        """Some alerts as `find_alerts` gives them, by their numbers."""

    def newest_bisects(self, alert_ids: Sequence[int]) -> Mapping[int, Row]:
        """The newest search for the version behind each of some alerts, by their numbers."""

    def alert(self, alert_id: int) -> Row | None:
        """One alert as `find_alerts` gives it; None where there is none of that number."""

    def group(self, group_key: str) -> Sequence[Row]:
        """The alerts of one cause, newest first."""

    def alert_events(self, alert_id: int) -> Sequence[Row]:
        """The history of an alert, oldest first."""

    def bisects(self, alert_id: int) -> Sequence[Row]:
        """Searches for the version behind an alert, newest first, each with its `tests`."""

    def find_bisects(self, limit: int) -> Sequence[Row]:
        """Searches for first bad versions, newest first."""

    def bisect(self, bisect_id: str) -> Row | None:
        """One search with its `tests`; None where there is none of that name."""

    def noisy(self) -> Sequence[Row]:
        """Series that are noisy now (`marts.noisy_series`)."""

    def drifts(self) -> Sequence[Row]:
        """Series that drift now (`marts.drifting_series`), the largest fall first."""

    def grades(self) -> Sequence[Row]:
        """The newest grades of the detector (`marts.detector_grade`)."""

    def missing_nights(self) -> Sequence[Row]:
        """Scheduled nights of the last days without a result, newest first."""

    def labels(self) -> Sequence[Row]:
        """By cluster: numbers of alerts of the last year by their end."""

    def run_of(self, dag_id: str, dag_run_id: str) -> str | None:
        """The run that a DAG run made."""

    def newest_runs(self) -> Sequence[Row]:
        """The newest run of each suite and cluster, a nightly one where it has any."""

    def find_runs(
        self, suite: str | None, cluster: str | None, imported: bool, limit: int, offset: int
    ) -> Sequence[Row]:
        """Runs with the counts of their cases, newest first."""

    def repeats(self, run_id: str, case_id: str) -> Sequence[Row]:
        """Every launch of a case in a run."""

    def verdict_counts(self, run_ids: Sequence[str]) -> Sequence[Row]:
        """How many cases of some runs have which verdict."""

    def left_out(self, run_ids: Sequence[str]) -> Sequence[Row]:
        """The cases that some runs had no room for."""

    def sparklines(self, keys: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], list[float]]:
        """The newest medians of some series (case, cluster), oldest first."""

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

    def axis_values(self) -> Sequence[Row]:
        """The axes that series have, each value with the number of its series."""

    def series_points(
        self, case_id: str, cluster: str, since: datetime | None, until: datetime | None
    ) -> Sequence[Row]:
        """The results of one series, oldest first."""

    def fingerprint_fields(self, fingerprint_ids: Sequence[str]) -> Sequence[Row]:
        """What some states of nodes were: `fingerprint_id`, `field`, `value`."""

    def series_alerts(self, case_id: str, cluster: str) -> Sequence[Row]:
        """The alerts that a series ever had, oldest first."""

    def series_references(self, case_id: str, cluster: str) -> Sequence[Row]:
        """The published figures of a series' cell."""

    def clusters(self) -> Sequence[Row]:
        """The clusters that runs were planned on."""

    def nodes(self) -> Sequence[Row]:
        """All nodes that were ever looked at, and where they stand."""

    def controls(self) -> Sequence[Row]:
        """The newest control measurement of each node, metric, device and backend."""

    def unloaded_runs(self, since: datetime) -> Sequence[Row]:
        """Runs that began since then and may be under way, newest first."""

    def node_use(self) -> Sequence[Row]:
        """Seconds that each node spent on each suite in the last night of its cluster."""

    def night_windows(self) -> Sequence[Row]:
        """From when to when each cluster was to measure in its last night."""

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

    def compare_sides(self, by: str) -> Sequence[Row]:
        """What can be compared by some property, the newest first."""

    def published_figures(self) -> Sequence[Row]:
        """The figures of the public benchmarks' documents."""

    def published(self, source_document: str, figure: str | None) -> Sequence[Row]:
        """The cells of a published figure with the medians that match them."""


OpenQueries = Callable[[], AbstractContextManager[PageQueries]]
"""Opens what a request reads from."""
