"""What many series of a night moved by together, whose movement it is, and what stays silent."""

import math
import random
from datetime import timedelta

import numpy as np
import pytest
from histories import FIRST

from nightbench.core.model import HistoryPoint, RegressionPolicy
from nightbench.detection.factors import Factor, FactorKind, NightRow, without_shared
from nightbench.detection.shared_changes import FITTED, shared_changes
from nightbench.detection.two_way_fit import (
    discoveries,
    fit_of_step,
    two_groups,
    two_way_fit,
)

LAB = Factor(FactorKind.CLUSTER, "lab")
BEFORE, SINCE = 60, 4


def line(name):
    return Factor(FactorKind.LINE, name)


def row(name, framework, fall=0.0, noise=0.01, node="n1", control=False, version="1", seed=1):
    """A series whose last nights are lower, by a new version where one is given."""
    rng = random.Random(f"{name} {seed}")
    points = [
        HistoryPoint(
            at=FIRST + timedelta(days=k),
            value=100 * (1 - (fall if k >= BEFORE else 0)) * math.exp(rng.gauss(0, noise)),
            run_id=f"night-{k}",
            framework_version=version if k >= BEFORE else "1",
            fingerprint_id="one",
        )
        for k in range(BEFORE + SINCE)
    ]
    factors = {LAB} if control else {LAB, line(framework)}
    nodes = {point.run_id: [node] for point in points}
    return NightRow(name, points, frozenset(factors), nodes, control)


def lines(fall, of=20, **given):
    """A line whose series fell, and another that did not."""
    moved = [row(f"a{k}", "a", fall, **given) for k in range(of)]
    return moved + [row(f"b{k}", "b") for k in range(of)]


def test_a_fall_that_no_series_shows_alone_is_told_of_the_build_that_twenty_share():
    (found,) = shared_changes(lines(0.015, version="2"), RegressionPolicy())

    assert found.factor == line("a")
    assert found.since == (FIRST + timedelta(days=BEFORE)).date()
    assert found.low < -0.015 < found.high < 0
    assert len(found.members) >= 18
    assert found.sentence.startswith(
        f"build 2 of a: {len(found.members)} of 20 series are slower by 1."
    )


def test_without_a_new_version_it_is_the_line():
    (found,) = shared_changes(lines(0.05), RegressionPolicy())
    assert found.subject == "line a"


def test_one_odd_series_moves_nobody():
    odd = [row("odd", "a", 0.2, noise=0.003), *(row(f"a{k}", "a") for k in range(19))]
    assert shared_changes(odd, RegressionPolicy()) == []


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_movement(seed):
    rows = [row(f"{name}{k}", name, seed=seed) for name in "ab" for k in range(10)]
    assert shared_changes(rows, RegressionPolicy()) == []


def test_what_the_controls_share_is_the_machines_although_all_series_are_of_one_line():
    rows = [row(f"a{k}", "a", 0.05) for k in range(8)]
    rows += [row(f"matmul-{k}", "", 0.05, control=True) for k in range(4)]
    (found,) = shared_changes(rows, RegressionPolicy())
    assert found.factor.kind in (FactorKind.CLUSTER, FactorKind.NODE)
    assert found.controls == (4, 4)


def test_controls_that_did_not_move_leave_it_to_the_line():
    rows = [row(f"a{k}", "a", 0.05) for k in range(8)]
    rows += [row(f"matmul-{k}", "", control=True) for k in range(4)]
    (found,) = shared_changes(rows, RegressionPolicy())
    assert found.factor == line("a")


def test_a_node_and_a_build_of_one_night_are_two_movements():
    rows = [row(f"a{k}", "a", 0.04, version="2") for k in range(10)]
    rows += [row(f"b{k}", "b", 0.08, node="n2") for k in range(10)]
    rows += [row(f"c{k}", "b") for k in range(10)]
    found = shared_changes(rows, RegressionPolicy())
    assert {each.subject for each in found} == {"build 2 of a", "node n2"}


