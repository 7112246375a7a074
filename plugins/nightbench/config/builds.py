"""Builds of framework lines: as a suite's file names them, and as a command line does."""

from __future__ import annotations

from pathlib import Path

from nightbench.config import values
from nightbench.config.clusters import relative_to_file
from nightbench.config.schema import BuildFile, SuiteFile
from nightbench.config.source import Document, Key, Problem
from nightbench.core.errors import UserError
from nightbench.core.model import Build


def read_builds(
    document: Document, file: SuiteFile | None, problems: list[Problem]
) -> dict[str, Build]:
    """Return the builds of a suite by framework line."""
    builds: dict[str, Build] = {}
    for line, entry in (file.builds if file else {}).items():
        key: Key = ("builds", line)
        given = [name for name in ("version", "wheel", "path") if getattr(entry, name) is not None]
        if len(given) > 1:
            message = f"found {' and '.join(given)}; expected one of version, wheel, path"
            problems.append(document.problem(key, message))
            continue
        location = entry.path
        if entry.wheel is not None:
            found = relative_to_file(document.path, entry.wheel)
            if found is None or not found.is_file() or found.suffix != ".whl":
                message = f'found "{entry.wheel}"; expected a wheel file (.whl) that is there'
                problems.append(document.problem((*key, "wheel"), message))
                continue
            location = str(found)
        builds[line] = make_build(line, entry, location)
    return builds


def make_build(line: str, entry: BuildFile, location: str | None) -> Build:
    """Put together a build; a wheel's digest is taken when a case is resolved."""
    source = "wheel" if entry.wheel else "path" if entry.path else "index"
    version = entry.version
    if entry.wheel and location:
        version = wheel_version(Path(location))
    return Build(line, entry.variant or "", source, version, location)


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
            f'build: found "{text}"; expected LINE=VERSION, LINE=FILE.whl or LINE=/PREFIX'
        )
    if value.endswith(".whl"):
        path = Path(value).expanduser().absolute()
        if not path.is_file():
            raise UserError(f'build: found "{value}", which is not there; expected a wheel file')
        return Build(line, "", "wheel", wheel_version(path), str(path))
    if value.startswith(("/", "~")):
        return Build(line, "", "path", None, value)
    try:
        return Build(line, "", "index", values.version(value))
    except ValueError as error:
        raise UserError(f"build: {line}: {error}, FILE.whl or /PREFIX") from None
