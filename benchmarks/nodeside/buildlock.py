"""The lock of an environment's build; it works on shared file systems, where flock may not.

mkdir succeeds for one host only, on every file system. The holder writes a new word into the folder
every few seconds. Hosts that wait watch the word by their own clocks, so that clocks of hosts are
never compared. When it has not changed for `STALE_S`, the holder is dead, and one host takes the
folder over by renaming it.
"""

from __future__ import annotations

import collections
import contextlib
import os
import shutil
import socket
import sys
import threading
import time
from typing import Any, Callable, Iterator

from nodeside.files import boot_id, make_once, read_json, utc_now, write_json
from nodeside.locks import NodeLock, holder_document, lock_path
from nodeside.processes import stat_of

BEAT_S = 5.0
STALE_S = 60.0
"""Age at which a lock is stale; NFS shows a change to other hosts after up to half a minute."""


class BuildLock:
    """The right to build one environment.

    Args:
        path: the lock's folder, next to the environment.
        who: description of the holder for the hosts that wait.
    """

    def __init__(self, path: str, who: dict[str, Any]) -> None:
        self._path = path
        self._who = dict(who, host=socket.gethostname(), pid=os.getpid(), since=utc_now())
        self._who.update(start=_start_of(os.getpid()), kernel=_kernel())
        self._word = "{}-{}-{}".format(socket.gethostname(), os.getpid(), os.urandom(6).hex())
        self._done = threading.Event()
        self._beating: threading.Thread | None = None
        self._seen: Any = None
        self._seen_s = 0.0

    def acquire(self) -> bool:
        """Take the lock without waiting; False if another host or process has it."""
        if self._held_by_the_dead():
            # The first rename removes the name: a second host's rename fails.
            aside = "{}.stale-{}".format(self._path, self._word)
            try:
                os.rename(self._path, aside)
            except OSError:
                return False
            shutil.rmtree(aside, ignore_errors=True)
        if not make_once(self._path):
            return False
        try:
            self._beat(0)
        except OSError:
            shutil.rmtree(self._path, ignore_errors=True)
            raise
        self._beating = threading.Thread(target=self._go_on_beating, daemon=True)
        self._beating.start()
        return True

    def holder(self) -> dict[str, Any]:
        """Return the holder's description of itself."""
        return read_json(os.path.join(self._path, "holder.json")) or {}

    def mine(self) -> bool:
        """Return whether this process still has the lock: after a suspend, another may have it."""
        return self.holder().get("word") == self._word

    def release(self) -> None:
        """Release the lock."""
        if self._beating is None:
            return
        self._done.set()
        self._beating.join()
        self._beating = None
        if self.mine():
            shutil.rmtree(self._path, ignore_errors=True)

    def _held_by_the_dead(self) -> bool:
        holder = self.holder()
        if not holder and not os.path.isdir(self._path):
            self._seen = None
            return False
        if holder.get("kernel") == _kernel() and not _alive(holder):
            return True
        word = (holder.get("word"), holder.get("beat"))
        now = time.monotonic()
        if self._seen != word:
            self._seen, self._seen_s = word, now
        return now - self._seen_s > STALE_S

    def _beat(self, number: int) -> None:
        document = dict(self._who, word=self._word, beat=number)
        write_json(os.path.join(self._path, "holder.json"), document)

    def _go_on_beating(self) -> None:
        number = 0
        while not self._done.wait(BEAT_S):
            number += 1
            try:
                if not self.mine():
                    return
                self._beat(number)
            except OSError:
                continue  # a full disk, or no answer: the next attempt may succeed


@contextlib.contextmanager
def both_locks(
    name: str, folder: str, lock_dir: str | None, is_there: Callable[[], bool]
) -> Iterator[bool]:
    """Lock the node and one build on it; yield False if another process has built the same.

    The node's lock is released while another node builds on a shared file system: no process has
    one of the two locks while it waits for the other.

    Args:
        name: name of the build's result.
        folder: where it is built; shared by nodes or not.
        lock_dir: folder of the node's lock.
        is_there: returns whether the result exists and is complete.
    """
    node = NodeLock(lock_path(lock_dir, os.environ))
    who = holder_document("build of {}".format(name), os.environ)
    build = BuildLock(os.path.join(folder, ".lock-" + name), {"user": who["user"]})
    shown: Any = None
    try:
        while not is_there():
            if node.acquire(who):
                if build.acquire():
                    yield not is_there()
                    return
                node.release()
                holder = build.holder()
                waiting = "another node builds it: process {pid} of {user} on {host} since {since}"
            else:
                holder = node.holder() or {}
                waiting = "the node is locked by {job_id} of {user} since {since}"
            if holder and (waiting, holder.get("pid")) != shown:
                shown = (waiting, holder.get("pid"))
                known = collections.defaultdict(lambda: "?", holder)
                said = "{}: waiting: {}".format(name, waiting.format_map(known))
                print(said, file=sys.stderr, flush=True)
            time.sleep(0.5)
        yield False
    finally:
        build.release()
        node.close()


def _alive(holder: dict[str, Any]) -> bool:
    """Return whether a lock holder of this kernel is alive."""
    pid = holder.get("pid")
    return not isinstance(pid, int) or _start_of(pid) == holder.get("start")


def _kernel() -> str:
    """Return an id of this boot and PID namespace, because host names may be equal."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return "{} {}".format(boot_id(), namespace)


def _start_of(pid: int) -> str:
    """Return a process's start in kernel ticks: a pid is reused, but not with the same start."""
    return b"".join(stat_of(pid)[19:20]).decode()
