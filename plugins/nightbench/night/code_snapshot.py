"""The benchmark code of a run, as it was when the run was planned.

An edit or a `git pull` of what is shipped changes the next run, not a running one. Its code is in
the spool next to its plan, and workers unpack it from there.
"""

import io
import os
import shutil
import tarfile
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from nightbench.config import locations
from nightbench.core.code_digest import code_digest
from nightbench.core.errors import UserError
from nightbench.gang import Shipment, local_shipment
from nightbench.gang.shipping import pack
from nightbench.spool import RunSpool

UNUSED_DAYS = 30
"""An unpacked copy that no run has used for so long is removed."""


def keep_code(run: RunSpool, digest: str) -> None:
    """Keep the code of a run in its folder.

    Raises:
        UserError: what is shipped has changed since its digest was taken.
    """
    if run.code() is None:
        run.save_code(_packed(digest))


def kept_shipment(run: RunSpool, digest: str, wheelhouse: str | None) -> Shipment:
    """The shipment of a run: the code that `keep_code` kept.

    Raises:
        UserError: the run has no code, or other code than planned.
    """
    archive = run.code()
    if archive is None:
        raise UserError(f"{run.folder}: found no code.tar.gz next to the plan; start a new run")
    return local_shipment(wheelhouse, _unpacked(archive, digest))


def shipment_of_now(digest: str | None, wheelhouse: str | None) -> Shipment:
    """The shipment of this process, even if one of its files changes while it runs.

    The digest is that of what there is now if None.

    Raises:
        UserError: what is shipped has changed since its digest was taken.
    """
    digest = digest or code_digest(*_layers())
    return local_shipment(wheelhouse, _unpacked(_packed(digest), digest))


def _layers() -> tuple[Path, Path]:
    return locations.benchmarks_folder(), locations.dags_folder()


def _packed(digest: str) -> bytes:
    archive = pack(*_layers())
    if code_digest(*_layers()) != digest:
        where = " or ".join(map(str, _layers()))
        raise UserError(f"{where} changed while the run was being planned; start the run again")
    return archive


def _unpacked(archive: bytes, digest: str) -> Path:
    """The folder with the code of an archive, unpacked once for each digest."""
    folder = locations.home_folder() / "code" / digest
    if not folder.is_dir():
        _unpack(archive, digest, folder)
        _remove_unused(folder.parent)
    os.utime(folder)
    return folder


def _unpack(archive: bytes, digest: str, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
            for entry in packed:
                _unpack_file(packed, entry, beside)
        found = code_digest(beside)
        if found != digest:
            raise UserError(
                f"the code of the run has digest {found[:12]}; expected the planned "
                f"{digest[:12]}: start a new run"
            )
        beside.rename(folder)
    except OSError:
        # Another process was faster, or the disk is full and nothing was written.
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _unpack_file(packed: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    """Write one file of an archive; the filters of `TarFile.extract` need Python 3.11.4."""
    content = packed.extractfile(entry) if entry.isfile() else None
    if content is None or ".." in Path(entry.name).parts or Path(entry.name).is_absolute():
        raise UserError(f"code.tar.gz: found {entry.name!r}, expected files below benchmarks/ only")
    path = folder / entry.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.read())
    path.chmod(entry.mode & 0o755)


def _remove_unused(folder: Path) -> None:
    oldest = time.time() - UNUSED_DAYS * 86400
    for copy in folder.iterdir():
        # Another process may rename its new copy, or remove an old one, at the same time.
        with suppress(FileNotFoundError):
            if copy.stat().st_mtime < oldest:
                shutil.rmtree(copy, ignore_errors=True)
