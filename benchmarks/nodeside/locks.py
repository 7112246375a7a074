"""The node's lock: one measurement or provisioning at a time on one node, for all users.

If a cluster is configured for it, jobs lock their devices instead. Each job then has a shared lock
on the node, and an exclusive lock on each of its devices.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import json
import os
import re
import socket
import stat
from typing import Any, Mapping, Sequence

from nodeside.files import AgentError, parse_object, utc_now

DEFAULT_DIR = "/tmp/nightbench-locks"


def node_key(environment: Mapping[str, str]) -> str:
    """Return the name of the node: address and port of its sshd, from SSH_CONNECTION.

    Two servers on one machine are two nodes. Under Slurm it is Slurm's name of the node; otherwise,
    without SSH, the host name.
    """
    if environment.get("SLURMD_NODENAME"):
        return re.sub(r"[^A-Za-z0-9._-]", "_", "slurm_" + environment["SLURMD_NODENAME"])
    words = environment.get("SSH_CONNECTION", "").split()
    name = "_".join(words[2:4]) if len(words) == 4 else "local_" + socket.gethostname()
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)


def lock_path(lock_dir: str | None, environment: Mapping[str, str]) -> str:
    """Return the path of the node's lock file."""
    folder = os.path.expanduser(lock_dir or DEFAULT_DIR)
    return os.path.join(folder, node_key(environment) + ".lock")


def device_lock_path(node_path: str, device: str) -> str:
    """Return the path of a device's lock file, next to that of its node."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", device)
    return "{}.device-{}.lock".format(node_path[: -len(".lock")], name)


def _open_shared(path: str) -> int:
    """Open a lock file that every user of the machine may open.

    The folder is sticky and writable for all. There, `fs.protected_regular` refuses O_CREAT on
    another user's file. So the file is opened first and created only if it is absent.
    """
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, exist_ok=True)
        if os.stat(folder).st_uid == os.getuid():
            os.chmod(folder, 0o1777)
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        for _ in range(10):
            try:
                descriptor = os.open(path, flags)
            except FileNotFoundError:
                try:
                    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
                except FileExistsError:
                    continue
                os.fchmod(descriptor, 0o666)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
            break
    except OSError as error:
        raise AgentError(
            "cannot open the node's lock {}: {}".format(path, error.strerror),
            "set `environments.lock_dir` of the cluster to a folder on a disk of the node "
            "that all users may write",
        ) from error
    raise AgentError("the node's lock {} is no regular file".format(path))


class NodeLock:
    """An flock on a node-local file whose content describes the holder.

    The descriptor is closed on exec, so that no rank can keep the lock.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = _open_shared(path)
        self.held = False

    def acquire(self, holder: Mapping[str, Any], shared: bool = False) -> bool:
        """Take the lock without waiting; return False if another process holds it.

        Args:
            holder: the content of the lock file, to which the current time is added.
            shared: other shared holders are allowed; nothing is written then.
        """
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise AgentError(
                "the file system of {} has no flock: {}".format(self.path, error.strerror),
                "set `environments.lock_dir` to a folder on a local disk of the node",
            ) from error
        self.held = True
        # An exclusive holder that died may have left its description.
        self._write("" if shared else json.dumps(dict(holder, since=utc_now())))
        return True

    def probe(self) -> bool:
        """Return whether another process holds the lock exclusively, by a shared attempt."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return False

    def _write(self, text: str) -> None:
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, text.encode(), 0)
        except OSError:
            # The lock is held anyway; a full /tmp only hides who holds it.
            return

    def holder(self) -> dict[str, Any] | None:
        """Return the holder's description of itself."""
        try:
            return parse_object(os.pread(self._descriptor, 65536, 0))
        except OSError:
            return None

    def release(self) -> None:
        """Release the lock."""
        if self.held:
            self._write("")
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.held = False

    def close(self) -> None:
        """Release and close."""
        self.release()
        os.close(self._descriptor)


class JobLock:
    """All locks that one job needs on a node, acquired together or not at all.

    Args:
        path: the node's lock.
        devices: their names; empty: the whole node.
    """

    def __init__(self, path: str, devices: Sequence[str] = ()) -> None:
        self.path = path
        self._node = NodeLock(path)
        # One order for all jobs, and no lock is held while another is waited for.
        self._devices = [
            (name, NodeLock(device_lock_path(path, name))) for name in sorted(set(devices))
        ]
        self._in_the_way: NodeLock | None = None

    def acquire(self, holder: Mapping[str, Any]) -> bool:
        """Take all locks without waiting; return False and hold none if one is taken."""
        self._in_the_way = None
        if not self._node.acquire(holder, shared=bool(self._devices)):
            self._in_the_way = self._node
            return False
        for name, lock in self._devices:
            if not lock.acquire(dict(holder, device=name)):
                self._in_the_way = lock
                self.release()
                return False
        return True

    def holder(self) -> dict[str, Any] | None:
        """Return who had the lock at the last attempt, by its own description."""
        if self._in_the_way is None:
            return None
        found = self._in_the_way.holder()
        if found is None and self._in_the_way is self._node:
            # Jobs that hold the node shared describe themselves in their devices' locks.
            return next(iter(_device_holders(self.path)), None)
        return found

    def release(self) -> None:
        """Release all locks."""
        for _, lock in reversed(self._devices):
            lock.release()
        self._node.release()

    def close(self) -> None:
        """Release and close."""
        for _, lock in reversed(self._devices):
            lock.close()
        self._node.close()


def holder_document(job_id: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the description that a holder writes into the lock."""
    words = environment.get("SSH_CONNECTION", "").split()
    return {
        "job_id": job_id,
        "user": environment.get("USER") or environment.get("LOGNAME") or str(os.getuid()),
        "controller": words[0] if words else "local",
        "pid": os.getpid(),
    }


def current_holders(lock_dir: str | None, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return who holds the node, or devices of it, now; empty if it is free."""
    path = lock_path(lock_dir, environment)
    holder = _holder_of(path)
    return [holder] if holder is not None else _device_holders(path)


def _device_holders(path: str) -> list[dict[str, Any]]:
    pattern = glob.escape(path[: -len(".lock")]) + ".device-*.lock"
    found = [_holder_of(name) for name in sorted(glob.glob(pattern))]
    return [holder for holder in found if holder is not None]


def _holder_of(path: str) -> dict[str, Any] | None:
    """Return the holder of an exclusive lock on the file, or None."""
    if not os.path.exists(path):
        return None
    lock = NodeLock(path)
    try:
        return (lock.holder() or {"job_id": None}) if lock.probe() else None
    finally:
        lock.close()


def lock_file(path: str) -> int | None:
    """Open and flock a private file; return its descriptor, or None if it is locked."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
