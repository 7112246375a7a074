"""Files on this machine that are whole or not there."""

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nightbench.core.errors import ItemErrors, UserError


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield the path of a new file that becomes `path` by rename, or is taken away again."""
    new = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        yield new
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def remove_older(paths: Iterable[Path], oldest: float) -> int:
    """Remove files and empty folders last written before a time; return how many files.

    A folder comes after its content. Paths that cannot be removed are named in the log.
    """
    removed, errors = 0, ItemErrors()
    for path in sorted(paths, key=lambda path: len(path.parts), reverse=True):
        with errors.of(f"{path} is not removed"):
            if path.lstat().st_mtime >= oldest:
                continue
            if not path.is_dir():
                path.unlink(missing_ok=True)
                removed += 1
            elif not path.is_symlink() and not any(path.iterdir()):
                path.rmdir()
    return removed


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield the path of a new file that takes the place of `path` once it is whole.

    Raises:
        UserError: it cannot be written; what was there before stays.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as new:
            yield new
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error
