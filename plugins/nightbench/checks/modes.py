"""Checks of the mode that a repeat ran in: no fallback, and losses that are the CPU's.

They are a part of `REPEAT_CHECKS`; add one as there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from nightbench.checks.engine import NOTHING, Check, CheckContext
from nightbench.core.model import LINE_AXES, RankResult, Severity, Strategy

TOLERANCES: Mapping[str, float] = {"fp32": 1e-3, "tf32": 5e-3, "fp16": 5e-3, "bf16": 2e-2}
"""Largest difference of a loss from the CPU's in float32: of 1, or of the loss where that is more.
Lines differ by 1e-4 there; the types keep 24, 11, 11 and 8 bits."""

DROPOUT_TOLERANCE = 0.01
"""The least of it where dropout is on: its random numbers are each line's own."""

FAIL, WARN = Severity.FAIL, Severity.WARN

_OWN_AXES = (
    *("compiler", "execution", "layout", "compression"),
    *("shard_stage", "tensor", "context", "expert", "schedule", "state_precision"),
    "tuning",
)

_SLOWER = ("gloo", "mpi", "grpc", "tcp")
"""What carries gradients between GPUs where NCCL was not used."""


def _asked(context: CheckContext) -> dict[str, str]:
    """Return axis -> value of what the case asks for beside every line's defaults."""
    found = {axis: getattr(context.case, axis) for axis in _OWN_AXES}
    return {axis: str(x) for axis, x in found.items() if x != LINE_AXES[axis]}


def _between_gpus(context: CheckContext) -> bool:
    """Whether ranks on GPUs exchange gradients."""
    on_gpus = any(process.device is not None for process in context.trainers)
    return on_gpus and context.case.strategy is Strategy.COLLECTIVE and len(context.trainers) > 1


def _fell_back(context: CheckContext, rank: RankResult) -> str:
    """Return what ran otherwise than the case asks."""
    words = [
        f"{axis} is {rank.modes[axis]}, not {value}"
        for axis, value in _asked(context).items()
        if rank.modes.get(axis, value) != value
    ]
    carried = (rank.transport or "").split("/")[0]
    if _between_gpus(context) and carried in _SLOWER:
        words.append(f"gradients go over {carried}, not NCCL")
    return ", ".join(words)


def _untold(context: CheckContext, rank: RankResult) -> str:
    """Return what the case asks for and the rank says nothing of."""
    words = [f"{axis} {value}" for axis, value in _asked(context).items() if axis not in rank.modes]
    if _between_gpus(context) and rank.transport is None:
        words.append("transport")
    return ", ".join(words)


def _tolerance(context: CheckContext) -> float:
    most = TOLERANCES.get(context.case.precision, 0.0)
    return max(most, DROPOUT_TOLERANCE) if context.has_dropout else most


def _has_reference(context: CheckContext) -> bool:
    """Whether the losses of the CPU are known, and trainers begin with the same weights."""
    known = context.losses is not None and context.case.precision in TOLERANCES
    return known and not context.asynchronous


def _strange_losses(context: CheckContext, rank: RankResult) -> str:
    """Return the losses that are not the CPU's.

    That of the third step is compared where two warm-up steps come before the window and the
    updates are those of plain training: not with parameter servers or compressed gradients, nor in
    fp16, whose loss scale may leave an update out.
    """
    if context.losses is None:
        return ""
    case = context.case
    pairs = [("first", rank.loss_first, context.losses.first)]
    plain = case.compression == "none" and case.strategy is not Strategy.PARAMETER_SERVER
    if plain and case.precision != "fp16" and context.protocol.warmup_steps == 2:
        after = rank.loss_window[0] if rank.loss_window else None
        pairs.append(("third", after, context.losses.third.get(str(len(context.trainers)), ())))
    words = []
    for step, found, expected in pairs:
        if rank.rank >= len(expected):
            continue
        wanted = expected[rank.rank]
        found = math.nan if found is None else found
        if not abs(found - wanted) <= _tolerance(context) * max(1.0, abs(wanted)):
            words.append(f"{step} step {found:.6g}, on a CPU {wanted:.6g}")
    return ", ".join(words)


MODE_CHECKS: tuple[Check, ...] = (
    Check(
        "mode_used", FAIL, "rank", _fell_back, NOTHING,
        lambda c: f"every trainer runs as the case asks: {c.case.mode}",
        applies=lambda c: bool(_asked(c)) or _between_gpus(c),
        from_rank=True,
    ),
    Check(
        "mode_told", WARN, "rank", _untold, NOTHING,
        "every trainer tells of what the case asks for whether it was used",
        applies=lambda c: bool(_asked(c)) or _between_gpus(c),
        from_rank=True,
    ),
    Check(
        "losses_of_reference", FAIL, "rank", _strange_losses, NOTHING,
        lambda c: f"the first losses are those of float32 on a CPU within {_tolerance(c):.1%}",
        applies=_has_reference,
        from_rank=True,
    ),
)  # fmt: skip
