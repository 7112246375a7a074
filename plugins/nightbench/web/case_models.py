"""What the JSON API answers about one case of a run."""

from __future__ import annotations

from datetime import datetime

from nightbench.web.run_models import RepeatResult, RunCase, RunRow
from nightbench.web.ui_models import ApiModel


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
    """What a run did not have in common with the last good one before it."""

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
    """What changed since that run."""
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
    """Samples of one figure of a node or of one of its GPUs."""

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
    """What was sampled on the nodes during a repeat."""

    items: list[TelemetryMetric]
    sentences: list[str]
    """What was not recorded, or why there is nothing."""


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
