"""Content of the folder `sql/`: texts by path, operational statements by name."""

from functools import cache
from pathlib import Path
from typing import Any

import aiosql
from psycopg2.extras import RealDictCursor

from nightbench.core.errors import UserError
from nightbench.core.package_files import package_folder

SQL = package_folder("sql")


def text(relative: str) -> str:
    """The text of a file below `sql/`.

    Raises:
        UserError: the checkout or the installation is not whole.
    """
    path = SQL / relative
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _missing(path) from None


@cache
def queries() -> Any:
    """The statements of `sql/queries/*.sql` by name, with rows as dicts; docs/adr/0018 says why."""
    folder = SQL / "queries"
    # As one text: then aiosql refuses a name that two files define. By folder, the last one wins.
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql"))]
    if not texts:
        raise _missing(folder)
    return aiosql.from_str("\n".join(texts), "psycopg2", kwargs={"cursor_factory": RealDictCursor})


def _missing(path: Path) -> UserError:
    return UserError(
        f"{path}: not found, although this version of Nightbench needs it. Restore the file from "
        "the repository, or install the package again."
    )
