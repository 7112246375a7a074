"""What the JSON API of requested comparisons answers."""

from datetime import datetime

from nightbench.web.ui_models import ApiModel


class RequestedComparison(ApiModel):
    """Two builds that somebody wants compared, and where that stands."""

    request_id: int
    state: str
    """held (a fork waits for an op), queued, running, done, failed, refused or cancelled."""
    conclusion: str
    """pending, success, failure (B is slower), neutral or error: for the status of a commit."""
    headline: str
    """The same in one sentence."""
    a: str
    b: str
    suite: str
    cluster: str
    cases: list[str]
    rounds: int
    min_effect: float
    budget_s: float | None
    priority: int
    note: str
    change_url: str
    change_commit: str
    is_fork: bool
    requested_by: str
    requested_at: datetime
    place: int | None
    """In the queue of its cluster, from 1; null where it is not queued, or waits for a budget."""
    starts_at: datetime | None
    """When it is expected to begin: hours of the cluster count, nights do not."""
    ends_at: datetime | None
    """When one that runs is expected to end."""
    estimate_s: float | None
    waits_for: str
    """Which budget it waits for; empty: none."""
    comparison_id: str | None
    started_at: datetime | None
    ended_at: datetime | None
    spent_s: float
    why: str
    verdict: str | None
    """faster, same, slower or inconclusive; null until it is done."""
    decided_by: str | None
    cancelled_by: str | None
    replaced_by: int | None
    profile: str | None
    """Whether a profile is to be made: with, behind its rounds; after, alone; null: none is."""
    links: dict[str, str]
    """Addresses: self, comment, result, junit; once it was begun page, and a_log and b_log of
    those that were built from commits; profile where there is one."""
    may_cancel: bool
    """Whether whoever asks may cancel it: their own, or any as an op."""
    may_profile: bool
    """Whether whoever asks may have it profiled."""
    may_decide: bool
    """Whether whoever asks may allow or refuse it."""


class RequestedComparisons(ApiModel):
    """Requested comparisons, newest first."""

    items: list[RequestedComparison]


class ComparisonEstimate(ApiModel):
    """What a request would wait and take; nothing was queued."""

    cluster: str
    cases: list[str]
    estimate_s: float
    place: int | None
    starts_at: datetime | None
    waits_for: str


class MeasuredByPerson(ApiModel):
    """What the comparisons of one person have measured in the last 24 hours."""

    person: str
    spent_s: float


class ClusterBudget(ApiModel):
    """What comparisons have measured on a cluster in the last 24 hours, and may."""

    cluster: str
    spent_s: float
    day_s: float
    person_s: float
    people: list[MeasuredByPerson]
    """Whoever measured most first."""


class ComparisonBudgets(ApiModel):
    """Of all clusters on which comparisons wait, run, or have measured in the last 24 hours."""

    items: list[ClusterBudget]
