"""What the JSON API answers about experiments: two builds beside each other, and bisects."""

from datetime import datetime
from typing import Literal

from nightbench.web.alert_models import BisectSearch, BisectTest
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
