"""Records which process controls a run: a lock of the kernel on a local disk, a lease elsewhere.

The kernel's lock ends with its process. An object store has no locks: there the process writes
`control.json` again and again for as long as it lives, and one that has written nothing for
`LEASE_S` counts as dead. The hosts' clocks have to agree within `LEASE_S - RENEW_S`.
"""

import fcntl
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from upath import UPath

from nightbench.spool.documents import Document, SpoolError, is_local, read_json, write_json

RENEW_S = 20.0
LEASE_S = 120.0
POLL_S = 5.0
SETTLE_S = 2.0
"""Two that find no lease at the same time both write one: by then the last to write is known."""

log = logging.getLogger(__name__)


def controlling(folder: UPath) -> AbstractContextManager[None]:
    """Keep the right to control a run while this lasts; wait while another process has it."""
    return _locked(Path(folder.path)) if is_local(folder) else _leased(folder / "control.json")


def is_controlled(folder: UPath) -> bool | None:
    """Whether the process that controls a run is alive; None if none was recorded."""
    if not is_local(folder):
        lease = read_json(folder / "control.json")
        return None if lease is None else _lives(lease)
    path = Path(folder.path) / "control.lock"
    if not path.exists():
        return None
    with path.open("r", encoding="ascii") as stream:
        try:
            # A shared lock, because another check at the same time does not control the run.
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "control.lock").open("w", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextmanager
def _leased(path: UPath) -> Iterator[None]:
    mine = uuid.uuid4().hex
    while not _take(path, mine):
        time.sleep(POLL_S)
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(path, mine, ended), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()
        if _is_mine(path, mine):
            write_json(path, _lease(mine, live=False))


def _take(path: UPath, mine: str) -> bool:
    if _lives(read_json(path) or {}):
        return False
    write_json(path, _lease(mine))
    time.sleep(SETTLE_S)
    return _is_mine(path, mine)


def _renew(path: UPath, mine: str, ended: threading.Event) -> None:
    while not ended.wait(RENEW_S):
        try:
            if not _is_mine(path, mine):
                log.error("%s: another process has taken over this run: this one was silent", path)
                return
            write_json(path, _lease(mine))
        except (SpoolError, OSError) as error:
            log.warning("The lease is not renewed: %s", error)


def _is_mine(path: UPath, mine: str) -> bool:
    return bool((read_json(path) or {}).get("token") == mine)


def _lease(token: str, live: bool = True) -> Document:
    now = datetime.now(UTC).isoformat()
    return {
        "token": token,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "at": now,
        "live": live,
    }


def _lives(lease: Document) -> bool:
    if not lease.get("live"):
        return False
    age = datetime.now(UTC) - datetime.fromisoformat(lease["at"])
    return age.total_seconds() < LEASE_S
