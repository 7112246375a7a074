"""Dataclasses to rows: what a statement takes as its parameters, by column name."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from statistics import median
from typing import Any

from psycopg2.extras import Json

from nightbench.core.model import (
    FIGURES,
    CheckResult,
    Cluster,
    MeasuredPair,
    Measurement,
    PlannedCase,
    RankResult,
    Reason,
    ReasonCode,
    RepeatSummary,
    RepeatToLoad,
)

Row = dict[str, Any]

_NO_COLUMNS = frozenset(
    {"run_id", "case", "cluster", "build", "repeats", "python", "status", "reasons", "checks"}
)
MEASUREMENT_COLUMNS = [each.name for each in fields(Measurement) if each.name not in _NO_COLUMNS]
"""Columns of `raw.measurement` that are fields of a measurement."""


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


def planned_row(planned: PlannedCase) -> Row:
    """A planned case, without its keys."""
    return {
        "unit": planned.unit,
        "definition_digest": planned.definition_digest,
        "left_out": planned.left_out and Json(_reason(planned.left_out)),
        "is_private_build": planned.private_build,
        "untried": planned.untried,
    }


def repeat_row(repeat: RepeatToLoad) -> Row:
    """A repeat: its numbers, and those of the steps of the rank with the longest window."""
    record, summary = repeat.record, repeat.summary
    trainers = [r for r in record.ranks if r.step_seconds]
    slowest = max(trainers, key=lambda r: (r.window_wall_s, -r.rank), default=None)
    row: Row = {
        "status": record.status,
        "started_at": record.started_at,
        "error": record.error,
        "slowest_rank": slowest and slowest.name,
        "steps": slowest and len(slowest.step_seconds),
        "median_step_s": slowest and median(slowest.step_seconds),
    }
    reasons = list(record.reasons)
    if summary is not None and summary.problem is not None and not reasons:
        reasons.append(summary.problem)
    for column in ("throughput", "step_throughput", "window_s", "samples"):
        value = getattr(summary, column, None)
        row[column] = _positive(value)
        if row[column] is None and value is not None:
            # The column takes positive finite values only; the check's row keeps what was found.
            reasons.append(Reason(ReasonCode.BAD_FIGURE, subject=column, observed=str(value)))
    row["reasons"] = reasons_document(reasons)
    for column in ("overlap", "drift", "power_w", "loss_first", "loss_median"):
        row[column] = getattr(summary, column, None)
    row["reported"] = _named(getattr(summary, "reported", None))
    return row | _figures(summary)


def rank_row(rank: RankResult) -> Row:
    """One process of a repeat."""
    same = (
        *("role", "rank", "node", "samples_per_step", "window_open_s", "window_close_s"),
        *("window_wall_s", "loss_first"),
        *("weights_digest", "parameters", "precision", "transport"),
    )
    return {
        "process": rank.name,
        **{column: getattr(rank, column) for column in same},
        "step_seconds": _numbers(rank.step_seconds),
        "step_end_s": _numbers(rank.step_end_s),
        "loss_window": _numbers(rank.loss_window),
        **_figures(rank),
        "versions": Json(dict(rank.versions)),
    }


def measurement_row(m: Measurement, quarantined: bool) -> Row:
    """A measurement, but for its status, which is the case's."""
    row: Row = {column: getattr(m, column) for column in MEASUREMENT_COLUMNS}
    row["reported"] = _named(m.reported)
    row["losses"] = m.losses and Json({name: list(ends) for name, ends in m.losses.items()})
    row |= _figures(m)
    if quarantined and not (
        row["throughput"] is None
        or (
            _positive(row["throughput"]) and _positive(row["minimum"]) and _positive(row["maximum"])
        )
    ):
        # A quarantined value that is no throughput: the row of its check has what was observed.
        # A value that is not quarantined is stored as it is, and the table refuses it.
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
                "observed": check.observed,
                "expected": check.expected,
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


def reasons_document(reasons: Iterable[Reason]) -> Json:
    """Reasons as a column holds them."""
    return Json([_reason(reason) for reason in reasons])


def _reason(reason: Reason) -> Row:
    return {key: text(value) for key, value in reason.to_json().items()}


def _numbers(values: Iterable[float | None]) -> str:
    """An array as PostgreSQL's text form; a list would become an expression to parse."""
    return "{" + ",".join("NULL" if v is None else repr(float(v)) for v in values) + "}"


def _named(figures: Mapping[str, float] | None) -> Json | None:
    return Json(dict(figures)) if figures else None


def _figures(result: RankResult | RepeatSummary | Measurement | None) -> Row:
    """The figures of a result; bytes as whole numbers."""
    found = {name: getattr(result, name, None) for name in FIGURES}
    return {
        name: value if value is None or name.endswith("_s") else int(value)
        for name, value in found.items()
    }


def _positive(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value > 0 else None


def text(value: str | None) -> str | None:
    """Text without NUL, which PostgreSQL's has not and a process's message may."""
    return None if value is None else value.replace("\x00", "\\x00")


def pair_row(run_id: str, pair: MeasuredPair) -> Row:
    """Result of a case with a reference build, for `raw.night_pair`."""
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
