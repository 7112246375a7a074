"""Losses of a repeat, and under which conditions they were computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nightbench.core.losses import training_losses
from nightbench.core.model import RankResult

ONE_THREAD, TWO_THREADS = ({"cpus": "2", "OMP_NUM_THREADS": each} for each in "12")


def losses(*ranks: Mapping[str, Any]) -> dict[str, float]:
    found = training_losses(
        [
            RankResult(
                f"trainer-{rank}", "trainer", rank, "n1", loss_first=2.0, loss_window=(1.5,), **more
            )
            for rank, more in enumerate(ranks)
        ]
    )
    assert found
    return found


def test_conditions_are_equal_if_those_of_all_trainers_are() -> None:
    one = losses({"conditions": ONE_THREAD}, {"conditions": ONE_THREAD})
    two = losses({"conditions": ONE_THREAD}, {"conditions": TWO_THREADS})
    again = losses({"conditions": dict(reversed(ONE_THREAD.items()))}, {"conditions": ONE_THREAD})
    assert one["conditions"] == again["conditions"] != two["conditions"]


def test_conditions_of_a_trainer_that_reports_none_are_unknown() -> None:
    assert "conditions" not in losses({"conditions": ONE_THREAD}, {})


def test_the_updates_that_a_loss_scale_skipped_are_stored() -> None:
    assert losses({"skipped_updates": 1}, {"skipped_updates": 3})["skipped"] == 3
    assert "skipped" not in losses({})


def test_a_batch_that_the_run_found_is_stored_with_its_losses() -> None:
    assert losses({"batch_size": 64}, {"batch_size": 64})["batch"] == 64
    assert "batch" not in losses({})


def test_the_longer_mean_needs_a_hundred_steps() -> None:
    def window(steps: int) -> dict[str, float]:
        values = tuple(float(step) for step in range(steps))
        rank = RankResult("trainer-0", "trainer", 0, "n1", loss_first=2.0, loss_window=values)
        return training_losses([rank]) or {}

    assert "long" not in window(99)
    assert window(150)["long"] == 49.5
    assert "whole" not in window(100)
    assert window(150)["whole"] == 74.5
    assert window(150)["mean"] == 4.5


def test_early_losses_are_those_of_the_first_six_steps() -> None:
    def early(*values: float) -> dict[str, float]:
        window = {"loss_first": 2.0, "loss_window": (1.5,)}
        ranks = [
            RankResult(f"trainer-{rank}", "trainer", rank, "n1", loss_early=values, **window)
            for rank in range(2)
        ]
        return training_losses(ranks) or {}

    found = early(6.0, 5.0, 4.0, 3.0, 2.0, 1.0)
    assert (found["third"], found["early"]) == (4.0, 3.5)
    # A training of fewer steps has its third loss alone.
    assert {"third", "early"} & early(6.0, 5.0, 4.0).keys() == {"third"}
    assert not {"third", "early"} & early(6.0, 5.0).keys()
