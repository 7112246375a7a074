"""Synthetic series are what they are said to be, and a detector gets the grade that it deserves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from histories import nights
from hypothesis import given, settings
from hypothesis import strategies as st

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection import ChangeDetector, Judgement
from nightbench.detection.grading import (
    WINDOW,
    Trials,
    false_alarm_grade,
    poisson,
    power_grade,
    wilson,
)
from nightbench.detection.synthetic_series import (
    ENOUGH,
    SLOWDOWNS,
    WATCHED,
    SyntheticSeries,
    inject,
    noise_of,
    null_copy,
    seeded,
)

POLICY = RegressionPolicy()
STEADY = [100.0] * 180
BY_NAME = {sizes.name: sizes for sizes in SLOWDOWNS}
NAMES = ["1", "2", "3", "4", "5"]


def since(points: Sequence[HistoryPoint]) -> datetime:
    return points[-1].at - WINDOW


def injected(name: str, points: Sequence[HistoryPoint], case_id: str = "a") -> SyntheticSeries:
    found = inject(seeded(case_id, name), BY_NAME[name], points, since(points))
    assert found is not None
    return found


def null(name: str, points: Sequence[HistoryPoint]) -> SyntheticSeries | None:
    return null_copy(seeded(name), points, since(points))


class Says:
    """A detector that says the same of every night, with a change that began tonight."""

    def __init__(self, kind: VerdictKind) -> None:
        self.kind = kind

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        return Judgement(self.kind, "", since=tonight.at)


class NeedsAFall:
    """Says regressed where tonight is below nine tenths of the first night."""

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        fell = tonight.value < 0.9 * history[0].value
        return Judgement(VerdictKind.REGRESSED if fell else VerdictKind.OK, "", since=tonight.at)


# --- injected slowdowns ---------------------------------------------------------------------


@settings(max_examples=30)
@given(
    name=st.sampled_from(sorted(BY_NAME)),
    case_id=st.text("abc", min_size=1, max_size=4),
    noise=st.sampled_from([0.002, 0.01, 0.04]),
    seed=st.integers(0, 99),
)
def test_a_slowdown_has_the_size_that_was_said_and_all_its_nights(
    name: str, case_id: str, noise: float, seed: int
) -> None:
    points = nights(*STEADY, noise=noise, seed=seed, n=5, spread=0.01, fingerprint_id="f")
    sizes, slowed = BY_NAME[name], injected(name, points, case_id)
    assert [replace(p, value=0) for p in slowed.points] == [replace(p, value=0) for p in points]
    ratios = [now.value / was.value for now, was in zip(slowed.points, points, strict=True)]
    assert slowed.size is not None
    assert ratios[: slowed.first] == [1.0] * slowed.first
    assert ratios[slowed.first :] == pytest.approx([1 - slowed.size] * (180 - slowed.first))
    unit = noise_of(points[: slowed.first]) if sizes.in_noise else 1.0
    assert sizes.low - 1e-9 <= slowed.size / unit <= sizes.high + 1e-9
    assert since(points) <= points[slowed.first].at
    assert slowed.first + WATCHED <= len(points)
    assert injected(name, points, case_id) == slowed


def test_other_words_make_other_series() -> None:
    points = nights(*STEADY, noise=0.01)
    assert len({injected("5%", points, case_id).first for case_id in "abcd"}) >= 3
    copies = [null(name, points) for name in NAMES]
    assert len({tuple(logs(copy.points)) for copy in copies if copy}) == len(NAMES)


def test_a_young_series_is_not_copied() -> None:
    points = nights(*STEADY[: ENOUGH + 5])
    assert null("1", points[:ENOUGH]) is None
    assert null_copy(seeded("1"), [], points[0].at) is None
    copy = null("1", points)
    assert copy is not None
    assert [p.at for p in copy.points[copy.first :]] == [p.at for p in points[ENOUGH:]]
    assert inject(seeded("a"), BY_NAME["5%"], points[: WATCHED - 1], points[0].at) is None
    assert inject(seeded("a"), BY_NAME["5%"], points[: ENOUGH + WATCHED - 1], points[0].at) is None
    one = inject(seeded("a"), BY_NAME["5%"], nights(*STEADY[:34]), points[ENOUGH].at)
    assert one is not None
    assert one.first == ENOUGH


def test_nights_on_other_hardware_are_not_copied() -> None:
    points = nights(*STEADY)
    anew = [replace(p, fingerprint_id="old" if k < 150 else "new") for k, p in enumerate(points)]
    copy = null("1", anew)
    assert copy is not None
    assert copy.points[copy.first].at == points[150 + ENOUGH].at


# --- copies without a change ----------------------------------------------------------------


def logs(points: Sequence[HistoryPoint]) -> list[float]:
    return [math.log(point.value) for point in points]


def test_a_null_copy_has_the_noise_and_the_repeats_of_the_series_and_none_of_its_steps() -> None:
    levels = [100.0] * 50 + [80.0] * 70 + [80.0] * 60
    points = nights(*levels, noise=0.01, n=5, spread=0.02)
    copies = [null(name, points) for name in NAMES]
    values = [value for copy in copies if copy for value in logs(copy.points)]
    assert statistics.median(values) == pytest.approx(math.log(80), abs=0.004)
    assert statistics.stdev(values) == pytest.approx(0.01, rel=0.35)
    assert max(values) - min(values) < 0.1
    copy = copies[0]
    assert copy is not None
    assert {(p.n, p.spread) for p in copy.points} == {(5, 0.02)}


def test_a_null_copy_keeps_slow_stretches_together() -> None:
    """Neighbours in the copy are neighbours of the series, but where a block ends."""
    rng = np.random.default_rng(5)
    wander = np.zeros(180)
    for night in range(1, 180):
        wander[night] = 0.8 * wander[night - 1] + rng.normal(0, 0.01)
    points = nights(*(100 * np.exp(wander)), noise=0.0005)
    alike = []
    for name in NAMES:
        copy = null(name, points)
        assert copy is not None
        values = np.array(logs(copy.points))
        alike.append(float(np.corrcoef(values[1:], values[:-1])[0, 1]))
    assert statistics.mean(alike) > 0.4


def test_a_change_that_is_being_reported_is_no_noise_of_the_copy() -> None:
    """Nine slow nights at the end: drawn in blocks they would look like excursions."""
    points = nights(*[100.0] * 171, *[80.0] * 9, noise=0.005)
    copy = null("1", points)
    assert copy is not None
    assert min(p.value for p in copy.points) > 95


def test_a_weekly_pattern_stays_on_its_days() -> None:
    sundays = [100.0 if (k + 4) % 7 else 92.0 for k in range(180)]  # the first was a Thursday
    points = nights(*sundays, noise=0.003)
    copy = null("1", points)
    assert copy is not None
    low = {p.at.weekday() for p in copy.points if p.value < 96}
    assert low == {6}
    assert min(p.value for p in copy.points) > 88


# --- what detectors get for it ---------------------------------------------------------------


def tried(
    detector: object,
    name: str,
    points: Sequence[HistoryPoint],
    slowed: SyntheticSeries | None = None,
) -> Trials:
    found = Trials()
    found.add(slowed or injected(name, points), points, POLICY, detector)
    return found


def test_who_never_alarms_detects_nothing() -> None:
    points, mute = nights(*STEADY, noise=0.01), Says(VerdictKind.OK)
    assert tried(mute, "10%", points) == Trials(missed=1)
    grade = power_grade("10%", Trials(missed=40))
    assert (grade.rate, grade.hits) == (0.0, 0)


def test_who_always_alarms_spoils_every_slowdown() -> None:
    """It says so of the real series too, so that what it detects means nothing."""
    points, loud = nights(*STEADY, noise=0.01), Says(VerdictKind.REGRESSED)
    assert tried(loud, "10%", points) == Trials(spoiled=1)


def test_who_sees_large_slowdowns_detects_them_on_the_first_night() -> None:
    points = nights(*STEADY, noise=0.001)
    slowed = injected("10%", points)
    slow = replace(slowed, points=[*points[: slowed.first], *_scaled(points[slowed.first :], 0.8)])
    assert tried(NeedsAFall(), "10%", points, slow) == Trials(delays=[0])


def _scaled(points: Sequence[HistoryPoint], by: float) -> list[HistoryPoint]:
    return [replace(point, value=point.value * by) for point in points]


def test_our_detector_detects_ten_percent_within_days_and_says_the_same_without_the_smallest() -> (
    None
):
    points = nights(*STEADY, noise=0.01, n=5, spread=0.02)
    (delay,) = tried(ChangeDetector(with_smallest=False), "10%", points).delays
    assert 1 <= delay <= 3
    full, quick = (
        ChangeDetector(flag).judge(points[:-1], points[-1], POLICY) for flag in (True, False)
    )
    assert full.smallest_slowdown is not None
    assert replace(full, smallest_slowdown=None) == quick


def test_a_real_change_next_to_the_injected_one_spoils_it() -> None:
    points = nights(*STEADY, noise=0.005)
    slowed = injected("10%", points)
    real = [*points[: slowed.first - 2], *_scaled(points[slowed.first - 2 :], 0.85)]
    assert tried(ChangeDetector(with_smallest=False), "10%", real) == Trials(spoiled=1)


def test_a_series_that_begins_anew_spoils_it() -> None:
    points = nights(*STEADY, noise=0.005)
    slowed = injected("3%", points)
    anew = [
        replace(p, fingerprint_id="old" if k <= slowed.first else "new")
        for k, p in enumerate(points)
    ]
    assert tried(ChangeDetector(), "3%", anew) == Trials(spoiled=1)


# --- grades ----------------------------------------------------------------------------------


def test_intervals_are_the_textbook_ones() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe, 1998
    assert wilson(0, 0) == (0.0, 1.0)
    assert poisson(0) == pytest.approx((0.0, 3.6889), abs=1e-4)
    assert poisson(10) == pytest.approx((4.7954, 18.3904), abs=1e-4)


def test_a_power_is_below_its_limit_only_where_the_count_is_sure_of_it() -> None:
    assert not power_grade("over 4 noise", Trials([2] * 17, 3)).below  # 85 %, but 95 % is possible
    assert not power_grade("over 4 noise", Trials(missed=19)).below  # too few
    poor = power_grade("over 4 noise", Trials([2] * 60, 40, 7))
    assert "60 of 100" in poor.below
    assert "expected 90% at least" in poor.below
    assert (poor.trials, poor.spoiled, poor.limit_value) == (100, 7, 0.9)
    assert not power_grade("3%", Trials(missed=100)).below
    slow = power_grade("over 4 noise", Trials([6, 7] * 49, 2))
    assert "after 6.5 nights" in slow.below


def test_shares_are_compared_with_what_they_were() -> None:
    before = vars(power_grade("5%", Trials([2] * 90, 10)))
    assert "before, 90 of 100 were" in power_grade("5%", Trials([3] * 30, 30), before).below
    assert not power_grade("5%", Trials([3] * 50, 10), before).below
    assert not power_grade("5%", Trials([3] * 30, 30), vars(power_grade("5%", Trials()))).below


def test_false_alarms_are_too_many_only_where_the_count_is_sure_of_it() -> None:
    few = false_alarm_grade(1000, 3)
    assert (few.rate, few.below) == (3.0, "")
    many = false_alarm_grade(2000, 20)
    assert many.rate == 10.0
    assert "20 false alarms in 2,000 nights" in many.below
    assert false_alarm_grade(0, 0).rate is None
