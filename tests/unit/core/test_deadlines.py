"""By when a night has to have brought its results, also when clocks change; and how it stands."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from nightbench.core.expected_nights import (
    ExpectedNight,
    NightRun,
    NightSchedule,
    NightState,
    expected_nights,
    night_status,
)
from nightbench.core.hours import Clock


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def found(timetable: NightSchedule, after: str, to: str) -> list[tuple[str, str]]:
    """Scheduled and due, to the minute."""
    return [
        (f"{n.scheduled_at:%m-%d %H:%M}", f"{n.due_at:%m-%d %H:%M}")
        for n in expected_nights(timetable, at(after), at(to))
    ]


BERLIN = "07:00 Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 Europe/Berlin", 'expected a time of day with its time zone, such as "07:00 Europe'),
        ("07:00", "expected a time of day with its time zone"),
        ("27:00 UTC", "from 00:00 to 23:59"),
        ("07:00 Europe/Berlim", "did you mean"),
    ],
)
def test_a_deadline_that_cannot_be_read(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        Clock.parse(text)


@pytest.mark.parametrize(
    ("clock", "after", "comes"),
    [
        ("07:00 Europe/Berlin", "2026-01-10T05:59", "2026-01-10T06:00"),
        # It has come: the next one is tomorrow's.
        ("07:00 Europe/Berlin", "2026-01-10T06:00", "2026-01-11T06:00"),
        ("07:00 Europe/Berlin", "2026-07-10T00:00", "2026-07-10T05:00"),
        # The night before the clocks change, and the one after.
        ("07:00 Europe/Berlin", "2026-03-28T22:00", "2026-03-29T05:00"),
        ("07:00 Europe/Berlin", "2026-10-24T22:00", "2026-10-25T06:00"),
        # 02:30 is jumped over in March: it comes an hour later. In October the first one counts.
        ("02:30 Europe/Berlin", "2026-03-28T22:00", "2026-03-29T01:30"),
        ("02:30 Europe/Berlin", "2026-10-24T22:00", "2026-10-25T00:30"),
        ("02:30 Europe/Berlin", "2026-10-25T00:30", "2026-10-26T01:30"),
        ("00:15 Pacific/Auckland", "2026-01-09T12:00", "2026-01-10T11:15"),
    ],
)
def test_the_next_time_of_a_clock(clock: str, after: str, comes: str) -> None:
    assert Clock.parse(clock).after(at(after)) == at(comes)


def test_every_minute_of_a_year_has_a_deadline_within_25_hours_after_it() -> None:
    clock = Clock.parse("02:30 Europe/Berlin")
    moment = at("2026-01-01T00:07")
    while moment < at("2027-01-01T00:00"):
        due = clock.after(moment)
        assert timedelta(0) < due - moment <= timedelta(hours=25)
        moment += timedelta(minutes=41)


def test_a_night_ends_with_its_hours_and_an_hour_is_given_to_load_it() -> None:
    timetable = NightSchedule("0 22 * * *", ("22:00-06:00 UTC",))
    assert found(timetable, "2026-11-20T00:00", "2026-11-21T22:00") == [
        ("11-20 22:00", "11-21 07:00"),
        ("11-21 22:00", "11-22 07:00"),
    ]
    (night, _) = expected_nights(timetable, at("2026-11-20T00:00"), at("2026-11-21T22:00"))
    assert night.why == "an hour after the end of the hours 22:00-06:00 UTC"
    assert night.until == at("2026-11-21T22:00")


def test_a_budget_ends_it_earlier_and_without_either_it_has_twelve_hours() -> None:
    hours = ("22:00-06:00 UTC",)
    span = ("2026-11-20T00:00", "2026-11-21T00:00")
    assert found(NightSchedule("0 22 * * *", hours, 7200.0), *span) == [
        ("11-20 22:00", "11-21 01:00")
    ]
    assert found(NightSchedule("0 22 * * *"), *span) == [("11-20 22:00", "11-21 10:00")]
    assert found(NightSchedule("@daily"), *span) == [("11-21 00:00", "11-21 12:00")]
    assert found(NightSchedule("0 22 * * *", hours, deadline=BERLIN), *span) == [
        ("11-20 22:00", "11-21 06:00")
    ]


def test_nights_on_which_clocks_change() -> None:
    hours = ("22:00-06:00 Europe/Berlin",)
    spring = ("2026-03-27T12:00", "2026-03-30T12:00")
    # The schedule is in UTC and the hours are not: after the change the run waits no hour.
    assert found(NightSchedule("0 20 * * *", hours), *spring) == [
        ("03-27 20:00", "03-28 06:00"),
        ("03-28 20:00", "03-29 05:00"),
        ("03-29 20:00", "03-30 05:00"),
    ]
    autumn = ("2026-10-23T12:00", "2026-10-26T12:00")
    assert found(NightSchedule("0 20 * * *", hours), *autumn) == [
        ("10-23 20:00", "10-24 05:00"),
        ("10-24 20:00", "10-25 06:00"),
        ("10-25 20:00", "10-26 06:00"),
    ]
    assert found(NightSchedule("0 20 * * *", hours, deadline=BERLIN), *autumn) == [
        ("10-23 20:00", "10-24 05:00"),
        ("10-24 20:00", "10-25 06:00"),
        ("10-25 20:00", "10-26 06:00"),
    ]


def test_a_time_long_before_the_hours_is_no_night() -> None:
    # By day such a run skips itself; from 19:00 on it waits for 22:00.
    hourly = NightSchedule("0 * * * *", ("22:00-01:00 UTC",))
    assert [
        scheduled for scheduled, _ in found(hourly, "2026-11-20T02:00", "2026-11-21T03:00")
    ] == [
        *(f"11-20 {hour}:00" for hour in range(19, 24)),
        "11-21 00:00",
    ]
    never = NightSchedule("0 9 * * *", ("22:00-01:00 UTC",))
    assert found(never, "2026-11-20T02:00", "2026-11-25T03:00") == []


NIGHT = ExpectedNight(
    scheduled_at=at("2026-11-20T22:00"),
    until=at("2026-11-21T22:00"),
    due_at=at("2026-11-21T07:00"),
    why="",
)
BEFORE, AFTER = at("2026-11-21T06:59"), at("2026-11-21T07:00")
RUN = NightRun("r1", at("2026-11-20T22:01"), None, False, 3, ("a", "b"))
LOADED = dataclasses.replace(RUN, loaded_at=at("2026-11-21T05:00"), is_judged=True)
OLD = NightRun("r0", at("2026-11-19T23:30"), None, False, 3, ("a",))


@pytest.mark.parametrize(
    ("runs", "now", "more", "state"),
    [
        pytest.param([], BEFORE, {}, NightState.WAITING, id="not due yet"),
        pytest.param([], AFTER, {}, NightState.MISSING, id="nothing came"),
        pytest.param([], AFTER, {"is_paused": True}, NightState.PAUSED, id="paused"),
        pytest.param(
            [RUN], AFTER, {"is_paused": True}, NightState.MISSING, id="paused in the night"
        ),
        pytest.param([RUN], BEFORE, {}, NightState.WAITING, id="it goes on"),
        pytest.param([RUN], AFTER, {}, NightState.MISSING, id="it went on for too long"),
        pytest.param(
            [dataclasses.replace(RUN, problem="a file is damaged")],
            AFTER,
            {},
            NightState.MISSING,
            id="nobody can say what it lacks",
        ),
        pytest.param([LOADED], BEFORE, {}, NightState.MET, id="met before its time"),
        pytest.param([LOADED], AFTER, {}, NightState.MET, id="met, and looked at later"),
        pytest.param([LOADED], AFTER, {"was_missing": True}, NightState.LATE, id="late"),
        pytest.param(
            [dataclasses.replace(LOADED, loaded_at=at("2026-11-21T08:00"))],
            at("2026-11-21T09:00"),
            {},
            NightState.LATE,
            id="late, and nobody looked meanwhile",
        ),
        pytest.param(
            [dataclasses.replace(LOADED, is_judged=False)],
            AFTER,
            {},
            NightState.MISSING,
            id="loaded and never judged",
        ),
        pytest.param(
            [dataclasses.replace(LOADED, is_judged=False, loaded_at=BEFORE)],
            AFTER,
            {},
            NightState.WAITING,
            id="being judged",
        ),
        pytest.param([OLD], AFTER, {}, NightState.OVERTAKEN, id="the run before still goes on"),
        pytest.param(
            [dataclasses.replace(OLD, loaded_at=at("2026-11-20T21:00"))],
            AFTER,
            {},
            NightState.MISSING,
            id="the run before had ended",
        ),
        pytest.param(
            [dataclasses.replace(OLD, started_at=at("2026-11-19T22:00"))],
            AFTER,
            {},
            NightState.MISSING,
            id="the run before is dead",
        ),
        pytest.param(
            [dataclasses.replace(LOADED, started_at=at("2026-11-21T22:00"))],
            at("2026-11-22T01:00"),
            {},
            NightState.MISSING,
            id="a run of the next night",
        ),
    ],
)
def test_how_a_night_stands(
    runs: list[NightRun], now: datetime, more: dict[str, bool], state: NightState
) -> None:
    assert night_status(NIGHT, runs, now, **more).state is state


def test_a_late_night_that_was_loaded_in_time_says_that_its_verdicts_were_late() -> None:
    judged = night_status(NIGHT, [LOADED], AFTER, was_missing=True)
    assert judged.sentence.endswith(
        "was loaded at 2026-11-21 05:00 UTC and got its verdicts too late"
    )
    loaded = dataclasses.replace(LOADED, loaded_at=at("2026-11-21T08:00"))
    late = night_status(NIGHT, [loaded], AFTER, was_missing=True)
    assert late.sentence.endswith("was loaded at 2026-11-21 08:00 UTC")


def test_it_says_what_is_missing() -> None:
    some = night_status(NIGHT, [RUN], AFTER)
    assert some.sentence == "2 of 3 cases of r1 have no result"
    assert (some.without, some.is_empty) == (("a", "b"), False)
    none = night_status(NIGHT, [dataclasses.replace(RUN, without=("a", "b", "c"))], AFTER)
    assert none.is_empty
    waits = night_status(NIGHT, [dataclasses.replace(RUN, without=())], AFTER)
    assert "waits in the spool" in waits.sentence
    assert night_status(NIGHT, [], AFTER).is_empty
    assert night_status(NIGHT, [], AFTER, problem="it is broken").sentence == "it is broken"
