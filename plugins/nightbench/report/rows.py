"""One row for each planned case of a run: what `nightbench results --json` prints."""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from nightbench.core.model import (
    MAX_BATCH,
    CaseStatus,
    Measurement,
    PlannedCase,
    Run,
    reasons_to_json,
)

Row = dict[str, Any]

_FAILED = (CaseStatus.FAILED, CaseStatus.UNAVAILABLE)

FIELDS: dict[str, str] = {
    "run_id": "the run",
    "run_kind": "reason of the run: nightly, on_demand, confirm, backfill, drill, acceptance",
    "case_id": "readable id of the case",
    "cluster": "cluster that it ran on",
    "framework": "framework line",
    "framework_version": "version that the framework itself reported; null if nothing ran",
    "python": "Python version of the ranks; all versions if ranks differ; null if nothing ran",
    "build_id": "build of the framework line",
    "private_build": "true if the build was named for this run and replaced the suite's build",
    "untried": "why the configuration counts as untried on this kind of device; null if tried",
    "workload": "workload (model) that was trained",
    "strategy": "single, collective or parameter_server",
    "nodes": "number of nodes",
    "devices_per_node": "number of devices on each node",
    "trainers": "number of data-parallel ranks",
    "pservers": "number of parameter servers",
    "sync": "whether and how trainers wait for each other (parameter_server)",
    "batch_size_per_device": "samples in a step of one trainer; if the case has max, the batch "
    "that the run found, or null",
    "precision": "fp32, tf32, bf16 or fp16",
    "scale": "size of the workload",
    "data": "input data of the model",
    "status": "ok, failed, cancelled, unavailable, missing, or left_out if the night had no time "
    "for it; waiting or running before it ends",
    "throughput": "median of the good repeats, in units per second; null without good repeats",
    "unit": "unit of work, such as images",
    "n": "number of good repeats",
    "minimum": "smallest throughput of these repeats",
    "maximum": "largest throughput of these repeats",
    "mad": "median absolute deviation of these repeats",
    "spread": "(maximum - minimum) / median",
    "half_width": "relative half-width of the 95 % interval (t on logarithms); null if n < 3",
    "speedup": "throughput / throughput of the scaling baseline in the same run",
    "efficiency": "speedup / (trainers / trainers of the scaling baseline)",
    "baseline_case_id": "case that is the scaling baseline",
    "time_to_first_step_s": "from process start to the end of the first step, seconds",
    "peak_resident_bytes": "largest resident memory of a trainer",
    "peak_allocator_bytes": "largest device memory that the allocator of a trainer had reserved; "
    "null if no allocator counts it",
    "sent_bytes_per_step": "bytes that a trainer sends in a step, if the line counts them "
    "(PyTorch); otherwise null",
    "data_wait_s": "seconds that a step waits for its batch, median of the repeats; null for "
    "synthetic data",
    "tokens_per_s": "tokens per second of all devices; null if the model is no language model",
    "model_flops_per_s": "model FLOP/s, forward and backward, of all devices together; null if the "
    "workload states no FLOPs",
    "tokens_per_s_per_device": "tokens_per_s / trainers",
    "tflops_per_device": "model_flops_per_s / trainers, in TFLOP/s",
    "device": "model of the devices; null if it is unknown or nodes differ",
    "peak_flops": "dense peak of all devices together at the precision of the case, FLOP/s",
    "mfu": "model_flops_per_s divided by peak_flops; null if either is unknown",
    "mfu_absent": "reason why mfu is null",
    "reported": "values that the training script printed, such as its own MFU, by name: medians of "
    "the repeats; null if none",
    "power_w": "mean power of all devices (GPUs or CPU packages) in the measurement windows, W",
    "joules_per_unit": "energy of the devices for a unit of work, J: power divided by throughput, "
    "median of the repeats",
    "energy_absent": "reason why the energy is null",
    "verdict": "ok, watched, regressed, improved, insufficient_data, failed, unavailable, missing; "
    "null before the verdict, and for cases that were left out",
    "verdict_sentence": "evidence of the verdict, in sentences",
    "training": "whether the training is as before: same, changed or not_comparable",
    "training_sentence": "evidence about the training, in a sentence",
    "metric": "metric of the verdict, to which baseline and changes refer; null before the verdict",
    "baseline": "baseline: median of comparable earlier nights; null without a history",
    "change": "value of this run divided by the baseline, minus 1",
    "level_change": "relative change of the level over several nights",
    "change_low": "lower end of the 90 % interval of level_change",
    "change_high": "upper end of the 90 % interval of level_change",
    "smallest_slowdown": "minimum detectable slowdown: a lasting drop of this size is reported "
    "within a week in nine of ten cases; null before the verdict and for short histories",
    "nightly_version": "framework version of the previous night; null without a night before",
    "alert_id": "alert of the series that is not closed, perhaps of a later run; null without one",
    "alert_verdict": "kind of alert: regressed, training_changed, failed, unavailable or missing",
    "alert_change": "relative change that this alert reports; null for a missing value",
    "drift": "relative change of a series that drifts slowly; null without a drift",
    "drift_since": "the first night of the drift",
    "noisy": "reason why the series is too noisy to open alerts; null if it is not noisy",
    "quarantined": "true if a check rejected the value",
    "error": "end of the traceback or output of the last failed repeat; null if no repeat failed",
    "reasons": "reasons why the case failed, was quarantined or was left out: a list of {code, "
    "node, subject, observed, expected}",
}
"""Every field of a row, in order, with what it means."""


def from_warehouse(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return rows from the warehouse's `results_rows`."""
    return [_row({**row, "reasons": _reasons(row)}) for row in rows]


def _reasons(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*(row.get("reasons") or ()), *(row.get("quarantine_reasons") or ())]


def from_measurements(
    run: Run,
    measurements: Iterable[Measurement],
    planned: Iterable[PlannedCase] = (),
    errors: Mapping[str, str | None] | None = None,
) -> list[Row]:
    """Return rows from measurements, for runs that no warehouse has seen, so without verdicts.

    `errors` holds by case_id the error of its last repeat that failed.
    """
    plans = {each.case_id: each for each in planned}
    rows = []
    for each in measurements:
        plan = plans.get(each.case.case_id)
        rows.append(
            _row(
                {
                    **each.case.axes(),
                    **vars(each),
                    "batch_size_per_device": each.batch_size_per_device,
                    "case_id": each.case.case_id,
                    "run_kind": str(run.run_kind),
                    "build_id": each.build.build_id,
                    "tokens_per_s_per_device": _per_device(each, each.tokens_per_s),
                    "tflops_per_device": _per_device(each, each.model_flops_per_s, 1e12),
                    "status": str(each.status),
                    "verdict": str(each.status) if each.status in _FAILED else None,
                    "private_build": plan is not None and plan.private_build,
                    "untried": plan and plan.untried,
                    "quarantined": each.quarantined,
                    "error": (errors or {}).get(each.case.case_id),
                    "reasons": reasons_to_json((*each.reasons, *each.quarantine_reasons)),
                }
            )
        )
    return rows


def _per_device(measurement: Measurement, total: float | None, unit: float = 1.0) -> float | None:
    return None if total is None else total / measurement.case.trainers / unit


def _row(values: Mapping[str, Any]) -> Row:
    row = {name: _plain(values.get(name)) for name in FIELDS}
    if row["batch_size_per_device"] == MAX_BATCH:
        row["batch_size_per_device"] = None
    return row


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
