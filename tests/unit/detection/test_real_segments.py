"""The segments with real changes are chosen by their values, not by what the detector reports."""

from __future__ import annotations

from tests.performance.real import CHANGED, REAL_SHIFT, largest_shift, read_segments


def test_segments_with_real_changes_are_those_with_a_large_shift():
    segments = read_segments()

    assert len(segments) == 57
    assert {each.name for each in segments if largest_shift(each.plain) > REAL_SHIFT} == CHANGED


def test_a_step_changes_only_the_nights_after_it():
    for each in read_segments():
        (step,) = each.stepped.events
        assert each.stepped.value[: step.index] == each.plain.value[: step.index]
        assert each.stepped.value[step.index] < each.plain.value[step.index]
        assert not each.plain.events
