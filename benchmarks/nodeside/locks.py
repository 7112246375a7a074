"""The node's lock: one measurement or provisioning at a time on one node, for all users."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import stat
from typing import Any, Mapping

from nodeside.files import AgentError, utc_now

DEFAULT_DIR = "/tmp/nightbench-locks"


def node_key(environment: Mapping[str, str]) -> str:
    """Name of the node as its sshd was reached: address and port of SSH_CONNECTION.

    Two servers on one machine are two nodes. Without SSH the host name stands for it.
    """
    words = environment.get("SSH_CONNECTION", "").split()
    name = "_".join(words[2:4]) if len(words) == 4 else "local_" + socket.gethostname()
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)


def lock_path(lock_dir: str | None, environment: Mapping[str, str]) -> str:
    """Path of the node's lock file."""
    folder = os.path.expanduser(lock_dir or DEFAULT_DIR)
    return os.path.join(folder, node_key(environment) + ".lock")


def _open_shared(path: str) -> int:
    """Open a lock file that every user of the machine may open.

    The folder is sticky and writable for all, where `fs.protected_regular` refuses O_CREAT
    on another user's file: so open first and create only what is absent.
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
    """An flock on a node-local file; its content says who holds it.

    The descriptor is closed on exec, so no rank can keep the node.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = _open_shared(path)
        self.held = False

    def acquire(self, holder: Mapping[str, Any]) -> bool:
        """Take the lock without waiting; False where somebody else has it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise AgentError(
                "the file system of {} has no flock: {}".format(self.path, error.strerror),
                "set `environments.lock_dir` to a folder on a local disk of the node",
            ) from error
        self.held = True
        self._write(json.dumps(dict(holder)))
        return True

    def _write(self, text: str) -> None:
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, text.encode(), 0)
        except OSError:
            # The lock is what counts; a full /tmp only hides who holds it.
            return

    def holder(self) -> dict[str, Any] | None:
        """Who holds the lock by its own word."""
        try:
            found = json.loads(os.pread(self._descriptor, 65536, 0).decode())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def release(self) -> None:
        """Give the node back."""
        if self.held:
            self._write("")
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.held = False

    def close(self) -> None:
        """Release and close."""
        self.release()
        os.close(self._descriptor)


def holder_document(job_id: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """What a holder writes into the lock."""
    words = environment.get("SSH_CONNECTION", "").split()
    return {
        "job_id": job_id,
        "user": environment.get("USER") or environment.get("LOGNAME") or str(os.getuid()),
        "controller": words[0] if words else "local",
        "pid": os.getpid(),
        "since": utc_now(),
    }


def current_holder(lock_dir: str | None, environment: Mapping[str, str]) -> dict[str, Any] | None:
    """Who holds the node now; None where it is free."""
    path = lock_path(lock_dir, environment)
    if not os.path.exists(path):
        return None
    lock = NodeLock(path)
    try:
        try:
            # A shared probe: it never takes the node away from somebody who waits for it.
            fcntl.flock(lock._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return lock.holder() or {"job_id": None}
        fcntl.flock(lock._descriptor, fcntl.LOCK_UN)
        return None
    finally:
        lock.close()


def lock_file(path: str) -> int | None:
    """Open and flock a private file; the descriptor, or None where another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
