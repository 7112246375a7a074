"""One reader of history files: CSV with a header, or one JSON object a line (`*.jsonl`).

`nightbench detect` and `nightbench import` hand in their columns. All that is wrong with a file is
collected and told at once, each problem with file, line, column, what was found and what was
expected.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import SLUG

SHOWN_PROBLEMS = 50


@dataclass(frozen=True)
class Column:
    """A column of a format."""

    parse: Callable[[Any], Any]
    """Value of a cell, which is text or a number; raises ValueError where it is none."""
    expected: str
    """What a cell holds, for messages."""
    is_required: bool = False
    """The file has to have the column."""
    may_be_empty: bool = False
    """A required column's cell may be empty."""


@dataclass(frozen=True)
class Row:
    """One row of a file."""

    line: int
    cells: Mapping[str, Any]
    """As found, by column."""
    values: Mapping[str, Any]
    """As parsed, by column; empty cells are left out."""


class HistoryFile:
    """Reads one file; `rows` yields its valid rows, `close` raises where anything was wrong."""

    def __init__(self, path: Path, columns: Mapping[str, Column], *, others: bool) -> None:
        """`others`: columns that the format does not know are left alone, else refused."""
        self.path = path
        self._columns = columns
        self._others = others
        self._problems: list[str] = []

    def rows(self) -> Iterator[Row]:
        """The valid rows, in the file's order.

        Raises:
            UserError: the file cannot be read, or its header is not the format's.
        """
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"{self.path}: cannot be read ({reason}).") from error
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self.path}: byte {error.start} is not UTF-8, expected a text in UTF-8"
            ) from error
        is_json = self.path.suffix.lower() == ".jsonl"
        is_empty = True
        for line, cells in self._json_lines(text) if is_json else self._csv_lines(text):
            is_empty = False
            values = self._values(line, cells)
            if values is not None:
                yield Row(line, cells, values)
        if is_empty and not self._problems:
            raise UserError(f"{self.path}: found no rows, expected at least one")

    def wrong(self, line: int, column: str, found: object, expected: str) -> None:
        """Add a problem with a cell."""
        self._problem(line, f"column {column}: found {shown(found)}, expected {expected}")

    def close(self) -> None:
        """Raise a UserError that lists all problems, if there are any."""
        if self._problems:
            listed = self._problems[:SHOWN_PROBLEMS]
            if len(self._problems) > len(listed):
                listed.append(f"... and {len(self._problems) - len(listed)} more")
            raise UserError("\n".join(listed))

    def _problem(self, line: int, said: str) -> None:
        self._problems.append(f"{self.path}:{line}: {said}")

    def _values(self, line: int, cells: Mapping[str, Any]) -> dict[str, Any] | None:
        values, before = {}, len(self._problems)
        for name, column in self._columns.items():
            cell = cells.get(name)
            is_optional = column.may_be_empty or not column.is_required
            if _is_blank(cell) or (is_optional and _is_nothing(cell)):
                if not is_optional:
                    self.wrong(line, name, cell, column.expected)
                continue
            try:
                if isinstance(cell, bool) or not isinstance(cell, str | int | float):
                    raise ValueError
                values[name] = column.parse(cell.strip() if isinstance(cell, str) else cell)
            except (ValueError, OverflowError):
                self.wrong(line, name, cell, column.expected)
        return values if len(self._problems) == before else None

    def _csv_lines(self, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        try:
            header = [name.strip() for name in next(reader, [])]
            self._check(header)
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) == len(header):
                    yield reader.line_num, dict(zip(header, cells, strict=True))
                else:
                    self._problem(
                        reader.line_num,
                        f"found {len(cells)} cells, expected {len(header)} as in the header",
                    )
        except csv.Error as error:
            self._problem(reader.line_num, f"found what is no CSV ({error}), expected one row")

    def _check(self, header: list[str]) -> None:
        known = self._columns
        required = [name for name, column in known.items() if column.is_required]
        found = {
            "missing": [name for name in required if name not in header],
            "unknown": [] if self._others else [name for name in header if name not in known],
            "named twice": sorted({n for n in header if n in known and header.count(n) > 1}),
        }
        for what, names in found.items():
            if names:
                raise UserError(
                    f"{self.path}:1: column {', '.join(map(repr, names))} {what}. Found columns: "
                    f"{', '.join(header) or 'none'}; expected columns: {', '.join(known)}"
                )

    def _json_lines(self, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for line, content in enumerate(text.split("\n"), start=1):
            if not content.strip():
                continue
            try:
                row = json.loads(content)
            except (ValueError, RecursionError) as error:
                self._problem(line, f"found what is no JSON ({error}), expected one JSON object")
                continue
            if not isinstance(row, dict):
                self._problem(line, f"found {shown(row)}, expected one JSON object a line")
            elif unknown := [] if self._others else sorted(row.keys() - self._columns.keys()):
                self._problem(line, f"column {', '.join(map(repr, unknown))} unknown")
            else:
                yield line, row


def text(expected: str, *, required: bool = False) -> Column:
    """A column of any text."""
    return Column(str, expected, required)


def slug(*, required: bool = False) -> Column:
    """A column of names."""

    def parse(cell: Any) -> str:
        if not SLUG.match(str(cell)):
            raise ValueError
        return str(cell)

    return Column(parse, "a name of letters, digits, `.`, `_` and `-`", required)


def one_of(values: Iterable[str], *, required: bool = False) -> Column:
    """A column of some words."""
    words = tuple(values)

    def parse(cell: Any) -> str:
        if cell not in words:
            raise ValueError
        return str(cell)

    return Column(parse, f"one of {', '.join(words)}", required)


def number(
    smallest: float, *, exclusive: bool = False, required: bool = False, may_be_empty: bool = False
) -> Column:
    """A column of finite numbers from `smallest` on, or above it."""

    def parse(cell: Any) -> float:
        value = float(cell)
        if not math.isfinite(value) or value < smallest or (exclusive and value == smallest):
            raise ValueError
        return value

    expected = f"a number {'above' if exclusive else 'from'} {smallest:g}"
    if may_be_empty:
        expected = f"{expected}, or nothing"
    return Column(parse, expected, required, may_be_empty)


def whole(smallest: int) -> Column:
    """A column of whole numbers; `3.0` is one, as tables write it where other rows have none."""

    def parse(cell: Any) -> int:
        value = float(cell)
        if not value.is_integer() or not smallest <= value < 2**31:
            raise ValueError
        return int(value)

    return Column(parse, f"a whole number from {smallest}")


def shown(found: object) -> str:
    """What was found, for messages."""
    if _is_blank(found):
        return "nothing"
    text = found if isinstance(found, str) else json.dumps(found, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_blank(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _is_nothing(cell: object) -> bool:
    """What tables write where they have no value."""
    return (isinstance(cell, float) and math.isnan(cell)) or (
        isinstance(cell, str) and cell.strip().lower() in ("nan", "null")
    )
