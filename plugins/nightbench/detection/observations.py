"""Reads the histories of figures that `nightbench detect` judges from CSV and JSON lines."""

import itertools
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, NamedTuple

from nightbench.core.history_file import Column, HistoryFile, number, text, whole
from nightbench.core.model import HistoryPoint

EARLIEST, LATEST = -6e10, 7.26e9
"""Unix times between which a night lies: the years 69 to 2200."""

DAY_NUMBERS = (19_000_101, 22_000_101)
"""Dates written as YYYYMMDD; as Unix seconds they would be days of August and September 1970."""


class Observation(NamedTuple):
    """The value of a series at one time; a row of a file."""

    seconds: float
    """Unix time."""
    value: float | None
    """None for a missing night."""
    n: int | None = None
    spread: float | None = None
    """(maximum - minimum) / median of the night's repeats, as a fraction."""
    fingerprint: str | None = None
    control: float | None = None
    """The same night's control measurement of the same nodes; higher is better."""
    line: int = 0

    @property
    def day(self) -> str:
        """The date, UTC."""
        return f"{datetime.fromtimestamp(self.seconds, UTC):%Y-%m-%d}"


def observations_of(points: Sequence[HistoryPoint]) -> list[Observation]:
    """Return points of a stored history; another work or protocol is another fingerprint."""
    several = len({point.definition_digest for point in points} - {None}) > 1
    return [
        Observation(
            point.at.timestamp(),
            point.value,
            point.n,
            point.spread,
            " ".join(
                filter(None, (point.fingerprint_id, point.definition_digest if several else None))
            )
            or None,
        )
        for point in points
    ]


def _seconds(cell: Any) -> float:
    try:
        seconds = float(cell)
    except ValueError:
        seconds = _date_seconds(cell)
    if seconds.is_integer() and DAY_NUMBERS[0] <= seconds < DAY_NUMBERS[1]:
        with suppress(ValueError):
            seconds = _date_seconds(f"{seconds:.0f}")
    if not EARLIEST < seconds < LATEST:
        raise ValueError
    return seconds


def _date_seconds(text: str) -> float:
    date = datetime.fromisoformat(text)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


COLUMNS = {
    "series": text("the name of a series", required=True, longest=1000),
    "t": Column(_seconds, "Unix seconds or an ISO 8601 date up to 2200", is_required=True),
    "value": number(0, exclusive=True, required=True, may_be_empty=True),
    "n": whole(1),
    "spread": number(0),
    "fingerprint": text("a text", longest=1000),
    "control": number(0, exclusive=True),
}


def read_observations(file: HistoryFile) -> dict[str, list[Observation]]:
    """Return the observations of a file by series, oldest first.

    Raises:
        UserError: the file lacks a column, or cells are invalid; each problem names file, line,
            column, the value found and what was expected.
    """
    series: dict[str, list[Observation]] = {}
    for line, given in file.rows(COLUMNS, others=True):
        value = given.get
        found = Observation(
            given["t"],
            value("value"),
            value("n"),
            value("spread"),
            value("fingerprint"),
            value("control"),
            line,
        )
        series.setdefault(given["series"], []).append(found)
    for name, found_of in series.items():
        found_of.sort(key=itemgetter(0))
        for one, other in itertools.pairwise(found_of):
            if one.seconds == other.seconds:
                first, second = sorted((one.line, other.line))
                expected = f"another time than line {first} of series {name}"
                file.wrong(second, "t", one.day, expected)
    file.close()
    return series
