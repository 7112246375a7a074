"""SQL text by name: `statement("store_run")` is the file `sql/queries/store_run.sql`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from nightbench.core.errors import UserError

SQL = Path(__file__).resolve().parents[3] / "sql"
"""The folder `sql/` of the checkout that the package lies in."""


def text(relative: str) -> str:
    """The text of a file below `sql/`.

    Raises:
        UserError: the checkout is not whole.
    """
    path = SQL / relative
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(
            f"{path}: not found, although this version of Nightbench needs it. The folder sql/ "
            "has to lie beside plugins/; restore it from the repository."
        ) from None


@cache
def statement(name: str) -> str:
    """A parameterised statement (`%(name)s`) from `sql/queries/`."""
    return text(f"queries/{name}.sql")
