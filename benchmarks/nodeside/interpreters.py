"""Finding a Python interpreter of a series that runs on this node."""

from __future__ import annotations

import glob
import os
import platform
import shutil
import sys
from typing import Iterator, Mapping

from nodeside.shell import answer

_SAY = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.executable)"


def find(series: str, uv: str | None = None, env: Mapping[str, str] | None = None) -> str | None:
    """Return the full path of an interpreter of `series` ("3.7"); None where none runs.

    A name on PATH is not enough: version managers leave shims that run only for the selected
    version, so every candidate has to run and print its series.
    """
    seen = set()
    for candidate in _candidates(series, uv, os.environ if env is None else env):
        if candidate in seen:
            continue
        seen.add(candidate)
        said = answer([candidate, "-c", _SAY], timeout_s=20.0)
        words = (said or "").splitlines()
        if len(words) == 2 and words[0] == series:
            # The path that it prints of itself: a shim may run another interpreter tomorrow.
            return words[1] or candidate
    return None


def _candidates(series: str, uv: str | None, env: Mapping[str, str]) -> Iterator[str]:
    name = "python" + series
    on_path = shutil.which(name, path=env.get("PATH"))
    if on_path:
        yield on_path
    if "{}.{}".format(*sys.version_info[:2]) == series:
        yield sys.executable
    for folder in ("/usr/bin", "/usr/local/bin", "/opt/python{}/bin".format(series)):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            yield path
    for root in (env.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv"), "/opt/pyenv"):
        if root:
            pattern = os.path.join(glob.escape(root), "versions", series + "*", "bin", name)
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
