"""Results: ranks, repeats and checks; the measurement, history and verdict made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from nightbench.core.model.cases import MAX_BATCH, Build, Case
from nightbench.core.model.metrics import AlertMetric, info_of
from nightbench.core.model.reasons import Reason, ReasonCode
from nightbench.core.model.words import CaseStatus, Severity, TrainingKind, VerdictKind


@dataclass(frozen=True)
class Movement:
    """How far the elements of a trainable tensor moved within the window."""

    largest: float
    """The largest difference of one element; NaN if it is not finite."""
    limit: float | None
    """The most that the optimizer's steps allow; None if it sets no bound."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Values of a rank; a repeat has the largest of its ranks, a case those of its repeats."""

    time_to_first_step_s: float | None = None
    peak_resident_bytes: int | None = None
    peak_allocator_bytes: int | None = None
    sent_bytes_per_step: int | None = None
    """Gradients of a rank in a step, if the trainer itself exchanges them (compression)."""
    data_wait_s: float | None = None
    """Seconds that a step waits for its batch, mean over the window; None for synthetic data."""


FIGURES = tuple(each.name for each in fields(Figures))


@dataclass(frozen=True)
class RankResult(Figures):
    """The measurements of one process of a gang (a `processes[].summary` of result/1)."""

    name: str
    role: str
    rank: int
    node: str
    measured: bool = True
    """Whether it was to write a rank.json; a process that only serves was not."""
    world_size: int | None = None
    """Measured processes of the gang, as it knew."""
    samples_per_step: float = 0.0
    window_open_s: float = 0.0
    """Monotonic clock of the rank's node."""
    window_close_s: float = 0.0
    window_wall_s: float = 0.0
    """Recorded by a clock of its own, independently of the step times."""
    step_seconds: tuple[float, ...] = ()
    step_end_s: tuple[float, ...] = ()
    """End of every step of warm-up, window and drain on the node's monotonic clock."""
    loss_first: float | None = None
    """Loss of the first step: of the untrained weights."""
    loss_early: tuple[float, ...] = ()
    """Losses of the first six steps, also of the warm-up."""
    loss_window: tuple[float, ...] = ()
    loss_again: float | None = None
    """Loss of the first step's batch after the window; None if no step was run on it again."""
    weights_moved: Mapping[str, Movement] | None = None
    """Trainable tensor -> its way through the window; None if the rank does not say."""
    weights_digest: str | None = None
    gradients_arrive: bool | None = None
    """Whether what it sent, while no other trainer did, changed what it pulled; None: not asked."""
    parameters: int | None = None
    flops_per_step: float | None = None
    """FLOPs of matrix products and convolutions in a step of its own, as its framework counts them;
    None if they are not counted."""
    skipped_updates: int | None = None
    """Steps of the window that left out their update, for an overflow; None without loss scale."""
    conditions: Mapping[str, str] | None = None
    """CPUs, and the variables that decide in which order its kernels add."""
    expert_tokens: Sequence[Sequence[int]] | None = None
    """Tokens of a batch after the window by layer and expert; None if nothing is recorded."""
    reported: Mapping[str, float] | None = None
    """Values that a training script printed: name -> median over its window, as printed."""
    precision: str | None = None
    transport: str | None = None
    modes: Mapping[str, str] = field(default_factory=dict)
    """Axis -> the value that was really used; an axis without a value is not reported."""
    batch_size: int | None = None
    """Batch size that was found if the case says `max`."""
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, node: str, process: Mapping[str, Any]) -> RankResult:
        """From one entry of `processes` of a node's result.json."""
        identity = {key: process[key] for key in ("name", "role", "rank", "measured")}
        doc = process.get("summary")
        if doc is None:
            return cls(node=node, **identity)
        window, loss, peak = doc["window"], doc["loss"] or {}, doc["peak_memory"]
        return cls(
            node=node,
            **identity,
            **{name: doc[name] for name in _AS_WRITTEN},
            **{name: doc.get(name) for name in _PERHAPS_WRITTEN},
            window_open_s=window["open_s"],
            window_close_s=window["close_s"],
            window_wall_s=window["wall_s"],
            step_seconds=tuple(doc["step_seconds"]),
            step_end_s=tuple(doc["step_end_s"]),
            loss_first=_number(loss["first"]) if loss else None,
            loss_early=tuple(map(_number, loss.get("early", ()))),
            loss_window=tuple(map(_number, loss.get("window", ()))),
            loss_again=_number(loss["again"]) if "again" in loss else None,
            weights_moved=_movements(doc.get("weights_moved")),
            peak_resident_bytes=peak["resident_bytes"],
            peak_allocator_bytes=peak["allocator_bytes"],
            batch_size=doc.get("batch_size_per_device"),
            modes=doc.get("modes", {}),
            versions=dict(doc["versions"]),
        )


