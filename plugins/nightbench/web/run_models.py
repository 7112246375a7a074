"""Answers of the JSON API about runs, their cases and the repeats of these."""

from datetime import datetime

from nightbench.web.ui_models import ApiModel, RunHead, Utilisation, Word


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


class RunCase(Utilisation):
    """Result of a planned case in a run."""

    case_id: str
    cluster: str
    state: str
    """Its verdict, or why it has none: failed, quarantined, missing, left_out, …"""
    sentences: list[str]
    error: str | None
    """End of the traceback of the last repeat that failed."""
    framework_version: str | None
    build_id: str | None
    is_private_build: bool
    throughput: float | None
    unit: str | None
    n: int
    minimum: float | None
    maximum: float | None
    spread: float | None
    speedup: float | None
    efficiency: float | None
    metric: str | None
    """Metric that was judged, by its column in `marts.fct_measurement`."""
    baseline: float | None
    change: float | None
    level_change: float | None
    change_low: float | None
    change_high: float | None
    smallest_slowdown: float | None
    alert_id: int | None
    alert_change: float | None
    noisy: str | None
    drift: float | None
    framework: Word
    python: str | None
    """Version of the Python that ran it; all of them if ranks report different ones."""


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
    """Why it does not count."""
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
    """The run that a DAG run made; null where it made none, or none yet."""

    run_id: str | None


# --- one case -----------------------------------------------------------------------------


class FailedCheck(ApiModel):
    """A check that a result did not meet."""

    generation: int
    repeat: int
    """0: the median."""
    check_name: str
    severity: str
    """fail quarantines the result, warn does not."""
    observed: str
    expected: str


class CaseChange(ApiModel):
    """A difference between a run and the last good run before it."""

    field: str
    before: str
    since: str
    nodes: list[str]
    """Whose field it is; empty for what belongs to the run."""


class GoodRun(ApiModel):
    """The last good run of the series before the run."""

    run_id: str
    started_at: datetime
    throughput: float | None
    framework_version: str | None


class NodeFingerprint(ApiModel):
    """Hardware and software of a node as found when the case was measured."""

    node: str
    fields: dict[str, str]


class CommandLine(ApiModel):
    """A command, ready to be copied."""

    purpose: str
    command: str


class CaseDetail(ApiModel):
    """One case of a run."""

    run: RunRow
    case: RunCase
    generation: int | None
    """The one that counts; null where nothing came."""
    nodes: list[str]
    """Those that it ran on; empty where that is not known."""
    repeats: list[RepeatResult]
    """All launches, of every generation."""
    checks_met: int
    failed_checks: list[FailedCheck]
    good: GoodRun | None
    changes: list[CaseChange]
    """Changes since that run."""
    changes_sentence: str | None
    """Why changes are not known, or not all; null where they are."""
    fingerprints: list[NodeFingerprint]
    commands: list[CommandLine]
    may_trigger: bool
    """Whether the reader may have it measured again."""


class RankSteps(ApiModel):
    """Step times of one process of a repeat."""

    process: str
    role: str
    rank: int
    node: str
    warmup: int
    """Steps before the window, which are not counted."""
    window: int
    """Steps in the window."""
    median_s: float
    longest_s: float
    outliers: int
    """Steps in the window that took far longer than its median step."""
    limit_s: float
    """From which length on a step is one."""
    seconds: list[float | None]
    """All steps in order: warm-up, window, drain; null where the length is not known. Empty for
    processes that are not among those shown."""


class RepeatSteps(ApiModel):
    """Step times of a repeat."""

    items: list[RankSteps]
    """The process with the longest window first: it decides the throughput."""
    sentence: str | None
    """Why there are none, or fewer than processes; null where all are here."""


class TelemetryMetric(ApiModel):
    """Samples of one metric of a node or of one of its GPUs."""

    node: str
    device: str
    """GPU 0; empty for the node itself."""
    metric: str
    unit: str
    smallest: float
    median: float
    largest: float
    seconds: list[float]
    """Times of the samples after the first one of the node."""
    values: list[float | None]


class RepeatTelemetry(ApiModel):
    """Samples of the nodes during a repeat."""

    items: list[TelemetryMetric]
    sentences: list[str]
    """Missing values, or the reason why there are none."""


class RepeatLog(ApiModel):
    """The end of the log of one process of a repeat."""

    processes: list[str]
    """All that have a log, those that failed first."""
    process: str | None
    text: str
    is_cut: bool
    """The log has more before."""
    sentence: str | None
    """Why there is none."""
