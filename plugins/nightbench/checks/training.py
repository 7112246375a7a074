"""Checks of what one repeat learned: finite losses, weights that move, a loss that falls.

They are a part of `REPEAT_CHECKS`; add one as there.
"""

import math
from collections.abc import Sequence
from statistics import fmean

from nightbench.checks.engine import NOTHING, POSITIVE, Check, CheckContext, Repeat
from nightbench.core.model import RankResult, Severity

FAIL, WARN = Severity.FAIL, Severity.WARN

ROUNDING = 1.01
"""A limit's allowance for float32 arithmetic."""

CROWDED = 2.0
"""Times its even share of a layer's tokens that an expert may have; a choice of 2 of 8 allows 4."""


def _bad_losses(rank: RankResult) -> str:
    """Return the steps whose loss is no finite number."""
    if not rank.loss_window:
        return "no loss was recorded"
    losses = {"first step": rank.loss_first} | {
        f"window step {i}": loss for i, loss in enumerate(rank.loss_window, start=1)
    }
    return _first_of([f"{step} has {loss}" for step, loss in losses.items() if not is_number(loss)])


def _still(rank: RankResult) -> str:
    """Return the tensors that did not move, or to where there is no number."""
    if rank.weights_moved is None:
        return "how far its weights moved is not stated"
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
    words = [
        f"an element of {name} moved by {moved.largest:.3g}, its optimiser's steps allow "
        f"{moved.limit:.3g}"
        for name, moved in rank.weights_moved.items()
        if moved.limit is not None and moved.largest > moved.limit * ROUNDING
    ]
    return _first_of(words)


def _trainers_step_alone(context: CheckContext) -> bool:
    """Return whether several trainers can: they wait for nobody, and exchange after each step."""
    return context.asynchronous and context.case.sync == "async" and len(context.trainers) > 1


_UNSENT = {
    True: "",
    False: "what it pulls stays the same while it alone trains",
    None: "whether its gradients arrive is not stated",
}


def _loss_fall(repeat: Repeat) -> float | None:
    """Return by how much training has lowered the loss, of the same batches where known."""
    first, window = repeat.summary.loss_first, repeat.summary.loss_median
    if first is None or window is None:
        return None
    again = [r.loss_again for r in repeat.measured if r.loss_again is not None]
    return first - (fmean(again) if again and len(again) == len(repeat.measured) else window)


def _crowded(rank: RankResult) -> str:
    """Return the experts that have too much of their layer's tokens."""
    if rank.expert_tokens is None:
        return "how many tokens its experts have is not stated"
    shares = {
        f"layer {layer}, expert {expert}": tokens * len(counts) / sum(counts)
        for layer, counts in enumerate(rank.expert_tokens)
        for expert, tokens in enumerate(counts)
    }
    crowded = {where: share for where, share in shares.items() if share > CROWDED}
    most = sorted(crowded, key=lambda where: -crowded[where])
    return _first_of([f"{where} has {crowded[where]:.2f} times its share" for where in most])


def is_number(value: object) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _first_of(words: Sequence[str], of: str = "") -> str:
    more = f" and {len(words) - 3} more" if len(words) > 3 else ""
    return ", ".join(words[:3]) + more + (of if words else "")


TRAINING_CHECKS: tuple[Check, ...] = (
    Check(
        "loss_finite", FAIL, "rank", lambda c, rank: _bad_losses(rank), NOTHING,
        "the loss of every step is a finite number",
        of_failed=True,
        from_rank=True,
    ),
    Check(
        "weights_move", FAIL, "rank", lambda c, rank: _still(rank), NOTHING,
        "every trainable tensor moves within the window, by a finite amount",
        from_rank=True,
    ),
    Check(
        "weights_within_steps", FAIL, "rank", lambda c, rank: _beyond(rank), NOTHING,
        "no tensor moves further than its optimiser's steps allow",
        from_rank=True,
    ),
    Check(
        "gradients_arrive", FAIL, "rank", lambda c, rank: _UNSENT[rank.gradients_arrive], NOTHING,
        "servers work every trainer's gradients into what it pulls",
        applies=_trainers_step_alone,
        from_rank=True,
    ),
    Check(
        "loss_falls", FAIL, "repeat", lambda c, repeat: _loss_fall(repeat), POSITIVE,
        "the loss of the first batch is lower after the window than before training",
        show="{:.4g} below",
        applies=lambda c: c.converges,
        from_rank=True,
    ),
    Check(
        "experts_even", WARN, "rank", lambda c, rank: _crowded(rank), NOTHING,
        f"no expert has over {CROWDED:g} times its even share of a layer's tokens",
        applies=lambda c: c.has_experts,
        from_rank=True,
    ),
)  # fmt: skip
