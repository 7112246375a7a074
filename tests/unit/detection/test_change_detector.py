"""What the change detector says of the last night of seeded histories."""

from dataclasses import replace

import pytest
from histories import nights

from nightbench.core.model import RegressionPolicy, VerdictKind
from nightbench.detection import ChangeDetector, segment

POLICY = RegressionPolicy(min_change=0.03, min_history=10)


def judge(points, policy=POLICY):
    return ChangeDetector().judge(points[:-1], points[-1], policy)


@pytest.mark.parametrize(
    ("level", "kind"), [(90, VerdictKind.REGRESSED), (112, VerdictKind.IMPROVED)]
)
def test_a_change_says_since_when_how_much_and_why(level, kind):
    points = nights(*[100] * 40, *[level] * 5)
    judgement = judge(points)
    assert judgement.kind is kind
    assert (judgement.since, judgement.last_good) == (points[40].at, points[39])
    assert judgement.baseline == pytest.approx(100, rel=0.01)
    assert judgement.change == pytest.approx(points[-1].value / judgement.baseline - 1)
    assert "5 nights at a level not seen before" in judgement.sentence
    assert ") from the baseline of " in judgement.sentence
    assert " since 2026-02-10: 5 nights" in judgement.sentence


def test_the_levels_change_stands_beside_that_of_a_night_outside_of_its_interval():
    judgement = judge(nights(*[100] * 40, *[94] * 8, 91))
    assert judgement.change < judgement.low < judgement.level_change < judgement.high


def test_one_night_is_watched():
    judgement = judge(nights(*[100] * 40, 70))
    assert judgement.kind is VerdictKind.WATCHED
    assert judgement.level_change == judgement.change
    assert judgement.low < judgement.change < judgement.high < -0.2
    assert (
        "Flagged as `watched`: a single night like this is not yet reported as a change."
        in judgement.sentence
    )


def test_a_night_that_is_back_is_no_regression():
    assert judge(nights(*[100] * 40, *[90] * 5, 100)).kind is VerdictKind.OK


def test_policy_decides_what_is_worth_telling():
    points = nights(*[100] * 40, *[90] * 5)
    assert judge(points, POLICY.model_copy(update={"min_change": 0.2})).kind is VerdictKind.OK


def test_a_clear_small_fall_is_told_unless_the_policy_is_fixed():
    points = nights(*[100] * 60, *[98] * 10, noise=0.003)
    assert judge(points, RegressionPolicy()).kind is VerdictKind.REGRESSED
    assert judge(points).kind is VerdictKind.OK
    tiny = nights(*[100] * 60, *[99.4] * 10, noise=0.001)
    assert judge(tiny, RegressionPolicy()).kind is VerdictKind.OK


@pytest.mark.parametrize("seed", range(8))
def test_a_fall_of_just_the_policys_size_is_told(seed):
    """Its estimate lies below the size in half of the cases."""
    points = nights(*[100] * 60, *[97] * 10, seed=seed)
    kinds = [judge(points[: k + 1]).kind for k in range(62, 70)]
    assert VerdictKind.REGRESSED in kinds


def test_a_fall_that_is_surely_smaller_than_the_policys_size_is_not_told():
    points = nights(*[100] * 60, *[98] * 15, noise=0.003)
    assert judge(points).kind is VerdictKind.OK
    assert (
        judge(points, POLICY.model_copy(update={"min_change": 0.01})).kind is VerdictKind.REGRESSED
    )


def test_what_a_series_catches_is_no_smaller_than_the_policys_size_allows():
    points = nights(*[100] * 60, noise=0.002)
    few, many = (judge(points, POLICY.model_copy(update={"min_change": m})) for m in (0.0, 0.05))
    assert few.smallest_slowdown < 0.03
    assert many.smallest_slowdown == pytest.approx(0.05, abs=0.003)


def test_short_history_is_insufficient_whatever_the_value():
    judgement = judge(nights(*[100] * 9, 50))
    assert judgement.kind is VerdictKind.INSUFFICIENT_DATA
    assert (
        judgement.sentence == "No verdict yet: 9 comparable earlier nights; at least 10 are needed."
    )
    assert judge(nights(100)).kind is VerdictKind.INSUFFICIENT_DATA


@pytest.mark.parametrize("seed", range(3))
def test_quiet_history_is_ok(seed):
    points = nights(*[100] * 30, seed=seed)
    kinds = [judge(points[: k + 1]).kind for k in range(len(points))]
    assert set(kinds[:10]) == {VerdictKind.INSUFFICIENT_DATA}
    assert set(kinds[10:]) == {VerdictKind.OK}


