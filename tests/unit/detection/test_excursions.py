"""Earlier excursions to another level, and the effective sample size of autocorrelated nights."""

import numpy as np
import pytest

from nightbench.detection.excursions import Excursions, past_excursions
from nightbench.detection.robust import variance_inflation


def depths(text):
    return np.array([float(c == "#") for c in text])


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ("....................", Excursions(0, 0, 0, 20)),
        ("...#.....#.......#..", Excursions(0, 0, 3, 17)),
        (".....#.........###..", Excursions(1, 3, 4, 16, 3)),
        ("####......##........", Excursions(1, 2, 2, 14, 2)),
        ("..........##......##", Excursions(1, 2, 2, 16, 2)),
    ],
)
def test_excursions_of_two_nights_and_more_are_counted_if_levels_are_distinct(past, expected):
    assert past_excursions(depths(past), 10.0) == expected


def test_noise_between_levels_that_are_hard_to_distinguish_is_no_excursion():
    noise = np.random.default_rng(3).standard_normal(120)
    assert past_excursions(noise / 1.5, 1.5).count <= 2
    stay = noise / 1.5
    stay[40:60] += 1
    found = past_excursions(stay, 1.5)
    assert (found.count, found.nights) == (1, pytest.approx(20, abs=4))


def test_autocorrelated_nights_count_less():
    rng = np.random.default_rng(4)
    assert variance_inflation(rng.standard_normal(120)) < 1.8
    slow = np.repeat(rng.standard_normal(15), 8)
    assert variance_inflation(slow) > 4
    assert variance_inflation(np.zeros(120)) == 1.0
    assert variance_inflation(rng.standard_normal(5)) == 1.0