_AS_WRITTEN = (
    *("world_size", "samples_per_step", "time_to_first_step_s", "weights_digest", "parameters"),
    *("precision", "transport"),
)
_PERHAPS_WRITTEN = (
    *("gradients_arrive", "sent_bytes_per_step", "data_wait_s", "expert_tokens"),
    *("flops_per_step", "skipped_updates", "conditions", "reported"),
)
"""Fields of a `RankResult` that a summary holds under the same name, or may lack."""


def _movements(doc: Mapping[str, Any] | None) -> dict[str, Movement] | None:
    if doc is None:
        return None
    return {
        name: Movement(_number(entry["largest"]), entry["limit"]) for name, entry in doc.items()
    }


def _number(value: float | None) -> float:
    """JSON knows no NaN: a rank writes null for a loss that is not finite."""
    return math.nan if value is None else value


@dataclass(frozen=True)
class ClockOffset:
    """Node's monotonic clock minus the controller's, with the error of that estimate."""

    offset_s: float
    error_s: float


@dataclass(frozen=True)
class RepeatRecord:
    """One launch of the whole gang, put together from the nodes' results."""

    repeat: int
    status: str
    """ok, failed, aborted, or disturbed: measured, but not counted."""
    reasons: tuple[Reason, ...]
    """Why it does not count; empty if it does."""
    ranks: tuple[RankResult, ...]
    clocks: Mapping[str, ClockOffset] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Node -> fingerprint id."""
    started_at: datetime | None = None
    log_tail: str | None = None
    power_w: float | None = None
    """Mean power of all devices in the windows, W."""
    power_absent: str | None = None
    """Why there is no power; None if there is one."""
    error: str | None = None
    """End of the traceback (or of the output) of the process that failed first, with its name."""


@dataclass(frozen=True)
class RepeatSummary(Figures):
    """The numbers of one repeat."""

    repeat: int
    throughput: float | None
    """Units of work per second over all ranks; None if the repeat is no measurement."""
    window_s: float | None
    """Length of the interval that was counted."""
    samples: float | None
    step_throughput: float | None
    """The same value from the independently recorded step times."""
    overlap: float | None = None
    """Asynchronous only: common interval / shortest window."""
    drift: float | None = None
    """Median step of the window's last third / first third - 1."""
    power_w: float | None = None
    """Mean power of all devices in the windows, W."""
    power_absent: str | None = None
    """Why there is no power; None if there is one."""
    loss_first: float | None = None
    loss_median: float | None = None
    losses: Mapping[str, float] | None = None
    """Compared by `detection.training`: loss -> mean of the trainers; None if one lacks it."""
    reported: Mapping[str, float] | None = None
    """Values that training scripts printed: name -> median of the ranks, as printed."""
    problem: Reason | None = None
    """Why there is no throughput, or why it does not count."""


@dataclass(frozen=True)
class CheckResult:
    """One expectation checked against one result."""

    subject: str
    """`repeat` or `measurement`."""
    repeat: int | None
    check: str
    severity: Severity
    success: bool
    observed: str
    expected: str

    @property
    def quarantines(self) -> bool:
        """Whether its subject must not count."""
        return self.severity is Severity.FAIL and not self.success

    @property
    def reason(self) -> Reason:
        """It as a reason for quarantine."""
        return Reason(
            ReasonCode.CHECK_FAILED,
            subject=self.check,
            observed=self.observed,
            expected=self.expected,
        )


