"""Hours of the day with a time zone: when a cluster may be measured on, and for how long. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from nightbench.core.errors import UserError

_TIME = r"(\d{1,2}):(\d{2})"
_CLOCK = re.compile(rf"{_TIME} (\S+)\Z")
_HOURS = re.compile(rf"{_TIME} ?- ?{_TIME} (\S+)\Z")
_A_TIME = 'expected a time of day with its time zone, such as "07:00 Europe/Berlin"'
_SOME_HOURS = 'expected hours with their time zone, such as "22:00-06:00 Europe/Berlin"'
_DAYS_AHEAD = 9
"""Hours that are empty on the day of a clock change are looked for on the days after it."""

_AHEAD = re.compile(r"(?P<number>[0-9]{1,4})(?P<unit>[hdw])\Z")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@dataclass(frozen=True)
class Span:
    """A stretch of time, its end not in it; both ends are in UTC."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class Hours:
    """The same hours of every day by the clocks of one place; they may pass midnight."""

    start: time
    end: time
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str) -> Hours:
        """Read `22:00-06:00 Europe/Berlin`.

        Raises:
            ValueError: what was found, and what was expected.
        """
        (start, end), place = _times(_HOURS, text, _SOME_HOURS)
        if start == end:
            raise ValueError(f'found "{text}", which may mean never or all day; {_SOME_HOURS}')
        return cls(start, end, place)

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M} {self.zone.key}"

    def spans(self, at: datetime) -> Iterator[Span]:
        """Return the spans that have not ended at a moment, the earliest first.

        On the days of a clock change they are shorter or longer, as the clocks show it. If a time
        comes twice, the first counts; one that is jumped over counts as so much later.
        """
        first = at.astimezone(self.zone).date() - timedelta(days=1)
        for offset in range(_DAYS_AHEAD):
            day = first + timedelta(days=offset)
            until = day if self.end > self.start else day + timedelta(days=1)
            span = Span(
                datetime.combine(day, self.start, self.zone).astimezone(UTC),
                datetime.combine(until, self.end, self.zone).astimezone(UTC),
            )
            if span.start < span.end and span.end > at:
                yield span


@dataclass(frozen=True)
class Clock:
    """A time of day by the clocks of one place."""

    at: time
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str) -> Clock:
        """Read `07:00 Europe/Berlin`.

        Raises:
            ValueError: what was found, and what was expected.
        """
        (at,), place = _times(_CLOCK, text, _A_TIME)
        return cls(at, place)

    def __str__(self) -> str:
        return f"{self.at:%H:%M} {self.zone.key}"

    def after(self, moment: datetime) -> datetime:
        """The first such time after a moment, in UTC.

        If a time comes twice, the first counts; one that is jumped over comes so much later.
        """
        day = moment.astimezone(self.zone).date()
        for offset in range(3):
            found = datetime.combine(day + timedelta(days=offset), self.at, self.zone)
            if found.astimezone(UTC) > moment:
                return found.astimezone(UTC)
        raise AssertionError("a day has each of its times once at least, or shortly after")


def _times(pattern: re.Pattern[str], text: str, expected: str) -> tuple[list[time], ZoneInfo]:
    """Return the times of day in a text, and the place by whose clocks they are."""
    match = pattern.match(text)
    if match is None:
        raise ValueError(f'found "{text}"; {expected}')
    *digits, place = match.groups()
    numbers = list(map(int, digits))
    try:
        times = list(map(time, numbers[::2], numbers[1::2]))
    except ValueError:
        raise ValueError(f'found "{text}"; {expected}, from 00:00 to 23:59') from None
    return times, zone(place)


def zone(name: str) -> ZoneInfo:
    """Return the time zone of that name.

    Raises:
        ValueError: there is none; says which was perhaps meant.
    """
    known = available_timezones()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f' (did you mean "{close[0]}"?)' if close else ""
        raise ValueError(
            f'found the time zone "{name}"; expected a zone such as Europe/Berlin or UTC{guess}'
        )
    return ZoneInfo(name)


def opening(hours: Sequence[Hours], at: datetime) -> Span | None:
    """Return the span in which all of some hours hold, that holds at a moment or comes next.

    Returns:
        None if they do not hold together in the days to come.
    """
    spans = list(hours[0].spans(at))
    for each in hours[1:]:
        spans = [
            Span(max(one.start, other.start), min(one.end, other.end))
            for one in spans
            for other in each.spans(at)
            if max(one.start, other.start) < min(one.end, other.end)
        ]
    return min(spans, key=lambda span: span.start, default=None)


def ever_overlap(hours: Sequence[Hours]) -> bool:
    """Say whether some hours ever hold together: in a winter or in a summer."""
    return any(opening(hours, datetime(2026, month, 15, tzinfo=UTC)) for month in (1, 7))


def moment(text: str, now: datetime) -> datetime:
    """Read a time to come: a span from `now` (12h, 3d, 2w) or an ISO 8601 date (UTC by default).

    Raises:
        UserError: it is neither.
    """
    ahead = _AHEAD.match(text)
    if ahead:
        return now + int(ahead["number"]) * _UNITS[ahead["unit"]]
    try:
        return in_utc(datetime.fromisoformat(text))
    except ValueError:
        raise UserError(
            f'until: found "{text[:80]}", expected 12h, 3d, 2w, or a date: 2026-12-01 or '
            "2026-12-01T06:00"
        ) from None


def in_utc(at: datetime, place: tzinfo = UTC) -> datetime:
    """Return a time in UTC; without an offset, it is local time at `place`.

    PostgreSQL refuses offsets of 16 hours and more.

    Raises:
        ValueError: the year in UTC is not 1 to 9999.
    """
    try:
        return (at if at.tzinfo else at.replace(tzinfo=place)).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{at.isoformat()} is not in the years 1 to 9999 of UTC") from error
