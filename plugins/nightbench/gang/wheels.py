"""Wheelhouses: folders of wheels for nodes without a package index.

`choose_wheels` picks the wheels that a lock needs, by the lock's hashes; `download_wheels` fills a
wheelhouse on a machine that reaches an index.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker
from packaging.tags import Tag
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    canonicalize_version,
    parse_wheel_filename,
)

from nightbench.core.code_digest import file_digest
from nightbench.gang.errors import GangError

_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")

SHOWN_PROBLEMS = 8

_PLATFORMS = (
    *("manylinux_2_28", "manylinux_2_27", "manylinux_2_26", "manylinux_2_24", "manylinux_2_17"),
    *("manylinux2014", "manylinux1", "linux"),
)
"""Tags of wheels that are downloaded, the preferred first; pip takes a tag for itself alone."""


class MissingWheels(GangError):
    """A wheelhouse lacks wheels of an environment, or holds other builds than its lock.

    There is one phrase for each package among the problems.
    """

    def __init__(self, folder: Path, series: str, machine: str, problems: Sequence[str]) -> None:
        shown, more = problems[:SHOWN_PROBLEMS], len(problems) - SHOWN_PROBLEMS
        self.summary = (
            f"the wheelhouse {folder} cannot serve Python {series} on {machine}: "
            f"{'; '.join(shown)}{f'; and {more} more' if more > 0 else ''}"
        )
        """The missing wheels, without the advice."""
        super().__init__(
            f"{self.summary}. Download them: `nightbench cluster download CLUSTER --line LINE`"
        )


@dataclass(frozen=True)
class PinnedPackage:
    """One package of a lock."""

    name: str
    version: str
    hashes: frozenset[str]
    """A wheel must have one of them; when empty, any wheel of the version is accepted."""
    marker: str = ""
    """Environment marker of where it is needed; empty: everywhere."""

    def is_needed(self, series: str, machine: str) -> bool:
        """Return whether CPython of a series on a Linux machine needs it."""
        there = {
            "python_version": series,
            "python_full_version": f"{series}.99",
            "platform_machine": machine,
            "sys_platform": "linux",
            "platform_system": "Linux",
            "os_name": "posix",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        }
        return not self.marker or Marker(self.marker).evaluate(there)

    def as_requirement(self) -> str:
        """Return its line of a requirements file, without the marker."""
        hashes = "".join(f" --hash=sha256:{each}" for each in sorted(self.hashes))
        return f"{self.name}=={self.version}{hashes}\n"


@dataclass(frozen=True)
class Wheel:
    """A file of the wheelhouse that an environment needs."""

    path: Path
    digest: str
    """Its sha256."""


def packages_of(
    lock: str, package: str, version: str | None, replaced: bool
) -> list[PinnedPackage]:
    """Return the packages that a lock pins.

    The lock is the text of a requirements file with hashes. `version` is that of the main package
    if the suite overrides the lock's; if a wheel that the suite names has `replaced` it, it
    is left out.
    """
    found = []
    main = canonicalize_name(package)
    text = re.sub(r"\\\n", " ", lock)
    for line in text.splitlines():
        match = _PINNED.match(line)
        if match is None:
            continue
        name = canonicalize_name(match[1])
        marker = line.partition("--hash")[0].partition(";")[2].strip()
        if name == main and (replaced or version is not None):
            if not replaced and version is not None:
                found.append(PinnedPackage(name, version, frozenset(), marker))
            continue
        found.append(PinnedPackage(name, match[2], frozenset(_HASH.findall(line)), marker))
    return found


def choose_wheels(
    folder: Path, packages: Iterable[PinnedPackage], series: str, machine: str
) -> list[Wheel]:
    """Return the wheels of a wheelhouse that a node needs.

    The series is "3.11", the architecture as `uname -m` prints it.

    Raises:
        MissingWheels: a package is missing, or is another build than the lock's.
        GangError: there is no such folder.
    """
    if not folder.is_dir():
        raise GangError(
            f"environments.wheelhouse: found {str(folder)!r}, which is not a folder on this "
            "machine; expected a folder with wheels (`nightbench cluster download` makes one)"
        )
    have = _by_name(folder, series, machine)
    chosen, problems = [], []
    for each in packages:
        if not each.is_needed(series, machine):
            continue
        version = canonicalize_version(each.version)
        # 2.12.0+cpu is taken for 2.12.0.
        files = [p for v, p in have.get(each.name, ()) if version in (v, v.partition("+")[0])]
        digests = [(file_digest(path), path) for path in files]
        good = [Wheel(p, d) for d, p in digests if not each.hashes or d in each.hashes]
        if good:
            chosen.append(good[0])
        elif digests:
            digest, path = digests[0]
            problems.append(
                f"{path.name} is not the lock's build (sha256 {digest[:12]}… is not in it)"
            )
        else:
            problems.append(f"{each.name} {each.version} is missing")
    if problems:
        raise MissingWheels(folder, series, machine, problems)
    return chosen


def _by_name(folder: Path, series: str, machine: str) -> Mapping[str, list[tuple[str, Path]]]:
    """Return the versions and wheels that run there, by package."""
    found: dict[str, list[tuple[str, Path]]] = {}
    for path in sorted(folder.glob("*.whl")):
        try:
            name, version, _, tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        if any(accepts_tag(tag, series, machine) for tag in tags):
            found.setdefault(name, []).append((canonicalize_version(str(version)), path))
    return found


def accepts_tag(tag: Tag, series: str, machine: str) -> bool:
    """Return whether CPython of a series on a Linux machine takes a tag; uv checks the libc."""
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


def line_of(benchmarks: Path, line: str, variant: str) -> tuple[tuple[str, ...], str, str]:
    """Return Pythons, main package and lock of a framework line's build (all empty without one).

    Raises:
        GangError: there is no such line or variant.
    """
    folder = benchmarks / "frameworks" / line
    try:
        described = json.loads((folder / "framework.json").read_text(encoding="utf-8"))
        build = described["variants"].get(variant)
        if build is None:
            have = ", ".join(described["variants"])
            raise GangError(f"{line} has no variant {variant}; expected one of {have}")
        pythons = tuple(build.get("pythons", ()))
        if not pythons:
            return (), "", ""
        lock = (folder / f"requirements-{variant}.lock").read_text(encoding="utf-8")
    except OSError as error:
        raise GangError(f"{error.filename}: cannot be read: {error.strerror}") from error
    package = build.get("package") or described.get("package")
    return pythons, package or line, lock


# --- filling it ----------------------------------------------------------------------------


def download_wheels(
    folder: Path,
    benchmarks: Path,
    line: str,
    variant: str,
    machine: str,
    say: Callable[[str], None],
    pythons: Sequence[str] = (),
) -> list[Wheel]:
    """Download the wheels of a framework line's lock with pip and its own configuration.

    `pythons` are the series that nodes use; all that the lock supports, if none is given.

    Returns:
        The wheels that the line needs.

    Raises:
        GangError: pip is missing or could not download all; the message holds its last lines.
    """
    supported, package, lock = line_of(benchmarks, line, variant)
    if not supported:
        say(f"{line}: needs no environment")
    packages = packages_of(lock, package, None, replaced=False)
    found: dict[Path, Wheel] = {}
    for series in pythons or supported:
        if series not in supported:
            raise GangError(
                f"--python: found {series}; expected a Python that {line} {variant} supports: "
                + ", ".join(supported)
            )
        try:
            chosen = choose_wheels(folder, packages, series, machine)
        except MissingWheels as missing:
            say(f"{line}: {missing.summary}")
            # pip would evaluate markers for this machine and its own interpreter.
            needed = (each.as_requirement() for each in packages if each.is_needed(series, machine))
            download("".join(needed), folder, series, machine)
            chosen = choose_wheels(folder, packages, series, machine)
        found.update((each.path, each) for each in chosen)
    return list(found.values())


def _pip(work: Path) -> list[str]:
    """Return the command of pip: this interpreter's own, or that of a new environment."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    created = subprocess.run(
        [sys.executable, "-m", "venv", str(work / "env")], capture_output=True, text=True
    )
    if created.returncode != 0:
        said = (created.stdout + created.stderr).strip()[-500:]
        raise GangError(f"no pip on this machine, and pip could not be installed: {said}")
    return [str(work / "env" / "bin" / "python"), "-m", "pip"]


def download(requirements: str, folder: Path, series: str, machine: str) -> None:
    """Download the wheels of requirements with pip and its own configuration.

    The requirements are the text of a requirements file; if they state hashes, pip checks them.

    Raises:
        GangError: pip is missing or could not download all; the message holds its last lines.
    """
    with tempfile.TemporaryDirectory(prefix="nightbench-pip-") as work:
        file = Path(work) / "requirements.txt"
        file.write_text(requirements, encoding="utf-8")
        # Wheels for another interpreter and machine than this one: pip must not build anything.
        call = [*_pip(Path(work)), "download", "--no-deps", "--only-binary", ":all:"]
        call += ["--require-hashes"] if "--hash=" in requirements else []
        call += ["-r", str(file), "-d", str(folder)]
        call += ["--python-version", series, "--implementation", "cp"]
        for tag in _PLATFORMS:
            call += ["--platform", f"{tag}_{machine}"]
        done = subprocess.run(call, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-6:]
        raise GangError(
            f"pip could not download the wheels into {folder}: {' '.join(said)[-800:]}. It uses "
            "this machine's own pip configuration (index, find-links)"
        )
