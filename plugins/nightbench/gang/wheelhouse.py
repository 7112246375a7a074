"""Wheels for nodes without an index: which of a folder a lock needs, by the hashes in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    canonicalize_version,
    parse_wheel_filename,
)

from nightbench.gang.errors import GangError

_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Wanted:
    """One package that an environment needs."""

    name: str
    version: str
    hashes: frozenset[str]
    """Of which a wheel must have one; any wheel of the version when empty."""
    optional: bool = False
    """Needed on some platforms only (an environment marker says which)."""


@dataclass(frozen=True)
class Wheel:
    """A file of the wheelhouse that an environment needs."""

    path: Path
    digest: str
    """Its sha256."""


def wanted_by(lock: str, package: str, version: str | None, replaced: bool) -> list[Wanted]:
    """What a lock asks for.

    Args:
        lock: text of a requirements file with hashes.
        package: the line's main package.
        version: of the main package, where another one than the lock's is asked for.
        replaced: the main package comes as a wheel of its own.
    """
    found = []
    main = canonicalize_name(package)
    text = re.sub(r"\\\n", " ", lock)
    for line in text.splitlines():
        match = _PINNED.match(line)
        if match is None:
            continue
        name = canonicalize_name(match[1])
        if name == main and (replaced or version is not None):
            if not replaced and version is not None:
                found.append(Wanted(name, version, frozenset()))
            continue
        optional = ";" in line.partition("--hash")[0]
        found.append(Wanted(name, match[2], frozenset(_HASH.findall(line)), optional))
    return found


def choose(folder: Path, wanted: Iterable[Wanted], series: str, machine: str) -> list[Wheel]:
    """The wheels that are to be brought to a node.

    Args:
        folder: the wheelhouse.
        wanted: what the environment needs.
        series: of its interpreter, "3.11".
        machine: the node's, as `uname -m` says it.

    Raises:
        GangError: something is missing, or is another build than the lock's.
    """
    if not folder.is_dir():
        raise GangError(
            f"environments.wheelhouse: found {str(folder)!r}, which is no folder on this machine; "
            "expected one with wheels (`nightbench cluster download` fills it)"
        )
    have = _by_name(folder, series, machine)
    chosen, problems = [], []
    for each in wanted:
        version = canonicalize_version(each.version)
        files = [
            path for v, path in have.get(each.name, ()) if v == version or _is_local(v, version)
        ]
        digests = [(digest_of(path), path) for path in files]
        good = [Wheel(p, d) for d, p in digests if not each.hashes or d in each.hashes]
        if good:
            chosen.append(good[0])
        elif digests:
            digest, path = digests[0]
            problems.append(
                f"{path.name} is another build than the lock's (sha256 {digest[:12]}… is not in it)"
            )
        elif not each.optional:
            problems.append(f"{each.name} {each.version} is missing")
    if problems:
        raise GangError(
            f"the wheelhouse {folder} cannot serve Python {series} on {machine}: "
            f"{'; '.join(problems[:8])}{f'; and {len(problems) - 8} more' if problems[8:] else ''}"
            ". Fill it: `nightbench cluster download CLUSTER --line LINE`"
        )
    return chosen


def _is_local(found: str, asked: str) -> bool:
    """2.12.0+cpu does where 2.12.0 is asked for."""
    return found.partition("+")[0] == asked


def _by_name(folder: Path, series: str, machine: str) -> Mapping[str, list[tuple[str, Path]]]:
    """Wheels that run there by the names of their packages, with their versions."""
    found: dict[str, list[tuple[str, Path]]] = {}
    for path in sorted(folder.glob("*.whl")):
        try:
            name, version, _, tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        if any(runs_there(tag, series, machine) for tag in tags):
            found.setdefault(name, []).append((canonicalize_version(str(version)), path))
    return found


def runs_there(tag: Tag, series: str, machine: str) -> bool:
    """Whether CPython of a series on a Linux machine takes a tag; the libc is left to uv."""
    major, minor = series.split(".")
    if tag.platform != "any" and not (
        "linux" in tag.platform and tag.platform.endswith(f"_{machine}")
    ):
        return False
    if tag.interpreter in (f"py{major}", f"py{major}{minor}", f"cp{major}{minor}"):
        return True
    if tag.abi == "abi3" and tag.interpreter.startswith(f"cp{major}"):
        return int(tag.interpreter[3:] or 0) <= int(minor)
    return tag.abi == "none" and tag.interpreter.startswith(f"py{major}")


def digest_of(path: Path) -> str:
    """The sha256 of a file, computed once as long as it stays as it is.

    Raises:
        GangError: it cannot be read.
    """
    try:
        status = path.stat()
        return _digest(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise GangError(f"{path}: the wheel cannot be read: {error.strerror}") from error


@lru_cache(maxsize=1024)
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def line_of(benchmarks: Path, line: str, variant: str) -> tuple[str, str, str]:
    """Series of the interpreter, main package and lock of a framework line; empty without one.

    Raises:
        GangError: there is no such line or variant.
    """
    folder = benchmarks / "frameworks" / line
    try:
        described = json.loads((folder / "framework.json").read_text(encoding="utf-8"))
        series = described["python"]
        if series is None:
            return "", "", ""
        lock = (folder / f"requirements-{variant}.lock").read_text(encoding="utf-8")
    except OSError as error:
        raise GangError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return series, described.get("package") or line, lock
