"""Filling a wheelhouse on a machine that reaches an index, for nodes that do not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from nightbench.gang.errors import GangError
from nightbench.gang.wheelhouse import Wheel, choose, line_of, wanted_by


def fetch(
    folder: Path,
    benchmarks: Path,
    line: str,
    variant: str,
    machine: str,
    say: Callable[[str], None],
) -> list[Wheel]:
    """Bring what a framework line's lock names into a folder, by pip and its own configuration.

    Args:
        folder: the wheelhouse.
        benchmarks: the shipped tree, with the line's lock.
        line: the framework line.
        variant: which lock.
        machine: of the nodes, `x86_64` say.
        say: hears what is done.

    Returns:
        The wheels that the line needs.

    Raises:
        GangError: pip is not there or could not get all of them; its last words are told.
    """
    series, package, lock = line_of(benchmarks, line, variant)
    if not series:
        say(f"{line}: needs no environment")
        return []
    wanted = wanted_by(lock, package, None, replaced=False)
    try:
        return choose(folder, wanted, series, machine)
    except GangError as missing:
        if not folder.is_dir():
            raise
        say(f"{line}: {missing}".split(". Fill it")[0])
    with tempfile.TemporaryDirectory(prefix="nightbench-pip-") as work:
        requirements = Path(work) / "requirements.txt"
        requirements.write_text(lock, encoding="utf-8")
        _download(_pip(Path(work)), requirements, folder, series, machine)
    return choose(folder, wanted, series, machine)


def _pip(work: Path) -> list[str]:
    """The words that call pip: this interpreter's own, or the one that Python carries with it."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(work / "env")], capture_output=True, text=True
    )
    if made.returncode != 0:
        said = (made.stdout + made.stderr).strip()[-500:]
        raise GangError(f"no pip on this machine, and none could be made: {said}")
    return [str(work / "env" / "bin" / "python"), "-m", "pip"]


def _download(pip: list[str], requirements: Path, folder: Path, series: str, machine: str) -> None:
    # Wheels for another interpreter and machine than this one: pip must not build anything.
    call = [*pip, "download", "--no-deps", "--only-binary", ":all:"]
    call += ["--require-hashes", "-r", str(requirements), "-d", str(folder)]
    call += ["--python-version", series, "--implementation", "cp"]
    for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux1", "linux"):
        call += ["--platform", f"{tag}_{machine}"]
    done = subprocess.run(call, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-6:]
        raise GangError(
            f"pip could not download the wheels into {folder}: {' '.join(said)[-800:]}. It uses "
            "this machine's own pip configuration (index, find-links)"
        )
