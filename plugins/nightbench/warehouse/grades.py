"""The grades of the detector."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from nightbench.warehouse.repository import Repository, Row

if TYPE_CHECKING:
    from nightbench.detection.grading import Grade


class GradeRepository(Repository):
    """The detector's grades on copies of series with injected slowdowns and without a change."""

    def store_grades(self, run_id: str, grades: Iterable[tuple[Grade, bool]]) -> None:
        """Store the grades of a night, each with whether it is news that it is not good enough."""
        rows = [vars(grade) | {"run_id": run_id, "is_news": is_news} for grade, is_news in grades]
        with self._transaction(f"store the detector's grades of run {run_id}"):
            self._store("detector_grade", rows, "run_id measure", keep="is_news")
            # If the run is judged again, a finding that was new stays new.
            self._write("mark_grade_news", *(row for row in rows if row["is_news"]))

    def latest(
        self,
        suite: str | None = None,
        cluster: str | None = None,
        before: datetime | None = None,
    ) -> list[Row]:
        """The newest grade of each suite and cluster: rows of `marts.detector_grade`."""
        return self.read("detector_grades", suite=suite, cluster=cluster, before=before)
