"""Nights beside a reference build as a series, and what a change of reference does to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nightbench.core.model import HistoryPoint, PairNight
from nightbench.night.reference_verdicts import paired_series, rebased

OLD, NEW = "pytorch-cpu-index-2.12.0", "pytorch-cpu-index-2.13.0"


def night(number: int, reference: str, ratio: float, level: float = 100.0) -> PairNight:
    return PairNight(f"night-{number}", reference, ratio, 0.002, 5, level)


def point(number: int, value: float) -> HistoryPoint:
    at = datetime(2026, 1, 1, 1, tzinfo=UTC) + timedelta(days=number)
    return HistoryPoint(at, value, f"night-{number}", 3, 0.01, framework_version="2.14")


def test_the_night_of_a_change_converts_the_nights_before_to_the_new_reference() -> None:
    # The new reference is 25 % faster than the old one, and the night's build as fast as before.
    nights = [
        night(3, NEW, 0.8, 125.0),
        night(2, NEW, 0.8, 125.0),
        night(2, OLD, 1.0, 100.0),
        night(1, OLD, 1.0, 100.0),
        night(0, OLD, 0.9, 100.0),
    ]
    found = rebased(nights)
    assert list(found) == ["night-3", "night-2", "night-1", "night-0"]
    assert [each.ratio for each in found.values()] == pytest.approx([0.8, 0.8, 0.8, 0.72])
    assert [each.level for each in found.values()] == pytest.approx([125.0] * 4)


def test_nights_beside_a_reference_that_no_night_measured_with_the_new_one_are_left_out() -> None:
    nights = [night(2, NEW, 0.8), night(1, OLD, 1.0), night(0, NEW, 0.81)]
    assert list(rebased(nights)) == ["night-2", "night-0"]


def test_what_the_machine_did_is_in_the_reference_and_not_in_the_ratio() -> None:
    history = [point(0, 100.0), point(1, 90.0), point(2, 90.0), point(3, 85.5)]
    beside = {
        "night-0": night(0, NEW, 1.0, 100.0),
        "night-1": night(1, NEW, 1.0, 90.0),
        # Night 2 was left out of the night's budget.
        "night-3": night(3, NEW, 0.95, 90.0),
    }
    by_ratio, machine = paired_series(history, beside)
    assert [p.run_id for p in by_ratio] == ["night-0", "night-1", "night-3"]
    assert [p.value for p in by_ratio] == pytest.approx([90.0, 90.0, 85.5])
    assert {(p.n, p.spread) for p in by_ratio} == {(5, 0.002)}
    assert [p.value for p in machine] == [100.0, 90.0, 90.0]
    assert {p.framework_version for p in machine} == {None}
