"""Documents as files: written whole, read whole, on a disk or in an object store."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from upath import UPath

from nightbench.core.atomic_files import atomic_file
from nightbench.core.complaints import describe
from nightbench.core.errors import ItemErrors, UserError
from nightbench.core.model import SLUG

Document = dict[str, Any]


class SpoolError(UserError):
    """A document that cannot be read or written, or a name that is no path component."""


class DamagedDocument(SpoolError):
    """A file whose content is not the document that was written; reading again does not help."""


@contextmanager
def of_this_version(path: UPath) -> Iterator[None]:
    """Turn what a plan of another version lacks, or has too much, into a sentence.

    Raises:
        DamagedDocument: a field is missing, unknown, or holds what this version does not know.
    """
    try:
        yield
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise DamagedDocument(
            f"{path}: planned by another version of Nightbench and not readable by this one "
            f"({type(error).__name__}: {error}). Start a new run"
        ) from error


@contextmanager
def _store_errors(path: UPath) -> Iterator[None]:
    """Turn errors of an object store's library into one sentence."""
    try:
        yield
    except (OSError, UserError):
        raise
    except Exception as error:
        if is_local(path):
            raise
        raise SpoolError(
            f"{path}: the object store of the spool failed: {type(error).__name__}: {error}. "
            "Check NIGHTBENCH_SPOOL and the store's address and credentials in the environment"
        ) from error


def write_json(path: UPath, document: object, lasting: bool = True) -> None:
    """Write a document so that readers see all of it or the one before.

    A lasting one is on the disk before this returns, so that a power cut leaves no empty file.

    Raises:
        SpoolError: the disk is full, or it may not be written.
    """
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode(), lasting)


def write_bytes(path: UPath, content: bytes, lasting: bool = True) -> None:
    """Write a file so that readers see all of it or the one before; see `write_json`."""
    try:
        with _store_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        if is_local(path):
            with atomic_stream(path, lasting) as stream:
                stream.write(content)
        else:
            with _store_errors(path):
                path.write_bytes(content)
    except OSError as error:
        raise SpoolError(
            f"{path}: cannot be written: {error.strerror or error}. Make room or grant write "
            "access, then continue: ended jobs are fetched from the nodes again."
        ) from error


@contextmanager
def atomic_stream(path: UPath, lasting: bool = True) -> Iterator[IO[bytes]]:
    """Open a file of a local disk to write it; it appears whole, or not at all."""
    with atomic_file(Path(path.path)) as new, new.open("wb") as stream:
        yield stream
        if lasting:
            stream.flush()
            os.fsync(stream.fileno())


def read_bytes(path: UPath) -> bytes | None:
    """The content of a file, or None if there is none."""
    try:
        if is_local(path):
            return bytes(path.read_bytes())
        with _store_errors(path):
            # In one request: reading in blocks fails if the file is written between two blocks.
            return bytes(path.fs.cat_file(path.path))
    except FileNotFoundError:
        return None


def read_json(path: UPath) -> Document | None:
    """The document, or None if there is none.

    Raises:
        SpoolError: the file cannot be read.
        DamagedDocument: it is not JSON, or JSON of another kind.
    """
    found: Document | None = _read(path, dict)
    return found


def read_list(path: UPath) -> list[Document]:
    """The documents of a list, which is empty if there is no file; see `read_json`."""
    return _read(path, list) or []


def _read(path: UPath, kind: type[Any]) -> Any:
    try:
        content = read_bytes(path)
        if content is None:
            return None
        document = json.loads(content)
    except IsADirectoryError as error:
        raise DamagedDocument(f"{path}: found a folder; expected a JSON document") from error
    except OSError as error:
        raise SpoolError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DamagedDocument(
            f"{path}: not a JSON document ({error}). Remove the file: its content is measured or "
            "fetched again if possible."
        ) from error
    if not isinstance(document, kind):
        found = describe(document)
        raise DamagedDocument(f"{path}: found {found}; expected {describe(kind())} of JSON")
    return document


def read_or_none(path: UPath) -> Document | None:
    """A document for a view; None, and a line in the log, if it is damaged."""
    document: Document | None = None
    with ItemErrors().of("passed over"):
        document = read_json(path)
    return document


def is_local(path: UPath) -> bool:
    """Whether a path is on a disk of this machine."""
    return path.protocol in ("", "file", "local")


def component(name: str, what: str) -> str:
    """A name that may be a path component; raises SpoolError if it may not."""
    if not SLUG.match(name):
        raise SpoolError(f"{what} {name!r} cannot be a path component: expected {SLUG.pattern}")
    return name


def entries(folder: UPath) -> Iterator[UPath]:
    """Content of a folder, by name; empty if there is no such folder."""
    try:
        with _store_errors(folder):
            found = sorted(folder.iterdir(), key=lambda path: path.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    yield from found


def utc_now() -> str:
    """Now, as a UTC ISO-8601 date with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
