"""Disk and memory that `demo` needs, checked before it starts."""

from __future__ import annotations

import shutil
from pathlib import Path

from nightbench.core.errors import UserError
from nightbench.local import processes
from nightbench.local.home import Home

GB = 1000**3
DEMO_DISK_BYTES = 8 * GB
"""Three framework environments, uv's cache of them, PostgreSQL and logs."""
BUILT_DISK_BYTES = 2 * GB
"""What a run still needs once the environments are built."""
MEMORY_BYTES = 4 * GB
"""Airflow takes about 1.1 GB, PostgreSQL 0.2 GB, two ranks of a framework 1 GB each."""

_CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def require_resources(home: Home) -> list[str]:
    """Check disk and memory for `demo`; services that run already have their memory.

    Args:
        home: the state folder; its file system is checked.

    Returns:
        The figures, one line each.

    Raises:
        UserError: naming everything that is short, each with need and found.
    """
    built = any(home.cluster.glob("n*/.nightbench-node/envs/*/.ok.json"))
    need_disk = BUILT_DISK_BYTES if built else DEMO_DISK_BYTES
    running = processes.read(home.run / "api-server.pid") is not None
    need_memory = MEMORY_BYTES // 2 if running else MEMORY_BYTES
    place = next(p for p in (home.root, *home.root.parents) if p.exists())
    free = shutil.disk_usage(place).free
    memory = available_memory_bytes()
    lines = [
        f"disk at {home.root}: {free / GB:.1f} GB free, {need_disk / GB:.0f} GB needed",
        f"memory: {memory / GB:.1f} GB available, {need_memory / GB:.0f} GB needed",
    ]
    short = [
        f"{line}. {cure}"
        for line, found, need, cure in (
            (lines[0], free, need_disk, "Name another place: NIGHTBENCH_HOME=/some/folder"),
            (lines[1], memory, need_memory, "Close other programs, or take a larger machine"),
        )
        if found < need
    ]
    if short:
        raise UserError("\n".join(short))
    return lines


def available_memory_bytes() -> int:
    """Return the available memory: the kernel's estimate, or what the cgroup leaves of it."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            found = int(value.split()[0]) * 1024
            break
    else:
        raise UserError("/proc/meminfo has no MemAvailable: is this Linux?")
    for limit, used in _CGROUPS:
        if limit.is_file() and (text := limit.read_text(encoding="ascii").strip()) != "max":
            found = min(found, int(text) - int(used.read_text(encoding="ascii")))
    return found
