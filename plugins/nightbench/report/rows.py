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
    "run_kind": "why it was made: nightly, on_demand, confirm, backfill, drill, acceptance",
    "case_id": "the case, readable",
    "cluster": "where it ran",
    "framework": "framework line",
    "framework_version": "as the framework itself said; null where nothing ran",
    "python": "version of the Python that ran it; all if ranks differ; null where nothing ran",
    "build_id": "which build of the line",
    "private_build": "true where the build was named for this run and is not the suite's own",
    "untried": "why this configuration counts as untried on such devices; null if it was tried",
    "workload": "what was trained",
    "strategy": "single, collective or parameter_server",
    "nodes": "nodes",
    "devices_per_node": "devices on each node",
    "trainers": "data-parallel ranks",
    "pservers": "parameter servers",
    "sync": "how trainers wait for each other (parameter_server)",
    "batch_size_per_device": "samples in a step of one trainer, found by the run where the case "
    "says max; null where it found none",
    "precision": "fp32, tf32, bf16 or fp16",
    "scale": "size of the workload",
    "data": "what was fed to the model",
    "status": "ok, failed, cancelled, unavailable, missing, or left_out if the night had no time "
    "for it; waiting or running before it ends",
    "throughput": "median over the good repeats, in units per second; null where there is none",
    "unit": "unit of work",
    "n": "repeats that count",
    "minimum": "smallest of them",
    "maximum": "largest of them",
    "mad": "median absolute deviation",
    "spread": "(maximum - minimum) / median",
    "half_width": "relative 95 % confidence half-width (t on logarithms); null if n < 3",
    "speedup": "throughput / that of the baseline case of the same run",
    "efficiency": "speedup / (trainers / trainers of the baseline)",
    "baseline_case_id": "the baseline case",
    "time_to_first_step_s": "from process start to the end of the first step, seconds",
    "peak_resident_bytes": "largest resident memory of a trainer",
    "peak_allocator_bytes": "largest device memory that the allocator of a trainer had reserved; "
    "null if no allocator counts it",
    "sent_bytes_per_step": "bytes that a trainer sends in a step, where the line counts them "
    "(PyTorch); null elsewhere",
    "data_wait_s": "seconds that a step waited for its batch, median of the repeats; null for "
    "synthetic data",
    "tokens_per_s": "tokens per second of all devices; null for what is no language model",
    "model_flops_per_s": "FLOP/s that the model's mathematics need, forward and backward, of all "
    "devices; null where the workload states none",
    "tokens_per_s_per_device": "tokens_per_s / trainers",
    "tflops_per_device": "model_flops_per_s / trainers, in TFLOP/s",
    "device": "model of the devices; null where unknown or where nodes differ",
    "peak_flops": "dense peak of all devices together at the precision of the case, FLOP/s",
    "mfu": "model_flops_per_s / peak_flops; null where either is unknown",
    "mfu_absent": "why there is no mfu",
    "reported": "values that the training script printed itself, such as its own MFU: by name, as "
    "printed, median of the repeats; null if none",
    "power_w": "mean power of all devices in the windows, W: of GPUs, or of CPU packages",
    "joules_per_unit": "energy of the devices for a unit of work, J: power / throughput, median of "
    "the repeats",
    "energy_absent": "why there is no energy",
    "verdict": "ok, watched, regressed, improved, insufficient_data, failed, unavailable, missing; "
    "null before judging and where it was left out",
    "verdict_sentence": "the verdict's evidence",
    "training": "same, changed or not_comparable: whether it trained as before",
    "training_sentence": "the evidence for training",
    "metric": "column that was judged; baseline and changes refer to it; null before judging",
    "baseline": "median of the earlier nights for comparison; null without a history",
    "change": "judged value of this run / baseline - 1",
    "level_change": "relative change of the level over several nights",
    "change_low": "90 % interval of level_change: from",
    "change_high": "and to",
    "smallest_slowdown": "minimum detectable slowdown: a lasting drop of this size is reported "
    "within a week in nine of ten cases; null before judging and for short histories",
    "nightly_version": "framework version of the newest night before it; null without one",
    "alert_id": "the live alert of the series, which a later run may have opened; null without one",
    "alert_verdict": "what that alert is about: regressed, failed, unavailable or missing",
    "alert_change": "relative change that it reports; null where it is about a missing value",
    "drift": "relative change of a series that drifts slowly; null if it does not",
    "drift_since": "the first night of the drift",
    "noisy": "why the series is too noisy to open alerts; null for all others",
    "quarantined": "true if a check rejected the value",
    "error": "end of the traceback of the last repeat that failed, or of its output; null where "
    "none did",
    "reasons": "why it failed, was quarantined or left out: a list of {code, node, subject, "
    "observed, expected}",
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
