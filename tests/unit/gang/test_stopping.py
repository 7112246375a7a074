"""When a case ends: decided from its repeats alone."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.gang.bench import JOB

from nightbench.core.model import CaseStatus, NeighbourPolicy, Protocol, Reason, ReasonCode
from nightbench.core.sentences import sentences
from nightbench.core.statistics import describe, half_width
from nightbench.gang.decisions import conclude, conclude_by_deadline, is_too_late
from nightbench.spool import RepeatOutcome

EVENING = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)


def job(repeats=7, budget=3, deadline=None, **protocol):
    return dataclasses.replace(
        JOB,
        limits=dataclasses.replace(JOB.limits, repeat_s=20),
        protocol=Protocol(2, 3, repeats, **protocol),
        neighbours=NeighbourPolicy(action="wait", budget=budget),
        deadline=deadline,
    )


def outcomes(letters, throughputs=()):
    """`o` ok, `f` failed, `a` aborted, `d` disturbed."""
    words = {"o": "ok", "f": "failed", "a": "aborted", "d": "disturbed"}
    values = iter(throughputs)
    return [
        RepeatOutcome(
            k,
            words[letter],
            () if letter == "o" else (Reason(ReasonCode.CONTROLLER_ERROR, observed=f"why {k}"),),
            next(values, None) if letter == "o" else None,
        )
        for k, letter in enumerate(letters, start=1)
    ]


@pytest.mark.parametrize(
    ("letters", "repeats", "ends"),
    [
        ("", 3, None),
        ("oo", 3, None),
        ("ooo", 3, CaseStatus.OK),
        ("ofo", 3, CaseStatus.OK),
        ("off", 7, CaseStatus.FAILED),
        ("ofa", 7, CaseStatus.FAILED),
        ("f", 1, CaseStatus.FAILED),
        ("odo", 3, None),
        ("odoo", 3, CaseStatus.OK),
        ("fdf", 4, None),
        ("oddd", 7, None),
        ("odddd", 7, CaseStatus.FAILED),
        ("ooodddd", 7, CaseStatus.FAILED),
        ("oooodddd", 7, CaseStatus.OK),
    ],
)
def test_a_fixed_protocol(letters, repeats, ends):
    end = conclude(job(repeats), outcomes(letters))
    assert (end.status if end else None) == ends


def test_the_budget_is_named_where_it_ends_a_case():
    end = conclude(job(budget=0), outcomes("ood"))
    assert sentences(end.reasons) == (
        "1 of 3 repeats were disturbed, expected 0 at most; the last disturbance: why 3"
    )


NARROW = (100.0, 100.4, 99.8, 100.1, 99.9, 100.0, 100.2)
WIDE = (100.0, 120.0, 85.0, 110.0, 95.0, 101.0, 100.0)


def test_an_adaptive_protocol_stops_on_its_half_width_and_not_before_five():
    adaptive = job(12, confidence=0.01, min_repeats=3)
    assert conclude(adaptive, outcomes("oooo", NARROW)) is None
    assert conclude(adaptive, outcomes("ooooo", NARROW)).status is CaseStatus.OK
    assert conclude(adaptive, outcomes("ooooo", WIDE)) is None
    assert conclude(adaptive, outcomes("o" * 12, WIDE)).status is CaseStatus.OK
    assert conclude(job(12, confidence=0.01, min_repeats=6), outcomes("ooooo", NARROW)) is None


def test_only_good_repeats_count_for_the_half_width():
    adaptive = job(12, confidence=0.01)
    assert conclude(adaptive, outcomes("oodoo", NARROW)) is None
    assert conclude(adaptive, outcomes("oodooo", NARROW)).status is CaseStatus.OK


def test_the_half_width_that_stops_is_the_one_that_is_stored():
    stored = describe(NARROW[:5])["half_width"]
    assert stored == half_width(NARROW[:5])
    # t quantile of 4 degrees of freedom, two-sided 95 %: 2.7764 (any table).
    assert stored == pytest.approx(2.7764 * 0.002303 / 5**0.5, rel=0.01)
    just, less = job(12, confidence=stored), job(12, confidence=stored * 0.999)
    assert conclude(just, outcomes("ooooo", NARROW)) is not None
    assert conclude(less, outcomes("ooooo", NARROW)) is None


def test_no_repeat_is_started_that_cannot_end_in_time():
    until = EVENING + timedelta(seconds=100)
    measured = [dataclasses.replace(outcomes("o")[0], seconds=s) for s in (40.0, 60.0)]
    limited = job(deadline=until)
    assert not is_too_late(job(), measured, EVENING + timedelta(days=1))
    assert not is_too_late(limited, measured, EVENING + timedelta(seconds=40))
    assert is_too_late(limited, measured, EVENING + timedelta(seconds=41))
    # The first: what a repeat may take at most, 20 s.
    assert not is_too_late(limited, [], EVENING + timedelta(seconds=80))
    assert is_too_late(limited, [], EVENING + timedelta(seconds=81))


@pytest.mark.parametrize(
    ("letters", "repeats", "ends"),
    [
        ("oooo", 7, CaseStatus.OK),
        ("ooo", 7, CaseStatus.LEFT_OUT),
        ("ood", 3, CaseStatus.LEFT_OUT),
        ("", 7, CaseStatus.LEFT_OUT),
        ("o", 2, CaseStatus.LEFT_OUT),
    ],
)
def test_what_counts_when_the_window_ends(letters, repeats, ends):
    end = conclude_by_deadline(job(repeats, deadline=EVENING), outcomes(letters))
    assert end.status is ends
    if ends is CaseStatus.LEFT_OUT:
        assert sentences(end.reasons).startswith(
            "the night's window ended at 2026-11-21 22:00 UTC with"
        )


def test_an_adaptive_case_counts_from_its_least():
    adaptive = job(20, confidence=0.01, min_repeats=6, deadline=EVENING)
    assert conclude_by_deadline(adaptive, outcomes("o" * 5)).status is CaseStatus.LEFT_OUT
    assert conclude_by_deadline(adaptive, outcomes("o" * 6)).status is CaseStatus.OK
