"""One reader of history files: CSV with a header, or one JSON object a line.

Each format is a model of its rows, whose fields are the columns. The reader collects all that is
wrong with a file and reports it at once: file, line, column, the value found, what was expected.
"""

import csv
import io
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from nightbench.core.errors import UserError
from nightbench.core.model import SLUG
from nightbench.core.printable import escaped, has_control_characters

SHOWN_PROBLEMS = 50

_NOTHING = frozenset({"", "nan", "null", "none", "na", "n/a"})
"""Cells without a value, besides NaN."""


class FileRow(BaseModel):
    """A row of a format; the description of a field says what its cells hold.

    A field without a default is a required column. A file may have more columns, unless the model
    forbids them.
    """

    model_config = ConfigDict(coerce_numbers_to_str=True, str_strip_whitespace=True)

    @field_validator("*", mode="before")
    @classmethod
    def _cell(cls, cell: Any) -> Any:
        if isinstance(cell, bool):
            raise ValueError("pydantic takes a boolean for a number")
        return cell.strip() if isinstance(cell, str) else cell


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
    """Reads one file; `rows` yields its valid rows, `close` raises if anything was wrong.

    A file is JSON lines if it is named `*.jsonl` or begins with `{`, else CSV.
    """

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
            raise UserError(f"{path}: is empty, expected CSV with a header, or JSON lines")
        self._is_json = path.suffix.lower() == ".jsonl"
        first = next(filter(None, (line.strip() for line in self._lines())), "")
        self._is_json = self._is_json or first.startswith("{")
        self.columns: tuple[str, ...] = self._names()
        """Names in the header, or keys of the first JSON object; none if that is broken."""

    def _lines(self) -> Iterator[str]:
        # Read in parts: as one text, a large file takes several times its size in memory.
        return io.TextIOWrapper(io.BytesIO(self._content), encoding="utf-8-sig", newline="")

    def _names(self) -> tuple[str, ...]:
        if not self._is_json:
            try:
                header = next(csv.reader(self._lines(), strict=True), [])
                return tuple(name.strip() for name in header)
            except csv.Error as error:
                raise UserError(
                    f"{self.path}:1: found invalid CSV ({error}), expected a header"
                ) from error
        for line in self._lines():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                return tuple(row)
        return ()

    def rows(self, model: type[Row]) -> Iterator[tuple[int, Row]]:
        """Yield line and content of the valid rows, in the file's order.

        Raises:
            UserError: the header is not the format's, or there are no rows.
        """
        columns, required, line = model.model_fields, lacking(model, ()), 0
        for line, cells in self._json_rows(model) if self._is_json else self._csv_rows(model):
            found = ((name, cells.get(name)) for name in columns)
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

    def _csv_rows(self, model: type[FileRow]) -> Iterator[tuple[int, dict[str, Any]]]:
        reader = csv.reader(self._lines(), strict=True)
        begins = 1
        try:
            next(reader, None)
            header = self.columns
            known = [name for name in header if name in model.model_fields]
            self._refuse("missing", lacking(model, header), model)
            self._refuse("unknown", _unknown(model, header), model)
            self._refuse("named twice", sorted({n for n in known if known.count(n) > 1}), model)
            begins = reader.line_num + 1
            for cells in reader:
                if len(cells) == len(header):
                    yield reader.line_num, dict(zip(header, cells, strict=True))
                elif any(cell.strip() for cell in cells):
                    expected = f"{len(header)} as in the header"
                    self._problem(reader.line_num, f"found {len(cells)} cells, expected {expected}")
                begins = reader.line_num + 1
        except csv.Error as error:
            self._problem(begins, f"found invalid CSV ({error}), expected one row")

    def _refuse(self, what: str, names: Collection[str], model: type[FileRow]) -> None:
        if not names:
            return
        found = escaped(cut(", ".join(self.columns))) or "none"
        raise UserError(
            f"{self.path}:1: column {', '.join(map(repr, names))} {what}. Found columns: {found}; "
            f"expected columns: {', '.join(model.model_fields)}"
        )

    def _json_rows(self, model: type[FileRow]) -> Iterator[tuple[int, dict[str, Any]]]:
        required = lacking(model, ())
        if self.columns and lacking(model, self.columns) == required:
            self._refuse("missing", required, model)
        for line, content in enumerate(self._lines(), start=1):
            if content.isspace():
                continue
            try:
                row = json.loads(content)
            except (ValueError, RecursionError) as error:
                self._problem(line, f"found invalid JSON ({error}), expected one JSON object")
                continue
            if not isinstance(row, dict):
                self._problem(line, f"found {shown(row)}, expected one JSON object a line")
            elif unknown := _unknown(model, row):
                self._problem(line, f"column {', '.join(map(repr, unknown))} unknown")
            else:
                yield line, row


def lacking(model: type[FileRow], found: Collection[str]) -> list[str]:
    """Return the required columns that were not found."""
    columns = model.model_fields.items()
    return [name for name, column in columns if column.is_required() and name not in found]


def _unknown(model: type[FileRow], found: Collection[str]) -> list[str]:
    forbidden = model.model_config.get("extra") == "forbid"
    return sorted(name for name in found if forbidden and name not in model.model_fields)


def is_nothing(cell: object) -> bool:
    """Return whether a cell is empty, or says that there is no value."""
    if isinstance(cell, str):
        return cell.strip().lower() in _NOTHING
    return cell is None or cell != cell


def shown(found: object) -> str:
    """The found value, for messages."""
    if found is None or (isinstance(found, str) and not found.strip()):
        return "nothing"
    return escaped(cut(found if isinstance(found, str) else json.dumps(found, default=str)))


def cut(text: str) -> str:
    """A text of at most 60 characters, for messages."""
    return text if len(text) <= 60 else f"{text[:57]}..."
