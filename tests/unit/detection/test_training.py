"""Whether a case trains as before: losses of nights."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nightbench.core.model import TrainingKind
from nightbench.detection.training import judge_training
from nightbench.detection.training_night import FIGURES, TrainingNight
from nightbench.detection.training_tolerance import EARLY, TrainingTraits

FP32 = TrainingTraits("fp32")
LOSSES = {
    **{
        "first": 6.8,
        "third": 6.4,
        "early": 6.5,
        "mean": 5.5,
        "long": 4.6,
        "whole": 4.5,
        "again": 4.1,
    },
    **{"steps": 100, "mean_of": 10, "conditions": 1.0},
}


def night(
    number: int, losses: Mapping[str, float] | None = None, width: float = 0.0, **more: Any
) -> TrainingNight:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    known = {"version": "2.13.0", "build_id": "b", "fingerprint_id": "f", "definition_digest": "d"}
    ranges = {
        name: (value, value * (1 + width if name in FIGURES else 1))
        for name, value in {**LOSSES, **(losses or {})}.items()
    }
    return TrainingNight(at, ranges, **{**known, **more})


FIVE = [night(number) for number in range(5)]


def test_equal_losses_are_the_same_training() -> None:
    verdict = judge_training(night(5), FIVE, FP32)
    assert (verdict.kind, verdict.is_proved) == (TrainingKind.SAME, True)
    assert verdict.sentence == (
        "Training is the same: all losses equal those of 5 nights to the last bit."
    )


@pytest.mark.parametrize("figure", FIGURES)
def test_a_series_that_was_equal_to_the_last_bit_must_stay_so(figure: str) -> None:
    nearly = night(5, {figure: LOSSES[figure] * (1 + 1e-12)})
    verdict = judge_training(nearly, FIVE, FP32)
    assert (verdict.kind, verdict.is_proved) == (TrainingKind.CHANGED, True)
    assert "5 nights since 2026-01-01 with the same version, nodes and threads" in verdict.sentence
    assert judge_training(nearly, FIVE[:4], FP32).kind is TrainingKind.SAME


def test_repeats_of_one_night_that_differ_are_a_change_too() -> None:
    assert judge_training(night(5, width=1e-12), FIVE, FP32).kind is TrainingKind.CHANGED


@pytest.mark.parametrize(
    ("change", "kind"),
    [(4e-7, TrainingKind.SAME), (1e-4, TrainingKind.CHANGED)],
)
@pytest.mark.parametrize("threads", [2.0, None])
def test_other_or_unknown_threads_may_add_in_another_order(
    threads: float | None, change: float, kind: TrainingKind
) -> None:
    tonight = night(5, {"first": LOSSES["first"] * (1 + change), "conditions": threads or 0.0})
    if threads is None:
        kept = {name: ends for name, ends in tonight.losses.items() if name != "conditions"}
        tonight = replace(tonight, losses=kept)
    assert judge_training(tonight, FIVE, FP32).kind is kind


def test_a_bit_that_a_person_accepted_ends_the_comparison_to_the_last_bit() -> None:
    past = [*FIVE, night(5, {"mean": 5.5 * (1 + 1e-9)})]
    verdict = judge_training(night(6, {"mean": 5.5 * (1 + 2e-9)}), past, FP32)
    assert verdict.kind is TrainingKind.SAME


@pytest.mark.parametrize(
    ("change", "kind"),
    [(5e-7, TrainingKind.SAME), (2e-6, TrainingKind.CHANGED)],
)
@pytest.mark.parametrize("what", ["version", "build_id", "fingerprint_id"])
def test_rounding_is_allowed_with_another_version_build_or_node(
    what: str, change: float, kind: TrainingKind
) -> None:
    tonight = night(5, {"first": LOSSES["first"] * (1 + change)}, **{what: "other"})
    assert judge_training(tonight, FIVE, FP32).kind is kind


def test_the_sentence_says_how_much_and_since_which_version() -> None:
    tonight = night(5, {"first": 7.318}, version="2.14.0")
    verdict = judge_training(tonight, FIVE, FP32)
    assert verdict.sentence.startswith(
        "Training changed: first loss 6.8 -> 7.318 since 2.14.0. 5 nights since 2026-01-01 allow "
    )
    assert verdict.change == pytest.approx(0.0762, abs=1e-4)


def test_the_longer_mean_is_compared_to_the_last_bit_or_within_a_spread() -> None:
    """Rounding grows from step to step, so that a version has no tolerance for it."""
    changed = night(5, {"long": 4.7})
    assert judge_training(changed, FIVE, FP32).difference == (
        "mean loss of the window's first 100 steps 4.6 -> 4.7"
    )
    assert judge_training(replace(changed, version="3"), FIVE, FP32).kind is TrainingKind.SAME
    servers = replace(FP32, is_asynchronous=True)
    nights = [night(number, {"long": 4.6 + 0.001 * number}) for number in range(5)]
    assert judge_training(changed, nights, servers).kind is TrainingKind.CHANGED
    assert judge_training(night(5, {"long": 4.606}), nights, servers).kind is TrainingKind.SAME


def test_a_fault_after_the_first_100_steps_changes_the_mean_of_the_whole_window() -> None:
    """Found on 2026-11-30: resnet50_v1.5, whose first batch is not trained again."""
    nights = [night(number, {"whole": 4.3, "steps": 300}) for number in range(5)]
    changed = night(5, {"whole": 4.31, "steps": 300})
    assert judge_training(changed, nights, FP32).difference == (
        "mean loss of the whole window 4.3 -> 4.31"
    )
    assert judge_training(replace(changed, version="3"), nights, FP32).kind is TrainingKind.SAME
    longer = night(5, {"whole": 4.0, "steps": 320})
    assert judge_training(longer, nights, FP32).kind is TrainingKind.SAME


def test_a_series_that_varies_is_compared_with_its_own_spread() -> None:
    nights = [night(number, {"mean": 5.5 + 0.01 * number}) for number in range(5)]
    assert judge_training(night(5, {"mean": 5.6}), nights, FP32).kind is TrainingKind.SAME
    assert judge_training(night(5, {"mean": 5.7}), nights, FP32).kind is TrainingKind.CHANGED


def test_dropout_may_draw_otherwise_in_another_version_alone() -> None:
    dropout = replace(FP32, has_dropout=True)
    tonight = night(5, {"first": 6.9})
    assert judge_training(tonight, FIVE, dropout).kind is TrainingKind.CHANGED
    other = judge_training(replace(tonight, version="2.14.0"), FIVE, dropout)
    assert other.kind is TrainingKind.SAME
    assert other.sentence.endswith("; dropout draws other random numbers.")
    alike = judge_training(night(5, version="2.14.0"), FIVE, dropout)
    assert "dropout" not in alike.sentence


def test_another_version_with_the_same_random_numbers_may_only_round_at_first() -> None:
    """Found on 2026-11-30: vgg16 with another version and 3 of 4 updates skipped."""
    dropout, later = replace(FP32, has_dropout=True), {"third": LOSSES["third"] + 1e-3}
    tonight = night(5, later, version="2.14.0")
    assert judge_training(tonight, FIVE, dropout).kind is TrainingKind.CHANGED
    assert judge_training(tonight, FIVE[:4], dropout).kind is TrainingKind.SAME
    threads = night(5, later | {"conditions": 2.0}, version="2.14.0")
    assert judge_training(threads, FIVE, dropout).kind is TrainingKind.SAME
    late = night(5, {"mean": LOSSES["mean"] * 1.006}, version="2.14.0")  # rounding grows
    assert judge_training(late, FIVE, dropout).kind is TrainingKind.SAME
    others = night(5, later | {"first": 6.801}, version="2.14.0")
    assert judge_training(others, FIVE, dropout).kind is TrainingKind.SAME
    bf16 = night(5, {"third": 6.5, "first": LOSSES["first"] + 1e-4}, version="2.14.0")
    assert judge_training(bf16, FIVE, replace(dropout, precision="bf16")).kind is TrainingKind.SAME


@pytest.mark.parametrize("has_dropout", [True, False])
@pytest.mark.parametrize("figure", ["third", "early", "mean", "again"])
def test_rounding_of_threads_that_are_new_to_a_series_may_grow(
    figure: str, has_dropout: bool
) -> None:
    """Found on 2026-11-30: 2 threads change losses of vgg16_cifar on PaddlePaddle 2 by 8e-3.

    On TensorFlow 1, they change the loss of step 3 by 6 %, and later ones by 14 %.
    """
    traits, threads = replace(FP32, has_dropout=has_dropout), {"conditions": 2.0}
    grown = {figure: LOSSES[figure] * 1.008}
    verdict = judge_training(night(5, grown | threads), FIVE, traits)
    assert verdict.kind is TrainingKind.SAME
    assert "threads or instruction sets are new to the series, so rounding" in verdict.sentence
    assert judge_training(night(5, grown), FIVE, traits).kind is TrainingKind.CHANGED
    far = {figure: LOSSES[figure] * 1.06}
    verdict = judge_training(night(5, far | threads), FIVE, traits)
    assert verdict.kind is TrainingKind.NOT_COMPARABLE
    assert " -> " in verdict.sentence
    assert "threads or instruction sets are new to the series, so rounding" in verdict.sentence
    nights = [*FIVE, night(5, far | threads)]
    assert judge_training(night(6, far | threads), nights, traits).kind is TrainingKind.SAME
    other = night(5, grown | threads, version="2.14.0")
    kind = TrainingKind.CHANGED if figure in EARLY else TrainingKind.SAME
    assert judge_training(other, FIVE, FP32).kind is kind
    changed = [night(5 + n, grown, is_changed=True) for n in range(3)]
    tonight = night(9, grown | threads)
    assert judge_training(tonight, [*FIVE, *changed], FP32).kind is TrainingKind.CHANGED


@pytest.mark.parametrize("figure", ["first", "third", "early", "mean", "again"])
def test_rounding_of_another_version_grows_with_the_steps(figure: str) -> None:
    """Found on 2026-11-30: after 120 steps, llama differs by 0.6 % between JAX 0.12 and 0.9."""
    losses = {figure: LOSSES[figure] * 1.006}
    kind = TrainingKind.CHANGED if figure in EARLY else TrainingKind.SAME
    assert judge_training(night(5, losses, version="2.14.0"), FIVE, FP32).kind is kind
    changed = [night(5, losses, is_changed=True)]
    for same in (night(5, losses), night(6, losses | {"conditions": 2.0})):
        verdict = judge_training(same, [*FIVE, *changed], FP32)
        assert verdict.kind is TrainingKind.CHANGED
    far = {figure: LOSSES[figure] * 1.06}
    verdict = judge_training(night(5, far, version="2.14.0"), FIVE, FP32)
    assert verdict.kind is TrainingKind.CHANGED


def test_rounding_of_a_small_batch_grows_in_the_first_steps() -> None:
    """Found on 2026-12-01: resnet50_v1.5 with batch size 2, on JAX 0.12 and 0.9; vgg16_cifar."""
    small = replace(FP32, rounding_grows=True)
    seen = {"first": 2.6e-6, "third": 6.5e-4, "early": 2.9e-3, "mean": 3.5e-2}
    rounded = {figure: LOSSES[figure] * (1 + change) for figure, change in seen.items()}
    for traits in (small, replace(small, has_dropout=True)):
        for change in ({}, {"first": LOSSES["first"]}, {"mean": LOSSES["mean"] * 1.12}):
            other = night(5, rounded | change, version="2.14.0")
            verdict = judge_training(other, FIVE, traits)
            assert verdict.kind is TrainingKind.SAME
            assert "draws other random numbers" not in verdict.sentence
        assert judge_training(night(5, rounded), FIVE, traits).kind is TrainingKind.CHANGED
        late = night(5, {"mean": LOSSES["mean"] * 1.18, "conditions": 2.0})
        assert judge_training(late, FIVE, traits).kind is TrainingKind.NOT_COMPARABLE
    assert judge_training(other, FIVE, FP32).kind is TrainingKind.CHANGED
    for figure, change in {"first": 1e-4, "third": 0.06, "early": 0.06, "mean": 0.25}.items():
        fault = night(5, {figure: LOSSES[figure] * (1 + change)}, version="2.14.0")
        assert judge_training(fault, FIVE, small).kind is TrainingKind.CHANGED


def test_threads_that_the_series_knows_are_compared_with_their_own_nights() -> None:
    threads = {"conditions": 2.0}
    grown = {"mean": LOSSES["mean"] * 1.0027} | threads
    five = [*FIVE, *(night(number, grown) for number in range(5, 10))]
    assert judge_training(night(10, grown), five, FP32).kind is TrainingKind.SAME
    assert judge_training(night(10, threads), five, FP32).kind is TrainingKind.CHANGED


def test_the_first_loss_does_not_depend_on_growing_rounding() -> None:
    tonight = night(5, {"first": LOSSES["first"] * 1.001, "conditions": 2.0})
    assert judge_training(tonight, FIVE, FP32).kind is TrainingKind.CHANGED


def test_the_spread_of_dropout_is_known_after_five_nights() -> None:
    """Found on 2026-11-30: the losses of vgg16_cifar on PaddlePaddle 1, which sets no seed."""
    dropout = replace(FP32, has_dropout=True)
    nights = [night(number, {"first": 3.0 + 0.5 * (number % 3)}) for number in range(5)]
    kinds = [judge_training(nights[n], nights[:n], dropout).kind for n in range(1, 5)]
    assert kinds[:2] == [TrainingKind.NOT_COMPARABLE, TrainingKind.SAME]
    assert TrainingKind.CHANGED not in kinds
    partial = [
        replace(each, losses={"third": (value, value)})
        for each, value in zip(FIVE, (3.0, 4.0), strict=False)
    ]
    assert judge_training(partial[1], partial[:1], dropout).kind is TrainingKind.CHANGED
    assert judge_training(night(5, {"first": 5.9}), nights, dropout).kind is TrainingKind.SAME
    assert judge_training(night(5, {"first": 6.1}), nights, dropout).kind is TrainingKind.CHANGED


def test_random_numbers_that_are_others_each_time_alert_never() -> None:
    """Found on 2026-11-29: two repeats of bert_base on PyTorch, without a seed."""
    first, dropout = (7.58705, 7.5785, 7.6007, 7.6045), replace(FP32, has_dropout=True)
    nights: list[TrainingNight] = []
    for number in range(30):
        tonight = night(number, {"first": first[number % 4]})
        verdict = judge_training(tonight, nights, dropout)
        assert verdict.kind is not TrainingKind.CHANGED
        nights.append(tonight)
    assert judge_training(night(30, {"first": 7.8}), nights, dropout).kind is TrainingKind.CHANGED


def test_of_random_numbers_that_are_others_each_time_all_repeats_must_change() -> None:
    dropout = replace(FP32, has_dropout=True)
    nights = [night(number, {"first": 7.5 + 0.02 * (number % 3)}) for number in range(5)]
    for ends, kind in (((7.0, 7.5), TrainingKind.SAME), ((7.0, 7.1), TrainingKind.CHANGED)):
        tonight = replace(night(5), losses=night(5).losses | {"first": ends})
        assert judge_training(tonight, nights, dropout).kind is kind


LATER = {"mean": 5.555, "again": 4.141, "long": 4.646, "whole": 4.545}
"""Losses after a fault that changes later losses by 1 %, less than the tolerance for a version."""


@pytest.mark.parametrize("what", ["version", "build_id", "fingerprint_id"])
def test_a_change_does_not_end_with_another_version(what: str) -> None:
    nights = [*(night(n) for n in range(10)), replace(night(10, LATER), is_changed=True)]
    still = judge_training(night(11, LATER, **{what: "other"}), nights, FP32)
    assert (still.kind, still.is_proved) == (TrainingKind.CHANGED, True)
    for mean in (5.5, 5.51):  # Repaired, and with the rounding of another version.
        repaired = judge_training(night(11, {"mean": mean}, **{what: "other"}), nights, FP32)
        assert repaired.kind is TrainingKind.SAME
    # Losses that the fault has hardly changed may still round otherwise.
    nights[-1] = replace(night(10, {"first": 7.0, "mean": 5.500001}), is_changed=True)
    rounded = judge_training(night(11, {"mean": 5.50001}, **{what: "other"}), nights, FP32)
    assert rounded.kind is TrainingKind.SAME


def test_a_fault_in_the_first_nights_of_a_version_is_a_change() -> None:
    nights = [night(n) for n in range(20)]
    for number in range(20, 24):
        nights.append(night(number, {"mean": 5.51}, version="2.14.0"))
        assert judge_training(nights[-1], nights[:-1], FP32).kind is TrainingKind.SAME
    found = judge_training(night(24, {"mean": 5.72}, version="2.14.0"), nights, FP32)
    assert (found.kind, found.is_proved) == (TrainingKind.CHANGED, True)
    assert "mean loss of the window's first steps 5.51 -> 5.72" in found.sentence


@pytest.mark.parametrize("figure", ["first", "mean"])
def test_the_first_nights_of_a_version_may_vary_as_the_series_does(figure: str) -> None:
    chance, dropout = random.Random(3), replace(FP32, has_dropout=True)
    for _ in range(100):
        nights = [
            night(n, {figure: LOSSES[figure] + chance.gauss(0, 0.05)}, version=str(n // 20))
            for n in range(25)
        ]
        verdicts = [judge_training(nights[n], nights[:n], dropout) for n in range(22, 25)]
        assert TrainingKind.CHANGED not in {each.kind for each in verdicts}


def test_conditions_that_differ_between_the_repeats_of_each_night_are_not_new() -> None:
    mixed = [replace(night(n), losses=night(n).losses | {"conditions": (1, 2)}) for n in range(9)]
    assert judge_training(mixed[8], mixed[:8], FP32).kind is TrainingKind.SAME
    faulty = replace(mixed[8], losses=mixed[8].losses | {"third": (6.65, 6.65)})
    assert judge_training(faulty, mixed[:8], FP32).kind is TrainingKind.CHANGED


def test_windows_of_other_lengths_are_compared_in_what_they_share() -> None:
    longer = night(5, {"again": 3.0, "steps": 40})
    assert judge_training(longer, FIVE, FP32).kind is TrainingKind.SAME
    assert judge_training(night(5, {"again": 3.0}), FIVE, FP32).kind is TrainingKind.CHANGED


def test_asynchronous_training_is_compared_once_its_spread_is_known() -> None:
    servers = replace(FP32, is_asynchronous=True)
    nights = [night(number, {"mean": 5.5 + 0.02 * (number % 3)}) for number in range(5)]
    early = judge_training(night(5), nights[:3], servers)
    assert early.kind is TrainingKind.NOT_COMPARABLE
    assert "asynchronous trainers needs 5 nights; found 3" in early.sentence
    assert judge_training(night(5, {"mean": 5.57}), nights, servers).kind is TrainingKind.SAME
    assert judge_training(night(5, {"mean": 5.0}), nights, servers).kind is TrainingKind.CHANGED
    # Found on 2026-11-30: a busy node delays the updates of one repeat, not of all.
    for ends, kind in (((5.0, 5.5), TrainingKind.SAME), ((5.0, 5.3), TrainingKind.CHANGED)):
        repeats = replace(night(5), losses=night(5).losses | {"mean": ends})
        assert judge_training(repeats, nights, servers).kind is kind
    # After the window, trainers step until the last one has ended.
    mean = {"mean": 5.5}
    verdict = judge_training(night(5, mean | {"again": 3.0}), nights, servers)
    assert verdict.kind is TrainingKind.SAME


def test_asynchronous_nights_with_another_version_are_compared_with_their_range() -> None:
    servers = replace(FP32, is_asynchronous=True)
    nights = [night(number, {"mean": 5.5 + 0.001 * number}) for number in range(5)]
    for mean, kind in ((5.51, TrainingKind.SAME), (5.52, TrainingKind.CHANGED)):
        tonight = night(5, {"mean": mean}, version="2.14.0")
        assert judge_training(tonight, nights, servers).kind is kind


def test_what_cannot_be_compared_says_why() -> None:
    silent = replace(night(5), losses={})
    assert (
        "a rank recorded no loss, or one that is not finite"
        in judge_training(silent, FIVE, FP32).sentence
    )
    assert "no earlier night" in judge_training(night(5), [], FP32).sentence
    other = [replace(each, definition_digest="e") for each in FIVE]
    assert judge_training(night(5), other, FP32).kind is TrainingKind.NOT_COMPARABLE


def test_nights_that_changed_are_no_reference() -> None:
    changed = [night(5 + n, {"first": 7.0}, is_changed=True) for n in range(3)]
    assert judge_training(night(9, {"first": 7.0}), [*FIVE, *changed], FP32).kind == "changed"
    assert judge_training(night(9), [*FIVE, *changed], FP32).kind is TrainingKind.SAME


def test_a_change_that_lasts_is_proved_though_few_nights_came_before() -> None:
    before = [night(number, version=f"2.{number}") for number in range(4)]
    proved = []
    for changed in range(3):
        tonight = night(4 + changed, {"first": 7.0}, version=f"2.{4 + changed}")
        verdict = judge_training(tonight, before, FP32)
        assert verdict.kind is TrainingKind.CHANGED
        proved.append(verdict.is_proved)
        before.append(replace(tonight, is_changed=True))
    assert proved == [False, True, True]


def test_nights_with_another_batch_are_not_compared() -> None:
    found = [night(number, {"batch": 64.0}) for number in range(5)]
    same = night(5, {"batch": 64.0})
    assert judge_training(same, found, FP32).kind is TrainingKind.SAME
    other = night(5, {"first": 7.0, "batch": 96.0})
    assert judge_training(other, found, FP32).kind is TrainingKind.NOT_COMPARABLE


def test_windows_of_other_lengths_prove_nothing_about_their_last_loss() -> None:
    lengths = (20, 20, 20, 20, 20, 21, 21)
    again = (3.0, 3.0, 3.0, 3.0, 3.0, 2.9, 2.9 + 1e-6)
    nights = [
        night(number, {"steps": steps, "again": loss})
        for number, (steps, loss) in enumerate(zip(lengths, again, strict=True))
    ]
    verdicts = [judge_training(nights[n], nights[:n], FP32) for n in (5, 6)]
    assert [each.kind for each in verdicts] == [TrainingKind.SAME] * 2
    assert "to the last bit" in verdicts[0].sentence
    assert "within rounding" in verdicts[1].sentence


def test_servers_are_not_judged_by_the_first_updates_that_arrive() -> None:
    """Five nights of PaddlePaddle 2 had the same third loss, and the sixth another one."""
    servers = replace(FP32, is_asynchronous=True)
    nights = [night(number, {"mean": 5.5 + 0.01 * number}) for number in range(5)]
    assert judge_training(night(5, {"third": 6.39}), nights, servers).kind is TrainingKind.SAME
    assert judge_training(night(5, {"first": 6.79}), nights, servers).kind is TrainingKind.CHANGED


def test_servers_are_judged_by_their_own_nights_only_if_these_show_the_spread() -> None:
    traits = TrainingTraits("fp32", is_asynchronous=True)
    wide = [night(number, {"mean": 5.5 + 0.1 * number}, version="1") for number in range(5)]
    narrow = [night(5 + number, {"mean": 5.6}, version="2") for number in range(3)]
    tonight = night(8, {"mean": 5.8}, version="2")
    assert judge_training(tonight, [*wide, *narrow], traits).kind is TrainingKind.SAME


def test_without_first_losses_the_random_numbers_of_dropout_are_unknown() -> None:
    known = {figure: loss for figure, loss in night(1).losses.items() if figure != "first"}
    past = [replace(each, losses=known) for each in FIVE]
    tonight = night(6, {"third": LOSSES["third"] + 1e-3}, version="2.14.0")
    dropout = replace(FP32, has_dropout=True)
    assert judge_training(tonight, past, dropout).kind is TrainingKind.SAME


def test_the_speed_is_compared_with_nights_of_the_same_definition() -> None:
    other = [night(number, definition_digest="e", throughput=300.0) for number in range(9)]
    past = [night(10 + number, throughput=100.0) for number in range(5)]
    tonight = night(20, {"first": 7.0}, throughput=150.0)
    assert judge_training(tonight, [*other, *past], FP32).speed == pytest.approx(0.5)


def test_losses_stay_changed_if_all_earlier_nights_changed() -> None:
    """Other lines showed that the first nights were wrong."""
    changed = [night(number, is_changed=True) for number in range(2)]
    verdict = judge_training(night(2), changed, FP32)
    assert (verdict.kind, verdict.difference) == (TrainingKind.CHANGED, "")
    assert verdict.sentence == (
        "Training changed: the losses are those of 2 nights whose change no user has accepted."
    )
    other = judge_training(night(2, {"first": 7.0}), changed, FP32)
    assert other.kind is TrainingKind.NOT_COMPARABLE
