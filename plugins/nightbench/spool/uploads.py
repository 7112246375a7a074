"""Wheels for comparisons, sent by people or built from commits: each in a folder of its digest.

<spool>/uploads/<sha256>/<name>.whl
<spool>/uploads/commits/<build>.json    the wheel that a commit's build brought
<spool>/uploads/commits/<build>.log     what its build said
"""

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from upath import UPath

from nightbench.spool.documents import (
    Document,
    SpoolError,
    component,
    is_local,
    read_bytes,
    read_json,
    write_bytes,
    write_json,
)


class Uploads:
    """Uploaded wheels below one folder or URL. Nothing of them is ever opened here."""

    def __init__(self, root: UPath) -> None:
        self._root = root

    def path(self, sha256: str, name: str) -> UPath:
        """Where a wheel lies, or would.

        Raises:
            SpoolError: a name that is none of a file below the folder.
        """
        component(name.replace("+", "-").replace("!", "-"), "wheel")  # as versions have them
        return self._root / component(sha256, "digest") / name

    def size(self) -> int:
        """Bytes of all together."""
        return sum(int(path.stat().st_size) for path in self._wheels())

    def keep(self, sha256: str, name: str, content: IO[bytes]) -> None:
        """Keep a wheel; it appears whole, or not at all.

        Raises:
            SpoolError: the disk is full, or it may not be written.
        """
        place = self.path(sha256, name)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if not is_local(place):
                with place.open("wb") as target:
                    shutil.copyfileobj(content, target)
                return
            beside = Path(place.path).with_name(f".{uuid.uuid4().hex}")
            try:
                with beside.open("wb") as target:
                    shutil.copyfileobj(content, target)
                    target.flush()
                    os.fsync(target.fileno())
                beside.replace(place.path)
            finally:
                beside.unlink(missing_ok=True)
        except OSError as error:
            raise SpoolError(f"{place}: cannot be written: {error.strerror or error}") from error

    def open(self, sha256: str, name: str) -> IO[bytes]:
        """Open a wheel to read it.

        Raises:
            SpoolError: there is none.
        """
        try:
            opened: IO[bytes] = self.path(sha256, name).open("rb")
        except FileNotFoundError:
            raise SpoolError(
                f"build: found no uploaded wheel {sha256}/{name}; it was never sent, or went after "
                "its time. Send it again"
            ) from None
        return opened

    def built(self, build: str) -> Document | None:
        """Return the document of a commit's build whose wheel is here; None where there is none."""
        found = self.note(build)
        if found is None or not self.path(found["sha256"], found["wheel"]).exists():
            return None
        return found

    def note(self, name: str) -> Document | None:
        """Return what is noted of a build, or of a comparison's commits; None where nothing is."""
        found: Document | None = read_json(self._commit(name, "json"))
        return found

    def save_note(self, name: str, document: Mapping[str, Any]) -> None:
        """Note what a build brought, after its wheel is kept, or which commits a comparison has."""
        write_json(self._commit(name, "json"), document)

    def save_log(self, build: str, log: bytes) -> None:
        """Store what a commit's build said; that of another try before is replaced."""
        write_bytes(self._commit(build, "log"), log)

    def log(self, build: str) -> bytes | None:
        """Return what a commit's build said; None where it was never tried, or long ago."""
        return read_bytes(self._commit(build, "log"))

    def _commit(self, build: str, kind: str) -> UPath:
        return self._root / "commits" / f"{component(build, 'build')}.{kind}"

    def expire(self, oldest: datetime) -> list[UPath]:
        """Remove those that were sent before; returns them."""
        every = [*self._wheels(), *(self._root / "commits").glob("*")]
        old = [path for path in every if path.stat().st_mtime < oldest.timestamp()]
        for path in old:
            path.unlink()
            if is_local(path) and path.suffix == ".whl":
                Path(path.parent.path).rmdir()
        return old

    def _wheels(self) -> Iterator[UPath]:
        if self._root.exists():
            yield from self._root.glob("*/*.whl")
