from __future__ import annotations

from nightbench.orchestration.gang_operator import GenerationState


def test_the_first_try_is_generation_zero() -> None:
    assert GenerationState.of_try(None, "run-1", 1) == GenerationState("run-1", 0, 1)


def test_an_automatic_retry_goes_on_with_the_same_generation() -> None:
    before = GenerationState("run-1", 2, 3).to_json()
    assert GenerationState.of_try(before, "run-1", 3) == GenerationState("run-1", 2, 3)


def test_a_clear_makes_a_new_generation_each_time() -> None:
    first = GenerationState.of_try(GenerationState("run-1", 0, 1).to_json(), "run-1", 2)
    assert first == GenerationState("run-1", 1, 2)
    assert GenerationState.of_try(first.to_json(), "run-1", 2).generation == 1
    assert GenerationState.of_try(first.to_json(), "run-1", 4).generation == 2


def test_another_run_begins_anew() -> None:
    before = GenerationState("run-1", 3, 5).to_json()
    assert GenerationState.of_try(before, "run-2", 7) == GenerationState("run-2", 0, 7)
