"""Dataclasses to rows: what a statement takes as its parameters, by column name."""

import math
from collections.abc import Iterable
from statistics import median
from typing import Any

from psycopg2.extras import Json

from nightbench.core.model import (
    Build,
    Case,
    CheckResult,
    Cluster,
    MeasuredPair,
    Measurement,
    PlannedCase,
    RankResult,
    Reason,
    ReasonCode,
    RepeatBundle,
    Run,
    Strategy,
    Verdict,
)

Row = dict[str, Any]

MEASUREMENT_COLUMNS = (
    *("framework_version", "unit", "n", "throughput", "minimum", "maximum", "mad"),
    *("spread", "half_width", "speedup", "efficiency", "baseline_case_id"),
    *("time_to_first_step_s", "peak_resident_bytes", "peak_allocator_bytes", "found_batch_size"),
    *("sent_bytes_per_step", "data_wait_s", "power_w", "joules_per_unit", "energy_absent"),
    *("tokens_per_s", "model_flops_per_s", "device", "peak_flops", "mfu", "mfu_absent"),
    *("plain_ratio", "plain_low", "plain_high", "plain_absent"),
    *("definition_digest", "fingerprint_id"),
)


def run_row(run: Run, origin: str) -> Row:
    """A run."""
    return {**vars(run), "run_kind": run.run_kind.value, "origin": origin}


def cluster_row(cluster: Cluster) -> Row:
    """A cluster."""
    return {
        "cluster": cluster.name,
        "description": cluster.description,
        "device_kind": cluster.device_kind,
        "devices_per_node": cluster.devices_per_node,
        "nodes": [node.name for node in cluster.nodes],
        "shared": cluster.shared,
    }


def build_row(build: Build) -> Row:
    """A build."""
    return {**vars(build), "build_id": build.build_id}


def case_row(case: Case) -> Row:
    """A case with every axis."""
    axes = case.axes()
    batch = axes["batch_size_per_device"]
    return {
        "case_id": case.case_id,
        **axes,
        "batch_size_per_device": None if batch == "max" else batch,
        # Without parameter servers the axis says nothing.
        "sync": axes["sync"] if case.strategy is Strategy.PARAMETER_SERVER else None,
        "axes": Json(axes),
    }


def planned_row(planned: PlannedCase) -> Row:
    """A planned case, without its keys."""
    return {
        "unit": planned.unit,
        "definition_digest": planned.definition_digest,
        "left_out": planned.left_out and Json(_reason(planned.left_out)),
        "is_private_build": planned.private_build,
        "untried": planned.untried,
    }


def repeat_row(bundle: RepeatBundle) -> Row:
    """A repeat: its numbers, and those of the steps of the rank with the longest window."""
    record, summary = bundle.record, bundle.summary
    trainers = [r for r in record.ranks if r.step_seconds]
    slowest = max(trainers, key=lambda r: (r.window_wall_s, -r.rank), default=None)
    row: Row = {
        "status": record.status,
        "started_at": record.started_at,
        "error": text(record.error),
        "slowest_rank": slowest and slowest.name,
        "steps": slowest and len(slowest.step_seconds),
        "median_step_s": slowest and number(median(slowest.step_seconds)),
    }
    reasons = list(record.reasons)
    if summary is not None and summary.problem is not None and not reasons:
        reasons.append(summary.problem)
    for column in ("throughput", "step_throughput", "window_s", "samples"):
        value = number(getattr(summary, column, None))
        row[column] = _positive(value)
        if row[column] is None and value is not None:
            # The column takes positive finite figures only; what was found stays readable.
            reasons.append(Reason(ReasonCode.BAD_FIGURE, subject=column, observed=str(value)))
    row["reasons"] = reasons_document(reasons)
    for column in (
        *("overlap", "drift", "time_to_first_step_s", "data_wait_s", "power_w"),
        *("loss_first", "loss_median"),
    ):
        row[column] = number(getattr(summary, column, None))
    for column in ("peak_resident_bytes", "peak_allocator_bytes", "sent_bytes_per_step"):
        row[column] = _whole(getattr(summary, column, None))
    return row


def rank_row(rank: RankResult) -> Row:
    """One process of a repeat."""
    numbers = (
        *("samples_per_step", "window_open_s", "window_close_s", "window_wall_s"),
        *("time_to_first_step_s", "data_wait_s", "loss_first"),
    )
    return {
        "process": rank.name,
        **{column: getattr(rank, column) for column in ("role", "rank", "node")},
        **{column: number(getattr(rank, column)) for column in numbers},
        "step_seconds": _numbers(rank.step_seconds),
        "step_end_s": _numbers(rank.step_end_s),
        "loss_window": _numbers(rank.loss_window),
        "weights_digest": rank.weights_digest,
        "parameters": rank.parameters,
        "peak_resident_bytes": _whole(rank.peak_resident_bytes),
        "peak_allocator_bytes": _whole(rank.peak_allocator_bytes),
        "sent_bytes_per_step": _whole(rank.sent_bytes_per_step),
        "precision": rank.precision,
        "transport": rank.transport,
        "versions": Json(dict(rank.versions)),
    }


