"""One reader of history files, CSV with a header, and the format that `nightbench detect` judges.

Each format is a model of its rows, whose fields are the columns. The reader collects all that is
wrong with a file and reports it at once: file, line, column, the value found, what was expected.
"""

import csv
import io
import itertools
import json
import math
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from nightbench.core.errors import UserError
from nightbench.core.hours import in_utc
from nightbench.core.model import SLUG, HistoryPoint
from nightbench.core.printable import escaped, has_control_characters

SHOWN_PROBLEMS = 50

_NOTHING = frozenset({"", "nan", "null", "none", "na", "n/a"})
"""Cells without a value, besides NaN."""


class FileRow(BaseModel):
    """A row of a format; the description of a field says what its cells hold.

    A field without a default is a required column. A file may have more columns, unless the model
    forbids them.
    """


Row = TypeVar("Row", bound=FileRow)


def _printable(text: str) -> str:
    if not text.isprintable() and (has_control_characters(text) or "\n" in text or "\t" in text):
        raise ValueError("a control character")
    return text


def _name(text: str) -> str:
    if not SLUG.match(text):
        raise ValueError("no name")
    return text


Plain = Annotated[str, AfterValidator(_printable)]
"""Printable text on one line."""

PLAIN = "characters, none of them a control character"

Name = Annotated[
    str, AfterValidator(_name), Field(description="a name of letters, digits, `.`, `_` and `-`")
]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, description="a number above 0")]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False, description="a number from 0")]
Whole = Annotated[int, Field(ge=1, lt=2**31, description="a whole number from 1")]
"""`3.0` is one, as tables write it if other rows have none."""

UNKNOWN: Any = None
"""Default of a column that may be absent or empty."""


class HistoryFile:
    """Reads one file; `rows` yields its valid rows, `close` raises if anything was wrong."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            UserError: it cannot be read, or is no text in UTF-8.
        """
        self.path = path
        self._problems: list[str] = []
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
            raise UserError(f"{path}: is empty, expected CSV with a header")
        if self._content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
            raise UserError(f"{path}:1: found JSON, expected CSV with a header")
        # Read in parts: as one text, a large file takes several times its size in memory.
        stream = io.TextIOWrapper(io.BytesIO(self._content), encoding="utf-8-sig", newline="")
        self._reader = csv.reader(stream, strict=True)
        try:
            self.columns = tuple(name.strip() for name in next(self._reader, []))
        except csv.Error as error:
            raise UserError(f"{path}:1: found invalid CSV ({error}), expected a header") from error

    def rows(self, model: type[Row]) -> Iterator[tuple[int, Row]]:
        """Yield line and content of the valid rows, in the file's order.

        Raises:
            UserError: the header is not the format's, or there are no rows.
        """
        columns, required, line = model.model_fields, lacking(model, ()), 0
        for line, cells in self._cells(model):
            found = ((name, cells.get(name, "")) for name in columns)
            try:
                row = model.model_validate(
                    {name: x for name, x in found if name in required or not is_nothing(x)}
                )
            except ValidationError as error:
                for name in dict.fromkeys(str(each["loc"][0]) for each in error.errors()):
                    self.wrong(line, name, cells.get(name), columns[name].description or "")
                continue
            yield line, row
        if line == 0 and not self._problems:
            raise UserError(f"{self.path}: found no rows, expected at least one")

    def wrong(self, line: int, column: str, found: object, expected: str) -> None:
        """Add a problem with a cell."""
        self._problem(line, f"column {column}: found {shown(found)}, expected {expected}")

    def close(self) -> None:
        """Raise a UserError that lists all problems, if there are any."""
        if self._problems:
            unlisted = len(self._problems) - SHOWN_PROBLEMS
            more = [f"... and {unlisted} more"] if unlisted > 0 else []
            raise UserError("\n".join([*self._problems[:SHOWN_PROBLEMS], *more]))

    def _problem(self, line: int, said: str) -> None:
        self._problems.append(f"{self.path}:{line}: {said}")

    def _cells(self, model: type[FileRow]) -> Iterator[tuple[int, dict[str, str]]]:
        reader, header = self._reader, self.columns
        known = [name for name in header if name in model.model_fields]
        is_strict = model.model_config.get("extra") == "forbid"
        self._refuse("missing", lacking(model, header), model)
        self._refuse("unknown", sorted({*header} - {*known}) if is_strict else (), model)
        self._refuse("named twice", sorted({n for n in known if known.count(n) > 1}), model)
        begins = reader.line_num + 1
        try:
            for cells in reader:
                if len(cells) == len(header):
                    yield reader.line_num, dict(zip(header, map(str.strip, cells), strict=True))
                elif any(cell.strip() for cell in cells):
                    expected = f"{len(header)} as in the header"
                    self._problem(reader.line_num, f"found {len(cells)} cells, expected {expected}")
                begins = reader.line_num + 1
        except csv.Error as error:
            self._problem(begins, f"found invalid CSV ({error}), expected one row")

    def _refuse(self, what: str, names: Collection[str], model: type[FileRow]) -> None:
        if names:
            found = escaped(cut(", ".join(self.columns))) or "none"
            raise UserError(
                f"{self.path}:1: column {', '.join(map(repr, names))} {what}. Found columns: "
                f"{found}; expected columns: {', '.join(model.model_fields)}"
            )


def lacking(model: type[FileRow], found: Collection[str]) -> list[str]:
    """Return the required columns that were not found."""
    columns = model.model_fields.items()
    return [name for name, column in columns if column.is_required() and name not in found]


def is_nothing(cell: str) -> bool:
    """Return whether a cell is empty, or says that there is no value."""
    return cell.lower() in _NOTHING


def shown(found: object) -> str:
    """The found value, for messages."""
    if found is None or (isinstance(found, str) and not found.strip()):
        return "nothing"
    return escaped(cut(found if isinstance(found, str) else json.dumps(found, default=str)))


def cut(text: str) -> str:
    """A text of at most 60 characters, for messages."""
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- the format of `nightbench detect` ------------------------------------------------------

EARLIEST, LATEST = -6e10, 7.26e9
"""Unix times of the years 69 and 2200, between which all nights are."""

DAY_NUMBERS = (19_000_101, 22_000_101)
"""Dates written as YYYYMMDD; as Unix seconds they would be days of August and September 1970."""


def _instant(text: str) -> datetime:
    try:
        seconds = float(text)
    except ValueError:
        seconds = in_utc(datetime.fromisoformat(text)).timestamp()
    if seconds.is_integer() and DAY_NUMBERS[0] <= seconds < DAY_NUMBERS[1]:
        with suppress(ValueError):
            seconds = in_utc(datetime.fromisoformat(f"{seconds:.0f}")).timestamp()
    if not EARLIEST < seconds < LATEST:
        raise ValueError("a time of no calendar")
    return datetime.fromtimestamp(seconds, UTC)


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
