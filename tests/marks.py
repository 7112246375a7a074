"""Processes that runs have started on this machine, found by the marks in their environment."""

from __future__ import annotations

import contextlib
from pathlib import Path

NAMES = (b"NIGHTBENCH_JOB", b"NIGHTBENCH_AGENT")
"""Variables that ranks and agents carry; the id of the run begins their values."""


def marks(begin: str = "") -> dict[int, str]:
    """Pid -> mark of every process, agents included, whose mark's value begins so."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for variable in (folder / "environ").read_bytes().split(b"\0"):
                name, _, value = variable.partition(b"=")
                if name in NAMES and value.startswith(begin.encode()):
                    found[int(folder.name)] = f"{name.decode()}={value.decode()}"
                    break
    return found