def test_verdict_does_not_depend_on_the_unit():
    points = nights(*[100] * 40, *[90] * 5)
    one = judge(points)
    other = judge([replace(p, value=p.value * 1e-7) for p in points])
    assert (one.kind, one.since) == (other.kind, other.since) == (VerdictKind.REGRESSED, one.since)
    assert one.change == pytest.approx(other.change, rel=1e-6)


def test_a_second_fall_is_measured_from_the_new_level():
    judgement = judge(nights(*[100] * 40, *[90] * 30, *[81] * 5))
    assert judgement.kind is VerdictKind.REGRESSED
    assert judgement.baseline == pytest.approx(90, rel=0.01)


def test_imported_nights_without_a_digest_are_comparable():
    imported = nights(*[100] * 5)
    own = [replace(p, definition_digest="a") for p in nights(*[100] * 4)]
    tonight = replace(own[-1], definition_digest="a")
    assert segment([*imported, *own], tonight) == [*imported, *own]


def turned(points, at, attribute="fingerprint_id"):
    return [replace(p, **{attribute: "a" if k < at else "b"}) for k, p in enumerate(points)]


@pytest.mark.parametrize("attribute", ["definition_digest", "fingerprint_id"])
def test_change_of_work_or_hardware_starts_a_new_segment(attribute):
    steady = judge(turned(nights(*[100] * 45), 40, attribute))
    assert (steady.kind, steady.history) == (VerdictKind.INSUFFICIENT_DATA, 4)
    grown = judge(turned(nights(*[100] * 40, *[90] * 50), 40, attribute))
    assert (grown.kind, grown.history) == (VerdictKind.OK, 49)
    assert grown.baseline == pytest.approx(90, rel=0.01)


def test_other_work_has_no_level_before():
    points = nights(*[100] * 40, *[90] * 5)
    assert judge(turned(points, 40, "definition_digest")).kind is VerdictKind.INSUFFICIENT_DATA
    both = turned(turned(points, 40), 40, "definition_digest")
    assert judge(both).kind is VerdictKind.INSUFFICIENT_DATA


@pytest.mark.parametrize(
    ("level", "kind"), [(90, VerdictKind.REGRESSED), (112, VerdictKind.IMPROVED)]
)
def test_a_step_that_began_with_other_hardware_is_told_with_it(level, kind):
    points = turned(nights(*[100] * 40, *[level] * 2), 40)
    judgement = judge(points)
    assert judgement.kind is kind
    assert (judgement.since, judgement.last_good) == (points[40].at, points[39])
    assert judgement.baseline == pytest.approx(100, rel=0.01)
    assert "for the new hardware or driver); reported above 0." in judgement.sentence
    ending = "On that date hardware, driver or kernel of the nodes changed: suspect this first."
    assert judgement.sentence.endswith(ending)
    longer = judge(turned(nights(*[100] * 40, *[level] * 20), 40))
    assert (longer.kind, longer.since) == (kind, points[40].at)
    first = judge(points[:-1])
    assert first.kind is VerdictKind.INSUFFICIENT_DATA


def test_a_step_on_another_night_than_the_hardware_is_not_put_down_to_it():
    late = judge(turned(nights(*[100] * 43, *[90] * 3), 40))
    assert late.kind is VerdictKind.INSUFFICIENT_DATA
    within = judge(turned(nights(*[100] * 60, *[90] * 5), 40))
    assert within.kind is VerdictKind.REGRESSED
    assert "hardware" not in within.sentence


def test_too_few_nights_of_the_hardware_before_are_no_level():
    assert judge(turned(nights(*[100] * 9, *[90] * 5), 9)).kind is VerdictKind.INSUFFICIENT_DATA


