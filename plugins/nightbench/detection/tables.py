"""Histories from files: CSV with a header, or one JSON object a line."""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nightbench.core.errors import UserError

REQUIRED = ("series", "t", "value")
OPTIONAL = ("n", "spread", "fingerprint", "control")


@dataclass(frozen=True)
class Night:
    """One row of a file."""

    seconds: float
    """Unix time."""
    value: float | None
    """None for a missing night."""
    n: int | None = None
    spread: float | None = None
    """(maximum - minimum) / median of the night's repeats."""
    fingerprint: str | None = None
    control: float | None = None
    """The same night's control measurement of the same nodes; higher is better."""
    line: int = 0

    @property
    def day(self) -> str:
        """The date, UTC."""
        return f"{datetime.fromtimestamp(self.seconds, UTC):%Y-%m-%d}"


def read_nights(path: Path) -> dict[str, list[Night]]:
    """Nights by series, oldest first, from a `.csv` or `.jsonl` file.

    Raises:
        UserError: the file cannot be read, lacks a column, or a cell is not what it should be;
            the message names file, line, column, what was found and what was expected.
    """
    rows = {".csv": _csv_rows, ".jsonl": _jsonl_rows}.get(path.suffix.lower())
    if rows is None:
        raise UserError(f"{path}: found a file named *{path.suffix}, expected *.csv or *.jsonl")
    series: dict[str, list[Night]] = {}
    try:
        for line, row in rows(path):
            place = f"{path}:{line}"
            name = row.get("series")
            if not isinstance(name, str) or not name.strip():
                raise _wrong(place, "series", name, "the name of a series")
            series.setdefault(name, []).append(_night(place, line, row))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    if not series:
        raise UserError(f"{path}: found no rows, expected at least one night")
    for name, nights in series.items():
        nights.sort(key=lambda night: night.seconds)
        for one, other in itertools.pairwise(nights):
            if one.seconds == other.seconds:
                raise _wrong(
                    f"{path}:{max(one.line, other.line)}",
                    "t",
                    one.day,
                    f"another time than line {min(one.line, other.line)} of series {name}",
                )
    return series


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        header = [name.strip() for name in reader.fieldnames or []]
        for name in REQUIRED:
            if name not in header:
                raise _wrong(
                    f"{path}:1", name, ", ".join(header) or "an empty line", f"the column {name}"
                )
        for name in (*REQUIRED, *OPTIONAL):
            if header.count(name) > 1:
                raise _wrong(f"{path}:1", name, f"it {header.count(name)} times", "it once")
        reader.fieldnames = header
        try:
            for row in reader:
                cells = sum(row[name] is not None for name in set(header)) + len(row.get(None, ()))
                if cells != len(set(header)):
                    raise UserError(
                        f"{path}:{reader.line_num}: found {cells} cells, "
                        f"expected {len(header)} as in the header"
                    )
                yield reader.line_num, row
        except csv.Error as error:
            raise UserError(
                f"{path}:{reader.line_num}: found what is no CSV ({error}), expected one row"
            ) from error


def _jsonl_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise UserError(
                    f"{path}:{number}: found what is no JSON ({error}), expected one JSON object"
                ) from error
            if not isinstance(row, dict):
                raise UserError(
                    f"{path}:{number}: found {_shown(row)}, expected one JSON object a line"
                )
            yield number, row


def _night(place: str, line: int, row: Mapping[str, Any]) -> Night:
    value = _number(place, "value", row.get("value"), "a number above 0, or nothing")
    if value is not None and value <= 0:
        raise _wrong(
            place, "value", row["value"], "a number above 0, or nothing for a missing night"
        )
    n = _number(place, "n", row.get("n"), "a whole number from 1 on, or nothing")
    if n is not None and (n < 1 or n != int(n)):
        raise _wrong(place, "n", row["n"], "a whole number from 1 on, or nothing")
    spread = _number(place, "spread", row.get("spread"), "a number from 0 on, or nothing")
    if spread is not None and spread < 0:
        raise _wrong(place, "spread", row["spread"], "a number from 0 on, or nothing")
    control = _number(place, "control", row.get("control"), "a number above 0, or nothing")
    if control is not None and control <= 0:
        raise _wrong(place, "control", row["control"], "a number above 0, or nothing")
    fingerprint = row.get("fingerprint")
    return Night(
        seconds=_seconds(place, row.get("t")),
        value=value,
        n=None if n is None else int(n),
        spread=spread,
        fingerprint=None if fingerprint in (None, "") else str(fingerprint),
        control=control,
        line=line,
    )


def _number(place: str, column: str, cell: object, expected: str) -> float | None:
    """A finite number, or None where the cell is empty or says NaN or null."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in ("", "nan", "null")):
        return None
    if isinstance(cell, bool) or not isinstance(cell, (str, int, float)):
        raise _wrong(place, column, cell, expected)
    try:
        number = float(cell)
    except (ValueError, OverflowError) as error:
        raise _wrong(place, column, cell, expected) from error
    if math.isnan(number):
        return None
    if math.isinf(number):
        raise _wrong(place, column, cell, expected)
    return number


def _seconds(place: str, cell: object) -> float:
    expected = "Unix seconds or an ISO 8601 date"
    try:
        seconds = _number(place, "t", cell, expected)
    except UserError:
        seconds = None
        if isinstance(cell, str):
            try:
                date = datetime.fromisoformat(cell.strip())
            except ValueError as error:
                raise _wrong(place, "t", cell, expected) from error
            seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if seconds is None or not -6e10 < seconds < 2.5e11:
        raise _wrong(place, "t", cell, expected)
    return seconds


def _wrong(place: str, column: str, found: object, expected: str) -> UserError:
    return UserError(f"{place}: column {column}: found {_shown(found)}, expected {expected}")


def _shown(cell: object) -> str:
    if cell is None or cell == "":
        return "nothing"
    text = cell if isinstance(cell, str) else json.dumps(cell, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