@dataclass(frozen=True)
class Measurement(Figures):
    """The median over the good repeats of a case in a run."""

    run_id: str
    case: Case
    cluster: str
    build: Build
    unit: str
    repeats: tuple[RepeatSummary, ...]
    n: int
    throughput: float | None
    minimum: float | None = None
    maximum: float | None = None
    mad: float | None = None
    spread: float | None = None
    """(maximum - minimum) / median."""
    half_width: float | None = None
    """Relative 95 % confidence half-width from the t distribution on log values; None for n < 3."""
    speedup: float | None = None
    efficiency: float | None = None
    baseline_case_id: str | None = None
    framework_version: str | None = None
    python: str | None = None
    """Version of the Python that ran the framework; "3.11.7 and 3.13.5" if its ranks differ."""
    power_w: float | None = None
    """Mean power of all devices in the windows, W: median of the repeats."""
    joules_per_unit: float | None = None
    """Energy of the devices for a unit of work: median of power / throughput of the repeats."""
    energy_absent: str | None = None
    """Why there is no energy; None if there is one, and if there is no median."""
    found_batch_size: int | None = None
    """Samples in a step of one trainer, as found if the case says `max`."""
    tokens_per_s: float | None = None
    """Value of all devices; None for what is no language model."""
    model_flops_per_s: float | None = None
    """Value of all devices; None if the workload states no FLOPs."""
    device: str | None = None
    """Model of the devices; None if unknown, or if nodes differ."""
    peak_flops: float | None = None
    """Dense peak of all devices together at the case's precision, FLOP/s; None if unknown."""
    mfu: float | None = None
    """model_flops_per_s / peak_flops."""
    mfu_absent: str | None = None
    """Why there is no mfu; None if there is one, and if there is no median."""
    reported: Mapping[str, float] | None = None
    """Values that a training script printed itself, such as its own MFU: name -> median of the
    repeats, as printed. Never judged, nor mixed with the values above."""
    losses: Mapping[str, tuple[float, float]] | None = None
    """Metric of `detection.training` -> lowest and highest of the repeats that count."""
    definition_digest: str = ""
    fingerprint_id: str = ""
    status: CaseStatus = CaseStatus.OK
    reasons: tuple[Reason, ...] = ()
    """Why it failed or was not measured; empty if it is ok."""
    checks: tuple[CheckResult, ...] = ()

    @property
    def batch_size_per_device(self) -> int | None:
        """Samples in a step of one trainer; None if the case says `max` and none was found."""
        given = self.case.batch_size_per_device
        return self.found_batch_size if given == MAX_BATCH else given

    @property
    def quarantine_reasons(self) -> tuple[Reason, ...]:
        """The `fail` checks of the measurement that failed; empty if it counts."""
        return tuple(c.reason for c in self.checks if c.subject == "measurement" and c.quarantines)

    @property
    def quarantined(self) -> bool:
        """True if a `fail` check of the measurement failed."""
        return bool(self.quarantine_reasons)


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One night of a series."""

    at: datetime
    value: float
    """NaN: a missing night of a file."""
    run_id: str = ""
    n: int | None = None
    spread: float | None = None
    fingerprint_id: str | None = None
    definition_digest: str | None = None
    framework_version: str | None = None
    control: float | None = field(default=None, kw_only=True)
    """The control measurement of the same nodes in the same night, if a file names it."""


@dataclass(frozen=True)
class Verdict:
    """The verdict of a run on a series, with the evidence in one sentence."""

    case_id: str
    cluster: str
    run_id: str
    kind: VerdictKind
    sentence: str
    value: float | None = None
    baseline: float | None = None
    change: float | None = None
    """value / baseline - 1: tonight's own; see `level_change`."""
    history: int = 0
    """Nights that the verdict rests on."""
    smallest_slowdown: float | None = None
    """Minimum detectable slowdown: a lasting drop of this size is reported within a week in nine of
    ten cases."""
    level_change: float | None = None
    """Estimate of the relative change that `low` and `high` enclose; one night may be outside."""
    low: float | None = None
    high: float | None = None
    """90 % interval of the relative change: of the level for regressed and improved, otherwise of
    what tonight's value says of it by itself."""
    since: datetime | None = None
    """First night at the new level, for regressed and improved."""
    first_bad_run_id: str | None = None
    """The run of that night."""
    last_good_run_id: str | None = None
    """The last run before it; of a failed or missing case the last run with a value."""
    metric: AlertMetric = "throughput"
    """Metric that was judged: `value` and `baseline` refer to it."""
    training: TrainingKind | None = None
    """Whether the case trained as before; None if nothing was trained, or the suite is off."""
    training_sentence: str | None = None
    """The evidence for `training`."""

    @property
    def gain(self) -> float | None:
        """`change`, negative if it is for the worse; None without one."""
        return gain_of(self.change, self.metric)

    @property
    def lowest_gain(self) -> float | None:
        """The worse end of the interval of the change, negative if it is for the worse."""
        return gain_of(self.high if info_of(self.metric).lower_is_better else self.low, self.metric)


def gain_of(change: float | None, metric: AlertMetric) -> float | None:
    """Return a relative change, negative if it is for the worse: for joules, an increase is."""
    return -change if change is not None and info_of(metric).lower_is_better else change
