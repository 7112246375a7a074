"""Hours of the day: over midnight, and on the days on which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nightbench.core.errors import UserError
from nightbench.core.hours import Hours, Span, ever_overlap, in_utc, moment, opening


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def span(start: str, end: str) -> Span:
    return Span(at(start), at(end))


def first(hours: str, moment: str) -> Span:
    found = opening([Hours.parse(hours)], at(moment))
    assert found is not None
    return found


def test_hours_over_midnight_go_on_in_the_morning() -> None:
    night = span("2026-11-20T22:00", "2026-11-21T06:00")
    assert first("22:00-06:00 UTC", "2026-11-21T05:59") == night
    assert first("22:00-06:00 UTC", "2026-11-20T22:00") == night
    assert first("22:00-06:00 UTC", "2026-11-20T12:00") == night
    # The end is not in it: the next night comes.
    assert first("22:00-06:00 UTC", "2026-11-21T06:00").start == at("2026-11-21T22:00")


def test_hours_of_one_day() -> None:
    assert first("9:30-17:00 UTC", "2026-11-21T12:00") == span(
        "2026-11-21T09:30", "2026-11-21T17:00"
    )


@pytest.mark.parametrize(
    ("hours", "moment", "start", "end"),
    [
        # Summer time begins on 2026-03-29 at 01:00 UTC in Berlin: a night of seven hours.
        ("22:00-06:00 Europe/Berlin", "2026-03-28T22:00", "2026-03-28T21:00", "2026-03-29T04:00"),
        # It ends on 2026-10-25 at 01:00 UTC: a night of nine.
        ("22:00-06:00 Europe/Berlin", "2026-10-24T22:00", "2026-10-24T20:00", "2026-10-25T05:00"),
        # 02:30 does not exist on that morning: half an hour after the clocks were put forward.
        ("02:30-06:00 Europe/Berlin", "2026-03-29T00:00", "2026-03-29T01:30", "2026-03-29T04:00"),
        # Hours that the clocks jump over altogether keep their length.
        ("02:15-02:45 Europe/Berlin", "2026-03-29T00:00", "2026-03-29T01:15", "2026-03-29T01:45"),
        # 02:30 comes twice: the first counts, at either end.
        ("02:30-06:00 Europe/Berlin", "2026-10-24T23:00", "2026-10-25T00:30", "2026-10-25T05:00"),
        ("22:00-02:30 Europe/Berlin", "2026-10-24T23:00", "2026-10-24T20:00", "2026-10-25T00:30"),
        # Hours that would end before they begin on that day come on the next.
        ("02:30-03:00 Europe/Berlin", "2026-03-29T00:00", "2026-03-30T00:30", "2026-03-30T01:00"),
        # South of the equator the other way round: Sydney leaves summer time on 2026-04-05.
        (
            "22:00-06:00 Australia/Sydney",
            "2026-04-04T12:00",
            "2026-04-04T11:00",
            "2026-04-04T20:00",
        ),
        # A zone with a quarter of an hour in its offset.
        ("22:00-06:00 Asia/Kathmandu", "2026-11-21T18:00", "2026-11-21T16:15", "2026-11-22T00:15"),
    ],
)
def test_clocks_change(hours: str, moment: str, start: str, end: str) -> None:
    assert first(hours, moment) == span(start, end)


def test_all_hours_must_hold() -> None:
    cluster = Hours.parse("20:00-04:00 UTC")
    suite = Hours.parse("22:00-06:00 UTC")
    assert opening([cluster, suite], at("2026-11-21T03:00")) == span(
        "2026-11-20T22:00", "2026-11-21T04:00"
    )
    # What is left of one of them may not overlap the other any more: the next night does.
    assert opening([cluster, suite], at("2026-11-21T05:00")) == span(
        "2026-11-21T22:00", "2026-11-22T04:00"
    )
    assert opening([cluster, Hours.parse("08:00-12:00 UTC")], at("2026-11-21T05:00")) is None


def test_two_parts_of_a_day_may_meet_two_parts_of_another() -> None:
    both = [Hours.parse("22:00-20:00 UTC"), Hours.parse("18:00-23:00 UTC")]
    assert opening(both, at("2026-11-21T12:00")) == span("2026-11-21T18:00", "2026-11-21T20:00")
    assert opening(both, at("2026-11-21T20:30")) == span("2026-11-21T22:00", "2026-11-21T23:00")


def test_hours_may_meet_in_summer_only() -> None:
    assert ever_overlap([Hours.parse("08:00-09:00 Europe/Berlin"), Hours.parse("06:00-07:00 UTC")])
    assert not ever_overlap([Hours.parse("08:00-09:00 UTC"), Hours.parse("10:00-11:00 UTC")])


def test_they_are_written_as_they_are_read() -> None:
    assert str(Hours.parse("9:30 - 17:00 Europe/Berlin")) == "09:30-17:00 Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("22:00-06:00", "expected hours with their time zone"),
        ("22-6 UTC", "expected hours with their time zone"),
        ("22:00-25:00 UTC", "from 00:00 to 23:59"),
        ("06:00-06:00 UTC", "which may mean never or all day"),
        ("22:00-06:00 Europe/Berln", r'time zone "Europe/Berln".*did you mean "Europe/Berlin"'),
        ("22:00-06:00 ../../etc/passwd", "found the time zone"),
    ],
)
def test_what_is_no_hours_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Hours.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-29T17:33:00+17:33", "2026-11-29T00:00:00"),
        ("2026-11-29T00:00:00-23:59", "2026-11-29T23:59:00"),
        ("2026-11-29", "2026-11-29T00:00:00"),
    ],
)
def test_a_time_is_stored_in_utc_because_postgresql_refuses_wide_offsets(
    text: str, expected: str
) -> None:
    assert moment(text, at("2026-11-01")) == at(expected)
    assert moment(text, at("2026-11-01")).tzinfo is UTC


def test_a_year_without_utc_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0001-01-01T00:00:00\+05:00 is not in the years 1 to"):
        in_utc(datetime.fromisoformat("0001-01-01T00:00:00+05:00"))
    with pytest.raises(UserError, match="expected 12h, 3d, 2w, or a date"):
        moment("9999-12-31T23:59:00-05:00", at("2026-11-01"))
