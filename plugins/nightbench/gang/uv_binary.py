"""The uv binary for a node's machine: the controller's own, or one from uv's wheel for the other.

A fetched binary is in `tools/` of the home, named by version and machine, and is fetched once.
"""

import fcntl
import io
import platform
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from nightbench.config.locations import home_folder
from nightbench.core.atomic_files import replaced_file
from nightbench.core.code_digest import file_digest
from nightbench.core.package_files import CHECKOUT
from nightbench.gang.errors import GangError
from nightbench.gang.wheels import PinnedPackage, download, packages_of

SERIES = "3.11"
"""Series of the interpreter that pip chooses for; uv's wheels fit any."""


def uv_for(machine: str, own: Path, version: str, wheelhouse: Path | None) -> Path:
    """Return the path of a uv binary that runs on a machine.

    The architecture is as `uname -m` prints it, and `own` this machine's uv. Another machine's
    comes from a wheel in the wheelhouse, else from this machine's index by pip.

    Raises:
        GangError: there is none; the message says which file to put where.
    """
    if machine == platform.machine():
        return own
    binary = home_folder() / "tools" / f"uv-{version}-{machine}"
    binary.parent.mkdir(parents=True, exist_ok=True)
    # Nodes are prepared at the same time, by several processes: one of them fetches.
    with (binary.parent / f".{binary.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.is_file():
            _fetch(binary, machine, version, wheelhouse)
    return binary


def _fetch(binary: Path, machine: str, version: str, wheelhouse: Path | None) -> None:
    wheel = next(_wheels(wheelhouse, machine, version), None) if wheelhouse else None
    if wheel is not None:
        _unpack(wheel, binary, version)
        return
    with tempfile.TemporaryDirectory(prefix="nightbench-uv-") as folder:
        try:
            download_uv(Path(folder), machine, version)
        except GangError as error:
            raise GangError(
                f"there is no uv {version} for {machine} nodes: {error}. Put uv's wheel "
                f"uv-{version}-py3-none-manylinux…_{machine}.whl into environments.wheelhouse, or "
                f"the binary itself at {binary}"
            ) from error
        _unpack(next(_wheels(Path(folder), machine, version)), binary, version)


def download_uv(folder: Path, machine: str, version: str) -> None:
    """Download uv's wheel for a machine into a folder, unless one is there.

    A checkout has the hashes of all wheels in requirements/uv.lock. An installed package has no
    lock: there the hash is the one that the index states, which pip checks.

    Raises:
        GangError: pip is missing, or could not download it.
    """
    if next(_wheels(folder, machine, version), None) is not None:
        return
    pinned = PinnedPackage("uv", version, _locked(version))
    download(pinned.as_requirement(), folder, SERIES, machine)


def _wheels(folder: Path, machine: str, version: str) -> Iterator[Path]:
    for path in sorted(folder.glob("uv-*.whl")):
        try:
            name, found, _, tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        fits = any(tag.platform.endswith(f"_{machine}") for tag in tags)
        if (name, str(found)) == ("uv", version) and fits:
            yield path


def _locked(version: str) -> frozenset[str]:
    """Return the hashes of uv's wheels in the lock; empty if no lock pins this version."""
    lock = CHECKOUT / "requirements" / "uv.lock" if CHECKOUT else None
    if lock is None or not lock.is_file():
        return frozenset()
    packages = packages_of(lock.read_text(encoding="utf-8"), "", None, replaced=False)
    same = (each.hashes for each in packages if (each.name, each.version) == ("uv", version))
    return frozenset().union(*same)


def _unpack(wheel: Path, binary: Path, version: str) -> None:
    """Write the binary of a wheel, complete from its first moment.

    Raises:
        GangError: the wheel is another build than the lock's, or holds no binary.
    """
    expected, digest = _locked(version), file_digest(wheel)
    if expected and digest not in expected:
        raise GangError(
            f"{wheel} is not the build in requirements/uv.lock (sha256 {digest[:12]}… is not in "
            "it): remove the wheel"
        )
    member = f"uv-{version}.data/scripts/uv"
    try:
        with zipfile.ZipFile(io.BytesIO(wheel.read_bytes())) as archive:
            content = archive.read(member)
    except (zipfile.BadZipFile, KeyError) as error:
        raise GangError(f"{wheel}: found no {member}; expected uv's own wheel") from error
    with replaced_file(binary) as new:
        new.write_bytes(content)
        new.chmod(0o755)
