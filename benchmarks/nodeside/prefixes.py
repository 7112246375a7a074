"""A prefix that was prepared on this node: whether it exists, and its owner."""

from __future__ import annotations

import os
import stat
from typing import Any, Iterator


def prefix(path: str) -> dict[str, Any]:
    """Return {"python": path} of a prefix, or {"problem": why it must not be used}.

    Its programs run as this user. So the prefix, its interpreter and all folders above them must
    belong to this user or to root, and must not be writable for others. A folder such as /tmp, in
    which users can replace only their own entries, is allowed above them.
    """
    python = os.path.join(os.path.expanduser(path), "bin", "python")
    if not os.path.exists(python):
        return {"problem": "{} is not there".format(python)}
    for each in _on_the_way(python):
        problem = _writable_by_others(each)
        if problem:
            return {"problem": "{}: {}".format(each, problem)}
    return {"python": python}


def _on_the_way(python: str) -> Iterator[str]:
    """Yield all paths that decide which interpreter runs: each folder, and each link's target."""
    seen = set()
    left = [os.path.abspath(python), os.path.realpath(python)]
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        yield path
        left += {os.path.dirname(path), os.path.realpath(os.path.dirname(path))} - {path}


def _writable_by_others(path: str) -> str | None:
    state = os.lstat(path)
    if stat.S_ISLNK(state.st_mode):
        return None  # its folder says who may change it
    sticky = stat.S_ISDIR(state.st_mode) and state.st_mode & stat.S_ISVTX
    if state.st_uid not in (0, os.getuid()):
        return "found owner {}; expected uid {} or root".format(state.st_uid, os.getuid())
    if state.st_mode & stat.S_IWOTH and not sticky:
        return "found permissions {:o}; expected no write permission for others".format(
            stat.S_IMODE(state.st_mode)
        )
    ours = state.st_gid in (0, os.getgid())
    if state.st_mode & stat.S_IWGRP and not ours and not sticky:
        return "found permissions {:o} of group {}; expected no write permission for others".format(
            stat.S_IMODE(state.st_mode), state.st_gid
        )
    return None
