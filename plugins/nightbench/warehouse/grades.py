"""Verdicts on synthetic series, and the grades of the detector that are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from nightbench.warehouse.repository import Repository, Row

if TYPE_CHECKING:
    from nightbench.detection.grading import Grade, ShadowVerdict
    from nightbench.detection.shadows import Shadow

PLANTED_BY = timedelta(days=31)
"""So long after its month a slowdown is planted at the latest, or never."""


@dataclass(frozen=True)
class Progress:
    """How far a synthetic series has been judged."""

    night: int
    judged_at: datetime
    """When the last real night began that it was judged for."""
    regressed_at: datetime | None
    is_decided: bool


@dataclass(frozen=True)
class Counts:
    """The outcome of some synthetic series."""

    nights: int = 0
    caught: int = 0
    missed: int = 0
    spoiled: int = 0
    alarms: int = 0
    median_delay: float | None = None


class GradeRepository(Repository):
    """Verdicts on synthetic series, and the detector's grades."""

    def progress(
        self, suite: str, cluster: str, since: date
    ) -> dict[tuple[str, date, str], Progress]:
        """Progress of judging synthetic series since a month, by case, month and name."""
        return {
            (row["case_id"], row["month"], row["shadow"]): Progress(
                row["night"], row["judged_at"], row["regressed_at"], row["is_decided"]
            )
            for row in self.read("shadow_progress", suite=suite, cluster=cluster, since=since)
        }

    def store_verdicts(
        self, judged: Iterable[tuple[Shadow, float | None, Sequence[ShadowVerdict]]]
    ) -> None:
        """Store nights of synthetic series with their sizes (None: a null copy) at once."""
        chosen = list(judged)
        if not chosen:
            return
        by_cluster: dict[str, set[str]] = {}
        for shadow, _, _ in chosen:
            by_cluster.setdefault(shadow.cluster, set()).add(shadow.case_id)
        run_ids = {verdict.run_id for _, _, verdicts in chosen for verdict in verdicts}
        with self._transaction("store shadow verdicts"):
            series = {
                (cluster, row["case_id"]): row["series_key"]
                for cluster, case_ids in by_cluster.items()
                for row in self._rows("series_keys", cluster=cluster, case_ids=list(case_ids))
            }
            runs = {
                row["run_id"]: row["run_key"]
                for row in self._rows("run_keys", run_ids=list(run_ids))
            }
            rows = [
                {
                    "series_key": series[shadow.cluster, shadow.case_id],
                    "suite": shadow.suite,
                    "month": shadow.month,
                    "shadow": shadow.name,
                    "night": verdict.night,
                    "run_key": runs[verdict.run_id],
                    "at": verdict.at,
                    "size": size,
                    "kind": verdict.kind,
                    "change": verdict.change,
                    "since": verdict.since,
                    "outcome": verdict.outcome,
                }
                for shadow, size, verdicts in chosen
                for verdict in verdicts
            ]
            # What was stored of a night stays.
            key = "series_key suite month shadow night"
            self._store(
                "shadow_verdict", rows, key, keep="run_key at size kind change since outcome"
            )

    def counts(
        self, suite: str, cluster: str, since: datetime, until: datetime
    ) -> dict[str, Counts]:
        """Outcomes of synthetic series after `since` up to `until`: by size class, and `quiet`.

        Slowdowns that were planted too late to have had all their nights are left out. Months
        of which nothing can count any more are not read.
        """
        # It loads numpy, which most commands that read the warehouse can do without.
        from nightbench.detection.grading import WATCHED

        month = (since.astimezone(UTC) - PLANTED_BY).date().replace(day=1)
        return {
            row.pop("shadow"): Counts(**row)
            for row in self.read(
                "shadow_counts",
                suite=suite,
                cluster=cluster,
                since=since,
                until=until,
                month=month,
                month_begins=datetime(month.year, month.month, 1, tzinfo=UTC),
                watched=WATCHED,
            )
        }

    def store_grades(self, run_id: str, grades: Iterable[tuple[Grade, bool]]) -> None:
        """Store the grades of a night, each with whether it is news that it is not good enough."""
        rows = [vars(grade) | {"run_id": run_id, "is_news": is_news} for grade, is_news in grades]
        with self._transaction(f"store the detector's grades of run {run_id}"):
            self._store("detector_grade", rows, "run_id measure", keep="is_news")
            # What was news once stays so when the run is judged again.
            self._write("mark_grade_news", *(row for row in rows if row["is_news"]))

    def latest(
        self,
        suite: str | None = None,
        cluster: str | None = None,
        before: datetime | None = None,
    ) -> list[Row]:
        """The newest grade of each suite and cluster: rows of `marts.detector_grade`."""
        return self.read("detector_grades", suite=suite, cluster=cluster, before=before)
