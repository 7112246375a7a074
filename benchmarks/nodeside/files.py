"""Atomic writes of documents, the agent's event log, and errors with a message for the user."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
from typing import Any, Sequence

from nodeside.reasons import AGENT_ERROR, Reason, reason


class AgentError(Exception):
    """A failure on the node, with a message for the user.

    Args:
        message: for the user.
        hint: what to do.
        log: the end of a log.
        reasons: the same as data, if this error ends a repeat.
    """

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        log: str | None = None,
        reasons: Sequence[Reason] = (),
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.log = log
        self._reasons = list(reasons)

    def reasons(self, node: str) -> list[Reason]:
        """Return the error as the reasons of a repeat on this node."""
        return self._reasons or [reason(AGENT_ERROR, node, observed=str(self))]

    def document(self) -> dict[str, Any]:
        """Return the JSON document that a failing verb prints."""
        pairs = (("error", str(self)), ("hint", self.hint), ("log", self.log))
        return {key: value for key, value in pairs if value is not None}


def utc_now() -> str:
    """Return the node's wall clock, ISO-8601 in UTC; never used for durations."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def write_text(path: str, text: str, durable: bool = False) -> None:
    """Write a file atomically; `durable` syncs it before the rename.

    Raises:
        OSError: the disk is full or read-only; nothing is left except the old content.
    """
    beside = "{}.tmp-{}".format(path, os.getpid())
    try:
        with open(beside, "w") as handle:
            handle.write(text)
            if durable:
                handle.flush()
                os.fsync(handle.fileno())
        os.rename(beside, path)
    except OSError:
        remove_file(beside)
        raise


def write_json(path: str, document: Any, durable: bool = False) -> None:
    """Write a JSON document atomically; see `write_text`."""
    write_text(path, json.dumps(document, separators=(",", ":")) + "\n", durable)


_CLOSED = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.ELOOP)
"""Errors of a file that is absent or not readable for this user; a failing disk gives others."""


def read_json(path: str) -> Any:
    """Return a JSON object; None if the file is absent, may not be read, or holds none."""
    try:
        with open(path, "rb") as handle:
            return parse_object(handle.read())
    except OSError as error:
        if error.errno not in _CLOSED:
            raise
        return None


def parse_object(text: bytes) -> dict[str, Any] | None:
    """Return a JSON object; None if the text is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_text(path: str) -> str | None:
    """Return the stripped content of a small file; None if it cannot be read."""
    try:
        with open(path, errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return None


def file_digest(path: str) -> str:
    """Return the sha256 of a file.

    Raises:
        OSError: it cannot be read.
    """
    total = hashlib.sha256()
    with open(path, "rb") as handle:
        for piece in iter(lambda: handle.read(1 << 20), b""):
            total.update(piece)
    return total.hexdigest()


def boot_id() -> str | None:
    """Return the kernel's id of this boot."""
    return read_text("/proc/sys/kernel/random/boot_id")


def remove_file(path: str) -> None:
    """Remove a file if it exists."""
    try:
        os.unlink(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EROFS):
            raise


def make_once(path: str) -> bool:
    """Make a folder, atomically; return False if it existed already."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return False
    return True


def explain(error: OSError, path: str, setting: str = "environments.root") -> AgentError:
    """Return the error for the user of an OSError while writing below `path`.

    Args:
        error: the error.
        path: the folder.
        setting: the key of the cluster that names it.
    """
    where = error.filename or path
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return AgentError(
            "disk full: cannot write {}: {}".format(where, error.strerror),
            "free space on the file system of {} (`nightbench clean` removes old "
            "environments and jobs)".format(path),
        )
    if error.errno == errno.EROFS:
        return AgentError(
            "read-only file system: cannot write {}".format(where),
            "choose a writable `{}` for this cluster".format(setting),
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return AgentError(
            "permission denied: cannot write {}".format(where),
            "choose a folder that the SSH user may write as `{}`".format(setting),
        )
    return AgentError("cannot write {}: {}".format(where, error.strerror or error))


def probe_writable(folder: str, setting: str = "environments.root") -> None:
    """Make `folder` and write a block there.

    Args:
        folder: the folder.
        setting: the key of the cluster that names it.

    Raises:
        AgentError: the folder is read-only, forbidden or full.
    """
    probe = os.path.join(folder, ".probe-{}".format(os.getpid()))
    try:
        os.makedirs(folder, exist_ok=True)
        with open(probe, "wb") as handle:
            handle.write(b"\0" * 65536)
            handle.flush()
            os.fsync(handle.fileno())
    except OSError as error:
        raise explain(error, folder, setting) from error
    finally:
        remove_file(probe)


def free_bytes(path: str) -> int:
    """Return the bytes that an ordinary user may still write on the file system of `path`."""
    while not os.path.exists(path):
        path = os.path.dirname(path) or "/"
    return shutil.disk_usage(path).free


def tail(path: str, size_bytes: int = 4096, lines: int = 40) -> str:
    """Return the last lines of a log, at most `size_bytes`."""
    try:
        with open(path, "rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - size_bytes))
            text = handle.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


class EventLog:
    """agent.jsonl: what the agent did and when, one JSON object on a line."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, event: str, **details: Any) -> None:
        """Append one event, ignoring errors: the agent must clean up even on a full disk."""
        record = {"t_s": round(time.monotonic(), 3), "at": utc_now(), "event": event}
        record.update(details)
        with contextlib.suppress(OSError), open(self._path, "a") as handle:
            handle.write(json.dumps(record) + "\n")
