"""The code that is shipped to the nodes (`benchmarks/`, wheels), and the digests that name it.

Folders of a project's `frameworks/` and `workloads/` replace or extend those of the same name.
"""

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from nightbench.core.errors import UserError

COMPILED = "__pycache__"


def layers(kind: str, benchmarks: Path, project: Path | None = None) -> dict[str, list[Path]]:
    """The folders of each line (`frameworks`) or workload, by name.

    A project's folder takes the place of a built-in one. In `workloads`, one without a `spec.json`
    adds its files to the built-in one instead, and comes after it.
    """
    found = {each.name: [each] for each in _visible_folders(benchmarks / kind)}
    for each in _visible_folders(project / kind) if project else ():
        adds = kind == "workloads" and not (each / "spec.json").is_file()
        found[each.name] = [*(found.get(each.name, []) if adds else []), each]
    return found


def _visible_folders(folder: Path) -> list[Path]:
    """The folders that have visible files: git leaves `__pycache__` of a line that is gone."""
    return sorted(
        each
        for each in folder.glob("[!.]*")
        if each.name != COMPILED
        and each.is_dir()
        and any(child.is_file() for child in each.glob("[!.]*"))
    )


def shipped_files(benchmarks: Path, project: Path | None = None) -> list[tuple[str, Path]]:
    """All files that belong to the shipped tree, by their path in it, sorted.

    Hidden files and folders, compiled Python, links that lead out of the tree and files that cannot
    be read are left out.
    """
    found = dict(_files(benchmarks))
    for kind in ("frameworks", "workloads") if project else ():
        for name, folders in layers(kind, benchmarks, project).items():
            inside = f"{kind}/{name}/"
            if folders[0] != benchmarks / kind / name:
                found = {key: path for key, path in found.items() if not key.startswith(inside)}
            for folder in folders:
                found |= {inside + key: path for key, path in _files(folder)}
    return sorted(found.items())


def _files(folder: Path) -> list[tuple[str, Path]]:
    root = folder.resolve()
    found = []
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if any(part.startswith(".") or part == COMPILED for part in relative.parts):
            continue
        if path.suffix == ".pyc" or not (path.is_file() and os.access(path, os.R_OK)):
            continue
        if not path.is_symlink() or path.resolve().is_relative_to(root):
            found.append((relative.as_posix(), path))
    return found


def code_digest(benchmarks: Path, project: Path | None = None) -> str:
    """The sha256 over the paths, the execute bits and the contents of the shipped files."""
    digest = hashlib.sha256()
    for name, path in shipped_files(benchmarks, project):
        executable = "x" if path.stat().st_mode & 0o100 else "-"
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{content} {executable} {name}\n".encode())
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return the sha256 of a wheel or of uv, computed once as long as the file stays as it is.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        status = path.stat()
        return _digest_of_file(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise UserError(f"{path}: the wheel cannot be read: {error.strerror}") from error


@lru_cache(maxsize=1024)
def _digest_of_file(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
