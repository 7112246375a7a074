"""Answers of the JSON API about experiments: comparisons of builds, bisects, confirmations."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from nightbench.detection.paired_training import PairedTraining
from nightbench.warehouse.repository import Row
from nightbench.web.api_model import ApiModel, or_else


class ExperimentItem(ApiModel):
    """An experiment: what was requested, its place in the queue, and its result."""

    experiment_id: int
    """Number of the request; 0 if the warehouse has no request of this name."""
    name: str
    kind: str
    """Kind: compare, confirm, bisect, profile or reference."""
    title: str
    """Builds or versions that are compared."""
    state: str
    """`held` (a fork awaits approval), queued, running, done, failed, refused, cancelled."""
    headline: str
    """The state in one sentence."""
    suite: str
    cluster: str
    cases: Annotated[list[str], or_else([])]
    requested_by: str
    requested_at: datetime
    priority: int
    note: str
    change_url: str
    is_fork: bool
    alert_id: int | None
    place: int | None
    """Place in the queue of its cluster, from 1; null if not queued, or waiting for a budget."""
    starts_at: datetime | None
    """Expected start. The estimate respects the cluster's hours, but not its nights."""
    ends_at: datetime | None
    """Expected end of a running experiment."""
    estimate_s: float | None
    budget_s: float | None
    waits_for: str
    """Budget that the request waits for; empty if it waits for none."""
    started_at: datetime | None
    ended_at: datetime | None
    spent_s: float
    why: str
    verdict: str | None
    """Verdict on B (compare), or outcome (confirm, bisect); null before the result."""
    conclusion: str | None
    """Commit status of a comparison: pending, success, failure (B is slower, or trains
    differently), neutral or error."""
    a: str | None = None
    b: str | None = None
    rounds: int | None = None
    min_effect: float | None = None
    change_commit: str | None = None
    decided_by: str | None
    cancelled_by: str | None
    replaced_by: int | None
    profile: str | None
    """State of the newest profile of a comparison; null without a profile."""
    links: dict[str, str]
    """Addresses by name. All have `page`. Requested comparisons also have self, comment, result,
    junit, a_log and b_log (builds of commits), and profile, if these exist."""
    may_cancel: bool
    """Whether the user may cancel it: their own requests; operators, any request."""
    may_profile: bool
    """Whether the user may request a profile of it."""
    may_decide: bool
    """Whether the user may allow or refuse it."""


class ComparisonEstimate(ApiModel):
    """Estimated waiting time and duration of a request; nothing was queued."""

    cluster: str
    cases: list[str]
    estimate_s: float
    place: int | None
    starts_at: datetime | None
    waits_for: str


class ClusterBudget(ApiModel):
    """Measuring time of experiments on a cluster in the last 24 hours, and its limits."""

    cluster: str
    spent_s: float
    day_s: float
    person_s: float
    people: dict[str, float]
    """User -> measuring time, the largest first."""


# --- one experiment -----------------------------------------------------------------------


class ComparisonRound(ApiModel):
    """A launch of each build on the same nodes, one after the other."""

    round: int
    order: str
    """AB or BA."""
    a: float
    """Throughput of build A in units of work per second; `b` is that of build B."""
    b: float
    ratio: float
    """b / a."""
    running_ratio: float | None
    """Mean ratio after this round. Its interval, low and high, is null before the third round."""
    running_low: float | None
    running_high: float | None


class DroppedLaunch(ApiModel):
    """A launch because of which a round was measured again."""

    round: int
    arm: str
    status: str
    why: str


class ComparisonCase(ApiModel):
    """Result of a comparison for one case."""

    case_id: str
    unit: str | None
    """Null before the comparison has a result."""
    nodes: list[str]
    level: float
    """Confidence of the intervals, which is higher if several cases get verdicts together."""
    verdict: str | None
    sentence: str | None
    training: PairedTraining | None
    """Null before the comparison has a result."""
    ratio: float | None
    low: float | None
    high: float | None
    stopped: str | None
    """Why the case has fewer rounds than planned."""
    rounds: list[ComparisonRound]
    dropped: list[DroppedLaunch]


class MeasuredComparison(ApiModel):
    """Two builds that were, or are being, measured in turn."""

    comparison_id: str
    a: str
    """Build A, whose throughput is the denominator of ratios."""
    b: str
    verdict: str | None
    rounds: int
    """Number of rounds planned for each case."""
    min_effect: float
    combined: str | None
    """Result of all cases together."""
    not_combined: str | None
    """Why there is no result of all cases together."""
    cases: list[ComparisonCase]


class BisectTest(ApiModel):
    """One test of a bisect."""

    number: int
    kind: str
    version: str
    against: str
    status: str
    result: str | None
    why: str | None
    ratio: float | None
    low: float | None
    high: float | None
    rounds: int | None
    wanted_rounds: int
    spent_s: float
    comparison_id: str
    """Its rounds."""


class BisectSearch(ApiModel):
    """A search for the first bad version, with its tests."""

    name: str
    line: str = ""
    good: str
    bad: str
    state: str
    outcome: str | None = None
    first_bad: str | None = None
    spent_s: float
    budget_s: float
    versions: list[str] = Field(default_factory=list)
    """Versions in ascending order; empty before the nodes were checked."""
    last_good: str | None = None
    sentence: str = ""
    notes: list[str] = Field(default_factory=list)
    started_at: datetime | None
    ended_at: datetime | None
    suspects: list[str] = Field(default_factory=list)
    tests: list[BisectTest]

    @classmethod
    def of_row(cls, row: Row) -> "BisectSearch":
        """Make one from an experiment of the kind bisect, begun or not."""
        asked, found = row["request"], row["result"] or {}
        names = ("name", "state", "budget_s", "spent_s", "started_at", "ended_at")
        known = {name: row[name] for name in names} | {"tests": found.get("steps", [])}
        return cls.of({**asked, **found, **known})


class SearchedVersion(ApiModel):
    """State of one version in a bisect."""

    version: str
    standing: Literal["good", "bad", "unsure", "skipped", "first_bad", "suspect", "untested"]
    is_inferred: bool
    """True if no test decided: a newer good version implies good, an older bad version bad."""


class ExperimentDetail(ExperimentItem):
    """An experiment with what was measured of it."""

    is_measured: bool | None
    """Whether a process is measuring it now; null if this is unknown."""
    again: str | None
    """Command that repeats the comparison; null if the builds were not named by a user."""
    resume: str | None
    """Command that continues the experiment; null if it is complete."""
    comparisons: list[MeasuredComparison]
    bisect: BisectSearch | None
    searched: list[SearchedVersion]
    """All versions of a bisect, in ascending order."""
