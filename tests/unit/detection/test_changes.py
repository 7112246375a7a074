"""Changes of seeded series, and that what is said of a night depends on the past alone."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightbench.detection.changes import LOOK_BACK, changes_of_last_night
from nightbench.detection.drift import drift_of
from nightbench.detection.evidence import evidence_of, reference_window
from nightbench.detection.incremental import IncrementalDetector, find_changes
from nightbench.detection.levels import SHORTEST, cheapest_partition, estimate_level
from nightbench.detection.series import series_from

DAY = 86400
FIRST = 20_000 * DAY + 7200


def cost(values, bounds, penalty):
    parts = [values[a:b] for a, b in itertools.pairwise(bounds)]
    return sum(((part - part.mean()) ** 2).sum() for part in parts) + penalty * (len(parts) - 1)


def partitions(n):
    """All ways to cut n values into segments of at least SHORTEST."""
    for count in range(n // SHORTEST):
        for inner in itertools.combinations(range(SHORTEST, n - SHORTEST + 1), count):
            bounds = [0, *inner, n]
            if all(b - a >= SHORTEST for a, b in itertools.pairwise(bounds)):
                yield bounds


@given(st.lists(st.integers(-30, 30), min_size=2 * SHORTEST, max_size=14), st.floats(0.1, 200))
@settings(max_examples=60)
def test_no_other_partition_is_cheaper(steps, penalty):
    values = np.array(steps, float)
    found = cheapest_partition(values, penalty)
    assert found in list(partitions(len(values)))
    least = min(cost(values, bounds, penalty) for bounds in partitions(len(values)))
    assert cost(values, found, penalty) == pytest.approx(least)


def test_a_partition_finds_steps_in_a_long_series():
    values = np.array(noisy([100] * 130 + [90] * 70 + [100] * 3)) / 1.0
    assert cheapest_partition(values, 50.0) == [0, 130, 200, 203]


def series_of(values, within=None):
    """One night after the other; None is a missing night."""
    return series_from(
        [FIRST + DAY * k for k in range(len(values))], values, within or [None] * len(values)
    )[0]


def noisy(levels, sigma=0.01, seed=1):
    rng = random.Random(seed)
    return [level * (1 + rng.gauss(0, sigma)) for level in levels]


def found(values, within=None):
    return find_changes(series_of(values, within))


def test_hardly_anything_is_told_of_quiet_series():
    told = [c for seed in range(8) for c in found(noisy([100] * 120, seed=seed))]
    assert len(told) <= 2  # in 960 nights, rises and falls
    assert all(abs(c.change) < 0.02 for c in told)


@pytest.mark.parametrize("level", [95, 90, 80, 60, 105, 115, 150])
def test_a_step_is_told_soon_and_dated_and_sized(level):
    (change,) = found(noisy([100] * 50 + [level] * 20))
    assert change.is_drop is (level < 100)
    assert abs(change.first - 50) <= 1
    assert change.detected - 50 <= 4
    assert change.low - 0.01 < level / 100 - 1 < change.high + 0.01
    assert change.baseline == pytest.approx(100, rel=0.01)
    assert change.score > 0


def test_a_step_below_the_noise_is_told_when_it_lasts():
    (change,) = found(noisy([100] * 80 + [97.0] * 30, sigma=0.02, seed=4))
    assert change.is_drop
    assert abs(change.first - 80) <= 5


def test_a_size_is_that_of_all_nights_that_may_be_the_first_by_their_likelihood():
    series = series_of(noisy([100] * 60 + [96] * 12))
    past = estimate_level(series)
    evidence = evidence_of(reference_window(series, past, 60), past.values[60:], -1)
    half = replace(evidence, shift=replace(evidence.shift, step=evidence.shift.step / 2))
    both = evidence.averaged([half]).shift
    assert both.step == pytest.approx(0.75 * evidence.shift.step)
    low, high = evidence.shift.ends
    assert both.ends[1] - both.ends[0] > high - low
    unlikely = evidence.averaged([replace(half, factor=evidence.factor - 50)]).shift
    assert unlikely.ends == pytest.approx((low, high))


@pytest.mark.parametrize("seed", [0, 3])
def test_a_small_fall_is_smaller_than_the_night_that_shows_it_best_says(seed):
    series = series_of(noisy([100] * 80 + [98.0] * 14, seed=seed))
    (told,) = changes_of_last_night(series)
    past = estimate_level(series)
    alone = evidence_of(reference_window(series, past, told.first), past.values[told.first :], -1)
    assert alone.shift.step < np.log1p(told.change) - 0.0005
    assert told.low < -0.02 < told.high


@pytest.mark.parametrize("depth", [5, 20, 60])
def test_one_slow_night_is_no_change(depth):
    values = noisy([100] * 60)
    values[40] *= 1 - depth / 100
    assert found(values) == []


def test_a_series_of_two_modes_is_not_told_again_and_again():
    rng = random.Random(3)
    modes = [100 if rng.random() < 0.7 else 96 for _ in range(150)]
    assert len(found(noisy(modes, sigma=0.004, seed=2))) <= 1


def test_a_step_is_found_in_a_series_of_two_modes():
    rng = random.Random(3)
    modes = [100 if rng.random() < 0.7 else 97 for _ in range(130)]
    values = noisy([mode * (0.85 if k >= 100 else 1) for k, mode in enumerate(modes)], 0.004)
    (change,) = [c for c in found(values) if c.detected >= 95]
    assert abs(change.first - 100) <= 2


def test_weekends_are_no_changes():
    week = [100, 100, 100, 100, 100, 97, 97]
    assert found(noisy(week * 15, sigma=0.004)) == []


def test_a_drift_is_told_apart_from_changes():
    values = noisy([100 - 4 * k / 150 for k in range(150)], sigma=0.005)
    assert found(values) == []
    drift = drift_of(series_of(values))
    assert drift is not None
    assert drift.change == pytest.approx(-0.04, abs=0.01)
    assert drift_of(series_of(noisy([100] * 150))) is None


@pytest.mark.parametrize("sigma", [0.003, 0.01])
def test_a_creep_is_told_with_its_beginning_and_its_size(sigma):
    drift = drift_of(series_of(noisy([100] * 60 + [100 * 0.9995**k for k in range(200)], sigma)))
    assert drift is not None
    assert abs(drift.first - 60) <= 10
    assert drift.nights == 260 - drift.first
    assert drift.change == pytest.approx(0.9995**200 - 1, abs=0.006)


def test_a_step_is_no_drift():
    assert drift_of(series_of(noisy([100] * 75 + [95] * 75, sigma=0.005))) is None


def test_a_recovered_fall_and_the_next_are_both_told():
    values = noisy([100] * 40 + [90] * 40 + [100] * 40 + [85] * 20)
    assert [(c.is_drop, c.first) for c in found(values)] == [
        (True, 40),
        (False, 80),
        (True, 120),
    ]


def test_missing_nights_and_what_is_no_number_are_left_out():
    values = noisy([100] * 50 + [90] * 20)
    holes = [None if k % 7 == 3 else v for k, v in enumerate(values)]
    holes[10], holes[20], holes[30] = float("nan"), float("inf"), 0.0
    series, usable = series_from([FIRST + DAY * k for k in range(len(holes))], holes)
    assert np.isfinite(series.level).all()
    (change,) = find_changes(series)
    assert usable[change.first] in (50, 51)


def test_slow_nights_of_the_past_make_two_more_no_change():
    """Two modes, one night in eight a fifth slower: two of them in a row have to come one day."""
    levels = [80 if k in (6, 11, 19, 27, 35, 36) else 100 for k in range(37)]
    assert found(noisy(levels)) == []
    fallen = [80 if k in (6, 11, 19, 27) or k >= 35 else 100 for k in range(42)]
    (change,) = found(noisy(fallen))
    assert change.first == 35


def test_a_fall_a_week_after_a_rise_is_told():
    rise, fall = found(noisy([100] * 40 + [106] * 7 + [85] * 8))
    assert (rise.first, rise.is_drop) == (40, False)
    assert (fall.first, fall.is_drop) == (47, True)


@pytest.mark.parametrize(("first", "second"), [(95, 88), (97, 90)])
def test_two_falls_five_nights_apart_are_both_told_with_their_sizes(first, second):
    one, other = found(noisy([100] * 60 + [first] * 5 + [second] * 15, sigma=0.005))
    assert one.first == 60
    assert abs(other.first - 65) <= 1
    assert one.change == pytest.approx(first / 100 - 1, abs=0.01)
    assert other.change == pytest.approx(second / first - 1, abs=0.01)
    assert other.baseline == pytest.approx(first, rel=0.01)


def test_a_fall_that_grows_at_once_has_its_whole_size():
    (change,) = found(noisy([100] * 60 + [94] + [88] * 15, sigma=0.005))
    assert change.first in (60, 61)
    assert change.change == pytest.approx(-0.12, abs=0.01)


def test_of_stays_at_a_second_level_the_first_alone_is_reported():
    """Sticky modes 4 % apart: nothing distinguishes the first stay from a drop."""
    rng = random.Random(5)
    later = 0
    for seed in range(12):
        slow, modes = False, []
        for _ in range(150):
            slow = rng.random() < 0.3 if rng.random() < 0.2 else slow
            modes.append(96 if slow else 100)
        later += max(0, sum(c.is_drop for c in found(noisy(modes, sigma=0.006, seed=seed))) - 1)
    assert later <= 6


@pytest.mark.parametrize("weeks", [7, 10])
def test_a_fall_that_outlasts_episodes_of_one_length_is_told(weeks):
    """Two slow stays of so many nights do not teach that a third one of a month is a visit."""
    episode = [*[100] * 30, *[94] * weeks] * 2
    values = noisy([*episode, *[100] * 30, *[94] * 30], 0.01, seed=3)
    last = len(values) - 30
    assert [c for c in found(values) if c.is_drop and abs(c.first - last) <= 5]
    assert not [c for c in found(values[: last + weeks]) if c.is_drop and c.first > 40 + weeks]


def test_a_fourth_stay_is_no_drop_before_it_outlasts_the_longest():
    stays = [3, 12, 5]
    values = [v for n in stays for v in [*[100] * 25, *[94] * n]]
    values = noisy([*values, *[100] * 25, *[94] * 12], 0.01, seed=3)
    assert not [c for c in found(values) if c.is_drop and c.first > len(values) - 20]


def test_slow_nights_of_one_in_ten_are_no_falls():
    rng = random.Random(7)
    histories = [[80 if rng.random() < 0.1 else 100 for _ in range(150)] for _ in range(12)]
    told = [found(noisy(levels, seed=seed)) for seed, levels in enumerate(histories)]
    assert sum(c.is_drop for each in told for c in each) <= 2


def test_nights_that_are_passed_over_change_no_answer():
    class EachNight(IncrementalDetector):
        def _is_unchanged(self, series, night):
            return False

    for seed in range(6):
        levels = [100] * 70 + [100 - seed] * 40 + [99] * 20
        series = series_of(noisy(levels, sigma=0.008, seed=seed))
        some, all_nights = IncrementalDetector().extend(series), EachNight().extend(series)
        assert [(c.first, c.detected) for c in some] == [(c.first, c.detected) for c in all_nights]


def test_a_step_beyond_all_measure_is_told_as_a_number():
    fall, rise = found([1e200] * 30 + [1e-200] * 20 + [1e200] * 20)
    assert (fall.first, rise.first) == (30, 50)
    assert -1 < fall.change < -0.99
    assert 1e5 < rise.change < 1e7


def test_repeats_that_disagree_make_a_low_night_less_of_a_change():
    values = noisy([100] * 50 + [91] * 3, sigma=0.01, seed=9)
    steady = [0.01] * 53
    wild = [0.01] * 50 + [0.04, 0.05, 0.04]
    (told,) = found(values, steady)
    assert told.detected <= 52
    (sure,) = changes_of_last_night(series_of(values, steady))
    unsure = changes_of_last_night(series_of(values, wild))
    assert all(c.score < sure.score and c.low < sure.low for c in unsure)
    assert all(c.detected >= told.detected for c in found(values, wild))
    wilder = [0.01] * 50 + [0.2] * 3
    assert found(values, wilder) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("depth", [4, 8, 12, 24])
def test_a_slow_night_long_ago_delays_no_drop(seed, depth):
    values = noisy([100 - depth if k == 40 else 100 for k in range(80)] + [92] * 10, 0.005, seed)
    (change,) = found(values)
    assert (change.first, change.excursions) == (80, 0)
    assert change.detected <= 83


@pytest.mark.parametrize("gap", [8, 12, 20, 40])
@pytest.mark.parametrize("second", [90, 86])
def test_a_second_drop_is_reported_within_three_nights(gap, second):
    one, other = found(noisy([100] * 80 + [95] * gap + [second] * 4, sigma=0.005))
    assert (one.first, other.first) == (80, 80 + gap)
    assert other.detected <= other.first + 3
    assert other.change == pytest.approx(second / 95 - 1, abs=0.015)


def test_a_step_after_a_drift_is_dated_to_its_own_night():
    drift = [100 - 1.5 * k / 14 for k in range(1, 15)]
    changes = found(noisy([100] * 60 + drift + [95.6] * 6, sigma=0.003))
    assert changes[-1].first == 74
    assert changes[-1].detected <= 77


def test_a_return_is_no_second_change():
    changes = found(noisy([100] * 60 + [92] * 10 + [100] * 4, sigma=0.005))
    assert [change.first for change in changes] == [60]


def test_a_burst_of_slow_nights_is_reported_if_it_lasts():
    burst = [93, 100, 94, 90, 100, 100, 95]
    levels = [100] * 50 + burst + [100] * 20
    assert found(noisy(levels, sigma=0.005)) == []
    (change,) = found(noisy([100] * 50 + burst + [94] * 8, sigma=0.005))
    assert 50 <= change.first <= 57
    assert change.detected <= 62


def test_unit_does_not_matter():
    values = noisy([100] * 50 + [93] * 10)
    one, other = found(values), found([v * 3e-7 for v in values])
    assert [(c.first, c.detected) for c in one] == [(c.first, c.detected) for c in other]


def test_a_judgement_rests_on_the_look_back_alone():
    recent = noisy([100] * (LOOK_BACK - 30) + [92] * 30)
    old = noisy([300] * 100 + [17] * 100, sigma=0.2)
    alone = series_of([1.0] * 200 + recent)
    for past in (old, [50.0] * 200):
        series = series_of([*past, *recent])
        assert _last_night(series) == _last_night(alone)


def _last_night(series):
    from nightbench.detection.changes import changes_of_last_night

    return [(c.first, round(c.score, 9)) for c in changes_of_last_night(series)]


@st.composite
def histories(draw):
    """Levels with steps, visits and holes: what a detector might trip over."""
    values = []
    for _ in range(draw(st.integers(1, 4))):
        level = draw(st.floats(50, 150))
        values += noisy(
            [level] * draw(st.integers(1, 25)), draw(st.sampled_from([0.0, 0.003, 0.03]))
        )
    for hole in draw(st.lists(st.integers(0, len(values) - 1), max_size=5)):
        values[hole] = draw(st.sampled_from([None, float("nan"), values[hole]]))
    within = draw(st.sampled_from([None, 0.0, 0.01]))
    return values, [within] * len(values)


@pytest.mark.slow
@settings(max_examples=40)
@given(history=histories(), cuts=st.lists(st.integers(0, 100), max_size=6))
def test_batch_and_replay_agree_whatever_the_nights_were_handed_over_in(history, cuts):
    values, within = history
    whole = series_of(values, within)
    batch = IncrementalDetector().extend(whole)
    detector = IncrementalDetector()
    for cut in [*sorted(cuts), len(whole)]:
        replayed = list(detector.extend(whole.part(0, min(cut, len(whole)))))
    assert replayed == batch
    assert all(0 < c.first <= c.detected < len(whole) for c in batch)
    # A detector sees only the past: what was told by a night is the same without later ones.
    for cut in cuts:
        some = IncrementalDetector().extend(whole.part(0, min(cut, len(whole))))
        told = [(c.first, c.detected) for c in batch if c.detected < min(cut, len(whole))]
        assert [(c.first, c.detected) for c in some] == told


def test_a_recovery_below_the_first_level_is_a_change():
    values = [91.0] * 6 + [None] + [50.0] * 9 + [64.0] * 5
    found = IncrementalDetector().extend(series_of(values))
    assert [(c.first, round(c.change, 2)) for c in found] == [(6, -0.45), (15, 0.28)]


def test_a_past_that_was_rewritten_is_replayed():
    detector = IncrementalDetector()
    fallen = series_of(noisy([100] * 40 + [90] * 6))
    assert len(detector.extend(fallen)) == 1
    assert detector.extend(series_of(noisy([100] * 46))) == []
    assert len(detector.extend(fallen)) == 1
