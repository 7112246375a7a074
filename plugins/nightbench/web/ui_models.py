"""Answers of the JSON API of the pages. TypeScript has the same types: `make ui`."""

from datetime import datetime
from typing import Annotated, Literal

from nightbench.web.api_model import ApiModel, Figures, Page, Word, or_else
from nightbench.web.experiment_models import BisectSearch


class Utilisation(ApiModel):
    """Use of the devices while a median was measured; null if not known."""

    tflops_per_device: float | None
    """Model TFLOP/s."""
    mfu: float | None
    mfu_absent: str | None
    """Why there is no MFU; null if there is one."""
    tokens_per_s_per_device: float | None
    """Tokens per second, for language models only."""
    device: str | None
    peak_resident_bytes: float | None
    """Largest resident memory of a rank's process. For GPU memory see `peak_allocator_bytes`."""
    power_w: float | None
    """Mean power of all devices in the measurement windows, W."""
    joules_per_unit: float | None
    """Energy of the devices for a unit of work, J."""
    energy_absent: str | None
    """Why there is no energy; null if there is one."""
    reported: Figures
    """Values that an external script printed, by name."""
    peak_allocator_bytes: float | None
    """Largest device memory of a rank."""


class LevelChange(ApiModel):
    """Change of a series in a night."""

    change: float | None
    """Relative change of tonight's value."""
    level_change: float | None
    """Change of the level; `change_low` and `change_high` are the ends of its 90 % interval."""
    change_low: float | None
    change_high: float | None


class JudgedChange(LevelChange):
    """Change that a night's verdict is about."""

    metric: str | None
    """Metric that was judged, by its column in `marts.fct_measurement`."""
    smallest_slowdown: float | None


class CaseMedian(Utilisation, JudgedChange):
    """Median of a case, with what is known of its series."""

    case_id: str
    cluster: str
    framework: Word
    framework_version: str | None
    unit: str | None
    throughput: float | None
    spread: float | None
    speedup: float | None
    efficiency: float | None
    alert_id: int | None
    alert_verdict: str | None
    alert_change: float | None
    drift: float | None
    noisy: str | None


# --- the morning --------------------------------------------------------------------------


class AlertRow(LevelChange):
    """An alert."""

    alert_id: int
    case_id: str
    cluster: str
    workload: str | None
    framework: str | None
    unit: str | None
    verdict: str
    state: str
    owner: str | None
    sentence: str
    metric: str
    """Metric that was judged, by its column in `marts.fct_measurement`."""
    since: datetime | None
    """The first night at the new level."""
    opened_at: datetime
    opened_run_id: str
    first_bad_run_id: str | None
    last_run_id: str | None
    last_good_run_id: str | None
    resolved_run_id: str | None
    closed_at: datetime | None
    dismissed_as: str | None
    notified_at: datetime | None
    snoozed_until: datetime | None
    cause: str | None
    cause_suspect: str | None
    cause_sentence: str | None
    group_key: str | None
    """Key that is equal for alerts of one cause; empty or null if no other alert has this cause."""
    value: float | None
    """Value of the metric, in its unit; `baseline` is the value that it is compared with."""
    baseline: float | None
    confirmation: str | None
    confirmation_state: str | None
    confirmation_sentence: str | None
    confirmation_ratio: float | None
    confirmation_low: float | None
    confirmation_high: float | None
    confirmation_rounds: int | None
    severity: str
    """high, medium or low."""
    severity_because: str


class AlertGroupRow(ApiModel):
    """Alerts that hang together; most stand alone."""

    head: AlertRow
    """The worst alert of the group."""
    alerts: int
    states: dict[str, int]
    """Number of alerts of the group in each state."""
    medians: list[float]
    """Newest throughputs of the series of `head`, oldest first, in units of work per second."""
    bisect: BisectSearch | None
    """The newest bisect of any alert in the group."""


class RunHead(ApiModel):
    """A run, with how many of its cases ended in which way."""

    run_id: str
    suite: str
    cluster: str
    run_kind: str
    started_at: datetime
    loaded_at: datetime | None
    planned: int
    measured: int
    failed: int
    quarantined: int
    left_out: int


class SuiteRun(RunHead):
    """The newest run of a suite on a cluster."""

    without_result: int
    """Planned cases that are not measured, failed, quarantined or left out."""
    regressed: int
    improved: int


class MissingNight(ApiModel):
    """A scheduled night without a result."""

    suite: str
    cluster: str
    scheduled_at: datetime
    sentence: str


class LeftOutCase(ApiModel):
    """A case that a night had no room for."""

    case_id: str
    cluster: str
    run_id: str
    suite: str
    code: Word
    """Code of the reason: not_begun, window_ended, …"""
    observed: str | None
    expected: str | None


