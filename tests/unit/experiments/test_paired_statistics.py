"""Rounds, ratios and verdicts of two builds, without a node."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest

from nightbench.core.model import Reason, ReasonCode
from nightbench.experiments import paired_statistics, rounds
from nightbench.experiments.paired_statistics import PairedVerdict
from nightbench.experiments.rounds import Arm, Launch, LaunchOrder

A, B = Arm.A, Arm.B


def ok(number: int, arm: Arm, value: float = 100.0) -> Launch:
    return Launch(number, arm, "ok", value)


def bad(number: int, arm: Arm, status: str = "failed") -> Launch:
    return Launch(number, arm, status, None, (Reason(ReasonCode.NODE_ERROR, observed="told to"),))


def test_the_order_alternates_and_the_seed_says_which_build_begins() -> None:
    order = LaunchOrder(4, B)
    assert [order.arms(number) for number in range(1, 5)] == [(B, A), (A, B), (B, A), (A, B)]
    firsts = [LaunchOrder.seeded(4, seed, "x").first for seed in range(40)]
    assert firsts == [LaunchOrder.seeded(4, seed, "x").first for seed in range(40)]
    assert set(firsts) == {A, B}


def test_launches_lead_through_all_rounds() -> None:
    order, launches = LaunchOrder(3, A), []
    while (done := rounds.progress(order, launches)).next is not None:
        number, arm = done.next
        launches.append(ok(number, arm, 100.0 if arm is A else 90.0))
    assert [launch.arm for launch in launches] == [A, B, B, A, A, B]
    assert [pair.ratio for pair in done.rounds] == pytest.approx([0.9] * 3)
    assert done.stopped is None


@pytest.mark.parametrize("status", ["failed", "disturbed", "interrupted"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_bad_launch_drops_its_round_which_is_measured_again_in_the_same_order(
    status: str, which: int
) -> None:
    order = LaunchOrder(2, A)
    first = [ok(1, A), ok(1, B), *[ok(2, B, 55.0)][:which]]
    launches = [*first, bad(2, (B, A)[which], status)]
    done = rounds.progress(order, launches)
    assert done.next == (2, B)
    # What the dropped round had measured is not used: the pair is measured together.
    done = rounds.progress(order, [*launches, ok(2, B, 80.0), ok(2, A, 100.0)])
    assert [pair.ratio for pair in done.rounds] == [1.0, 0.8]
    assert [launch.status for launch in done.dropped] == [status]
    assert done.next is None
    assert done.stopped is None


def test_a_build_that_keeps_failing_ends_it_and_is_named() -> None:
    launches = [ok(1, A), bad(1, B), ok(1, A), bad(1, B)]
    done = rounds.progress(LaunchOrder(7, A), launches)
    assert done.next is None
    assert done.stopped == "launches of B failed 2 times in a row; the last: told to"


def test_the_budget_of_dropped_rounds_ends_it_and_what_was_interrupted_is_not_in_it() -> None:
    order = LaunchOrder(7, A, spare=2)
    launches = [bad(1, A, "interrupted")] * 5 + [bad(1, A, "disturbed")] * 2
    assert rounds.progress(order, launches).next == (1, A)
    done = rounds.progress(order, [*launches, bad(1, A, "disturbed")])
    assert done.next is None
    assert "more than the allowed 2" in (done.stopped or "")


def test_launches_of_another_schedule_are_refused() -> None:
    with pytest.raises(ValueError, match="expected b in round 1"):
        rounds.progress(LaunchOrder(7, B), [ok(1, A)])


# --- verdicts -----------------------------------------------------------------------------


def test_the_interval_is_that_of_the_t_distribution_on_logarithms() -> None:
    # By hand: logs -.03, -.01, -.02; mean -.02, deviation .01, t(2; .975) = 4.302653.
    found = paired_statistics.estimate([math.exp(x) for x in (-0.03, -0.01, -0.02)], 0.01)
    assert found.ratio == pytest.approx(math.exp(-0.02))
    half = 4.302653 * 0.01 / math.sqrt(3)
    assert found.low == pytest.approx(math.exp(-0.02 - half), rel=1e-6)
    assert found.high == pytest.approx(math.exp(-0.02 + half), rel=1e-6)


@pytest.mark.parametrize(
    ("centre", "noise", "verdict"),
    [
        (-0.03, 0.003, PairedVerdict.SLOWER),
        (0.03, 0.003, PairedVerdict.FASTER),
        (0.001, 0.003, PairedVerdict.SAME),
        (-0.011, 0.003, PairedVerdict.INCONCLUSIVE),  # slower, but by more than 1 %?
        (0.0, 0.05, PairedVerdict.INCONCLUSIVE),
    ],
)
def test_a_verdict_needs_the_whole_interval(
    centre: float, noise: float, verdict: PairedVerdict
) -> None:
    logs = [centre + noise * step for step in (-1.2, -0.8, -0.3, 0.0, 0.3, 0.8, 1.2)]
    found = paired_statistics.estimate([math.exp(x) for x in logs], 0.01)
    assert found.verdict is verdict
    swapped = paired_statistics.estimate([math.exp(-x) for x in logs], 0.01)
    turned = {
        PairedVerdict.SLOWER: PairedVerdict.FASTER,
        PairedVerdict.FASTER: PairedVerdict.SLOWER,
    }
    assert swapped.verdict is turned.get(verdict, verdict)


STEPS = (-1.2, -0.8, -0.3, 0.0, 0.3, 0.8, 1.2)


@pytest.mark.parametrize("centre", [0.0, -0.004, 0.0099, -0.0101, -0.015, 0.019])
def test_the_rounds_that_are_advised_rest_on_the_smallest_effect(centre: float) -> None:
    logs = [centre + 0.02 * step for step in STEPS]
    found = paired_statistics.estimate([math.exp(x) for x in logs], 0.01)
    assert found.verdict is PairedVerdict.INCONCLUSIVE
    # 0.0170 is the deviation of the logarithms; the same advice whatever ratio was seen.
    assert found.sentence.endswith("; resolving a difference of 1 % takes about 41 rounds")


def test_as_many_rounds_as_advised_tell_equal_builds_and_twice_the_effect() -> None:
    draw = random.Random(5)
    enough = paired_statistics.rounds_for(0.006, 0.01)
    assert enough == 8

    def verdicts(centre: float) -> list[PairedVerdict]:
        return [
            paired_statistics.estimate(
                [math.exp(draw.gauss(centre, 0.006)) for _ in range(enough)], 0.01
            ).verdict
            for _ in range(400)
        ]

    assert verdicts(0.0).count(PairedVerdict.SAME) >= 360
    assert verdicts(-0.02).count(PairedVerdict.SLOWER) >= 380


def test_more_rounds_are_not_advised_where_they_would_not_tell() -> None:
    near = [math.exp(-0.0101 + 0.002 * step) for step in STEPS]
    found = paired_statistics.estimate(near, 0.01)
    assert found.verdict is PairedVerdict.INCONCLUSIVE
    assert found.sentence.endswith(
        "; more rounds would hardly help, because the difference is near 1 %"
    )
    wild = paired_statistics.estimate([math.exp(0.9 * step) for step in STEPS], 0.01)
    assert wild.sentence.endswith("; resolving a difference of 1 % takes more than 1000 rounds")


def test_the_advice_for_several_cases_counts_the_rounds_of_one() -> None:
    each = estimates(-0.002, 0.002, noise=0.03)
    both = paired_statistics.combine(each, 0.01).estimate
    assert both is not None
    assert both.verdict is PairedVerdict.INCONCLUSIVE
    assert both.sentence.endswith("; resolving a difference of 1 % takes about 45 rounds")


def test_too_few_rounds_are_inconclusive() -> None:
    assert paired_statistics.estimate([], 0.01).ratio is None
    two = paired_statistics.estimate([0.5, 0.5], 0.01)
    assert (two.verdict, two.low, two.p_value) == (PairedVerdict.INCONCLUSIVE, None, None)


def test_sign_flips_are_counted_exactly() -> None:
    logs = [0.3, -0.1, 0.2, 0.05]
    sums = [
        abs(sum(s * abs(x) for s, x in zip(signs, logs, strict=True)))
        for signs in product((1, -1), repeat=4)
    ]
    by_hand = sum(value >= abs(sum(logs)) - 1e-12 for value in sums) / 16
    assert paired_statistics.sign_flip(logs) == by_hand
    assert paired_statistics.sign_flip([-0.1] * 7) == 2 / 2**7
    assert paired_statistics.sign_flip([0.0] * 7) == 1.0


def test_of_many_rounds_signs_are_drawn_and_come_close() -> None:
    logs = [0.01 * (i % 5 - 1.5) for i in range(17)]
    seen = abs(sum(logs)) - 1e-12
    exact = sum(
        abs(sum(s * x for s, x in zip(signs, logs, strict=True))) >= seen
        for signs in product((1, -1), repeat=17)
    )
    drawn = paired_statistics.sign_flip(logs, seed=3)
    assert drawn == paired_statistics.sign_flip(logs, seed=3)
    assert drawn == pytest.approx(exact / 2**17, abs=0.015)


def test_a_build_beside_itself_is_hardly_ever_called_slower() -> None:
    # Noise of 3 % a launch, so that 1 % is well within it: 2.5 % at most may be called slower.
    chance = random.Random(7)
    wrong = 0
    for _ in range(2000):
        ratios = [math.exp(chance.gauss(0, 0.03)) for _ in range(7)]
        wrong += paired_statistics.estimate(ratios, 0.01).verdict is PairedVerdict.SLOWER
    assert wrong <= 50


def test_three_per_cent_are_told_in_seven_rounds_of_one_per_cent_noise() -> None:
    chance = random.Random(11)
    told = 0
    for _ in range(1000):
        ratios = [0.97 * math.exp(chance.gauss(0, 0.01)) for _ in range(7)]
        told += paired_statistics.estimate(ratios, 0.01).verdict is PairedVerdict.SLOWER
    assert told >= 950


# --- several cases ------------------------------------------------------------------------


def estimates(*centres: float, noise: float = 0.003) -> list[paired_statistics.RatioEstimate]:
    level = paired_statistics.family_level(len(centres))
    steps = (-1.2, -0.8, -0.3, 0.0, 0.3, 0.8, 1.2)
    return [
        paired_statistics.estimate([math.exp(centre + noise * step) for step in steps], 0.01, level)
        for centre in centres
    ]


def test_cases_that_agree_have_a_line_together_with_a_narrower_interval() -> None:
    each = estimates(-0.030, -0.031, -0.029)
    both = paired_statistics.combine(each, 0.01).estimate
    assert both is not None
    assert both.ratio == pytest.approx(math.exp(-0.03))
    assert both.low is not None
    assert each[0].low is not None
    assert each[0].low < both.low
    assert both.verdict is PairedVerdict.SLOWER


def test_cases_that_lie_apart_have_none() -> None:
    for centres, why in (
        ((-0.03, 0.03), "some cases are slower and others faster"),
        ((-0.03, -0.09), "the cases differ from each other by more than their intervals"),
    ):
        combined = paired_statistics.combine(estimates(*centres), 0.01)
        assert (combined.estimate, combined.why_not) == (None, why)
    short = [*estimates(-0.03), paired_statistics.estimate([0.9], 0.01)]
    assert paired_statistics.combine(short, 0.01).why_not == "a case has too few rounds"
    assert paired_statistics.combine(estimates(-0.03), 0.01) == paired_statistics.CombinedEstimate(
        None
    )


def test_intervals_of_several_cases_hold_together() -> None:
    assert paired_statistics.family_level(1) == pytest.approx(0.95)
    assert paired_statistics.family_level(5) == pytest.approx(0.99)
    alone, among = estimates(-0.02)[0], estimates(-0.02, 0.0, 0.0)[0]
    assert alone.low is not None
    assert among.low is not None
    assert among.low < alone.low


def test_the_worst_case_is_the_verdict() -> None:
    same, slower, faster, open_ = (
        PairedVerdict.SAME,
        PairedVerdict.SLOWER,
        PairedVerdict.FASTER,
        PairedVerdict.INCONCLUSIVE,
    )
    assert paired_statistics.overall([same, open_, slower]) is slower
    assert paired_statistics.overall([same, open_, faster]) is open_
    assert paired_statistics.overall([same, faster]) is same
    assert paired_statistics.overall([faster, faster]) is faster
    assert paired_statistics.overall([]) is open_
