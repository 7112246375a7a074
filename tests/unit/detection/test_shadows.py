"""Shadow series are what they are said to be, and a detector gets the grade that it deserves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from histories import nights
from hypothesis import given, settings
from hypothesis import strategies as st

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection import ChangeDetector, Judgement
from nightbench.detection.grading import (
    APART,
    WATCHED,
    Grade,
    TrialOutcome,
    false_alarm_grade,
    judge_fall,
    judge_quiet,
    poisson,
    power_grade,
    wilson,
)
from nightbench.detection.shadows import (
    ENOUGH,
    FALLS,
    QUIET,
    Shadow,
    noise_of,
    plant,
    quiet_copy,
)

MAY = date(2026, 5, 1)
POLICY = RegressionPolicy()
STEADY = [100.0] * 180
"""From the first of January to the end of June."""
BY_NAME = {sizes.name: sizes for sizes in FALLS}


def shadow(name: str = "5%", case_id: str = "a", month: date = MAY, suite: str = "s") -> Shadow:
    return Shadow(suite, "local", case_id, month, name)


class Says:
    """A detector that says the same of every night, with a change that began tonight."""

    def __init__(self, kind: VerdictKind) -> None:
        self.kind = kind

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        return Judgement(self.kind, "", since=tonight.at)


class NeedsAFall:
    """Says regressed where tonight is below nine tenths of the night before the fall began."""

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        fell = tonight.value < 0.9 * history[0].value
        return Judgement(VerdictKind.REGRESSED if fell else VerdictKind.OK, "", since=tonight.at)


# --- what is planted ------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    name=st.sampled_from(sorted(BY_NAME)),
    case_id=st.text("abc", min_size=1, max_size=4),
    noise=st.sampled_from([0.002, 0.01, 0.04]),
    seed=st.integers(0, 99),
)
def test_a_fall_has_the_size_that_was_said(
    name: str, case_id: str, noise: float, seed: int
) -> None:
    points = nights(*STEADY, noise=noise, seed=seed, n=5, spread=0.01, fingerprint_id="f")
    sizes = BY_NAME[name]
    fall = plant(shadow(name, case_id), sizes, points)
    assert fall is not None
    assert [replace(p, value=0) for p in fall.points] == [replace(p, value=0) for p in points]
    ratios = [now.value / was.value for now, was in zip(fall.points, points, strict=True)]
    assert fall.size is not None
    assert ratios[: fall.first] == [1.0] * fall.first
    assert ratios[fall.first :] == pytest.approx([1 - fall.size] * (len(points) - fall.first))
    unit = noise_of(points[: fall.first]) if sizes.in_noise else 1.0
    assert sizes.low - 1e-9 <= fall.size / unit <= sizes.high + 1e-9
    assert date(2026, 5, 1) <= points[fall.first].at.date() <= date(2026, 6, 1)


@settings(max_examples=20)
@given(name=st.sampled_from([*BY_NAME, *QUIET]), night=st.integers(130, 179))
def test_the_same_shadow_is_the_same_whenever_it_is_made(name: str, night: int) -> None:
    points = nights(*STEADY, noise=0.01)
    one, other = shadow(name), shadow(name)
    if name in BY_NAME:
        early, late = (
            plant(which, BY_NAME[name], points[:until])
            for which, until in ((one, night), (other, 180))
        )
        if early is None:
            return
    else:
        early, late = (
            quiet_copy(which, points[:until]) for which, until in ((one, night), (other, 180))
        )
        assert early is not None
    assert late is not None
    assert list(early.points) == list(late.points[: len(early.points)])


def test_other_names_make_other_shadows() -> None:
    points = nights(*STEADY, noise=0.01)
    names = [shadow(), shadow(case_id="b"), shadow(month=date(2026, 4, 1)), shadow(suite="t")]
    firsts = [plant(name, BY_NAME["5%"], points) for name in names]
    assert len({fall.first for fall in firsts if fall}) >= 3  # two of them may meet on a night
    copies = [quiet_copy(shadow(name), points) for name in QUIET]
    assert len({tuple(logs(copy.points)) for copy in copies if copy}) == len(QUIET)


def test_what_is_too_young_is_not_copied() -> None:
    points = nights(*STEADY[: 31 + 28 + 31 + 30 + 5])
    young = points[-5 - ENOUGH + 1 :]  # 19 nights before the first of May
    assert quiet_copy(shadow("quiet-1"), young[: ENOUGH - 1]) is None
    copy = quiet_copy(shadow("quiet-1"), young)
    assert copy is not None
    assert copy.nights == young[ENOUGH:]
    other = [replace(p, fingerprint_id="old") for p in points[:-2]]
    anew = [*other, *(replace(p, fingerprint_id="new") for p in points[-2:])]
    found = quiet_copy(shadow("quiet-1"), anew)
    assert found is not None
    assert found.nights[0].at == points[120].at


def test_a_fall_on_a_night_to_come_is_not_planted() -> None:
    points = nights(*STEADY)
    begins = plant(shadow(), BY_NAME["5%"], points)
    assert begins is not None
    assert plant(shadow(), BY_NAME["5%"], points[: begins.first]) is None
    assert plant(shadow(), BY_NAME["5%"], points[: begins.first + 1]) is not None


# --- copies without a change ----------------------------------------------------------------


def logs(points: Sequence[HistoryPoint]) -> list[float]:
    return [math.log(point.value) for point in points]


def test_a_quiet_copy_has_the_noise_and_the_repeats_of_the_series_and_none_of_its_steps() -> None:
    levels = [100.0] * 50 + [80.0] * 70 + [80.0] * 60
    points = nights(*levels, noise=0.01, n=5, spread=0.02)
    copies = [quiet_copy(shadow(name), points) for name in QUIET]
    values = [value for copy in copies if copy for value in logs(copy.points)]
    assert statistics.median(values) == pytest.approx(math.log(80), abs=0.004)
    assert statistics.stdev(values) == pytest.approx(0.01, rel=0.35)
    assert max(values) - min(values) < 0.1
    copy = copies[0]
    assert copy is not None
    assert {(p.n, p.spread) for p in copy.points} == {(5, 0.02)}


def test_a_quiet_copy_keeps_slow_stretches_together() -> None:
    """Neighbours in the copy are neighbours of the series, but where a block ends."""
    rng = np.random.default_rng(5)
    wander = np.zeros(180)
    for night in range(1, 180):
        wander[night] = 0.8 * wander[night - 1] + rng.normal(0, 0.01)
    points = nights(*(100 * np.exp(wander)), noise=0.0005)
    alike = []
    for name in QUIET:
        copy = quiet_copy(shadow(name), points)
        assert copy is not None
        values = np.array(logs(copy.points))
        alike.append(float(np.corrcoef(values[1:], values[:-1])[0, 1]))
    assert statistics.mean(alike) > 0.4


def test_a_change_that_is_being_told_is_no_noise_of_the_copy() -> None:
    """Nine slow nights before the month begins: drawn in blocks they would look like visits."""
    points = nights(*[100.0] * 111, *[80.0] * 30, noise=0.005)
    copy = quiet_copy(shadow("quiet-1"), points)
    assert copy is not None
    assert min(p.value for p in copy.points) > 95


def test_a_weekly_pattern_stays_on_its_days() -> None:
    sundays = [100.0 if (k + 4) % 7 else 92.0 for k in range(180)]  # the first was a Thursday
    points = nights(*sundays, noise=0.003)
    copy = quiet_copy(shadow("quiet-1"), points)
    assert copy is not None
    low = {p.at.weekday() for p in copy.points if p.value < 96}
    assert low == {6}
    assert min(p.value for p in copy.points) > 88


# --- what detectors get for it ---------------------------------------------------------------


def decided(
    detector: object, name: str, points: Sequence[HistoryPoint]
) -> tuple[TrialOutcome, int]:
    fall = plant(shadow(name), BY_NAME[name], points)
    assert fall is not None
    for night in range(WATCHED):
        verdict = judge_fall(fall, night, POLICY, detector)
        if verdict.outcome:
            return verdict.outcome, night
    raise AssertionError("never decided")


def test_who_never_alarms_catches_nothing_and_alarms_falsely_never() -> None:
    points, mute = nights(*STEADY, noise=0.01), Says(VerdictKind.OK)
    assert decided(mute, "10%", points) == (TrialOutcome.MISSED, WATCHED - 1)
    copy = quiet_copy(shadow("quiet-1"), points)
    assert copy is not None
    said = [judge_quiet(copy, k, POLICY, mute, None) for k in range(len(copy.nights))]
    assert {verdict.outcome for verdict in said} == {None}
    grade = power_grade("10%", 0, 40, 0, None)
    assert (grade.rate, grade.hits) == (0.0, 0)


def test_who_always_alarms_spoils_every_fall_and_has_the_false_alarms_it_deserves() -> None:
    """It says so of the real series too, so that its catches mean nothing."""
    points, loud = nights(*STEADY, noise=0.01), Says(VerdictKind.REGRESSED)
    assert decided(loud, "10%", points)[0] is TrialOutcome.SPOILED
    copy = quiet_copy(shadow("quiet-1"), points)
    assert copy is not None
    at, alarms = None, 0
    for night in range(len(copy.nights)):
        verdict = judge_quiet(copy, night, POLICY, loud, at)
        at = verdict.at
        alarms += verdict.outcome is TrialOutcome.ALARM
    assert alarms == 0  # One alert that never ends, opened before anybody counted.


class EveryTwentieth:
    """Says regressed on every twentieth night of the calendar."""

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        fell = tonight.at.toordinal() % 20 == 0
        return Judgement(VerdictKind.REGRESSED if fell else VerdictKind.OK, "", since=tonight.at)


def test_false_alarms_are_counted_one_by_one() -> None:
    points = nights(*[100.0] * 151, noise=0.01)
    copy = quiet_copy(shadow("quiet-1"), points)
    assert copy is not None
    at, alarms = None, []
    for night in range(len(copy.nights)):
        verdict = judge_quiet(copy, night, POLICY, EveryTwentieth(), at)
        if verdict.kind is VerdictKind.REGRESSED:
            at = verdict.at
        if verdict.outcome:
            alarms.append(verdict.at.toordinal())
    assert alarms == [d for d in range(*_ordinals(copy.nights)) if d % 20 == 0]


def _ordinals(points: Sequence[HistoryPoint]) -> tuple[int, int]:
    return points[0].at.toordinal(), points[-1].at.toordinal() + 1


def test_an_alarm_that_goes_on_is_one() -> None:
    points = nights(*STEADY, noise=0.01)
    copy = quiet_copy(shadow("quiet-1"), points)
    assert copy is not None
    loud, at = Says(VerdictKind.REGRESSED), copy.points[copy.first + 5].at
    assert judge_quiet(copy, 6, POLICY, loud, None).outcome is TrialOutcome.ALARM
    assert judge_quiet(copy, 6, POLICY, loud, at).outcome is None
    assert judge_quiet(copy, 6 + APART, POLICY, loud, at).outcome is TrialOutcome.ALARM


def test_who_sees_large_falls_catches_them_on_the_first_night() -> None:
    points = nights(*STEADY, noise=0.001)
    fall = plant(shadow("10%"), BY_NAME["10%"], points)
    assert fall is not None
    slow = replace(fall, points=[*points[: fall.first], *_scaled(points[fall.first :], 0.8)])
    said = judge_fall(slow, 0, POLICY, NeedsAFall())
    assert (said.outcome, said.run_id) == (TrialOutcome.CAUGHT, points[fall.first].run_id)


def _scaled(points: Sequence[HistoryPoint], by: float) -> list[HistoryPoint]:
    return [replace(point, value=point.value * by) for point in points]


def test_our_detector_catches_ten_percent_within_days_and_says_the_same_without_the_smallest() -> (
    None
):
    points = nights(*STEADY, noise=0.01, n=5, spread=0.02)
    outcome, night = decided(ChangeDetector(with_smallest=False), "10%", points)
    assert outcome is TrialOutcome.CAUGHT
    assert 1 <= night <= 3
    full, quick = (
        ChangeDetector(flag).judge(points[:-1], points[-1], POLICY) for flag in (True, False)
    )
    assert full.smallest_slowdown is not None
    assert replace(full, smallest_slowdown=None) == quick


def test_a_real_change_beside_the_planted_one_spoils_it() -> None:
    points = nights(*STEADY, noise=0.005)
    fall = plant(shadow("10%"), BY_NAME["10%"], points)
    assert fall is not None
    real = [*points[: fall.first - 2], *_scaled(points[fall.first - 2 :], 0.85)]
    assert decided(ChangeDetector(with_smallest=False), "10%", real)[0] is TrialOutcome.SPOILED


def test_a_series_that_begins_anew_spoils_it() -> None:
    points = nights(*STEADY, noise=0.005)
    fall = plant(shadow("3%"), BY_NAME["3%"], points)
    assert fall is not None
    anew = [
        replace(p, fingerprint_id="old" if k <= fall.first else "new") for k, p in enumerate(points)
    ]
    assert decided(ChangeDetector(), "3%", anew) == (TrialOutcome.SPOILED, 1)


# --- grades ----------------------------------------------------------------------------------


def test_intervals_are_the_textbook_ones() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe, 1998
    assert wilson(0, 0) == (0.0, 1.0)
    assert poisson(0) == pytest.approx((0.0, 3.6889), abs=1e-4)
    assert poisson(10) == pytest.approx((4.7954, 18.3904), abs=1e-4)


def test_a_power_is_below_its_limit_only_where_the_count_is_sure_of_it() -> None:
    assert not power_grade("over 4 noise", 17, 3, 0, 2).below  # 85 %, but 95 % is possible
    assert not power_grade("over 4 noise", 0, 19, 0, None).below  # too few
    poor = power_grade("over 4 noise", 60, 40, 7, 2)
    assert "60 of 100" in poor.below
    assert "at least 90%" in poor.below
    assert (poor.trials, poor.spoiled, poor.limit_value) == (100, 7, 0.9)
    assert not power_grade("3%", 0, 100, 0, None).below
    slow = power_grade("over 4 noise", 99, 1, 0, 6.5)
    assert "after 6.5 nights" in slow.below


def test_shares_are_held_against_what_they_were() -> None:
    before = power_grade("5%", 90, 10, 0, 2)
    assert "before, 90 of 100 were" in power_grade("5%", 30, 30, 0, 3, before).below
    assert not power_grade("5%", 50, 10, 0, 3, before).below
    assert not power_grade("5%", 30, 30, 0, 3, Grade("5%", 0, 0, None)).below


def test_false_alarms_are_too_many_only_where_the_count_is_sure_of_it() -> None:
    few = false_alarm_grade(1000, 3)
    assert (few.rate, few.below) == (3.0, "")
    many = false_alarm_grade(2000, 20)
    assert many.rate == 10.0
    assert "20 false alarms in 2,000 nights" in many.below
    assert false_alarm_grade(0, 0).rate is None


def test_months_end_where_they_should() -> None:
    assert shadow(month=date(2028, 2, 1)).ends == datetime(2028, 3, 1, tzinfo=UTC)
    assert shadow().ends - shadow().begins == timedelta(days=31)