@pytest.mark.parametrize("attribute", ["definition_digest", "fingerprint_id"])
def test_a_case_that_goes_back_and_forth_has_a_history_on_each(attribute):
    def swapped(*levels):
        return [replace(p, **{attribute: "ab"[k // 2 % 2]}) for k, p in enumerate(nights(*levels))]

    # Nodes of two kinds, one of which is slower: none of its nights is a fall.
    steady = swapped(*([100] * 2 + [80] * 2) * 15)
    kinds = [judge(steady[:k]).kind for k in range(1, len(steady) + 1)]
    assert set(kinds) == {VerdictKind.INSUFFICIENT_DATA, VerdictKind.OK}
    assert set(kinds[30:]) == {VerdictKind.OK}
    fallen = swapped(*([100] * 2 + [80] * 2) * 15, *([90] * 2 + [72] * 2) * 3)
    # The third night on each kind of nodes is the 65th and the 67th of all.
    assert {judge(fallen[:k]).kind for k in (65, 66, 67, 68)} == {VerdictKind.REGRESSED}


def test_what_lies_behind_a_month_on_other_hardware_is_another_time():
    points = nights(*[100] * 80)
    back = [replace(p, fingerprint_id="b" if 40 <= k < 70 else "a") for k, p in enumerate(points)]
    assert judge(back).history == 49
    longer = [replace(p, fingerprint_id="b" if 39 <= k < 70 else "a") for k, p in enumerate(points)]
    assert judge(longer).history == 9


def test_nights_that_do_not_know_their_hardware_are_compared():
    points = nights(*[100] * 40, *[90] * 5)
    unknown = [replace(p, fingerprint_id=None if k < 40 else "b") for k, p in enumerate(points)]
    judgement = judge(unknown)
    assert judgement.kind is VerdictKind.REGRESSED
    assert "hardware" not in judgement.sentence
    of_work = [replace(p, definition_digest=None if k < 40 else "b") for k, p in enumerate(points)]
    assert judge(of_work).kind is VerdictKind.REGRESSED


def test_another_framework_version_is_the_prime_suspect():
    points = nights(*[100] * 40, *[90] * 5)
    moved = [replace(p, framework_version="1" if k < 40 else "2") for k, p in enumerate(points)]
    judgement = judge(moved)
    assert judgement.kind is VerdictKind.REGRESSED
    assert (
        "On that date the framework changed from 1 to 2: suspect this first." in judgement.sentence
    )
    both = judge(turned(moved, 40)).sentence
    assert "changed from 1 to 2 and hardware, driver or kernel of the nodes changed" in both


def test_history_without_any_noise_is_judged():
    assert judge(nights(*[100] * 40, *[90] * 5, noise=0)).kind is VerdictKind.REGRESSED
    assert judge(nights(*[100] * 40, noise=0)).kind is VerdictKind.OK


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
def test_the_smallest_slowdown_is_caught_in_most_weeks_and_grows_with_the_noise(noise):
    caught = 0
    for seed in range(20):
        before = nights(*[100] * 60, noise=noise, seed=seed)
        least = judge(before).smallest_slowdown
        assert noise < least < 12 * noise
        fallen = nights(*[100] * 59, *[100 * (1 - least)] * 7, noise=noise, seed=seed)
        policy = POLICY.model_copy(update={"min_change": 0.0})
        caught += any(
            judge(fallen[:k], policy).kind is VerdictKind.REGRESSED for k in range(61, 67)
        )
    assert caught >= 15


def test_controls_that_fell_too_are_said_and_the_verdict_stays():
    points = nights(*[100] * 40, *[90] * 5)
    alone = judge(points)
    fallen = {p.run_id: 7.0 if k < 40 else 6.3 for k, p in enumerate(points)}
    judgement = ChangeDetector(controls=fallen).judge(points[:-1], points[-1], POLICY)
    assert (judgement.kind, judgement.baseline) == (alone.kind, alone.baseline)
    assert judgement.control.explains
    assert "suspect the node first" in judgement.sentence
    assert alone.control is None
    steady = ChangeDetector(controls=dict.fromkeys(fallen, 7.0)).judge(
        points[:-1], points[-1], POLICY
    )
    assert not steady.control.explains
    assert "which does not explain the change" in steady.sentence
    unknown = ChangeDetector(controls={points[0].run_id: 7.0}).judge(
        points[:-1], points[-1], POLICY
    )
    assert (unknown.control, unknown.sentence) == (None, alone.sentence)


def test_a_creep_is_a_drift_and_no_change():
    creeping = nights(*[100 * 0.9995**k for k in range(150)], noise=0.003)
    judgement = judge(creeping)
    assert judgement.kind is VerdictKind.OK
    assert abs(judgement.drift.change - (0.9995**149 - 1)) < 3 * judgement.drift.error
    assert " Drift of -7" in judgement.sentence
    assert judge(nights(*[100] * 150, noise=0.003)).drift is None
    # What lies before the last step is no part of it.
    stepped = nights(*[100] * 100, *[90] * 70, noise=0.003)
    assert judge(stepped).drift is None
