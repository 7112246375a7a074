"""The published values and empty cells of the public benchmarks, from `sql/references/`."""

import csv
import hashlib
import json
from pathlib import Path

from nightbench.core.errors import UserError
from nightbench.warehouse import statements
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.repository import Repository

FILES = ("published_results.csv", "empty_cells.csv", "language_models.csv")


def load_references(connection: Connection, folder: Path | None = None) -> int:
    """Store the reference cells in the original's words; `staging.reference_result` maps them.

    In a transaction of the caller's, whose role may load.

    Returns:
        How many cells were new or different: 0 when it is called again.
    """
    rows = reference_rows(folder or statements.SQL / "references")
    return Repository(connection)._store("reference_result", rows, "reference_id")


def reference_rows(folder: Path) -> list[dict[str, str | float | None]]:
    """Return the rows of all files; one damaged file refuses them all.

    Raises:
        UserError: a file cannot be read; names it.
    """
    return [row for name in FILES for row in _read(folder / name)]


def _read(path: Path) -> list[dict[str, str | float | None]]:
    try:
        text = path.read_text(encoding="utf-8")
        table = csv.DictReader(text.splitlines(), strict=True)
        rows = [_row(f"{path}:{line}", cells) for line, cells in enumerate(table, start=2)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    if not rows or not text.endswith("\n"):
        raise UserError(f"{path}: is cut off; expected lines with one cell for each column")
    return rows


def _row(place: str, cells: dict[str, str]) -> dict[str, str | float | None]:
    if None in (*cells, *cells.values()) or "value" not in cells:
        raise UserError(f"{place}: expected one cell for each column, and a column named value")
    # The identity of a cell without its value: a corrected value keeps the identity.
    described = {k: v for k, v in cells.items() if k not in ("value", "remark")}
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
    try:
        value = float(cells["value"]) if cells["value"] else None
    except ValueError:
        raise UserError(
            f"{place}: column value: found {cells['value']!r}, expected a number"
        ) from None
    return {**cells, "value": value, "reference_id": digest}
