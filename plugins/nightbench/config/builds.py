"""Builds of framework lines: as a suite's file names them, and as a command line does."""

import fcntl
import os
import posixpath
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nightbench.config import locations
from nightbench.config.schema import BuildFile
from nightbench.core.atomic_files import atomic_file
from nightbench.core.code_digest import file_digest
from nightbench.core.complaints import Complaint, Key
from nightbench.core.errors import UserError
from nightbench.core.model import Build, Cluster, values
from nightbench.core.model.clusters import PINNED

_DIGEST_LENGTH = 16
_DIGEST = re.compile(f"[0-9a-f]{{{_DIGEST_LENGTH}}}")


def read_builds(
    suite: Path,
    name: str,
    written: Mapping[str, BuildFile],
    complaints: list[Complaint],
    *,
    least: int = 0,
) -> dict[str, Build]:
    """Return the builds that a key of a suite's file names by framework line.

    `least` is 1 if each has to say which build, instead of leaving it to the line's lock.
    """
    builds: dict[str, Build] = {}
    for line, entry in written.items():
        key: Key = (name, line)
        given = [name for name in ("version", "wheel", "path") if getattr(entry, name) is not None]
        if not least <= len(given) <= 1:
            found = " and ".join(given) or "none of them"
            complaints.append(
                Complaint(key, f"found {found}; expected one of version, wheel, path")
            )
            continue
        source, version, location = "path" if entry.path else "index", entry.version, entry.path
        if entry.wheel is not None:
            wheel = locations.relative_to_file(suite, entry.wheel)
            if wheel is None or not os.path.isfile(wheel) or wheel.suffix != ".whl":
                message = f'found "{entry.wheel}"; expected an existing wheel file (.whl)'
                complaints.append(Complaint((*key, "wheel"), message))
                continue
            # Its digest is taken when a case is resolved.
            source, version, location = "wheel", wheel_version(wheel), str(wheel)
        builds[line] = Build(line, entry.variant or "", source, version, location)
    return builds


def wheel_version(path: Path) -> str | None:
    """Return the version that a wheel's file name says: `name-VERSION-tags.whl`."""
    parts = path.stem.split("-")
    return parts[1] if len(parts) >= 5 else None


def parse_build(text: str) -> Build:
    """Read a build from a command line: `pytorch=2.13.0`, `paddle3=/some/file.whl`, `x=/prefix`.

    Raises:
        UserError: the text is no build, or the wheel is not there.
    """
    line, separator, value = text.partition("=")
    if not (separator and line and value):
        raise UserError(
            f'build: found "{text}"; expected LINE=VERSION, LINE=FILE.whl, LINE=/PREFIX or '
            "LINE=image:NAME@sha256:…"
        )
    if value.endswith(".whl"):
        path = locations.written_path(value)
        if not os.path.isfile(path):
            raise UserError(f'build: found "{value}", which does not exist; expected a wheel file')
        return Build(line, "", "wheel", wheel_version(path), str(path))
    if value.startswith(("/", "~")):
        return Build(line, "", "path", None, value)
    if value.startswith("image:"):
        image = value.removeprefix("image:")
        if not PINNED.fullmatch(image):
            raise UserError(
                f'build: found "{text}"; expected {line}=image:NAME@sha256:… with the digest, '
                "since a tag may later name another image"
            )
        return Build(line, "", "image", None, image, image.rpartition("sha256:")[2])
    try:
        return Build(line, "", "index", values.version(value))
    except ValueError as error:
        raise UserError(f"build: {line}: {error}, FILE.whl or /PREFIX") from None


def parse_untrusted_build(text: str, cluster: Cluster) -> Build:
    """Read a build that comes from the form or from REST, whose author owns no file here.

    Wheels must be below `locations.wheels_folder()`, prefixes below the cluster's `prefix_roots`,
    images below its `compare.images`. The message is the same for a file that is elsewhere and for
    one that is not there.

    Raises:
        UserError: the text is no build, or names a place where none is allowed.
    """
    value = text.partition("=")[2]
    if value.endswith(".whl"):
        folder = locations.wheels_folder()
        if not (_is_below(value, str(folder)) and _is_file_below(Path(value), folder)):
            raise UserError(f'build: found "{text}"; expected a wheel below {folder}')
    build = parse_build(text)
    roots = cluster.environments.prefix_roots
    if build.source == "path" and not any(_is_below(value, root) for root in roots):
        below = " or ".join(roots) or "one of environments.prefix_roots, which is empty"
        raise UserError(
            f'build: found "{text}"; expected a prefix below {below} (cluster {cluster.name})'
        )
    allowed = cluster.compare.images
    if build.source == "image" and build.location not in cluster.environments.images.values():
        image = build.location or ""
        if not image.startswith(allowed) or ".." in image.split("/"):
            below = " or ".join(allowed) or "one of compare.images, which is empty"
            raise UserError(
                f'build: found "{text}"; expected an image below {below} (cluster {cluster.name})'
            )
    return build


def stage_wheels(builds: Iterable[str]) -> tuple[str, ...]:
    """Copy wheels that a command line names to where a run may name them; returns the builds.

    Raises:
        UserError: the text is no build, or the wheel is not there.
    """
    staged = []
    for text in builds:
        build = parse_build(text)
        if build.source == "wheel" and build.location:
            text = f"{build.line}={_stage(Path(build.location))}"
        staged.append(text)
    return tuple(staged)


def _stage(wheel: Path) -> Path:
    place = locations.wheels_folder() / file_digest(wheel)[:_DIGEST_LENGTH] / wheel.name
    with locked_staging():
        place.parent.mkdir(exist_ok=True)
        if not place.exists():
            with atomic_file(place) as new:
                shutil.copyfile(wheel, new)
        os.utime(place)  # Its age counts from its last use.
    return place


def staged_wheels() -> list[Path]:
    """The wheels in folders named as `stage_wheels` names them."""
    every = locations.wheels_folder().glob("*/*.whl")
    return sorted(path for path in every if _DIGEST.fullmatch(path.parent.name))


@contextmanager
def locked_staging() -> Iterator[None]:
    """Lock the folder of wheels: no wheel is staged while another process removes it."""
    folder = locations.wheels_folder()
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_below(path: str, root: str) -> bool:
    """Whether a path is written as one below a root, before any file is looked at."""
    root = posixpath.normpath(root)
    return posixpath.normpath(path) == path and path.startswith(root.rstrip("/") + "/")


def _is_file_below(path: Path, folder: Path) -> bool:
    try:
        return path.is_file() and path.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False
