"""The read-only JSON API of the pages: two builds beside each other, and bisects."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from nightbench.core.sentences import kept_unless
from nightbench.warehouse.pages import OpenPages
from nightbench.warehouse.repository import Row
from nightbench.web.answer_cache import AnswerCache
from nightbench.web.errors import NotFound
from nightbench.web.experiment_models import (
    BisectDetail,
    BisectStep,
    ComparisonDetail,
    Experiments,
    SearchedVersion,
)

LISTED = 100
"""Experiments of each kind in the list."""


class ComparisonFiles(Protocol):
    """Comparisons as the spool has them; rows have the fields of the models."""

    def newest(self, limit: int) -> Sequence[Row]:
        """What was compared, newest first."""

    def get(self, comparison_id: str) -> Row | None:
        """One comparison with its rounds; None where the spool does not have it."""


OpenComparisons = Callable[[], ComparisonFiles]


class ExperimentApi:
    """Handlers of the API that the page Experiments reads."""

    def __init__(
        self, repository: OpenPages, comparisons: OpenComparisons, cache: AnswerCache[Experiments]
    ) -> None:
        self._repository = repository
        self._comparisons = comparisons
        self._cache = cache

    def index(self) -> Experiments:
        """The newest bisects and comparisons."""
        return self._cache.get("experiments", "", self._index)

    def _index(self) -> Experiments:
        with self._repository() as repository:
            bisects = repository.find_bisects(LISTED)
        known = {row["bisect_id"] for row in bisects}
        compared = self._comparisons().newest(LISTED)
        return Experiments.of(
            bisects=bisects,
            comparisons=[row for row in compared if row["requested_by"] not in known],
        )

    def comparison(self, comparison_id: str) -> ComparisonDetail:
        """Two builds beside each other, round by round."""
        row = self._comparisons().get(comparison_id)
        if row is None:
            raise NotFound(
                f"The spool has no comparison {comparison_id[:200]}: its files are "
                f"{kept_unless('spool_days')}."
            )
        return ComparisonDetail.of(row)

    def bisect(self, bisect_id: str) -> BisectDetail:
        """A search for the first bad version, with its tests."""
        with self._repository() as repository:
            row = repository.bisect(bisect_id)
        if row is None:
            raise NotFound(f"The warehouse has no bisect {bisect_id[:200]}.")
        tests = [BisectStep.of(each) for each in row["tests"]]
        return BisectDetail.of(row, tests=tests, searched=searched(row, tests))


def searched(row: Row, tests: Sequence[BisectStep]) -> list[SearchedVersion]:
    """Return where each version stands: by its own last test, else by those around it."""
    said: dict[str, Any] = {row["good"]: "good"}
    for test in tests:
        if test.result is not None:
            said[test.version] = test.result
    versions = list(row["versions"])
    good = max((at for at, v in enumerate(versions) if said.get(v) == "good"), default=-1)
    bad = min((at for at, v in enumerate(versions) if said.get(v) == "bad"), default=len(versions))
    found = []
    for at, version in enumerate(versions):
        standing = said.get(version)
        is_inferred = standing is None
        if row["outcome"] == "found" and version == row["first_bad"]:
            standing = "first_bad"
        elif is_inferred and at < good:
            standing = "good"
        elif is_inferred and at > bad:
            standing = "bad"
        elif is_inferred:
            standing = "suspect" if version in row["suspects"] else "untested"
        found.append(SearchedVersion(version=version, standing=standing, is_inferred=is_inferred))
    return found
