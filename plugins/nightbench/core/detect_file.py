"""Format of the files whose histories `nightbench detect` judges."""

import itertools
import math
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator, Field

from nightbench.core.history_file import (
    PLAIN,
    UNKNOWN,
    FileRow,
    HistoryFile,
    NotNegative,
    Plain,
    Positive,
    Whole,
    is_nothing,
)
from nightbench.core.model import HistoryPoint

EARLIEST, LATEST = -6e10, 7.26e9
"""Unix times of the years 69 and 2200, between which all nights are."""

DAY_NUMBERS = (19_000_101, 22_000_101)
"""Dates written as YYYYMMDD; as Unix seconds they would be days of August and September 1970."""


def _instant(text: str) -> datetime:
    try:
        seconds = float(text)
    except ValueError:
        seconds = _date_seconds(text)
    if seconds.is_integer() and DAY_NUMBERS[0] <= seconds < DAY_NUMBERS[1]:
        with suppress(ValueError):
            seconds = _date_seconds(f"{seconds:.0f}")
    if not EARLIEST < seconds < LATEST:
        raise ValueError("a time of no calendar")
    return datetime.fromtimestamp(seconds, UTC)


def _date_seconds(text: str) -> float:
    date = datetime.fromisoformat(text)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _missing(cell: str) -> str | None:
    return None if is_nothing(cell) else cell


class DetectRow(FileRow):
    """One night of one series."""

    series: Annotated[
        Plain,
        Field(
            min_length=1,
            max_length=1000,
            description=f"the name of a series of at most 1000 {PLAIN}",
        ),
    ]
    t: Annotated[
        datetime,
        BeforeValidator(_instant),
        Field(description="Unix seconds or an ISO 8601 date up to 2200"),
    ]
    value: Annotated[
        Positive | None,
        BeforeValidator(_missing),
        Field(description="a number above 0, or nothing"),
    ]
    n: Whole = UNKNOWN
    spread: NotNegative = UNKNOWN
    fingerprint: Annotated[
        Plain, Field(max_length=1000, description=f"a text of at most 1000 {PLAIN}")
    ] = UNKNOWN
    control: Positive = UNKNOWN


def read_nights(file: HistoryFile) -> dict[str, list[HistoryPoint]]:
    """Return the nights of each series of a file, oldest first; missing ones with the value NaN.

    Raises:
        UserError: the file lacks a column, or cells are invalid; each problem names file, line,
            column, the value found and what was expected.
    """
    series: dict[str, list[tuple[datetime, int, HistoryPoint]]] = {}
    for line, row in file.rows(DetectRow):
        point = HistoryPoint(
            row.t,
            math.nan if row.value is None else row.value,
            n=row.n,
            spread=row.spread,
            fingerprint_id=row.fingerprint,
            control=row.control,
        )
        series.setdefault(row.series, []).append((row.t, line, point))
    for name, nights in series.items():
        nights.sort()
        for (at, first, _), (other, line, _) in itertools.pairwise(nights):
            if at == other:
                expected = f"another time than line {first} of series {name}"
                file.wrong(line, "t", f"{at:%Y-%m-%d}", expected)
    file.close()
    return {name: [point for *_, point in nights] for name, nights in series.items()}
