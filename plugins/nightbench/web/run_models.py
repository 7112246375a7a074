"""Answers of the JSON API about runs, their cases and the repeats of these."""

from datetime import datetime

from nightbench.causes.field_changes import RunDifference
from nightbench.web.api_model import ApiModel
from nightbench.web.ui_models import CaseMedian, RunHead


class RunRow(RunHead):
    """A run, and what made it."""

    requested_by: str | None
    dag_id: str | None
    dag_run_id: str | None
    code_digest: str | None
    is_imported: bool


class RunPage(ApiModel):
    """A page of runs, newest first."""

    items: list[RunRow]
    page: int
    size: int
    has_more: bool


class RunCase(CaseMedian):
    """Result of a planned case in a run."""

    state: str
    """Verdict of the case, or why it has no verdict: failed, quarantined, missing, left_out, …"""
    sentences: list[str]
    training: str | None
    """Verdict on training: same, changed or not_comparable; null if losses are not compared."""
    error: str | None
    """End of the traceback of the last failed repeat."""
    build_id: str | None
    is_private_build: bool
    n: int
    minimum: float | None
    maximum: float | None
    baseline: float | None
    python: str | None
    """Python version of the ranks; all versions if ranks differ."""


class RunResults(ApiModel):
    """A run with its cases."""

    run: RunRow
    cases: list[RunCase]


class RepeatResult(ApiModel):
    """One launch of a case's gang."""

    generation: int
    repeat: int
    started_at: datetime | None
    status: str
    is_quarantined: bool
    sentences: list[str]
    """Why the repeat does not count."""
    throughput: float | None
    window_s: float | None
    steps: int | None
    median_step_s: float | None
    overlap: float | None
    drift: float | None
    time_to_first_step_s: float | None
    peak_resident_bytes: int | None
    peak_allocator_bytes: int | None
    sent_bytes_per_step: float | None
    data_wait_s: float | None
    power_w: float | None
    loss_first: float | None
    loss_median: float | None
    error: str | None


class DagRunRun(ApiModel):
    """The run that a DAG run made; null if it made none, or none yet."""

    run_id: str | None


# --- one case -----------------------------------------------------------------------------


class FailedCheck(ApiModel):
    """A check that a result did not meet."""

    generation: int
    repeat: int
    """0: the median."""
    check_name: str
    severity: str
    """`fail` quarantines the result; `warn` does not."""
    observed: str
    expected: str


class GoodRun(ApiModel):
    """The last good run of the series before the run."""

    run_id: str
    started_at: datetime
    throughput: float | None
    framework_version: str | None


class CaseDetail(ApiModel):
    """One case of a run."""

    run: RunRow
    case: RunCase
    generation: int | None
    """Generation of results that counts; null without a result."""
    nodes: list[str]
    """Nodes that the case ran on; empty if they are unknown."""
    repeats: list[RepeatResult]
    """All launches of all generations."""
    checks_met: int
    failed_checks: list[FailedCheck]
    good: GoodRun | None
    changes: list[RunDifference]
    """Changes since the last good run."""
    changes_sentence: str | None
    """Why changes are unknown or incomplete; null if they are complete."""
    fingerprints: dict[str, dict[str, str]]
    """Node -> its hardware and software as found when the case was measured."""
    commands: dict[str, str]
    """Purpose -> command."""
    may_trigger: bool
    """Whether the user may request to measure the case again."""


class RankSteps(ApiModel):
    """Step times of one process of a repeat."""

    process: str
    role: str
    rank: int
    node: str
    warmup: int
    """Number of steps before the measurement window, which are not counted."""
    window: int
    """Number of steps in the measurement window."""
    median_s: float
    longest_s: float
    outliers: int
    """Steps in the measurement window that took much longer than the median step."""
    limit_s: float
    """Length from which a step counts as an outlier."""
    seconds: list[float | None]
    """Lengths of all steps in order: warm-up, window, drain; null if a length is unknown. Empty for
    processes that are not shown."""


class RepeatSteps(ApiModel):
    """Step times of a repeat."""

    items: list[RankSteps]
    """Processes, the longest window first, because it determines the throughput."""
    sentence: str | None
    """Why step times are missing or incomplete; null if they are complete."""


class TelemetryMetric(ApiModel):
    """Samples of one metric of a node or of one of its GPUs."""

    node: str
    device: str
    """Device, such as GPU 0; empty for the node itself."""
    metric: str
    unit: str
    smallest: float
    median: float
    largest: float
    seconds: list[float]
    """Times of the samples, in seconds since the node's first sample."""
    values: list[float | None]


class RepeatTelemetry(ApiModel):
    """Samples of the nodes during a repeat."""

    items: list[TelemetryMetric]
    sentences: list[str]
    """Which values are missing, or why there are no values."""


class RepeatLog(ApiModel):
    """The end of the log of one process of a repeat."""

    processes: list[str]
    """Processes that have a log, failed processes first."""
    process: str | None
    text: str
    is_cut: bool
    """True if the log has earlier text that is not shown."""
    sentence: str | None
    """Why there is no log."""
