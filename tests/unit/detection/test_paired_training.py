"""Two builds compared by their losses, and the step from which these differ."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from nightbench.core.losses import LaunchLosses
from nightbench.core.model import TrainingKind
from nightbench.detection.paired_training import PairedTraining, compare_training
from nightbench.detection.training_tolerance import TrainingTraits

FP32 = TrainingTraits("fp32", warmup_steps=2)
CURVE = (2.0, *(1.9 - 0.05 * step for step in range(12)))


def launch(curve: tuple[float, ...] = CURVE, again: float = 1.2, **more: float) -> LaunchLosses:
    figures = {
        "first": curve[0],
        "third": curve[1],
        "early": sum(curve[1:5]) / 4,
        "mean": sum(curve[1:11]) / 10,
        "again": again,
        "steps": 12,
        "mean_of": 10,
        **more,
    }
    return LaunchLosses({name: (value, value) for name, value in figures.items()}, curve)


def changed_from(place: int, by: float = 0.1, **more: float) -> LaunchLosses:
    return launch((*CURVE[:place], *(loss + by for loss in CURVE[place:])), **more)


def compared(b: LaunchLosses, traits: TrainingTraits = FP32, **more: Any) -> PairedTraining:
    given = {"is_one_build": False, **more}
    return compare_training([launch()] * 5, [b] * 5, traits, **given)


def test_the_same_losses_are_the_same_training() -> None:
    found = compared(launch())
    assert (found.kind, found.step) == (TrainingKind.SAME, None)


@pytest.mark.parametrize(
    ("place", "step", "figure"),
    [(0, 1, "first loss 2 -> 2.2"), (1, 3, "third step"), (4, 6, "first 6 steps"), (5, 7, "mean")],
)
def test_a_change_names_its_first_step(place: int, step: int, figure: str) -> None:
    found = compared(changed_from(place, 0.2))
    assert (found.kind, found.step) == (TrainingKind.CHANGED, step)
    assert found.sentence.startswith(f"training changed from step {step} on: ")
    assert figure in found.sentence


def test_rounding_that_has_grown_is_not_the_first_step_of_a_change() -> None:
    grown = [loss + (0.01 if place >= 5 else 0.0) for place, loss in enumerate(CURVE)]
    found = compared(launch((*grown[:9], *(loss + 1.0 for loss in grown[9:]))))
    assert (found.kind, found.step) == (TrainingKind.CHANGED, 11)


def test_a_change_after_the_window_has_no_step() -> None:
    found = compared(launch(again=1.4))
    assert (found.kind, found.step) == (TrainingKind.CHANGED, None)
    assert found.sentence.startswith("training changed: loss of the first batch after the window")


@pytest.mark.parametrize("is_one_build", [True, False])
def test_rounding_is_no_change(is_one_build: bool) -> None:
    assert compared(changed_from(0, 1e-6), is_one_build=is_one_build).kind is TrainingKind.SAME
    changed = compared(changed_from(0, 1e-5), is_one_build=is_one_build)
    assert changed.kind is TrainingKind.CHANGED


def test_one_launch_that_differs_is_enough() -> None:
    found = compare_training(
        [launch()] * 3, [launch(), changed_from(0), launch()], FP32, is_one_build=False
    )
    assert (found.kind, found.step) == (TrainingKind.CHANGED, 1)


def test_a_change_in_the_warm_up_has_no_step_of_the_window() -> None:
    warm = replace(FP32, warmup_steps=20)
    late = (*CURVE[:9], *(loss + 0.3 for loss in CURVE[9:]))
    b = launch(late, third=2.1, early=1.8, mean=1.675, again=1.2)
    found = compare_training([launch()] * 5, [b] * 5, warm, is_one_build=False)
    assert (found.kind, found.step) == (TrainingKind.CHANGED, None)
    assert found.sentence.startswith("training changed: loss of the third step")


VARYING = {
    "asynchronous servers": TrainingTraits("fp32", is_asynchronous=True, warmup_steps=2),
    "dropout without a seed": TrainingTraits("fp32", has_dropout=True, warmup_steps=2),
}


def varying(chance: random.Random, by: float = 0.0) -> LaunchLosses:
    """A launch whose losses vary by 1 % from launch to launch, and `by` more in each step."""
    return launch(tuple(loss + by + chance.gauss(0, 0.02) for loss in CURVE))


@pytest.mark.parametrize("traits", VARYING.values(), ids=VARYING)
def test_losses_of_one_build_that_vary_are_no_change(traits: TrainingTraits) -> None:
    chance = random.Random(7)
    found = [
        compare_training(
            [varying(chance) for _ in range(5)],
            [varying(chance) for _ in range(5)],
            traits,
            is_one_build=True,
        )
        for _ in range(300)
    ]
    assert {each.kind for each in found} == {TrainingKind.SAME}
    assert {each.step for each in found} == {None}


@pytest.mark.parametrize("traits", VARYING.values(), ids=VARYING)
def test_losses_that_vary_and_all_differ_are_a_change(traits: TrainingTraits) -> None:
    chance = random.Random(7)
    a, b = ([varying(chance, by) for _ in range(5)] for by in (0.0, 0.5))
    found = compare_training(a, b, traits, is_one_build=True)
    assert (found.kind, found.step) == (TrainingKind.CHANGED, 1)
    # One launch that is as A's shows that chance, not the build, decides.
    kept = compare_training(a, [*b[:4], a[0]], traits, is_one_build=True)
    assert kept.kind is TrainingKind.SAME
    assert kept.sentence.endswith("; the losses vary by chance, and those of 4 are outside")


@pytest.mark.parametrize(
    ("a", "b", "traits", "why"),
    [
        (3, 0, FP32, "B has no launch with losses"),
        (0, 3, FP32, "A has no launch with losses"),
        (3, 3, TrainingTraits("fp8"), "fp8 has no tolerance"),
        (4, 4, TrainingTraits("fp32", is_asynchronous=True), "needs 5 launches; found 4"),
    ],
)
def test_what_cannot_be_compared_says_why(a: int, b: int, traits: TrainingTraits, why: str) -> None:
    found = compare_training([launch()] * a, [launch()] * b, traits, is_one_build=False)
    assert found.kind is TrainingKind.NOT_COMPARABLE
    assert why in found.sentence


def test_another_build_may_have_other_random_numbers_and_the_same_build_may_not() -> None:
    dropout = TrainingTraits("fp32", has_dropout=True)
    assert compared(changed_from(0, 0.05), dropout).kind is TrainingKind.SAME
    one = compared(changed_from(0, 0.05), dropout, is_one_build=True)
    assert (one.kind, one.step) == (TrainingKind.CHANGED, 1)


def test_a_bit_that_one_build_must_repeat_names_its_first_step() -> None:
    a, b = launch(conditions=1.0), changed_from(5, 1e-12, conditions=1.0)
    found = compare_training([a] * 5, [b], FP32, is_one_build=True)
    assert (found.kind, found.step) == (TrainingKind.CHANGED, 7)


def test_launches_that_found_other_batches_are_not_compared() -> None:
    a, b = launch(batch=64.0), changed_from(0, batch=96.0)
    found = compare_training([a] * 5, [b] * 5, FP32, is_one_build=False)
    assert found.kind is TrainingKind.NOT_COMPARABLE
    assert "found other batch sizes" in found.sentence
