"""One reader of history files: CSV with a header, or one JSON object a line.

`nightbench detect` and `nightbench import` hand in their columns. All that is wrong with a file is
collected and told at once, each problem with file, line, column, what was found and what was
expected.
"""

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nightbench.core.errors import UserError
from nightbench.core.model import SLUG
from nightbench.core.printable import escaped, has_control_characters

SHOWN_PROBLEMS = 50

_SEEN = 1000
"""Cells of a column whose values are remembered."""

_NOTHING = frozenset({"nan", "null", "none", "na", "n/a"})
"""What tables write where they have no value, besides NaN."""


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

    def value_of(self, cell: Any) -> Any:
        """Return the value of a cell; None for an empty one.

        Raises:
            ValueError, OverflowError: it holds something else than expected.
        """
        may_lack = self.may_be_empty or not self.is_required
        if isinstance(cell, str):
            cell = cell.strip()
            if cell and not (may_lack and cell.lower() in _NOTHING):
                return self.parse(cell)
        elif cell is not None and not (may_lack and cell != cell):
            if isinstance(cell, bool) or not isinstance(cell, (int, float)):
                raise ValueError
            return self.parse(cell)
        if may_lack:
            return None
        raise ValueError


class Row(NamedTuple):
    """One row of a file."""

    line: int
    values: dict[str, Any]
    """By column; empty cells are left out."""


