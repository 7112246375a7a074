"""The digest that names what is shipped to the nodes: every file below `benchmarks/`."""

from __future__ import annotations

import hashlib
from pathlib import Path

IGNORED_FOLDERS = frozenset({"__pycache__"})
IGNORED_SUFFIXES = frozenset({".pyc", ".pyo"})


def shipped_files(benchmarks: Path) -> list[tuple[str, Path]]:
    """All files that belong to the shipped tree, by their path in it, sorted.

    Hidden files and folders, compiled Python and links that lead out of the tree are left out.
    """
    root = benchmarks.resolve()
    found = []
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if any(part.startswith(".") or part in IGNORED_FOLDERS for part in relative.parts):
            continue
        if path.suffix in IGNORED_SUFFIXES or not path.is_file():
            continue
        if path.resolve().is_relative_to(root):
            found.append((relative.as_posix(), path))
    return sorted(found)


def code_digest(benchmarks: Path) -> str:
    """The sha256 over the paths, the execute bits and the contents of the shipped files."""
    digest = hashlib.sha256()
    for name, path in shipped_files(benchmarks):
        executable = "x" if path.stat().st_mode & 0o100 else "-"
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{content} {executable} {name}\n".encode())
    return digest.hexdigest()
