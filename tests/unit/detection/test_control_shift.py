"""A control beside a series: what it explains of a change, and what it does not."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from nightbench.core.model import HistoryPoint
from nightbench.detection.control_shift import control_shift
from nightbench.detection.history import judge_history
from nightbench.detection.verdict_sentences import controls as controls_clause

FIRST = datetime(2024, 10, 4, tzinfo=UTC)


def controls(*levels, noise=0.003, seed=1):
    rng = np.random.default_rng(seed)
    return np.array(levels, dtype=float) * np.exp(noise * rng.standard_normal(len(levels)))


def test_a_control_that_fell_as_far_explains_the_fall():
    shift = control_shift(controls(*[50] * 40, *[45] * 4), 40, math.log(0.9))
    assert shift.explains
    assert shift.low < -0.1 < shift.high
    assert shift.remains == pytest.approx(0, abs=0.01)
    assert "suspect the node first" in controls_clause(shift)


def test_a_steady_control_leaves_the_whole_fall():
    shift = control_shift(controls(*[50] * 44), 40, math.log(0.9))
    assert not shift.explains
    assert shift.share == 0
    assert shift.remains == pytest.approx(-0.1)
    assert "does not explain the change" in controls_clause(shift)


def test_a_control_that_rose_explains_no_fall():
    shift = control_shift(controls(*[50] * 40, *[55] * 4), 40, math.log(0.9))
    assert (shift.share, shift.explains) == (0, False)


def test_a_third_of_a_fall_is_a_part():
    shift = control_shift(controls(*[50] * 40, *[48.5] * 6), 40, math.log(0.9))
    assert not shift.explains
    assert shift.remains == pytest.approx(-0.072, abs=0.01)
    assert "explains a part" in controls_clause(shift)


def test_few_controls_say_nothing():
    known = controls(*[50] * 44)
    known[:36] = math.nan
    assert control_shift(known, 40, math.log(0.9)) is None
    late = controls(*[50] * 44)
    late[41:] = math.nan
    assert control_shift(late, 40, math.log(0.9)) is None


def test_a_noisy_control_needs_more_to_have_moved():
    levels = [50] * 40 + [48] * 3
    assert control_shift(controls(*levels), 40, math.log(0.95)).share > 0.6
    assert control_shift(controls(*levels, noise=0.05), 40, math.log(0.95)).share == 0


@pytest.mark.parametrize("lower_is_better", [False, True])
def test_a_history_says_what_its_control_did_and_keeps_the_change(lower_is_better):
    rng = np.random.default_rng(3)
    wobble = np.exp(0.004 * rng.standard_normal(48))
    value = np.array([100.0] * 40 + [90.0] * 8) * wobble
    control = np.array([7.0] * 40 + [6.3] * 8)
    if lower_is_better:
        value = 1e4 / value
    nights = [
        HistoryPoint(FIRST + timedelta(days=k), float(value[k]), control=control[k])
        for k in range(48)
    ]
    (found,) = judge_history("a", nights, lower_is_better).changes
    assert found.kind == "regressed"
    assert found.control.explains
    assert found.control.remains == pytest.approx(0, abs=0.01)
    assert "suspect the node first" in found.sentence
    without = [replace(night, control=None) for night in nights]
    (alone,) = judge_history("a", without, lower_is_better).changes
    assert alone.control is None
    assert (alone.kind, alone.index, alone.change) == (found.kind, found.index, found.change)
