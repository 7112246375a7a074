"""Wheels that people send for a comparison: each whole, in a folder named by its digest."""

import os
import shutil
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO

from upath import UPath

from nightbench.spool.documents import SpoolError, component, is_local


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

    def expire(self, oldest: datetime) -> list[UPath]:
        """Remove those that were sent before; returns them."""
        old = [path for path in self._wheels() if path.stat().st_mtime < oldest.timestamp()]
        for path in old:
            path.unlink()
            if is_local(path):
                Path(path.parent.path).rmdir()
        return old

    def _wheels(self) -> Iterator[UPath]:
        if self._root.exists():
            yield from self._root.glob("*/*.whl")
