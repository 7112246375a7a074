"""Which cases fit into a night: priorities, rotation, limits, and what is said of the rest."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from nightbench.core.budget import (
    LAUNCH_S,
    PREPARE_S,
    Candidate,
    CaseHistory,
    NightWindow,
    by_priority_and_age,
    candidate,
    duration,
    fit,
    night_window,
)
from nightbench.core.hours import Hours
from nightbench.core.model import Protocol, ReasonCode, Suite
from nightbench.core.sentences import sentence

START = datetime(2026, 11, 20, 22, tzinfo=UTC)
MINUTE = 60.0


def night_of(minutes: float | None) -> NightWindow:
    end = None if minutes is None else START + timedelta(minutes=minutes)
    return NightWindow(START, end, "the hours 22:00-06:00 UTC")


def case(name: str, minutes: float, **more: object) -> Candidate:
    return dataclasses.replace(Candidate(name, minutes * MINUTE), **more)


def days_ago(number: int) -> datetime:
    return START - timedelta(days=number)


def suite(**more: object) -> Suite:
    return dataclasses.replace(Suite("s", "o", "c", ()), **more)


# --- the window ---------------------------------------------------------------------------


def test_the_room_ends_with_the_hours_or_the_budget() -> None:
    hours = [Hours.parse("22:00-06:00 UTC")]
    began = START + timedelta(hours=1)
    by_hours = night_window(hours, None, began)
    assert by_hours == NightWindow(began, START + timedelta(hours=8), "the hours 22:00-06:00 UTC")
    assert night_window(hours, 3600.0, began) == NightWindow(
        began, began + timedelta(hours=1), "the budget of 1 h"
    )
    assert night_window(hours, 20 * 3600.0, began) == by_hours
    assert night_window([], None, began) == NightWindow(began, None, "")
    assert night_window([*hours, Hours.parse("08:00-12:00 UTC")], None, began) is None


def test_a_night_that_has_not_begun_starts_with_its_hours() -> None:
    early = night_window([Hours.parse("22:00-06:00 UTC")], 3600.0, START - timedelta(hours=2))
    assert early is not None
    assert (early.start, early.seconds) == (START, 3600.0)


# --- the order ----------------------------------------------------------------------------


def test_priority_comes_before_age_and_never_measured_is_the_oldest() -> None:
    cases = [
        case("fresh", 1, last=days_ago(1)),
        case("old", 1, last=days_ago(9)),
        case("new", 1),
        case("urgent", 1, priority=9, last=days_ago(1)),
        case("as-old", 1, last=days_ago(9)),
        case("low", 1, priority=0),
    ]
    assert [each.case_id for each in by_priority_and_age(cases)] == [
        "urgent",
        "new",
        "old",
        "as-old",
        "fresh",
        "low",
    ]


def test_without_a_limit_everything_runs_in_the_order_of_the_file() -> None:
    planned = fit([case("a", 600), case("b", 600, priority=9)], night_of(None))
    assert [entry.case_id for entry in planned.entries] == ["a", "b"]
    assert planned.left_out == {}


# --- what fits ----------------------------------------------------------------------------


def test_what_does_not_fit_is_left_out_and_a_shorter_one_takes_its_place() -> None:
    planned = fit([case("a", 40), case("b", 30), case("c", 20)], night_of(60))
    assert [(e.case_id, e.start) for e in planned.entries] == [
        ("a", START),
        ("c", START + timedelta(minutes=40)),
        ("b", None),
    ]
    assert planned.end == START + timedelta(minutes=60)
    assert {case_id: sentence(reason) for case_id, reason in planned.left_out.items()} == {
        "b": "the case takes about 30 min; left after the earlier cases: 20 min until "
        "2026-11-20 23:00 UTC (the hours 22:00-06:00 UTC)"
    }


def test_a_case_that_no_night_holds_says_so() -> None:
    planned = fit([case("a", 90)], night_of(60))
    assert {case_id: sentence(reason) for case_id, reason in planned.left_out.items()} == {
        "a": "the case takes about 1 h 30 min; the whole night has 1 h (the hours 22:00-06:00 UTC)"
    }
    assert planned.end == START


def test_cases_that_share_nothing_go_at_once_where_the_cluster_allows_it() -> None:
    cases = [
        case("a", 30, holds=frozenset({"n1"})),
        case("b", 30, holds=frozenset({"n2"})),
        case("both", 20, holds=frozenset({"n1", "n2"})),
        case("c", 10, holds=frozenset({"n3"})),
    ]
    planned = fit(cases, night_of(60), lanes=2)
    assert {e.case_id: e.start for e in planned.entries} == {
        "a": START,
        "b": START,
        "both": START + timedelta(minutes=30),
        "c": START + timedelta(minutes=30),
    }
    one_by_one = fit(cases, night_of(60), lanes=1)
    assert set(one_by_one.left_out) == {"both", "c"}


# --- estimates ----------------------------------------------------------------------------


def test_history_says_what_a_case_takes() -> None:
    known = candidate("a", suite(), CaseHistory(600.0, 80.0), {"n1"}, night_of(60))
    assert (known.seconds, known.least_s) == (600 + PREPARE_S, 80 + PREPARE_S)
    assert not known.guessed


def test_another_protocol_takes_another_time() -> None:
    past = CaseHistory(600.0, 80.0, days_ago(2), "d1")
    assert past.of("d1") == past
    assert past.of("d2") == CaseHistory(last=days_ago(2))
    assert CaseHistory(600.0).of("d2") == CaseHistory(600.0)


def test_a_guess_is_made_from_the_protocol_and_the_time_limits() -> None:
    protocol = Protocol(20, 100, 7)
    wide = candidate(
        "a", suite(protocol=protocol, repeat_timeout_s=600.0), CaseHistory(), (), night_of(600)
    )
    assert wide.guessed
    assert wide.seconds == PREPARE_S + 7 * (LAUNCH_S + 120)
    # No repeat can take longer than its limit, and none is started with less time left than that.
    short = candidate(
        "a", suite(protocol=protocol, repeat_timeout_s=60.0), CaseHistory(), (), night_of(9)
    )
    assert (short.seconds, short.least_s) == (PREPARE_S + 7 * 60, PREPARE_S + 60)


def test_a_guess_is_no_reason_to_leave_a_case_out_for_ever() -> None:
    long = suite(protocol=Protocol(20, 100_000, 7), repeat_timeout_s=900.0)
    unknown = candidate("a", long, CaseHistory(), (), night_of(60))
    assert unknown.seconds == 3600.0
    assert fit([unknown], night_of(60)).left_out == {}


def test_a_night_shorter_than_a_repeat_may_take_is_explained() -> None:
    unknown = candidate("a", suite(repeat_timeout_s=7200.0), CaseHistory(), (), night_of(60))
    (reason,) = fit([unknown], night_of(60)).left_out.values()
    assert reason.code is ReasonCode.TIME_UNKNOWN
    assert "its time limit including preparation (2 h) exceeds the night" in sentence(reason)
    assert "run the case once on demand, or lower `timeouts.repeat`" in sentence(reason)


def test_durations_for_people() -> None:
    assert [duration(s) for s in (0.4, 40, 60, 61, 599, 600, 3569, 3599, 3600, 3900)] == [
        "0 s",
        "40 s",
        "1 min",
        "1 min 1 s",
        "9 min 59 s",
        "10 min",
        "59 min",
        "1 h",
        "1 h",
        "1 h 5 min",
    ]


# --- what must hold whatever the cases are ---------------------------------------------------

lengths = st.floats(min_value=1, max_value=120)
some_cases = st.lists(
    st.tuples(
        lengths, st.integers(0, 9), st.integers(0, 30), st.frozensets(st.sampled_from("xyz"))
    ),
    min_size=1,
    max_size=25,
)


def made(rows: list[tuple[float, int, int, frozenset[str]]]) -> list[Candidate]:
    return [
        case(f"c{n}", minutes, priority=priority, last=days_ago(age) if age else None, holds=holds)
        for n, (minutes, priority, age, holds) in enumerate(rows)
    ]


@given(some_cases, st.floats(min_value=1, max_value=600), st.integers(1, 4))
def test_every_case_is_accounted_for_and_none_ends_late(
    rows: list[tuple[float, int, int, frozenset[str]]], minutes: float, lanes: int
) -> None:
    cases = made(rows)
    limit = night_of(minutes)
    planned = fit(cases, limit, lanes)
    assert sorted(e.case_id for e in planned.entries) == sorted(c.case_id for c in cases)
    assert limit.end is not None
    assert planned.end <= limit.end
    runs = [
        (e.start, e.start + timedelta(seconds=e.seconds), e) for e in planned.entries if e.start
    ]
    holds = {c.case_id: c.holds for c in cases}
    for start, end, entry in runs:
        at_once = [other for s, e, other in runs if s < end and start < e]
        assert not any(
            holds[entry.case_id] & holds[other.case_id] for other in at_once if other is not entry
        )
    for moment, _, _ in runs:
        assert sum(start <= moment < end for start, end, _ in runs) <= lanes


@settings(max_examples=60)
@given(st.lists(st.floats(min_value=1, max_value=60), min_size=1, max_size=12))
def test_every_case_of_a_priority_has_its_turn(minutes: list[float]) -> None:
    """Stalest first: with a night that holds any one case, nobody waits more nights than cases."""
    last: dict[str, datetime | None] = {f"c{n}": None for n in range(len(minutes))}
    measured: set[str] = set()
    for night in range(len(minutes)):
        cases = [case(f"c{n}", each, last=last[f"c{n}"]) for n, each in enumerate(minutes)]
        planned = fit(cases, night_of(60))
        for entry in planned.entries:
            if entry.start is not None:
                measured.add(entry.case_id)
                last[entry.case_id] = START + timedelta(days=night)
    assert measured == set(last)
