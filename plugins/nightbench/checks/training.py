"""Checks of a repeat's training, and of the configuration it ran in.

Finite losses, weights that move, a loss that decreases; no fallback, and losses that are the CPU's.
They are a part of `REPEAT_CHECKS`; add one as there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from nightbench.checks.engine import NOTHING, Check, CheckContext, Expectation, Repeat
from nightbench.core.model import LINE_AXES, RankResult, Severity, Strategy

FAIL, WARN = Severity.FAIL, Severity.WARN

ROUNDING = 1.01
"""A limit's allowance for float32 arithmetic."""

CROWDED = 2.0
"""Times its even share of a layer's tokens that an expert may have; a choice of 2 of 8 allows 4."""

WORK_TOLERANCE = 0.02
"""Relative difference of the FLOPs of a step from its model's; counters and formulas agree on all
shipped workloads within 0.2 %."""

FEW_SKIPPED = 3
"""Updates that a loss scale may skip in a window until it has settled, in addition to one in a
thousand. It is doubled after 2,000 good steps at the earliest."""


def _bad_losses(rank: RankResult) -> str:
    """Return the steps whose loss is no finite number."""
    if not rank.loss_window:
        return "no loss was recorded"
    losses = {"first step": rank.loss_first} | {
        f"window step {i}": loss for i, loss in enumerate(rank.loss_window, start=1)
    }
    return _first_of([f"{step} has {loss}" for step, loss in losses.items() if not is_number(loss)])


def _unchanged(rank: RankResult) -> str:
    """Return the tensors that did not change, or that became not finite."""
    if rank.weights_moved is None:
        return "the rank does not report the change of its weights"
    if not rank.weights_moved:
        return "no tensor is trained"
    words = [
        f"{name} did not change" if moved.largest == 0 else f"{name} has values that are not finite"
        for name, moved in rank.weights_moved.items()
        if not moved.largest > 0
    ]
    return _first_of(words, f" (of {len(rank.weights_moved)} tensors)")


def _beyond_step_limit(rank: RankResult) -> str | None:
    """Return tensors that moved further than the optimizer can move them; None if not stated."""
    if rank.weights_moved is None:
        return None
    words = [
        f"an element of {name} changed by {moved.largest:.3g}; the optimizer's steps allow "
        f"{moved.limit:.3g}"
        for name, moved in rank.weights_moved.items()
        if moved.limit is not None and moved.largest > moved.limit * ROUNDING
    ]
    return _first_of(words)


def _trainers_step_alone(context: CheckContext) -> bool:
    """Return whether several trainers step without waiting and exchange after each step."""
    return context.asynchronous and context.case.sync == "async" and len(context.trainers) > 1


_UNSENT = {
    True: "",
    False: "the weights that it pulls do not change while only this trainer trains",
    None: "the rank does not report whether its gradients arrive",
}


def _loss_not_lower(repeat: Repeat) -> str | None:
    """Return how much the loss is higher than before training, and which losses are compared."""
    first, last = repeat.summary.loss_first, repeat.summary.loss_median
    compared = "the median loss of the window is higher by {:.4g} than the loss of the first step"
    again = [r.loss_again for r in repeat.measured if r.loss_again is not None]
    if again and len(again) == len(repeat.measured):
        last = fmean(again)
        compared = "the loss of the first batch is higher by {:.4g} after the window"
    if first is None or last is None:
        return None
    return "" if last < first else compared.format(last - first)


def _work_done(context: CheckContext, rank: RankResult) -> float | None:
    """Return a step's FLOPs divided by the model's FLOPs; None if they were not counted."""
    model = (context.step_flops_per_unit or 0.0) * rank.samples_per_step
    return None if rank.flops_per_step is None or not model else rank.flops_per_step / model


def _skipped(rank: RankResult) -> str:
    """Return the number of skipped updates if it is more than a few."""
    skipped, steps = rank.skipped_updates or 0, len(rank.step_seconds)
    return "" if skipped <= FEW_SKIPPED + steps // 1000 else f"{skipped} of {steps} updates skipped"


def _overloaded(rank: RankResult) -> str:
    """Return the experts that get too many of their layer's tokens."""
    if rank.expert_tokens is None:
        return "the rank does not report the tokens of its experts"
    shares = {
        f"layer {layer}, expert {expert}": tokens * len(counts) / sum(counts)
        for layer, counts in enumerate(rank.expert_tokens)
        for expert, tokens in enumerate(counts)
    }
    crowded = {where: share for where, share in shares.items() if share > CROWDED}
    most = sorted(crowded, key=lambda where: -crowded[where])
    return _first_of([f"{where} has {crowded[where]:.2f} times its even share" for where in most])


def is_number(value: object) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _first_of(words: Sequence[str], of: str = "") -> str:
    more = f" and {len(words) - 3} more" if len(words) > 3 else ""
    return ", ".join(words[:3]) + more + (of if words else "")


TOLERANCES: Mapping[str, float] = {"fp32": 1e-3, "tf32": 5e-3, "fp16": 5e-3, "bf16": 2e-2}
"""Largest difference of a loss from the CPU's in float32: of 1, or of the loss if that is more.
Lines differ by 1e-4 there; the types keep 24, 11, 11 and 8 bits."""

DROPOUT_TOLERANCE = 0.01
"""The least of it if dropout is on: its random numbers are each line's own."""

