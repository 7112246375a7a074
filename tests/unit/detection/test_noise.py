"""When a series is too noisy to be believed, and when it is steady again."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from nightbench.core.model import HistoryPoint
from nightbench.detection.noise import IN_A_ROW, NoiseChange, noise_change, variation

LIMIT = 0.10
START = datetime(2026, 1, 1, 1, tzinfo=UTC)


def nights(values: list[float], spread: float | None = 0.01) -> list[HistoryPoint]:
    return [
        HistoryPoint(START + timedelta(days=i), value, n=7, spread=spread)
        for i, value in enumerate(values)
    ]


def varying(sigma: float, count: int, seed: int = 1) -> list[float]:
    rng = np.random.default_rng(seed)
    return [float(v) for v in 100 * np.exp(rng.normal(0, sigma, count))]


def replay(points: list[HistoryPoint], limit: float = LIMIT) -> list[tuple[int, NoiseChange]]:
    """All turns of a series, judged night by night."""
    noisy, turns = False, []
    for i, point in enumerate(points):
        found = noise_change(points[:i], point, limit, noisy)
        if found is not None:
            noisy = found.noisy
            turns.append((i, found))
    return turns


def test_a_noisy_series_is_seen_and_a_steady_one_never() -> None:
    ((night, found),) = replay(nights(varying(0.2, 60)))
    assert found.noisy
    assert night < 20
    assert found.spread > LIMIT
    assert "its night-to-night noise is" in found.sentence
    assert "the limit is 10.0%" in found.sentence
    assert replay(nights(varying(0.03, 120))) == []


@pytest.mark.parametrize("fall", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("after", [1, 2, 5, 30])
def test_a_fall_is_no_noise(fall: float, after: int) -> None:
    values = varying(0.01, 60 + after)
    values[60:] = [v * (1 - fall) for v in values[60:]]
    assert replay(nights(values)) == []


def test_a_drift_and_some_wild_nights_are_no_noise() -> None:
    drifting = [v * 0.997**i for i, v in enumerate(varying(0.01, 100))]
    assert replay(nights(drifting)) == []
    wild = varying(0.01, 100)
    for i in range(5, 100, 9):
        wild[i] *= 0.5
    assert replay(nights(wild)) == []


def test_a_weekly_pattern_is_no_noise() -> None:
    values = [v * (0.7 if i % 7 in (2, 3) else 1.0) for i, v in enumerate(varying(0.01, 120))]
    assert replay(nights(values)) == []


def test_it_returns_by_itself_once_steady() -> None:
    values = varying(0.01, 30) + varying(0.25, 30) + varying(0.01, 40)
    (bad, first), (good, second) = replay(nights(values))
    assert (first.noisy, second.noisy) == (True, False)
    assert 30 + IN_A_ROW <= bad < 50
    assert 60 + IN_A_ROW <= good < 85
    assert second.spread <= 0.7 * LIMIT
    assert f"on {IN_A_ROW} nights in a row" in second.sentence


def test_near_the_limit_it_does_not_come_and_go() -> None:
    turns = [len(replay(nights(varying(LIMIT, 200, seed)))) for seed in range(8)]
    assert sum(turns) <= 8 * 3


def test_repeats_that_disagree_are_noise_though_their_medians_agree() -> None:
    # A range of 40 % over seven repeats: a standard deviation of 15 %.
    ((_, found),) = replay(nights(varying(0.01, 30), spread=0.4))
    assert found.noisy
    assert found.spread == pytest.approx(0.4 / 2.704)
    assert found.sentence.startswith("the noise of repeats within a night is 14.8%")
    assert replay(nights(varying(0.01, 30), spread=0.2)) == []
    assert replay(nights(varying(0.01, 30), spread=None)) == []


def test_too_few_nights_say_nothing() -> None:
    points = nights(varying(0.5, 30))
    assert variation(points[:7]).nights is None
    assert noise_change(points[:6], points[6], LIMIT, False) is None
    # Another definition begins anew: what varied before is not held against it.
    fresh = [dataclasses.replace(p, definition_digest="new") for p in points[20:26]]
    old = [dataclasses.replace(p, definition_digest="old") for p in points[:20]]
    assert noise_change([*old, *fresh[:-1]], fresh[-1], LIMIT, False) is None
    assert noise_change([*old, *fresh[:-1]], fresh[-1], LIMIT, True) is None


def test_the_limit_is_the_suites() -> None:
    points = nights(varying(0.15, 60))
    assert [found.noisy for _, found in replay(points)] == [True]
    assert replay(points, limit=0.5) == []
