"""A cgroup for the processes of a repeat, if the login may create one, and memory events.

Without a cgroup, processes are found by sessions, marks and descent. A cgroup adds two facts: no
process can leave it, and the kernel reports which process it killed for lack of memory.
"""

from __future__ import annotations

import os
from typing import Iterable, NamedTuple, Sequence

from nodeside.files import AgentError, read_text
from nodeside.processes import (
    AGENT_MARK,
    Launched,
    end_all,
    environ_of,
    kill_all,
    write_kernel_file,
)

PREFIX = "nightbench-"
WHOLE_MACHINE = "/proc/vmstat"
"""File whose counts may be of another user's process."""
OWN_CGROUP = "its cgroup"
_V1_PREFERRED = ("memory", "freezer", "pids", "name=systemd")


class _Hierarchy(NamedTuple):
    """A mounted cgroup hierarchy, and this process's folder in it."""

    version: int
    controllers: Sequence[str]
    folder: str


def _hierarchies() -> list[_Hierarchy]:
    """Return the hierarchies of this process whose folder is visible here."""
    mounts = []
    for line in (read_text("/proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        kind, options = right.split()[0], right.split()[-1].split(",")
        if kind in ("cgroup", "cgroup2"):
            root, point = left.split()[3:5]
            mounts.append((kind, options, root, point))
    found = []
    for line in (read_text("/proc/self/cgroup") or "").splitlines():
        _, names, path = line.split(":", 2)
        controllers = [name for name in names.split(",") if name]
        for kind, options, root, point in mounts:
            if kind == "cgroup2" if not controllers else set(controllers) <= set(options):
                below = os.path.relpath(path, root) if root != "/" else path.lstrip("/")
                folder = os.path.normpath(os.path.join(point, below))
                if not below.startswith("..") and os.path.isdir(folder):
                    version = 1 if controllers else 2
                    found.append(_Hierarchy(version, controllers, folder))
                break
    return found


def _rank(hierarchy: _Hierarchy) -> int:
    """Return a sort key: first hierarchies that count memory events, then those that can kill."""
    if hierarchy.version == 2:
        return 1
    for place, name in enumerate(_V1_PREFERRED):
        if name in hierarchy.controllers:
            # The root group does not count memory: counting would slow down the ranks.
            free = name == "memory" and os.path.ismount(hierarchy.folder)
            return 8 if free else 0 if place == 0 else 1 + place
    return 9


class Cgroup:
    """The processes of one repeat.

    Args:
        number: number of the repeat; it distinguishes this agent's groups.
        memory_mb: memory of each process, in 10^6 bytes; None: no limit.

    Raises:
        AgentError: memory must be limited, but cannot be limited here.
    """

    def __init__(self, number: int, memory_mb: int | None = None) -> None:
        self._folder: str | None = None
        self._memory_mb = memory_mb
        name = "{}{}-{}".format(_own_prefix(), os.getpid(), number)
        for hierarchy in sorted(_hierarchies(), key=_rank):
            folder = os.path.join(hierarchy.folder, name)
            try:
                os.mkdir(folder)
            except OSError:
                continue  # not delegated to this login: try the next one
            writable = os.access(os.path.join(folder, "cgroup.procs"), os.W_OK)
            if writable and (memory_mb is None or _accounts_memory(folder)):
                self._folder = folder
                break
            remove_folder(folder)
        if memory_mb is not None and self._folder is None:
            raise AgentError(
                "the memory of a process cannot be limited here: this login cannot "
                "create a cgroup that counts memory",
                "delegate a cgroup to it (systemd: Delegate=memory), or omit `memory` in the case",
            )
        self._events = MemoryEvents(self._folder)

    def procs_of(self, name: str) -> str | None:
        """Return the file into which a process writes its pid; None if there is no cgroup.

        If memory is limited, each process has its own group inside the repeat's.

        Raises:
            AgentError: the limit cannot be set.
        """
        if self._folder is None or self._memory_mb is None:
            return os.path.join(self._folder, "cgroup.procs") if self._folder else None
        folder = os.path.join(self._folder, name)
        try:
            os.mkdir(folder)
            _limit_memory(folder, self._memory_mb * 10**6)
        except OSError as error:
            raise AgentError(
                "{}: the memory of {} cannot be limited: {}".format(folder, name, error.strerror)
            ) from error
        self._events.add(folder)
        return os.path.join(folder, "cgroup.procs")

    def members(self) -> list[int]:
        """Return the pids in the group and below it."""
        return _members(self._folder) if self._folder else []

    def kill(self, launched: Iterable[Launched]) -> list[int]:
        """Send SIGKILL to all processes in it; return their pids."""
        return _kill(self._folder, launched) if self._folder else []

    def out_of_memory(self) -> str | None:
        """Return evidence that the kernel killed one of the processes for memory, or None."""
        return self._events.out_of_memory()

    def close(self) -> None:
        """Remove it, unless a process is left in it."""
        if self._folder:
            remove_folder(self._folder)


class MemoryEvents:
    """Counts of processes killed for memory since this object was created.

    Args:
        folder: the cgroup of the processes, if they have their own.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._counts: list[tuple[str, str, int | None]] = []
        # The machine's count is the last: the victim may have been another user's.
        self._note(WHOLE_MACHINE, WHOLE_MACHINE)
        for hierarchy in _hierarchies():
            if hierarchy.version == 2:
                self._note(os.path.join(hierarchy.folder, "memory.events"), "the login's cgroup")
        if folder:
            self.add(folder)

    def add(self, folder: str) -> None:
        """Also count the kills in a cgroup; they are reported before those of larger groups."""
        for name in ("memory.oom_control", "memory.events"):
            self._note(os.path.join(folder, name), OWN_CGROUP)

    def _note(self, path: str, name: str) -> None:
        self._counts.insert(0, (path, name, _oom_kills(path)))

    def out_of_memory(self) -> str | None:
        """Return the name of the count that has increased, or None.

        The processes' own cgroup counts kills by any OOM killer. If it has a count, that of the
        whole host is not read, because it includes other users' processes.
        """
        for path, name, before in self._counts:
            now = _oom_kills(path)
            if now is not None and before is not None:
                if now > before:
                    return name
                if name == OWN_CGROUP:
                    return None
        return None


def _accounts_memory(folder: str) -> bool:
    """Return whether groups below a new group can limit memory; enable it if necessary."""
    if os.path.exists(os.path.join(folder, "memory.limit_in_bytes")):
        return True
    if not os.path.exists(os.path.join(folder, "memory.max")):
        return False
    return write_kernel_file(os.path.join(folder, "cgroup.subtree_control"), "+memory")


def _limit_memory(folder: str, size: int) -> None:
    """Limit the memory, including swap, of a group without processes."""
    limits = (
        ("memory.limit_in_bytes", size),
        ("memory.memsw.limit_in_bytes", size),
        ("memory.max", size),
        ("memory.swap.max", 0),
    )
    for name, value in limits:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with open(path, "w") as handle:
                handle.write(str(value))


def _oom_kills(path: str) -> int | None:
    """Return the value of oom_kill in a file of `key value` lines; None if there is none."""
    for line in (read_text(path) or "").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "oom_kill":
            return int(words[1])
    return None


def remove_folder(folder: str) -> None:
    """Remove a cgroup, unless a process lives in it."""
    for inner, _, _ in os.walk(folder, topdown=False):
        try:
            os.rmdir(inner)
        except OSError:
            return


def clear_left_behind() -> list[int]:
    """End processes and remove cgroups that dead agents of this login left; return the pids."""
    ended = []
    for hierarchy in _hierarchies():
        for name in sorted(os.listdir(hierarchy.folder)):
            owner, _, number = name[len(_own_prefix()) :].partition("-")
            if not name.startswith(_own_prefix()) or not owner.isdigit() or not number.isdigit():
                continue
            if AGENT_MARK not in environ_of(int(owner)):
                folder = os.path.join(hierarchy.folder, name)
                ended += _kill(folder, ())
                remove_folder(folder)
    return ended


def _own_prefix() -> str:
    """Return the prefix of the names of groups whose agents are in this PID namespace.

    An agent of another container may share the hierarchy, but has another pid here.
    """
    return "{}{}-".format(PREFIX, os.stat("/proc/self/ns/pid").st_ino)


def _members(folder: str) -> list[int]:
    found = []
    for inner, _, _ in os.walk(folder):
        text = read_text(os.path.join(inner, "cgroup.procs")) or ""
        # 0 means a process in another PID namespace; for kill(2) it means the caller's own group.
        found += [int(word) for word in text.split() if word != "0"]
    return found


def _kill(folder: str, launched: Iterable[Launched]) -> list[int]:
    def end(running: Sequence[int]) -> Sequence[int]:
        # cgroup.kill of version 2, from Linux 5.14 on.
        if not write_kernel_file(os.path.join(folder, "cgroup.kill"), "1"):
            # A pid stays a member until it is reaped, so no other process can have it yet.
            kill_all(running)
        return running

    return end_all(lambda: _members(folder), end, launched)[0]