def measurement_row(m: Measurement, quarantined: bool) -> Row:
    """A measurement, but for its status, which is the case's."""
    row: Row = {
        "framework_version": m.framework_version,
        "unit": m.unit,
        "n": m.n,
        "baseline_case_id": m.baseline_case_id,
        "peak_resident_bytes": _whole(m.peak_resident_bytes),
        "peak_allocator_bytes": _whole(m.peak_allocator_bytes),
        "sent_bytes_per_step": _whole(m.sent_bytes_per_step),
        "found_batch_size": m.found_batch_size,
        "energy_absent": text(m.energy_absent),
        "device": text(m.device),
        "mfu_absent": m.mfu_absent,
        "plain_absent": text(m.plain_absent),
        "definition_digest": m.definition_digest,
        "fingerprint_id": m.fingerprint_id,
    }
    row |= {k: number(getattr(m, k)) for k in MEASUREMENT_COLUMNS if k not in row}
    if quarantined and not (
        row["throughput"] is None
        or (
            _positive(row["throughput"]) and _positive(row["minimum"]) and _positive(row["maximum"])
        )
    ):
        # A quarantined figure that is no throughput at all: its check holds what was observed.
        # One that is not quarantined goes as it is, and the table refuses it.
        figures = ("throughput", "minimum", "maximum", "mad", "spread", "half_width")
        row |= dict.fromkeys((*figures, "speedup", "efficiency"))
        row |= dict.fromkeys(("tokens_per_s", "model_flops_per_s", "mfu", "joules_per_unit"))
    return row


def failed_check_rows(checks: Iterable[CheckResult]) -> list[Row]:
    """Checks that failed, those of one check on one subject numbered."""
    rows, seen = [], dict[tuple[str, int, str], int]()
    for check in checks:
        if check.success:
            continue
        identity = (check.subject, check.repeat or 0, check.check)
        ordinal = seen[identity] = seen.get(identity, -1) + 1
        rows.append(
            {
                "subject": check.subject,
                "repeat": check.repeat or 0,
                "check_name": check.check,
                "ordinal": ordinal,
                "severity": check.severity.value,
                "observed": text(check.observed),
                "expected": text(check.expected),
            }
        )
    return rows


def quarantine_reasons(checks: Iterable[CheckResult]) -> dict[tuple[str, int], Json]:
    """Reasons by subject and repeat (0: the measurement) of what failed a check."""
    reasons: dict[tuple[str, int], list[Reason]] = {}
    for c in checks:
        if c.quarantines:
            reasons.setdefault((c.subject, c.repeat or 0), []).append(c.reason)
    return {subject: reasons_document(found) for subject, found in reasons.items()}


def verdict_row(verdict: Verdict) -> Row:
    """A verdict; an alert takes its columns from the same row."""
    return {
        **vars(verdict),
        "kind": verdict.kind.value,
        "sentence": text(verdict.sentence),
        "value": number(verdict.value),
        "baseline": number(verdict.baseline),
        "change": number(verdict.change),
    }


def stored_verdict(verdict: Verdict) -> Row:
    """A verdict as its table has it, without its keys."""
    names = {"case_id", "cluster", "run_id"}
    row = {name: value for name, value in verdict_row(verdict).items() if name not in names}
    return row | {name: number(row[name]) for name in ("level_change", "low", "high")}


def reasons_document(reasons: Iterable[Reason]) -> Json:
    """Reasons as a column holds them."""
    return Json([_reason(reason) for reason in reasons])


def _reason(reason: Reason) -> Row:
    return {key: text(value) for key, value in reason.to_json().items()}


def number(value: float | None) -> float | None:
    """A float that SQL can print: numpy's scalars would say `np.float64(...)`."""
    return None if value is None else float(value)


def _numbers(values: Iterable[float | None]) -> str:
    """An array as PostgreSQL reads it from text: a list would become an expression to parse."""
    return "{" + ",".join("NULL" if v is None else repr(float(v)) for v in values) + "}"


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _positive(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value > 0 else None


def text(value: str | None) -> str | None:
    """Text without NUL, which PostgreSQL's has not and a process's message may."""
    return None if value is None else value.replace("\x00", "\\x00")


def pair_row(run_id: str, pair: MeasuredPair) -> Row:
    """What a case brought beside a reference build, for `raw.night_pair`."""
    night, reference = pair.medians or (None, None)
    return {
        "run_id": run_id,
        "case_id": pair.case_id,
        "reference": pair.reference.build_id,
        "build": Json(vars(pair.reference)),
        "is_bridge": pair.is_bridge,
        "n": len(pair.pairs),
        "night_throughput": night,
        "reference_throughput": reference,
        "ratio": pair.ratio,
        "low": pair.low,
        "high": pair.high,
        "spread": pair.spread,
        "pairs": Json([vars(each) for each in pair.pairs]),
        "why": pair.why or None,
    }
