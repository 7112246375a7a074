"""One row for each planned case of a run: what `nightbench results --json` prints."""

from collections.abc import Iterable, Mapping
from datetime import date
from itertools import chain
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

COLUMNS: dict[str, tuple[str, ...]] = {
    "marts.fct_measurement": (
        *("run_id", "run_kind", "case_id", "cluster", "framework", "framework_version", "build_id"),
        *("untried", "workload", "strategy", "nodes", "devices_per_node", "trainers", "pservers"),
        *("sync", "batch_size_per_device", "precision", "scale", "data", "throughput", "unit", "n"),
        *("spread", "half_width", "speedup", "efficiency", "baseline_case_id"),
        *("time_to_first_step_s", "peak_resident_bytes", "peak_allocator_bytes"),
        *("sent_bytes_per_step", "data_wait_s"),
        *("tokens_per_s", "model_flops_per_s", "tokens_per_s_per_device", "tflops_per_device"),
        *("device", "peak_flops", "mfu", "mfu_absent", "reported", "power_w", "joules_per_unit"),
        "energy_absent",
    ),
    "marts.fct_verdict": (
        *("training", "training_sentence", "metric", "baseline", "change"),
        *("level_change", "smallest_slowdown"),
    ),
    "marts.series_state": (
        *("alert_id", "alert_verdict", "alert_change", "drift", "drift_since", "noisy"),
    ),
}
"""View -> fields of a row that mean what its columns mean."""

OWN: dict[str, str] = {
    "python": "Python version of the ranks; all versions if ranks differ; null if nothing ran",
    "private_build": "true if the build was named for this run and replaced the suite's build",
    "status": "ok, failed, cancelled, unavailable, missing, or left_out if the night had no time "
    "for it; waiting or running before it ends",
    "minimum": "smallest throughput of these repeats",
    "maximum": "largest throughput of these repeats",
    "mad": "median absolute deviation of these repeats",
    "verdict": "ok, watched, regressed, improved, insufficient_data, failed, unavailable, missing; "
    "null before the verdict, and for cases that were left out",
    "verdict_sentence": "evidence of the verdict, in sentences",
    "change_low": "lower end of the 90 % interval of level_change",
    "change_high": "upper end of the 90 % interval of level_change",
    "nightly_version": "framework version of the previous night; null without a night before",
    "quarantined": "true if a check rejected the value",
    "error": "end of the traceback or output of the last failed repeat; null if no repeat failed",
    "reasons": "reasons why the case failed, was quarantined or was left out: a list of {code, "
    "node, subject, observed, expected}",
}
"""Its other fields, with what they mean."""

FIELDS = (*chain.from_iterable(COLUMNS.values()), *OWN)


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
