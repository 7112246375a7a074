"""Earlier stays at another level, and how much nights resemble their neighbours."""

import numpy as np
import pytest

from nightbench.detection.robust import variance_inflation
from nightbench.detection.visits import Visits, earlier_visits


def depths(text):
    return np.array([float(c == "#") for c in text])


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ("....................", Visits(0, 0, 20, 0)),
        (".....#.........###..", Visits(2, 4, 16, 3)),
        ("####......##........", Visits(1, 2, 14, 2)),
        ("..........##......##", Visits(1, 2, 16, 2)),
    ],
)
def test_stays_that_ended_are_counted_where_levels_are_distinct(past, expected):
    assert earlier_visits(depths(past), 10.0) == expected


def test_noise_between_levels_that_are_hard_to_tell_apart_is_no_visit():
    noise = np.random.default_rng(3).standard_normal(120)
    assert earlier_visits(noise / 1.5, 1.5).count <= 2
    stay = noise / 1.5
    stay[40:60] += 1
    visits = earlier_visits(stay, 1.5)
    assert (visits.count, visits.nights) == (1, pytest.approx(20, abs=4))


def test_nights_that_resemble_their_neighbours_are_worth_fewer():
    rng = np.random.default_rng(4)
    assert variance_inflation(rng.standard_normal(120)) < 1.8
    slow = np.repeat(rng.standard_normal(15), 8)
    assert variance_inflation(slow) > 4
    assert variance_inflation(np.zeros(120)) == 1.0
    assert variance_inflation(rng.standard_normal(5)) == 1.0
