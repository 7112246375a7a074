"""The verb `clean`: removes old files of Nightbench on a node that nothing uses."""

from __future__ import annotations

import glob
import os
import shutil
import time
from typing import Any, Sequence

from nodeside.agent_start import is_served
from nodeside.files import AgentError, read_json, read_text
from nodeside.locks import NodeLock, holder_document, lock_path
from nodeside.processes import command_of, pids

_DAY_S = 86400.0


def clean(
    root: str,
    keep_days: float,
    keep_code: Sequence[str],
    lock_dir: str | None,
    job_root: str | None = None,
) -> dict[str, Any]:
    """Remove jobs, environments, wheels, code and compiled files not used for `keep_days`.

    It holds the node's lock, so that nothing is measured or built meanwhile.

    Args:
        root: folder of Nightbench on the node.
        keep_days: age in days from which a file is old.
        keep_code: digests of code to keep.
        lock_dir: folder of the node's lock.
        job_root: folder whose `jobs/` holds the state of jobs; the root when None.

    Returns:
        {"removed": [path below root], "freed_bytes", "kept_in_use": [path]}.

    Raises:
        AgentError: the node is in use.
    """
    lock = NodeLock(lock_path(lock_dir, os.environ))
    if not lock.acquire(holder_document("clean", os.environ)):
        holder = lock.holder()
        lock.close()
        raise AgentError(
            "the node is in use: {}".format(holder), "clean again when the job has ended"
        )
    try:
        return _Cleaner(root, keep_days, keep_code, job_root or root).run()
    finally:
        lock.close()


class _Cleaner:
    def __init__(
        self, root: str, keep_days: float, keep_code: Sequence[str], job_root: str
    ) -> None:
        self._root = root
        self._job_root = job_root
        self._oldest = time.time() - keep_days * _DAY_S
        self._keep_code = set(keep_code)
        self._in_use = _paths_of_processes()
        self._removed: list[str] = []
        self._kept: list[str] = []
        self._freed = 0

    def run(self) -> dict[str, Any]:
        for job in self._jobs():
            marks = [os.path.join(job, name) for name in ("agent.jsonl", "job.json")]
            newest = max([_mtime(job)] + [_mtime(mark) for mark in marks])
            if newest < self._oldest and not is_served(job):
                self._remove(job)
        for pattern in ("jobs/*/*/g*", "jobs/*/*", "jobs/*"):
            for folder in self._below(pattern, self._job_root):
                if not os.listdir(folder):
                    os.rmdir(folder)
        # What the remaining jobs refer to stays too.
        jobs = self._jobs()
        pythons = {read_text(os.path.join(job, "python")) or "" for job in jobs}
        digests = {
            (read_json(os.path.join(job, "job.json")) or {}).get("code_digest") for job in jobs
        }
        for env in self._below("envs/*"):
            wanted = any(python.startswith(env + os.sep) for python in pythons)
            if not wanted and _mtime(os.path.join(env, ".ok.json"), env) < self._oldest:
                self._remove(env)
        for pattern in ("envs/.building-*", "envs/.removing-*", "code/.*", "tools/.*"):
            for half in sorted(glob.glob(os.path.join(glob.escape(self._root), pattern))):
                if _mtime(half) < time.time() - _DAY_S:
                    self._remove(half)
        for code in self._below("code/*"):
            name = os.path.basename(code)
            wanted = any(each and each.startswith(name) for each in self._keep_code | digests)
            if not wanted and _mtime(code) < self._oldest:
                self._remove(code)
        compiled = self._below("compiled/*", self._job_root)
        for each in self._below("wheels/*") + self._below("commits/*") + compiled:
            if _mtime(each) < self._oldest:
                self._remove(each)
        return {
            "removed": self._removed,
            "freed_bytes": self._freed,
            "kept_in_use": self._kept,
        }

    def _jobs(self) -> list[str]:
        return self._below("jobs/*/*/g*/*", self._job_root)

    def _below(self, pattern: str, root: str | None = None) -> list[str]:
        found = glob.glob(os.path.join(glob.escape(root or self._root), pattern))
        return sorted(path for path in found if os.path.isdir(path))

    def _remove(self, path: str) -> None:
        name = os.path.relpath(path, self._root)
        if any(used == path or used.startswith(path + os.sep) for used in self._in_use):
            self._kept.append(name)
            return
        # Renamed first: a partly removed environment must not be taken for a complete one.
        going = os.path.join(
            os.path.dirname(path), ".removing-{}-{}".format(os.getpid(), os.path.basename(path))
        )
        size = _size(path)
        os.rename(path, going)
        if os.path.isdir(going):
            shutil.rmtree(going)
        else:
            os.remove(going)
        self._freed += size
        self._removed.append(name)


def _mtime(path: str, otherwise: str | None = None) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return _mtime(otherwise) if otherwise else 0.0


def _size(path: str) -> int:
    total = os.lstat(path).st_size if os.path.isfile(path) else 0
    for folder, _, names in os.walk(path):
        for name in names:
            found = os.lstat(os.path.join(folder, name))
            # Files with a second link in the cache free no space.
            total += found.st_size if found.st_nlink == 1 else 0
    return total


def _paths_of_processes() -> set[str]:
    """Return the absolute paths in all command lines, and all working folders."""
    found = set()
    for pid in pids():
        try:
            found.add(os.readlink("/proc/{}/cwd".format(pid)))
        except OSError:
            continue
        found.update(word for word in command_of(pid) if word.startswith("/"))
    return found
