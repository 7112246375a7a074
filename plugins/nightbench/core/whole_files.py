"""Files on this machine that are whole or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nightbench.core.errors import UserError


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield the path of a new file that takes the place of `path` once it is whole.

    Raises:
        UserError: it cannot be written; what was there before stays.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield beside
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error