class HistoryFile:
    """Reads one file; `rows` yields its valid rows, `close` raises where anything was wrong.

    A file is JSON lines where it is named `*.jsonl` or begins with `{`, else CSV.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            UserError: it cannot be read, or is no text in UTF-8.
        """
        self.path = path
        self._problems: list[str] = []
        self._unlisted = 0
        try:
            self._content = path.read_bytes()
            self._content.decode("utf-8-sig")
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
        except UnicodeDecodeError as error:
            line = self._content.count(b"\n", 0, error.start) + 1
            raise UserError(
                f"{path}:{line}: byte {error.start} is not UTF-8, expected a text in UTF-8"
            ) from error
        if not self._content.strip(b"\xef\xbb\xbf \t\r\n"):
            raise UserError(f"{path}: is empty, expected CSV with a header, or JSON lines")
        self._is_json = path.suffix.lower() == ".jsonl"
        first = next(filter(None, (line.strip() for line in self._lines())), "")
        if not self._is_json and first.startswith("["):
            raise UserError(
                f"{path}:1: found a JSON list, expected CSV with a header, or a JSON object a line"
            )
        self._is_json = self._is_json or first.startswith("{")
        self.columns: tuple[str, ...] = self._names()
        """Names in the header, or keys of the first JSON object; none where that is broken."""

    def _lines(self) -> Iterator[str]:
        # As text at once, a large file takes several times its size.
        return io.TextIOWrapper(io.BytesIO(self._content), encoding="utf-8-sig", newline="")

    def _names(self) -> tuple[str, ...]:
        if not self._is_json:
            try:
                return tuple(self._header(csv.reader(self._lines(), strict=True)))
            except csv.Error as error:
                raise UserError(
                    f"{self.path}:1: found what is no CSV ({error}), expected a header"
                ) from error
        for line in self._lines():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                return tuple(row)
        return ()

    def rows(self, columns: Mapping[str, Column], *, others: bool) -> Iterator[Row]:
        """The valid rows, in the file's order.

        Columns that the format does not know are left alone with `others`, else refused.

        Raises:
            UserError: the header is not the format's, or there are no rows.
        """
        rows = self._json_rows if self._is_json else self._csv_rows
        present = [name for name in columns if self._is_json or name in self.columns]
        # Most cells of most columns have few values: those seen first are parsed once.
        plan: list[tuple[str, Column, dict[str, Any]]]
        plan = [(name, columns[name], {}) for name in present]
        line = 0
        for line, cells in rows(columns, present, others):
            values, is_right = {}, True
            for (name, column, seen), cell in zip(plan, cells, strict=True):
                is_text = isinstance(cell, str)
                value = seen.get(cell, seen) if is_text else seen
                if value is seen:
                    try:
                        value = column.value_of(cell)
                    except (ValueError, OverflowError):
                        self.wrong(line, name, cell, column.expected)
                        is_right = False
                        continue
                    if is_text and len(seen) < _SEEN:
                        seen[cell] = value
                if value is not None:
                    values[name] = value
            if is_right:
                yield Row(line, values)
        if line == 0 and not self._problems:
            raise UserError(f"{self.path}: found no rows, expected at least one")

    def wrong(self, line: int, column: str, found: object, expected: str) -> None:
        """Add a problem with a cell."""
        self._problem(line, f"column {column}: found {shown(found)}, expected {expected}")

    def close(self) -> None:
        """Raise a UserError that lists all problems, if there are any."""
        if self._problems:
            more = [f"... and {self._unlisted} more"] if self._unlisted else []
            raise UserError("\n".join([*self._problems, *more]))

    def _problem(self, line: int, said: str) -> None:
        if len(self._problems) < SHOWN_PROBLEMS:
            self._problems.append(f"{self.path}:{line}: {said}")
        else:
            self._unlisted += 1

    def _csv_rows(
        self, columns: Mapping[str, Column], present: Sequence[str], others: bool
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        reader = csv.reader(self._lines(), strict=True)
        begins = 1
        try:
            header = self._header(reader)
            self._check(header, columns, others)
            places = [header.index(name) for name in present]
            begins = reader.line_num + 1
            for cells in reader:
                if len(cells) == len(header):
                    yield reader.line_num, [cells[place] for place in places]
                elif any(cell.strip() for cell in cells):
                    self._problem(
                        reader.line_num,
                        f"found {len(cells)} cells, expected {len(header)} as in the header",
                    )
                begins = reader.line_num + 1
        except csv.Error as error:
            self._problem(begins, f"found what is no CSV ({error}), expected one row")

    @staticmethod
    def _header(reader: Any) -> list[str]:
        return [name.strip() for name in next(reader, [])]

    def _check(self, header: list[str], columns: Mapping[str, Column], others: bool) -> None:
        found = {
            "missing": lacking(columns, header),
            "unknown": [] if others else [name for name in header if name not in columns],
            "named twice": sorted({n for n in header if n in columns and header.count(n) > 1}),
        }
        for what, names in found.items():
            if names:
                self._refuse(1, what, names, columns)

    def _refuse(
        self, line: int, what: str, names: Iterable[str], columns: Mapping[str, Column]
    ) -> None:
        listed = ", ".join(map(repr, names))
        found = escaped(cut(", ".join(self.columns))) or "none"
        if len(self.columns) == 1 and any(mark in self.columns[0] for mark in ";\t"):
            found = f"{found} (columns have commas between them)"
        raise UserError(
            f"{self.path}:{line}: column {listed} {what}. Found columns: {found}; "
            f"expected columns: {', '.join(columns)}"
        )

    def _json_rows(
        self, columns: Mapping[str, Column], present: Sequence[str], others: bool
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        required = lacking(columns, ())
        if self.columns and lacking(columns, self.columns) == required:
            self._refuse(1, "missing", required, columns)
        for line, content in enumerate(self._lines(), start=1):
            if content.isspace():
                continue
            try:
                row = json.loads(content)
            except (ValueError, RecursionError) as error:
                why = (
                    f"{error.msg}, column {error.colno}"
                    if isinstance(error, json.JSONDecodeError)
                    else error
                )
                self._problem(line, f"found what is no JSON ({why}), expected one JSON object")
                continue
            if not isinstance(row, dict):
                self._problem(line, f"found {shown(row)}, expected one JSON object a line")
            elif unknown := [] if others else sorted(row.keys() - columns.keys()):
                self._problem(line, f"column {', '.join(map(repr, unknown))} unknown")
            else:
                yield line, [row.get(name) for name in present]


def lacking(columns: Mapping[str, Column], found: Collection[str]) -> list[str]:
    """Return the required columns that were not found."""
    return [name for name, each in columns.items() if each.is_required and name not in found]


def text(expected: str, *, required: bool = False, longest: int = 200) -> Column:
    """A column of printable text on one line; the same text of several rows is one object."""

    def parse(cell: Any) -> str:
        value = str(cell)
        is_plain = value.isprintable() or not (
            has_control_characters(value) or "\n" in value or "\t" in value
        )
        if not is_plain or len(value) > longest:
            raise ValueError
        return sys.intern(value)

    plain = f"{expected} of at most {longest} characters, none of them a control character"
    return Column(parse, plain, required)


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
    if found is None or (isinstance(found, str) and not found.strip()):
        return "nothing"
    return escaped(cut(found if isinstance(found, str) else json.dumps(found, default=str)))


def cut(text: str) -> str:
    """A text of at most 60 characters, for messages."""
    return text if len(text) <= 60 else f"{text[:57]}..."
