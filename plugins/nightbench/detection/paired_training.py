"""Says whether two builds train the same, and from which step on they do not. Pure.

The rules of nights decide: the launches of A are the nights before, those of B are tonight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from nightbench.core.losses import EARLY_STEPS, MEAN_STEPS, LaunchLosses
from nightbench.core.model import Protocol, TrainingKind
from nightbench.core.run_plan import CasePlan
from nightbench.core.summarize import asynchronous
from nightbench.detection.training import PROVED_NIGHTS, judge_training
from nightbench.detection.training_night import TrainingNight
from nightbench.detection.training_tolerance import EARLY, SPREADS, TrainingTraits

_AT = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class PairedTraining:
    """The verdict on the losses of B compared with those of A."""

    kind: TrainingKind
    sentence: str
    """A clause without its full stop."""
    step: int | None = None
    """The first step, from 1, whose loss differs; None if none is known."""


def traits_of(plan: CasePlan, protocol: Protocol) -> TrainingTraits:
    """Return the properties of a planned case on which the tolerance of its losses depends."""
    case = plan.planned.case
    return TrainingTraits(
        case.precision,
        asynchronous(case),
        plan.has_dropout,
        protocol.warmup_steps,
        plan.rounding_grows,
    )


def compare_training(
    a: Sequence[LaunchLosses],
    b: Sequence[LaunchLosses],
    traits: TrainingTraits,
    *,
    is_one_build: bool,
) -> PairedTraining:
    """Compare the losses of B's launches with those of A's."""
    if not a or not b:
        return _not_comparable(f"{'A' if b else 'B'} has no launch with losses")
    if traits.is_asynchronous and len(a) < PROVED_NIGHTS:
        return _not_comparable(
            f"the spread of asynchronous trainers needs {PROVED_NIGHTS} launches; found {len(a)}"
        )
    past = [TrainingNight(_AT, each.figures, build_id="a") for each in a]
    now = "a" if is_one_build else "b"
    verdicts = [
        judge_training(TrainingNight(_AT, each.figures, build_id=now), past, traits) for each in b
    ]
    changed = [each for each in verdicts if each.kind is TrainingKind.CHANGED]
    # Chance changes losses that vary, but not those of all launches.
    reported = changed if len(changed) == len(b) else [each for each in changed if not each.varies]
    if reported:
        first = reported[0]
        step = _first_difference(a, b, traits, is_alike=is_one_build, is_exact=first.is_exact)
        if step is not None and step > EARLY_STEPS and first.figure in EARLY:
            step = None  # The first step that differs is one of the warm-up, which has no curve.
        since = f" from step {step} on" if step else ""
        words = f"training changed{since}: {first.difference}"
        return PairedTraining(TrainingKind.CHANGED, words, step)
    if changed or verdicts[0].kind is TrainingKind.SAME:
        same = len(b) - len(changed)
        words = f"trains the same: losses of {same} launches equal those of A within rounding"
        if changed:
            words += f"; the losses vary by chance, and those of {len(changed)} are outside"
        return PairedTraining(TrainingKind.SAME, words)
    why = f"{traits.precision} has no tolerance, or dropout needs {PROVED_NIGHTS} launches"
    return _not_comparable(f"no loss is in all launches, they found other batch sizes, {why}")


def _not_comparable(why: str) -> PairedTraining:
    return PairedTraining(TrainingKind.NOT_COMPARABLE, f"training is not compared: {why}")


def _first_difference(
    a: Sequence[LaunchLosses],
    b: Sequence[LaunchLosses],
    traits: TrainingTraits,
    *,
    is_alike: bool,
    is_exact: bool,
) -> int | None:
    """Return the first step, from 1, whose loss in B is outside the tolerance around those in A."""
    steps_a, steps_b = (zip(*(each.curve for each in side), strict=False) for side in (a, b))
    for place, (before, now) in enumerate(zip(steps_a, steps_b, strict=False)):
        step = traits.warmup_steps + place if place else 1
        figure = "early" if step <= EARLY_STEPS else "mean" if place <= MEAN_STEPS else "again"
        rounding = traits.rounding(figure if place else "first", is_alike=is_alike)
        if rounding is None:
            return None
        low, high = min(before), max(before)
        rounded, spread = rounding * max(1.0, abs(low), abs(high)), SPREADS * (high - low)
        allowed = 0.0 if is_exact else max(rounded, spread)
        inside = [low - allowed <= loss <= high + allowed for loss in now]
        varies = traits.is_asynchronous or spread > rounded
        if not (any(inside) if varies else all(inside)):
            return step
    return None
