"""What makes two builds one, what an interval means, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nightbench.core.code_digest import file_digest
from nightbench.core.documents import from_document
from nightbench.core.model import Build
from nightbench.core.model.alerts import ConfirmationResult
from nightbench.detection.training_tolerance import TrainingTraits
from nightbench.experiments.confirm_outcome import confirmation, decide, pooled
from nightbench.night.suspected_regressions import (
    BuildGone,
    SuspectedRegression,
    TrainedBefore,
    builds_of,
    expected_gain,
    smallest_effect,
)

LOCKED = Build("pytorch")
OLD, NEW = Build("pytorch", version="2.12.0"), Build("pytorch", version="2.13.0")


def suspect(
    good: Build | None = OLD,
    bad: Build = NEW,
    good_version: str | None = "2.12.0+cpu",
    bad_version: str | None = "2.13.0+cpu",
    value: float = 90.0,
) -> SuspectedRegression:
    return SuspectedRegression(
        7, "demo-1", "case-1", value, 100.0, bad, bad_version, good, good_version, "demo-0",
        ("n1",), "d1",
    )  # fmt: skip


def test_a_suspect_survives_its_document() -> None:
    one = suspect()
    document = one.to_json()
    assert document["change"] == pytest.approx(-0.1)
    assert from_document(SuspectedRegression, {**document, "expected_s": 60.0}) == one


# --- builds -------------------------------------------------------------------------------


def test_two_versions_are_two_builds() -> None:
    assert builds_of(suspect()) == (OLD, NEW)


def test_a_lock_that_has_moved_on_is_held_against_the_version_of_then() -> None:
    found = builds_of(suspect(LOCKED, LOCKED))
    assert found == (OLD, LOCKED)


@pytest.mark.parametrize(
    ("good", "bad", "versions"),
    [
        (LOCKED, LOCKED, ("2.13.0+cpu", "2.13.0+cpu")),
        (LOCKED, LOCKED, (None, "2.13.0+cpu")),
        # Another word for the same: a lock, later named by its version.
        (LOCKED, NEW, ("2.13.0+cpu", "2.13.0+cpu")),
        (Build("x", source="path", location="/a"), Build("x", source="path", location="/a"),
         ("1", "1")),
        (None, NEW, (None, "2.13.0")),
    ],
)  # fmt: skip
def test_what_did_not_change_is_one_build(
    good: Build | None, bad: Build, versions: tuple[str | None, str | None]
) -> None:
    assert builds_of(suspect(good, bad, *versions)) is None


def test_a_prefix_that_holds_another_version_now_is_gone() -> None:
    place = Build("pytorch", source="path", location="/opt/torch")
    with pytest.raises(
        BuildGone, match=r"/opt/torch had pytorch 2\.12\.0 before, and has 2\.13\.0"
    ):
        builds_of(suspect(place, place))


def test_a_wheel_is_the_file_that_it_was(tmp_path: Path) -> None:
    path = tmp_path / "torch-2.12.0-py3-none-any.whl"
    path.write_bytes(b"then")
    wheel = Build("pytorch", source="wheel", location=str(path), digest=file_digest(path))
    assert builds_of(suspect(wheel, NEW)) == (wheel, NEW)
    moved = Build("pytorch", source="wheel", location="/elsewhere.whl", digest=wheel.digest)
    assert builds_of(suspect(moved, wheel)) is None
    path.write_bytes(b"another one")
    with pytest.raises(BuildGone, match="has changed since then"):
        builds_of(suspect(wheel, NEW))
    path.unlink()
    with pytest.raises(BuildGone, match="no longer exists"):
        builds_of(suspect(wheel, NEW))


def test_a_wheel_that_cannot_be_read_is_gone() -> None:
    # Not by its rights: the tests may be run by a user whom none keep out.
    wheel = Build("pytorch", source="wheel", location=f"/{'x' * 300}.whl", digest="d")
    with pytest.raises(BuildGone, match="cannot be read"):
        builds_of(suspect(wheel, NEW))


# --- outcomes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "has_two", "effect"),
    [
        (90.0, True, 0.0309),  # the suite's smallest change is nearer than half of ten per cent
        (96.0, True, 0.0206),  # half of four per cent
        (90.0, False, 0.0541),
    ],
)
def test_the_bound_is_half_way_or_the_smallest_change(
    value: float, has_two: bool, effect: float
) -> None:
    found = smallest_effect(suspect(value=value), 0.03, has_two=has_two)
    assert found == pytest.approx(effect, abs=1e-4)


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.88, 0.92, ConfirmationResult.CONFIRMED),
        (
            0.95,
            0.965,
            ConfirmationResult.CONFIRMED,
        ),  # less than the night said, and there all the same
        (0.98, 1.01, ConfirmationResult.NOT_CONFIRMED),
        (1.02, 1.04, ConfirmationResult.NOT_CONFIRMED),
        (0.9, 0.99, ConfirmationResult.INCONCLUSIVE),
        (None, None, ConfirmationResult.INCONCLUSIVE),
    ],
)
def test_an_interval_decides_only_where_it_lies_on_one_side(
    low: float | None, high: float | None, outcome: ConfirmationResult
) -> None:
    effect = smallest_effect(suspect(), 0.03, has_two=True)
    assert decide(low, high, effect) is outcome


def answer(node: str, a: list[float], b: list[float], **more: Any) -> dict[str, Any]:
    from nightbench.experiments import paired_statistics

    rounds = [{"a": x, "b": y} for x, y in zip(a, b, strict=True)]
    found = paired_statistics.estimate([y / x for x, y in zip(a, b, strict=True)], 0.03)
    row = {
        "nodes": [node],
        "rounds": rounds,
        "stopped": None,
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "n": found.n,
    }
    return {"cases": [{**row, **more}], "min_effect": 0.03, "rounds": 5}


def test_the_sentence_names_builds_nodes_figures_and_the_other_nodes() -> None:
    here = answer("n1", [100, 101, 99, 100, 100], [90, 91, 89, 90.5, 89.5])
    there = answer("n2", [100, 101, 99], [100, 101.2, 99])
    said = confirmation(suspect(), (OLD, NEW), here, there)
    assert said.outcome is ConfirmationResult.CONFIRMED
    assert said.rounds == 5
    assert said.ratio == pytest.approx(0.9, abs=0.005)
    assert said.sentence.startswith(
        "pytorch 2.13.0 compared with pytorch 2.12.0, interleaved: on n1 -10.0% ("
    )
    assert "the night's drop was 10.0%: the drop is confirmed; on n2 +0." in said.sentence
    assert said.sentence.endswith("the drop is not confirmed.")


def test_one_build_is_held_against_the_baseline() -> None:
    steady = [99.8, 100.3, 100.0]
    here = answer("n1", steady, steady)
    said = confirmation(suspect(LOCKED, LOCKED, None, "2.13.0"), None, here, None)
    assert said.outcome is ConfirmationResult.NOT_CONFIRMED
    assert said.rounds == 6
    assert "pytorch 2.13.0 was measured again against the baseline of 100" in said.sentence
    assert said.sentence.endswith("the level has recovered.")
    down = [0.9 * value for value in steady]
    still = confirmation(
        suspect(LOCKED, LOCKED, None, "2.13.0"), None, answer("n1", down, down), None
    )
    assert still.outcome is ConfirmationResult.CONFIRMED
    assert "the case is still slower" in still.sentence


def test_rounds_that_are_added_decide_what_the_first_left_open() -> None:
    first = answer("n1", [100, 100, 100], [88, 101, 93])
    more = answer("n1", [100] * 6, [90, 91, 89, 90.5, 89.5, 90])
    for document in (first, more):
        (row,) = document["cases"]
        row["order"] = ["AB"] * row["n"]
        row["dropped"] = [{"round": row["n"]}]
        for each in row["rounds"]:
            each["ratio"] = each["b"] / each["a"]
    began = confirmation(suspect(), (OLD, NEW), first, None)
    assert began.outcome is ConfirmationResult.INCONCLUSIVE
    both = pooled(first, more)
    assert both["cases"][0]["dropped"] == [{"round": 3}, {"round": 6}]
    said = confirmation(suspect(), (OLD, NEW), both, None)
    assert (said.outcome, said.rounds) == (ConfirmationResult.CONFIRMED, 9)
    assert "6 of these rounds were added: the first were unclear" in said.sentence
    stopped = {**more["cases"][0], "rounds": [], "n": 0, "stopped": "the window ended"}
    none = confirmation(suspect(), (OLD, NEW), pooled(first, {**more, "cases": [stopped]}), None)
    assert "were added" not in none.sentence


def test_the_time_goes_to_whose_fall_is_open_and_can_be_told() -> None:
    def gain(value: float, low: float, high: float, noise: float = 0.003) -> float:
        return expected_gain(replace(suspect(value=value), low=low, high=high, noise=noise), 0.03)

    clear = gain(90.0, -0.11, -0.09)
    # The bound is at 3 %: what may lie on both sides of it is worth more than what is clear ...
    assert gain(96.0, -0.08, -0.005) > 1.5 * clear
    # ... the more so the less is known, and less where the rounds themselves are as uneven.
    assert gain(96.0, -0.08, -0.005) > gain(96.0, -0.045, -0.035)
    assert gain(96.0, -0.08, -0.005) > gain(96.0, -0.08, -0.005, noise=0.06)
    # A clear fall is still asked for: some are none at all.
    assert clear > 0
    # What cannot be measured brings nothing.
    place = Build("pytorch", source="path", location="/opt/torch")
    assert expected_gain(suspect(place, place), 0.03) == 0.0


def test_too_few_rounds_say_why() -> None:
    here = answer("n1", [100.0], [90.0], stopped="the window ended at 06:00 UTC")
    said = confirmation(suspect(), (OLD, NEW), here, "node n2 does not answer")
    assert said.outcome is ConfirmationResult.INCONCLUSIVE
    assert "1 of 5 rounds: the window ended at 06:00 UTC" in said.sentence
    assert "on other nodes: node n2 does not answer" in said.sentence


# --- a change of training -----------------------------------------------------------------


def launches(first: float, count: int = 3) -> list[dict[str, Any]]:
    return [{"first": (first, first), "steps": (10, 10), "mean_of": (10, 10)}] * count


def trained(*firsts: float) -> SuspectedRegression:
    nights = tuple(launches(first, 1)[0] for first in firsts)
    return replace(
        suspect(), value=2.1, baseline=2.0, trained=TrainedBefore(nights, TrainingTraits("fp32"))
    )


def paired(kind: str, a: float, b: float) -> dict[str, Any]:
    more = {
        "training": {"kind": kind, "sentence": "training changed from step 1 on", "step": 1},
        "losses": {"a": launches(a), "b": launches(b)},
    }
    return answer("n1", [100.0] * 3, [182.0] * 3, **more)


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("changed", ConfirmationResult.CONFIRMED),
        ("same", ConfirmationResult.NOT_CONFIRMED),
        ("not_comparable", ConfirmationResult.INCONCLUSIVE),
    ],
)
def test_losses_decide_a_change_of_training_and_its_speed_does_not(
    kind: str, outcome: ConfirmationResult
) -> None:
    said = confirmation(trained(2.0), (OLD, NEW), paired(kind, 2.0, 2.1), None)
    assert (said.outcome, said.rounds, said.ratio) == (outcome, 3, None)
    assert said.sentence.startswith(
        "pytorch 2.13.0 compared with pytorch 2.12.0, interleaved: on n1 training changed from "
    )


@pytest.mark.parametrize(
    ("first", "outcome"),
    [(2.1, ConfirmationResult.CONFIRMED), (2.0, ConfirmationResult.NOT_CONFIRMED)],
)
def test_one_build_is_compared_with_the_nights_that_trained_as_before(
    first: float, outcome: ConfirmationResult
) -> None:
    # Both arms are the night's build: that they agree says nothing.
    said = confirmation(trained(2.0, 2.0, 2.0), None, paired("same", first, first), None)
    assert (said.outcome, said.rounds) == (outcome, 6)
    assert "was measured again against the losses of the last good nights" in said.sentence


def test_a_change_of_training_is_measured_before_small_drops() -> None:
    assert expected_gain(trained(2.0), 0.03) > expected_gain(suspect(value=98.0), 0.03)
    assert smallest_effect(trained(2.0), 0.03, has_two=True) == 0.03
