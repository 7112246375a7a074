"""The folder of a site, on a disk or in an object store: writes what differs, and nothing else."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upath import UPath

from nightbench.config.locations import written_path
from nightbench.core.atomic_files import replaced_file
from nightbench.core.errors import UserError

MANIFEST = "site-manifest.json"
"""Files that the site wrote, by digest: only these are ever removed."""
SCHEMA = "nightbench.site/1"
AT_ONCE = 200
"""Files that an object store gets together."""
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".xml": "application/atom+xml",
}


class SiteFolder:
    """Files by name; `begin` with all names, `put` each, `finish`."""

    def __init__(self, where: str) -> None:
        try:
            self.root = UPath(where if "://" in where else written_path(where))
            self._fs, self._path = self.root.fs, self.root.path.rstrip("/")
        except (ValueError, ImportError) as error:
            raise UserError(
                f"{where}: {error}; expected a folder, or the URL of one that fsspec knows"
            ) from None
        self._is_local = self.root.protocol in ("", "file", "local")
        self._old: dict[str, str] = {}
        self._new: dict[str, str] = {}
        self._waiting: dict[str, bytes] = {}
        self.written = self.removed = self.bytes_written = 0

    @property
    def summary(self) -> str:
        """A summary of the files that were written and removed."""
        return (
            f"{self.written:,} of {len(self._new):,} files written "
            f"({self.bytes_written / 1e6:,.1f} MB), {self.removed:,} removed"
        )

    def begin(self, names: Iterable[str]) -> None:
        """Remove what the site wrote and no longer has, before anything new is shown.

        Raises:
            UserError: the folder holds other files and no manifest, or cannot be written.
        """
        with self._write_errors():
            self._fs.invalidate_cache()
            there = {
                path.removeprefix(self._path).lstrip("/") for path in self._fs.find(self._path)
            }
            if there and MANIFEST not in there:
                raise UserError(
                    f"{self.root}: found {len(there)} files and no {MANIFEST}; expected an empty "
                    "folder, or one that `nightbench publish` has written"
                )
            known = self._known() if MANIFEST in there else {}
            wanted = set(names)
            for name in sorted(known.keys() - wanted):
                if name in there:
                    self._remove(name)
            self._old = {name: known[name] for name in wanted & there if name in known}
            self._new = {name: self._old.get(name, "") for name in sorted(wanted)}
            # An interrupted publication must not leave an unknown file.
            if self._new.keys() != known.keys():
                self._write_manifest()

    def put(self, name: str, content: str) -> None:
        """Write a file unless it is there with this content."""
        data = content.encode()
        digest = hashlib.sha256(data).hexdigest()
        if self._new[name] == digest and name in self._old:
            return
        self._new[name] = digest
        self._waiting[name] = data
        if self._is_local or len(self._waiting) >= AT_ONCE:
            self._flush()

    def finish(self) -> None:
        """Write what waits, and the manifest if anything has changed."""
        self._flush()
        if self.written or self.removed:
            with self._write_errors():
                self._write_manifest()

    def _known(self) -> dict[str, str]:
        path = f"{self._path}/{MANIFEST}"
        try:
            document: Any = json.loads(self._fs.cat_file(path))
            files = document["files"]
            if document["schema"] != SCHEMA or not all(map(_is_inside, files)):
                raise ValueError(f"found schema {document['schema']}")
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path}: found no manifest of this version ({error}); expected {SCHEMA}. Publish "
                "into another folder, or remove this folder"
            ) from None
        return dict(files)

    def _remove(self, name: str) -> None:
        self._fs.rm_file(f"{self._path}/{name}")
        self.removed += 1
        if self._is_local:
            for folder in [*Path(name).parents][:-1]:
                if not any(Path(self._path, folder).iterdir()):
                    Path(self._path, folder).rmdir()

    def _write_manifest(self) -> None:
        document = {"schema": SCHEMA, "files": self._new}
        self._write({MANIFEST: (json.dumps(document, indent=0) + "\n").encode()})

    def _flush(self) -> None:
        with self._write_errors():
            self._write(self._waiting)
        self.written += len(self._waiting)
        self.bytes_written += sum(map(len, self._waiting.values()))
        self._waiting.clear()

    def _write(self, files: dict[str, bytes]) -> None:
        if self._is_local:
            for name, data in files.items():
                with replaced_file(Path(self._path, name)) as new:
                    new.write_bytes(data)
            return
        s3 = self.root.protocol in ("s3", "s3a")
        for suffix, kind in TYPES.items():
            some = {f"{self._path}/{n}": data for n, data in files.items() if n.endswith(suffix)}
            if some:
                self._fs.pipe(some, **({"ContentType": kind} if s3 else {}))

    @contextmanager
    def _write_errors(self) -> Iterator[None]:
        """Turn errors of a disk or a storage library into one sentence."""
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            if self._is_local and not isinstance(error, OSError):
                raise
            said = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            raise UserError(f"{self.root}: cannot be written: {said}") from error


def _is_inside(name: str) -> bool:
    """Return whether a name in a manifest stays inside the folder."""
    return not name.startswith("/") and ".." not in name.split("/")
