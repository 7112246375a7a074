"""What the detector says of seeded histories."""

import math
from dataclasses import replace

import pytest
from histories import nights

from nightbench.core.model import RegressionPolicy, VerdictKind
from nightbench.detection import BaselineDetector, segment

POLICY = RegressionPolicy(min_change=0.03, min_history=10)


def judge(points, policy=POLICY):
    return BaselineDetector().judge(points[:-1], points[-1], policy)


def replayed(points, policy=POLICY):
    """The kind of every night, each judged with the nights before it."""
    return [judge(points[: k + 1], policy).kind for k in range(len(points))]


@pytest.mark.parametrize("seed", range(5))
def test_quiet_history_is_ok(seed):
    kinds = replayed(nights(*[100] * 60, seed=seed))
    assert set(kinds[:10]) == {VerdictKind.INSUFFICIENT_DATA}
    assert set(kinds[10:]) == {VerdictKind.OK}


@pytest.mark.parametrize(
    ("level", "kind"),
    [
        (90, VerdictKind.REGRESSED),
        (110, VerdictKind.IMPROVED),
        (98, VerdictKind.OK),
        (102, VerdictKind.OK),
    ],
)
def test_change_is_told_the_night_it_happens(level, kind):
    assert judge(nights(*[100] * 12, level)).kind is kind


def test_judgement_says_why():
    points = nights(*[100] * 12, 90, 90, noise=0.005)
    judgement = judge(points)
    assert judgement.baseline == pytest.approx(100, rel=0.01)
    assert judgement.change == pytest.approx(points[-1].value / judgement.baseline - 1)
    assert judgement.history == 13
    assert judgement.since == points[12].at
    assert judgement.last_good == points[11]
    assert f"{points[-1].value:.4g} is {-judgement.change:.1%} below the baseline" in (
        judgement.sentence
    )
    assert judgement.sentence.endswith("night 2 in a row, since 2026-01-13.")


def test_policy_decides_what_is_worth_telling():
    points = nights(*[100] * 20, 95, noise=0.002)
    assert judge(points).kind is VerdictKind.REGRESSED
    assert judge(points, replace(POLICY, min_change=0.08)).kind is VerdictKind.OK


def test_short_history_is_insufficient_whatever_the_value():
    judgement = judge(nights(*[100] * 9, 50))
    assert judgement.kind is VerdictKind.INSUFFICIENT_DATA
    assert judgement.sentence == "9 comparable nights before this one; 10 are needed."


def test_first_night_of_all_is_insufficient():
    assert judge(nights(100)).kind is VerdictKind.INSUFFICIENT_DATA


def test_noisy_series_needs_more_than_the_policy():
    assert judge(nights(*[100] * 30, 94, noise=0.03)).kind is VerdictKind.OK
    assert judge(nights(*[100] * 30, *[82] * 3, noise=0.03)).kind is VerdictKind.REGRESSED


def test_small_fall_is_found_when_it_lasts():
    kinds = replayed(nights(*[100] * 30, *[94] * 6, noise=0.02, seed=3))
    assert kinds[30] is VerdictKind.OK
    assert VerdictKind.REGRESSED in kinds[31:]


def test_baseline_follows_a_level_that_has_lasted():
    kinds = replayed(nights(*[100] * 20, *[90] * 20))
    assert kinds[20:27] == [VerdictKind.REGRESSED] * 7
    assert set(kinds[27:]) == {VerdictKind.OK}


def test_second_fall_is_measured_from_the_new_level():
    judgement = judge(nights(*[100] * 20, *[90] * 12, 81))
    assert judgement.kind is VerdictKind.REGRESSED
    assert judgement.baseline == pytest.approx(90, rel=0.01)


def test_recovery_within_the_week_is_ok():
    assert judge(nights(*[100] * 20, 90, 90, 100)).kind is VerdictKind.OK


def test_series_that_has_had_a_slow_night_needs_two():
    points = nights(*[100] * 15, 88, *[100] * 10, 89, 89)
    first, second = replayed(points)[-2:]
    assert (first, second) == (VerdictKind.OK, VerdictKind.REGRESSED)
    assert "which is watched" in judge(points[:-1]).sentence


def test_fall_to_a_level_that_once_lasted_is_told_again():
    points = nights(*[100] * 15, *[90] * 10, *[100] * 15, 90)
    assert judge(points).kind is VerdictKind.REGRESSED


@pytest.mark.parametrize("attribute", ["definition_digest", "fingerprint_id"])
def test_change_of_work_or_hardware_starts_a_new_segment(attribute):
    old = [replace(p, **{attribute: "a"}) for p in nights(*[100] * 20)]
    new = replace(nights(*[100] * 20, 80)[-1], **{attribute: "b"})
    assert judge([*old, new]).kind is VerdictKind.INSUFFICIENT_DATA
    assert judge([*old, replace(new, **{attribute: "a"})]).kind is VerdictKind.REGRESSED


def test_imported_nights_without_a_digest_are_comparable():
    imported = nights(*[100] * 5)
    own = [replace(p, definition_digest="a") for p in nights(*[100] * 4)]
    tonight = replace(own[-1], definition_digest="a")
    assert segment([*imported, *own], tonight) == [*imported, *own]


def test_another_framework_version_is_no_new_segment():
    old = nights(*[100] * 20, framework_version="1")
    new = replace(nights(*[100] * 20, 90)[-1], framework_version="2")
    assert judge([*old, new]).kind is VerdictKind.REGRESSED


def test_night_whose_own_repeats_disagree_is_given_room():
    points = nights(*[100] * 20, 94, n=3, spread=0.01)
    assert judge(points).kind is VerdictKind.REGRESSED
    assert judge([*points[:-1], replace(points[-1], spread=0.2)]).kind is VerdictKind.OK


def test_series_without_any_noise_is_judged():
    assert judge(nights(*[100] * 12, 90, noise=0)).kind is VerdictKind.REGRESSED
    assert judge(nights(*[100] * 12, 100, noise=0)).kind is VerdictKind.OK


def test_verdict_does_not_depend_on_the_unit():
    points = nights(*[100] * 20, 90)
    scaled = [replace(p, value=p.value * 1e-7) for p in points]
    one, other = judge(points), judge(scaled)
    assert (one.kind, one.since) == (other.kind, other.since)
    assert math.isclose(one.change, other.change, rel_tol=1e-9)


def test_a_night_that_disagrees_with_itself_is_told_as_such_and_no_fall_is_beyond_all():
    *before, tonight = nights(*[100] * 12, 80, n=3, spread=0.01)
    wild = judge([*before, replace(tonight, spread=1.2)])
    assert wild.kind is VerdictKind.OK
    assert "its own repeats differ by 120.0%, a fall of 9" in wild.sentence
    assert "nights vary by" in judge([*before, tonight]).sentence