_OWN_AXES = (
    *("compiler", "execution", "layout", "compression"),
    *("shard_stage", "tensor", "context", "expert", "schedule", "state_precision"),
    "tuning",
)

_SLOWER = ("gloo", "mpi", "grpc", "tcp")
"""Transports of gradients between GPUs without NCCL."""


def _requested(context: CheckContext) -> dict[str, str]:
    """Return axis -> value for each axis that differs from all lines' defaults."""
    found = {axis: getattr(context.case, axis) for axis in _OWN_AXES}
    return {axis: str(x) for axis, x in found.items() if x != LINE_AXES[axis]}


def _between_gpus(context: CheckContext) -> bool:
    on_gpus = any(process.device is not None for process in context.trainers)
    return on_gpus and context.case.strategy is Strategy.COLLECTIVE and len(context.trainers) > 1


def _fell_back(context: CheckContext, rank: RankResult) -> str:
    """Return the axes that ran differently from the case."""
    words = [
        f"{axis} is {rank.modes[axis]}, not {value}"
        for axis, value in _requested(context).items()
        if rank.modes.get(axis, value) != value
    ]
    carried = (rank.transport or "").split("/")[0]
    if _between_gpus(context) and carried in _SLOWER:
        words.append(f"gradients go over {carried}, not NCCL")
    return ", ".join(words)


def _unreported(context: CheckContext, rank: RankResult) -> str:
    """Return the axes that the case requests and the rank does not report."""
    asked = _requested(context)
    words = [f"{axis} {value}" for axis, value in asked.items() if axis not in rank.modes]
    if _between_gpus(context) and rank.transport is None:
        words.append("transport")
    return ", ".join(words)


def _tolerance(context: CheckContext) -> float:
    most = TOLERANCES.get(context.case.precision, 0.0)
    return max(most, DROPOUT_TOLERANCE) if context.has_dropout else most


def _has_reference(context: CheckContext) -> bool:
    """Return whether the CPU's losses are known and trainers begin with the same weights."""
    known = context.losses is not None and context.case.precision in TOLERANCES
    return known and not context.asynchronous


def _strange_losses(context: CheckContext, rank: RankResult) -> str:
    """Return the losses that are not the CPU's.

    That of the third step is compared if two warm-up steps come before the window and the
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
            words.append(f"{step} step: loss {found:.6g}, on a CPU {wanted:.6g}")
    return ", ".join(words)


TRAINING_CHECKS: tuple[Check, ...] = (
    Check(
        "loss_finite", FAIL, "rank", lambda c, rank: _bad_losses(rank), NOTHING,
        "the loss of every step is a finite number",
        of_failed=True,
        from_rank=True,
    ),
    Check(
        "weights_move", FAIL, "rank", lambda c, rank: _unchanged(rank), NOTHING,
        "every trainable tensor changes within the window, by a finite amount",
        from_rank=True,
    ),
    Check(
        "weights_within_steps", FAIL, "rank", lambda c, rank: _beyond_step_limit(rank), NOTHING,
        "no tensor changes by more than its optimizer's steps allow",
        from_rank=True,
    ),
    Check(
        "gradients_arrive", FAIL, "rank", lambda c, rank: _UNSENT[rank.gradients_arrive], NOTHING,
        "gradients of every trainer change the weights that it pulls from the servers",
        applies=_trainers_step_alone,
        from_rank=True,
    ),
    Check(
        "loss_falls", FAIL, "repeat", lambda c, repeat: _loss_not_lower(repeat), NOTHING,
        "training lowers the loss",
        applies=lambda c: c.converges,
        from_rank=True,
    ),
    Check(
        "work_done", FAIL, "rank", _work_done,
        Expectation(low=1 - WORK_TOLERANCE, high=1 + WORK_TOLERANCE),
        f"a step computes the model's FLOPs for the whole batch within {WORK_TOLERANCE:.0%}",
        show="{:.1%}",
        applies=lambda c: c.step_flops_per_unit is not None,
        from_rank=True,
    ),
    Check(
        "few_updates_skipped", WARN, "rank", lambda c, rank: _skipped(rank), NOTHING,
        f"overflows skip at most {FEW_SKIPPED} updates of the window, plus one in 1,000 steps",
        applies=lambda c: c.case.precision == "fp16",
        from_rank=True,
    ),
    Check(
        "experts_even", WARN, "rank", lambda c, rank: _overloaded(rank), NOTHING,
        f"no expert has over {CROWDED:g} times its even share of a layer's tokens",
        applies=lambda c: c.has_experts,
        from_rank=True,
    ),
    Check(
        "mode_used", FAIL, "rank", _fell_back, NOTHING,
        lambda c: f"every trainer runs as the case requests: {c.case.mode}",
        applies=lambda c: bool(_requested(c)) or _between_gpus(c),
        from_rank=True,
    ),
    Check(
        "mode_reported", WARN, "rank", _unreported, NOTHING,
        "every trainer reports whether each requested option was used",
        applies=lambda c: bool(_requested(c)) or _between_gpus(c),
        from_rank=True,
    ),
    Check(
        "losses_of_reference", FAIL, "rank", _strange_losses, NOTHING,
        lambda c: f"the first losses equal those of float32 on a CPU within {_tolerance(c):.1%}",
        applies=_has_reference,
        from_rank=True,
    ),
)  # fmt: skip
