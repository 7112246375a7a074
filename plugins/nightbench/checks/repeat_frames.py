"""Makes the frames for checks of repeats: one row for each repeat, rank and step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from nightbench.checks.expectation import CheckContext
from nightbench.checks.transport import wrong_transport
from nightbench.core.model import RankResult, RepeatRecord, RepeatSummary, Strategy
from nightbench.core.sentences import sentences

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1.01
"""A limit's allowance for float32 arithmetic."""

_REPEAT_COLUMNS = {
    "repeat": "int64",
    "process": "object",
    "failure": "object",
    "absent": "object",
    "weights": "object",
    "parameter_counts": "float64",
    "throughput": "float64",
    "throughput_difference": "float64",
    "overlap": "float64",
    "loss_fall": "float64",
}
_RANK_COLUMNS = {
    "repeat": "int64",
    "process": "object",
    "wrong_fields": "object",
    "samples_per_step": "float64",
    "precision": "object",
    "parameters": "float64",
    "steps": "int64",
    "window_wall_s": "float64",
    "shortest_window_s": "float64",
    "window_difference": "float64",
    "backward_steps": "int64",
    "wrong_transport": "object",
    "bad_losses": "object",
    "still": "object",
    "beyond": "object",
}
_STEP_COLUMNS = {
    "repeat": "int64",
    "process": "object",
    "seconds": "float64",
    "times_median": "float64",
}


def repeat_frames(
    context: CheckContext,
    records: Sequence[RepeatRecord],
    summaries: Mapping[int, RepeatSummary],
) -> dict[str, pd.DataFrame]:
    """Return the frames with one row for each repeat, each measuring trainer, and each step."""
    trainers = {p.name for p in context.trainers}
    repeats: list[dict[str, Any]] = []
    ranks: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    for record in records:
        measured = [r for r in record.ranks if r.name in trainers and r.step_seconds]
        repeats.append(_repeat_row(context, record, measured, summaries[record.repeat]))
        for rank in measured:
            where = {"repeat": record.repeat, "process": rank.name}
            typical = median(rank.step_seconds)
            ranks.append(where | _rank_row(context, rank))
            steps.extend(
                where | {"seconds": s, "times_median": s / typical if typical > 0 else None}
                for s in rank.step_seconds
            )
    return {
        "repeats": _frame(repeats, _REPEAT_COLUMNS),
        "ranks": _frame(ranks, _RANK_COLUMNS),
        "steps": _frame(steps, _STEP_COLUMNS),
    }


def _frame(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(columns)).astype(dict(columns))


def _repeat_row(
    context: CheckContext,
    record: RepeatRecord,
    measured: Sequence[RankResult],
    summary: RepeatSummary,
) -> dict[str, Any]:
    difference = None
    if summary.throughput is not None:
        # An unconfirmed throughput counts as contradicted.
        difference = (
            abs(summary.throughput / summary.step_throughput - 1)
            if summary.step_throughput
            else math.inf
        )
    overlap = summary.overlap if summary.overlap is not None else 0.0
    return {
        "repeat": record.repeat,
        "process": "",
        "failure": "" if record.status == "ok" else f"{record.status}: {sentences(record.reasons)}",
        "absent": _absent(context, record, measured),
        "weights": _weights(measured),
        "parameter_counts": len({r.parameters for r in measured if r.parameters is not None}),
        "throughput": summary.throughput,
        "throughput_difference": difference,
        "overlap": overlap if context.asynchronous else None,
        "loss_fall": _loss_fall(measured, summary),
    }


def _loss_fall(measured: Sequence[RankResult], summary: RepeatSummary) -> float | None:
    """Return by how much training has lowered the loss, of the same batches where they are known.

    Ranks that ran no step again are judged by the window's losses, which are of other batches.
    """
    if summary.loss_first is None or summary.loss_median is None:
        return None
    again = [r.loss_again for r in measured if r.loss_again is not None]
    complete = again and len(again) == len(measured)
    return summary.loss_first - (fmean(again) if complete else summary.loss_median)


