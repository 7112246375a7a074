"""The JSON API of the pages, and its answers: two builds beside each other, and bisects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from nightbench.core.sentences import kept_unless
from nightbench.warehouse.pages import OpenPages
from nightbench.warehouse.repository import Row
from nightbench.web.alert_models import BisectSearch, BisectTest
from nightbench.web.answer_cache import AnswerCache
from nightbench.web.errors import NotFound
from nightbench.web.ui_models import ApiModel


class ComparisonHead(ApiModel):
    """Two builds that were, or are being, measured in turn."""

    comparison_id: str
    suite: str
    cluster: str
    requested_by: str
    started_at: datetime
    ended_at: datetime | None
    a: str
    """A build; its throughput is the denominator of ratios."""
    b: str
    state: str
    """running, ended, stopped, or interrupted: nobody measures it, and it has no result."""
    verdict: str | None
    """What B is: slower, faster, same, inconclusive; null until it has a result."""
    case_ids: list[str]


class ComparisonRound(ApiModel):
    """A launch of each build on the same nodes, one after the other."""

    round: int
    order: str
    """AB or BA."""
    a: float
    """Units of work per second; b too."""
    b: float
    ratio: float
    """b / a."""
    running_ratio: float | None
    """Mean ratio after this round, with its interval: low and high are null before the third."""
    running_low: float | None
    running_high: float | None


class DroppedLaunch(ApiModel):
    """A launch because of which a round was measured again."""

    round: int
    arm: str
    status: str
    why: str


class ComparisonCase(ApiModel):
    """What a comparison found for a case."""

    case_id: str
    unit: str | None
    """Null until the comparison has a result."""
    nodes: list[str]
    level: float
    """Confidence of the intervals: higher where several cases are judged together."""
    verdict: str | None
    sentence: str | None
    ratio: float | None
    low: float | None
    high: float | None
    stopped: str | None
    """Why there are fewer rounds than planned."""
    rounds: list[ComparisonRound]
    dropped: list[DroppedLaunch]


class ComparisonDetail(ComparisonHead):
    """A comparison with the rounds of its cases."""

    rounds: int
    """Planned for each case."""
    min_effect: float
    combined: str | None
    """What all cases together say."""
    not_combined: str | None
    """Why there is no such sentence."""
    command: str | None
    """Compares the same again."""
    cases: list[ComparisonCase]


class BisectHead(BisectSearch):
    """A search and for what it was begun."""

    alert_id: int | None
    case_id: str
    cluster: str
    suite: str
    requested_by: str
    steps: int
    """Tests that have ended."""


class BisectStep(BisectTest):
    """One test of a bisect."""

    comparison_id: str
    """Its rounds."""
    wanted_rounds: int
    spent_s: float


class SearchedVersion(ApiModel):
    """Where a version of a search stands."""

    version: str
    standing: Literal["good", "bad", "unsure", "skipped", "first_bad", "suspect", "untested"]
    is_inferred: bool
    """No test named it: an older good one or a newer bad one did."""


class BisectDetail(BisectHead):
    """A search with its tests."""

    suspects: list[str]
    tests: list[BisectStep]
    searched: list[SearchedVersion]
    """All versions, ascending."""


class Experiments(ApiModel):
    """The newest experiments of both kinds."""

    bisects: list[BisectHead]
    comparisons: list[ComparisonHead]
    """Those that are no test of one of these bisects."""


LISTED = 100
"""Experiments of each kind in the list."""


class ComparisonFiles(Protocol):
    """Comparisons as the spool has them; rows have the fields of the models."""

    def newest(self, limit: int) -> Sequence[Row]:
        """What was compared, newest first."""

    def get(self, comparison_id: str) -> Row | None:
        """One comparison with its rounds; None where the spool does not have it."""


OpenComparisons = Callable[[], ComparisonFiles]


@dataclass(frozen=True)
class ExperimentApi:
    """Handlers of the API that the page Experiments reads."""

    repository: OpenPages
    comparisons: OpenComparisons
    cache: AnswerCache[Experiments]

    def index(self) -> Experiments:
        """The newest bisects and comparisons."""
        return self.cache.get("experiments", "", self._index)

    def _index(self) -> Experiments:
        with self.repository() as repository:
            bisects = repository.read("bisects", alert_id=None, bisect_id=None, max_rows=LISTED)
        known = {row["bisect_id"] for row in bisects}
        compared = self.comparisons().newest(LISTED)
        return Experiments.of(
            bisects=bisects,
            comparisons=[row for row in compared if row["requested_by"] not in known],
        )

    def comparison(self, comparison_id: str) -> ComparisonDetail:
        """Two builds beside each other, round by round."""
        row = self.comparisons().get(comparison_id)
        if row is None:
            raise NotFound(
                f"The spool has no comparison {comparison_id[:200]}: its files are "
                f"{kept_unless('spool_days')}."
            )
        return ComparisonDetail.of(row)

    def bisect(self, bisect_id: str) -> BisectDetail:
        """A search for the first bad version, with its tests."""
        with self.repository() as repository:
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
