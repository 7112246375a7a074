"""Finding a Python interpreter of a series that runs on this node."""

from __future__ import annotations

import glob
import os
import platform
import shutil
import sys
from typing import Iterable, Iterator

from nodeside.shell import answer

_SAY = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.executable)"


def find(series: str, uv: str | None = None, root: str | None = None) -> str | None:
    """Return the full path of an interpreter of `series` ("3.7"); None if none runs.

    `root` is Nightbench's folder, with what uv has downloaded. A name on PATH is not enough:
    version managers leave shims that run only for the selected version, so every candidate has to
    run and print its series.
    """
    seen = set()
    for candidate in _candidates(series, uv, root):
        if candidate in seen:
            continue
        seen.add(candidate)
        said = answer([candidate, "-c", _SAY], timeout_s=20.0)
        words = (said or "").splitlines()
        if len(words) == 2 and words[0] == series:
            # The path that the interpreter prints: a shim may run another interpreter tomorrow.
            return words[1] or candidate
    return None


def those_here(pythons: Iterable[str], uv: str | None, root: str) -> dict[str, str]:
    """Return series -> full path of an interpreter, for the series that run here, newest first."""
    newest_first = sorted(pythons, key=version, reverse=True)
    found = ((series, find(series, uv, root)) for series in newest_first)
    return {series: path for series, path in found if path is not None}


def version(series: str) -> tuple[int, ...]:
    """Return a series as numbers, to compare: (3, 11)."""
    return tuple(int(part) for part in series.split("."))


def downloads(root: str) -> str:
    """Return the folder of the interpreters that uv downloads for Nightbench."""
    return os.path.join(root, "tools", "python")


def _candidates(series: str, uv: str | None, root: str | None) -> Iterator[str]:
    name = "python" + series
    on_path = shutil.which(name)
    if on_path:
        yield on_path
    if "{}.{}".format(*sys.version_info[:2]) == series:
        yield sys.executable
    for folder in ("/usr/bin", "/usr/local/bin", "/opt/python{}/bin".format(series)):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            yield path
    for pyenv in (os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv"), "/opt/pyenv"):
        if pyenv:
            pattern = os.path.join(glob.escape(pyenv), "versions", series + "*", "bin", name)
            for path in sorted(glob.glob(pattern), reverse=True):
                yield path
    folder = os.environ.get("UV_PYTHON_INSTALL_DIR") or (root and downloads(root))
    if folder:
        pattern = os.path.join(glob.escape(folder), "cpython-{}.*".format(series), "bin", name)
        for path in sorted(glob.glob(pattern), reverse=True):
            yield path
    if uv:
        text = answer([uv, "python", "find", "--managed-python", "--no-python-downloads", series])
        if text:
            yield text.strip()


def any_uv(root: str) -> str | None:
    """Return a uv binary: the newest that was shipped for this machine, or one on PATH."""
    pattern = "uv-*-{}".format(platform.machine())
    shipped = glob.glob(os.path.join(glob.escape(root), "tools", pattern))
    runnable = [path for path in shipped if os.access(path, os.X_OK)]
    return max(runnable, key=os.path.getmtime) if runnable else shutil.which("uv")