@pytest.mark.parametrize("by", ["line", "node"])
def test_all_series_of_a_cluster_without_controls_are_one_movement_though_of_unlike_sizes(by):
    rows, alone = [], {}
    for one, share in zip("abc", (0.07, 0.1, 0.14), strict=True):
        for other in "xyz":
            for k in range(2):
                name, fall = f"{one}{other}{k}", share * (1.1 if k else 0.9)
                places = (one, other) if by == "line" else (other, one)
                rows.append(row(name, places[0], fall, node=places[1]))
                alone[name] = (FIRST + timedelta(days=BEFORE)).date(), -fall
    (found,) = shared_changes(rows, RegressionPolicy(), alone)
    assert (found.factor, len(found.members)) == (LAB, 18)


def test_a_night_fits_by_what_its_rows_gain_and_not_by_how_few_nights_they_have():
    steps, noise = np.full(3, -0.1), np.full(3, 0.01)
    values = np.where(np.arange(8) < 5, 0.005, -0.095) * np.ones((3, 1))
    fits = [fit_of_step(values, steps, noise, first) for first in range(1, 8)]
    assert int(np.argmax(fits)) == 5 - 1
    assert fit_of_step(np.full((3, 8), np.nan), steps, noise, 5) == 0 < fits[4]
    longer = np.vstack([values, values])
    assert fit_of_step(longer, np.full(6, -0.1), np.full(6, 0.01), 5) > fits[4]


def test_a_series_that_fell_by_far_more_is_no_member():
    rows = [*lines(0.04), row("much", "a", 0.3)]
    (found,) = shared_changes(rows, RegressionPolicy())
    assert "much" not in found.members


def test_three_noisy_series_of_a_node_that_all_fell_by_themselves_are_its_movement():
    rows = [
        row(f"{node}-{k}", "a", 0.3 * (node == "n2"), 0.05, node)
        for node in ("n1", "n2")
        for k in range(3)
    ]
    since = (FIRST + timedelta(days=BEFORE)).date()
    alone = {f"n2-{k}": (since, -0.3) for k in range(3)}
    (found,) = shared_changes(rows, RegressionPolicy(), alone)
    assert (found.factor, found.members.keys()) == (Factor(FactorKind.NODE, "n2"), alone.keys())


def test_what_is_left_of_a_member_has_not_moved():
    rows = lines(0.05)
    movements = shared_changes(rows, RegressionPolicy())
    left = [math.log(point.value / 100) for point in without_shared(rows[0], movements)]
    assert abs(np.mean(left[BEFORE:]) - np.mean(left[:BEFORE])) < 0.015


def test_a_common_is_found_beside_missing_nights_and_a_series_with_a_step_of_its_own():
    rng = np.random.default_rng(1)
    truth = np.where(np.arange(90) < 80, 0.0, -0.03)
    values = truth + 0.01 * rng.standard_normal((12, 90)) + rng.standard_normal((12, 1))
    values[0, 40:] += 0.3
    values[rng.random(values.shape) < 0.2] = np.nan
    common, known = two_way_fit(values, np.full(12, 0.01))
    assert known.all()
    assert np.abs(common - truth).max() < 0.015


def test_a_step_of_most_is_told_from_those_that_stayed_and_one_of_its_own():
    steps = np.array([-0.04, -0.045, -0.038, -0.041, -0.039, 0.001, -0.3])
    (found,) = two_groups(
        steps[None], np.full((1, 7), 0.004), [-0.03], np.zeros((1, 7), dtype=bool)
    )
    assert found.step == pytest.approx(-0.0405, abs=0.002)
    assert (found.moved > 0.5).tolist() == [True] * 5 + [False] * 2


def test_discoveries_hold_over_the_night_and_over_nights():
    # Of 10 at a rate of 5 % over 180 nights: one alone needs 36,000, each of three 12,000.
    log_e = {"a": math.log(40_000), "b": math.log(12_500), "c": math.log(12_500), "d": 3.0}
    assert discoveries(log_e, 10, 0.05, 180) == {"a", "b", "c"}
    assert discoveries({"b": math.log(12_500)}, 10, 0.05, 180) == set()
    assert discoveries({"b": math.log(12_500)}, 3, 0.05, 180) == {"b"}


def test_noise_of_twenty_series_makes_no_discovery_and_the_e_values_hold():
    rng = np.random.default_rng(11)
    values, errors = rng.normal(0, 0.004, (200, 20)), np.full((200, 20), 0.004)
    found = two_groups(values, errors, np.median(values, axis=1), np.zeros((200, 20), dtype=bool))
    gains = np.array([each.gain for each in found])
    assert np.mean(np.exp(gains - FITTED / 2 * math.log(20))) <= 1