class NoisySeries(ApiModel):
    """A series that varies too much to alert."""

    case_id: str
    cluster: str
    suite: str
    since_at: datetime
    since_run_id: str
    spread: float | None
    max_spread: float | None
    sentence: str


class DriftingSeries(ApiModel):
    """A series that creeps; no night of it is a regression."""

    case_id: str
    cluster: str
    suite: str
    change: float
    error: float
    nights: int
    since: datetime
    seen_at: datetime
    seen_run_id: str


class Morning(ApiModel):
    """New alerts, runs and missing results."""

    at: datetime
    since: datetime
    alerts: list[AlertGroupRow]
    """The new groups first, each part ordered from the worst; 100 at most."""
    new_alerts: int
    """Number of groups with an alert that opened after `since`."""
    older_alerts: int
    """Number of other groups with alerts that are not closed."""
    suites: list[SuiteRun]
    missing: list[MissingNight]
    left_out: list[LeftOutCase]
    noisy: list[NoisySeries]
    drifting: list[DriftingSeries]
    grades_too_low: list[str]
    """A sentence for each grade of the detector that is not good enough."""
    is_empty: bool
    """True if no run has been loaded yet."""


# --- series -------------------------------------------------------------------------------


class SeriesRow(CaseMedian):
    """A series with its newest median and its newest verdict."""

    suite: str
    workload: Word
    axes: Annotated[dict[str, str | int | float | bool | None], or_else({})]
    n: int | None
    measured_at: datetime | None
    measured_run_id: str | None
    is_synthetic: bool | None
    state: str
    """alert, noisy, drifting, otherwise the newest verdict; `measured` without a verdict."""
    verdict: str | None
    verdict_sentence: str | None
    together: str | None
    """Value of the axis by which the request groups series."""
    medians: list[float]
    """Newest throughputs, oldest first, in units of work per second."""


class AxisValue(ApiModel):
    """A value of an axis, and how many series have it."""

    axis: str
    value: str
    series: int


class SeriesPage(Page):
    """A page of series."""

    items: list[SeriesRow]


class SeriesPoint(Utilisation, JudgedChange):
    """One result of a series."""

    run_id: str
    run_kind: str
    suite: str
    started_at: datetime
    throughput: float | None
    low: float | None
    """Throughput of the slowest repeat; `high` is that of the fastest repeat."""
    high: float | None
    n: int | None
    spread: float | None
    framework_version: str | None
    build_id: str | None
    definition_digest: str | None
    code_digest: str | None
    fingerprint_id: str | None
    state_changes: list[str]
    """Fields of the node that differ from the previous point: drivers, kernel, clocks."""
    node_names: list[str] | None
    is_private_build: bool
    is_quarantined: bool
    verdict: str | None
    sentence: str | None
    baseline: float | None
    """Baseline of the throughput; null if another metric was judged."""


class PublishedFigure(ApiModel):
    """A published benchmark value for the same cell as the series, measured on other hardware."""

    reference_id: str
    source_document: str
    figure: str | None
    metric: str
    unit: str | None
    published_value: float
    measured_value: float | None
    """Newest median of the series, in the published unit."""
    published_device: str | None
    published_version: str | None
    is_unit_doubtful: bool


class LossCurve(ApiModel):
    """Losses of a case in one run."""

    role: Literal["tonight", "good", "line"]
    """Newest night, last night with unchanged training, or another line in the same night."""
    run_id: str
    started_at: datetime
    case_id: str
    framework: str
    framework_version: str | None
    training: str | None
    """Verdict on tonight's training: same, changed or not_comparable."""
    training_sentence: str | None
    losses: list[float | None]
    """Loss of the first step, then loss of each step of the measurement window."""


class SeriesLosses(ApiModel):
    """Losses of a series step by step."""

    steps: list[int]
    """Numbers of the steps, from 1: the first step, then the steps of the window."""
    curves: list[LossCurve]
    """Curves, tonight's first; empty if no losses are stored."""


class Roofline(ApiModel):
    """The resource that limits a step, see `marts.roofline`."""

    bound: str | None
    """Resource that limits the case: input, compute, memory or network."""
    absent: str | None
    """Why it is unknown what limits the case."""
    input_share: float | None
    """Shares of a step's time; null if they are unknown."""
    compute_share: float | None
    memory_share: float | None
    """Lower bound of the value."""
    network_share: float | None


class SeriesHistory(ApiModel):
    """One series with its history."""

    case_id: str
    cluster: str
    unit: str | None
    points: list[SeriesPoint]
    """Oldest first."""
    alerts: list[AlertRow]
    published: list[PublishedFigure]
    noisy: NoisySeries | None
    drifting: DriftingSeries | None
    roofline: Roofline | None
    """Roofline of the newest median."""
