"""Whether a case trains as the other lines that did the same work in a night."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nightbench.core.model import Case, Strategy, TrainingKind
from nightbench.detection.training_lines import lines_that_differ
from nightbench.detection.training_tolerance import TrainingTraits

FP32 = TrainingTraits("fp32")


def lines(traits: TrainingTraits = FP32, **first: float) -> dict[str, TrainingKind]:
    found = lines_that_differ(
        (
            Case("gpt2", line, Strategy.SINGLE, batch_size_per_device=4, scale="smoke"),
            {"first": (value, value)},
            traits,
        )
        for line, value in first.items()
    )
    return {case_id.split("-")[1]: verdict.kind for case_id, verdict in found.items()}


def test_the_line_that_differs_from_all_others_is_named() -> None:
    assert lines(pytorch=6.8, jax=6.8000004, paddle3=7.3) == {"paddle3": TrainingKind.CHANGED}
    assert lines(pytorch=6.8, jax=6.8000004, paddle3=6.7999996) == {}


def test_of_two_lines_neither_is_presumed_right() -> None:
    assert lines(pytorch=6.8, jax=7.3) == dict.fromkeys(
        ("pytorch", "jax"), TrainingKind.NOT_COMPARABLE
    )
    assert lines(pytorch=6.8, jax=6.8000004) == {}


def test_of_four_lines_two_that_differ_are_both_named() -> None:
    """Found on 2026-11-30: another line with other weights, and one with other labels."""
    first = {"pytorch": 6.8, "jax": 6.8000004, "mine": 6.815, "yours": 6.9}
    assert lines(**first) == dict.fromkeys(("mine", "yours"), TrainingKind.CHANGED)
    same = first | {"yours": 6.815}
    assert set(lines(**same).values()) == {TrainingKind.NOT_COMPARABLE}
    assert len(lines(**same)) == 4


def test_of_three_lines_that_all_differ_none_is_right() -> None:
    assert lines(pytorch=6.8, jax=7.3, paddle3=7.0) == dict.fromkeys(
        ("pytorch", "jax", "paddle3"), TrainingKind.NOT_COMPARABLE
    )


def test_of_three_cases_of_two_lines_the_one_that_differs_is_named() -> None:
    eager = Case("resnet50_v1.5", "pytorch", Strategy.SINGLE)
    compiled = replace(eager, compiler="inductor")
    other = replace(eager, framework="jax")
    losses = {eager: 2.0, compiled: 2.5, other: 2.0}
    found = lines_that_differ(
        (case, {"first": (first, first)}, FP32) for case, first in losses.items()
    )
    (verdict,) = found.values()
    assert found == {compiled.case_id: verdict}
    assert verdict.sentence == (
        "pytorch trains differently from other lines: first loss 2.5, 2 on jax."
    )


@pytest.mark.parametrize("own", ["is_asynchronous", "has_dropout"])
def test_first_losses_that_are_a_line_s_own_are_not_compared_with_others(own: str) -> None:
    """Servers of PaddlePaddle 2 make the rows of sparse tables themselves."""
    losses = {"pytorch": 6.8, "jax": 6.8, "paddle2": 7.3}
    assert lines(**losses) == {"paddle2": TrainingKind.CHANGED}
    assert lines(replace(FP32, **{own: True}), **losses) == {}