def _absent(context: CheckContext, record: RepeatRecord, measured: Sequence[RankResult]) -> str:
    """Return processes without a result, trainers without a measurement, and unplanned ones."""
    planned = {p.name: p for p in context.processes}
    arrived = {r.name: r for r in record.ranks}
    windows = {r.name for r in measured}
    trainers = {p.name for p in context.trainers}
    words = [f"{name} is missing" for name in planned if name not in arrived]
    words += [
        f"{name} measured no step"
        for name in planned
        if name in arrived and name in trainers and name not in windows
    ]
    words += [
        f"{name} ran as {r.role} {r.rank} on {r.node}, planned as "
        f"{planned[name].role} {planned[name].rank} on {planned[name].node}"
        for name, r in arrived.items()
        if name in planned
        and (r.role, r.rank, r.node) != (planned[name].role, planned[name].rank, planned[name].node)
    ]
    words += [f"{name} was not planned" for name in arrived if name not in planned]
    return ", ".join(words)


def _weights(measured: Sequence[RankResult]) -> str:
    digests = {r.name: r.weights_digest for r in measured}
    if len(set(digests.values())) <= 1 and None not in digests.values():
        return ""
    return ", ".join(f"{name} {digest[:12] if digest else 'none'}"
                     for name, digest in sorted(digests.items()))  # fmt: skip


def _rank_row(context: CheckContext, rank: RankResult) -> dict[str, Any]:
    total = sum(rank.step_seconds)
    on_clock = rank.window_close_s - rank.window_open_s
    # A parameter server may hold the embedding tables: its trainers then cannot count them.
    uncounted = None if context.case.strategy is Strategy.PARAMETER_SERVER else 0
    ends = rank.step_end_s
    return {
        "wrong_fields": _wrong_fields(rank, context.from_log),
        "samples_per_step": rank.samples_per_step,
        "precision": rank.precision,
        "parameters": rank.parameters if rank.parameters is not None else uncounted,
        "steps": len(rank.step_seconds),
        "window_wall_s": rank.window_wall_s,
        "shortest_window_s": min(rank.window_wall_s, on_clock),
        "window_difference": abs(total / rank.window_wall_s - 1) if rank.window_wall_s else None,
        "backward_steps": sum(b < a for a, b in itertools.pairwise(ends)),
        "wrong_transport": wrong_transport(context.transport, rank.transport),
        "bad_losses": _bad_losses(rank),
        "still": _still(rank, context.from_log),
        "beyond": _beyond(rank),
    }


def _wrong_fields(rank: RankResult, from_log: bool) -> str:
    rules = {
        "samples_per_step": _number(rank.samples_per_step) and rank.samples_per_step > 0,
        "step_end_s": len(rank.step_end_s) >= len(rank.step_seconds),
        "time_to_first_step_s": _number(rank.time_to_first_step_s),
        "peak_memory.resident_bytes": _number(rank.peak_resident_bytes),
        "precision": bool(rank.precision) or from_log,
        "versions": bool(rank.versions),
    }
    return ", ".join(f"{name} is missing or wrong" for name, right in rules.items() if not right)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _still(rank: RankResult, from_log: bool) -> str | None:
    """Return the tensors that did not move, or to where there is no number.

    A log need not state it (None); a rank of ours that is silent is refused.
    """
    if rank.weights_moved is None:
        return None if from_log else "how far its weights moved is not stated"
    if not rank.weights_moved:
        return "no tensor is trained"
    words = [
        f"{name} did not move" if moved.largest == 0 else f"{name} has values that are not finite"
        for name, moved in rank.weights_moved.items()
        if not moved.largest > 0
    ]
    return _first_of(words, f" (of {len(rank.weights_moved)} tensors)")


def _beyond(rank: RankResult) -> str | None:
    """Return the tensors that moved further than the optimiser can move them; None: not stated."""
    if rank.weights_moved is None:
        return None
    return _first_of([
        f"an element of {name} moved by {moved.largest:.3g}, its optimiser's steps allow "
        f"{moved.limit:.3g}"
        for name, moved in rank.weights_moved.items()
        if moved.limit is not None and moved.largest > moved.limit * ROUNDING
    ])  # fmt: skip


def _first_of(words: Sequence[str], of: str = "") -> str:
    more = f" and {len(words) - 3} more" if len(words) > 3 else ""
    return ", ".join(words[:3]) + more + (of if words else "")


def _bad_losses(rank: RankResult) -> str:
    if not rank.loss_window:
        return "no loss was recorded"
    losses = {"first step": rank.loss_first} | {
        f"window step {i}": loss for i, loss in enumerate(rank.loss_window, start=1)
    }
    return _first_of([f"{step} has {loss}" for step, loss in losses.items() if not _number(loss)])
