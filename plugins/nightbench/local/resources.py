"""Disk and memory that `demo` needs, checked before it starts."""

import shutil
from pathlib import Path

import psutil

from nightbench.core.errors import UserError
from nightbench.local import processes
from nightbench.local.home import Home

GB = 1000**3
DEMO_DISK_BYTES = 8 * GB
"""Three framework environments, uv's cache of them, PostgreSQL and logs."""
BUILT_DISK_BYTES = 2 * GB
"""Free space that a run still needs once the environments are built."""
MEMORY_BYTES = 4 * GB
"""Airflow takes about 1.1 GB, PostgreSQL 0.2 GB, two ranks of a framework 1 GB each."""

UP_DISK_BYTES = GB // 2
"""A new PostgreSQL, Airflow's tables and the first logs, with room for some runs."""
FULL_DISK_BYTES = 20 * 1000**2
"""PostgreSQL writes its log in files of 16 MiB: with less than this it cannot continue."""

_CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def require_resources(home: Home) -> list[str]:
    """Check disk and memory for `demo`; services that run already have their memory.

    Returns:
        The values, one line each.

    Raises:
        UserError: naming everything that is short, each with need and found.
    """
    need_disk = BUILT_DISK_BYTES if has_environments(home) else DEMO_DISK_BYTES
    running = processes.read(home.run / "api-server.pid") is not None
    need_memory = MEMORY_BYTES // 2 if running else MEMORY_BYTES
    free = free_bytes(home)
    memory = available_memory_bytes()
    lines = [
        f"disk at {home.root}: {free / GB:.1f} GB free, {need_disk / GB:.0f} GB needed",
        f"memory: {memory / GB:.1f} GB available, {need_memory / GB:.0f} GB needed",
    ]
    short = [
        f"{line}. {cure}"
        for line, found, need, cure in (
            (lines[0], free, need_disk, "Use another folder: NIGHTBENCH_HOME=/some/folder"),
            (lines[1], memory, need_memory, "Close other programs, or use a larger machine"),
        )
        if found < need
    ]
    if short:
        raise UserError("\n".join(short))
    return lines


def has_environments(home: Home) -> bool:
    """Return whether the local nodes have any environment."""
    return any(home.cluster.glob("n*/.nightbench-node/envs/*/.ok.json"))


def require_disk(home: Home) -> None:
    """Check that a new control plane has room.

    Raises:
        UserError: it has not.
    """
    free = free_bytes(home)
    if free < UP_DISK_BYTES:
        raise UserError(
            f"disk at {home.root}: {free / GB:.2f} GB free, {UP_DISK_BYTES / GB:.1f} GB needed. "
            "Use another folder: NIGHTBENCH_HOME=/some/folder"
        )


def free_bytes(home: Home) -> int:
    """Return what is free on the disk of a state folder, which need not exist yet."""
    place = next(p for p in (home.root, *home.root.parents) if p.exists())
    return shutil.disk_usage(place).free


def available_memory_bytes() -> int:
    """Return the available memory: the kernel's estimate, or what the cgroup leaves of it."""
    found = int(psutil.virtual_memory().available)
    for limit, used in _CGROUPS:
        if limit.is_file() and (text := limit.read_text(encoding="ascii").strip()) != "max":
            found = min(found, int(text) - int(used.read_text(encoding="ascii")))
    return found
