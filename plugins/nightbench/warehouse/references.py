"""The published values and empty cells of the public benchmarks, from `sql/references/`."""

import csv
import hashlib
import json
from collections.abc import Collection
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
    place = folder or statements.SQL / "references"
    rows = [row for name in FILES for row in _read(place / name)]
    return Repository(connection)._store("reference_result", rows, "reference_id")


def published_figures(document: str, figures: Collection[str]) -> list[dict[str, str]]:
    """Return the cells of a public benchmark's values, in its own words; some have no value."""
    texts = [(statements.SQL / "references" / name).read_text(encoding="utf-8") for name in FILES]
    rows = [row for text in texts for row in csv.DictReader(text.splitlines())]
    return [row for row in rows if row["source"] == document and row["figure"] in figures]


def _read(path: Path) -> list[dict[str, str | float | None]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UserError(f"{path}: not found; the folder sql/ has to be whole.") from None
    rows: list[dict[str, str | float | None]] = []
    for number, cells in enumerate(csv.DictReader(lines), start=2):
        # What a cell is, apart from what it says: a corrected value keeps its identity.
        described = {k: v for k, v in cells.items() if k not in ("value", "remark")}
        identity = json.dumps(described, sort_keys=True)
        try:
            value = float(cells["value"]) if cells["value"] else None
        except ValueError:
            raise UserError(
                f"{path}:{number}: column value: found {cells['value']!r}, expected a number"
            ) from None
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        rows.append({**cells, "value": value, "reference_id": digest})
    return rows
