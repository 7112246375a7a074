"""The folder of Nightbench on a node: whether it can be used, and the environments in it."""

from __future__ import annotations

import os
from typing import Any

from nodeside import interpreters
from nodeside.files import AgentError, probe_writable, read_json


def why_not_writable(root: str) -> str | None:
    """Return why Nightbench's folder cannot be written; None if it can."""
    try:
        probe_writable(root)
    except AgentError as error:
        return str(error)
    return None


def why_not_usable(root: str) -> str | None:
    """Return why Nightbench's folder cannot be written, or why no program runs there."""
    problem = why_not_writable(root)
    if problem is None and os.statvfs(root).f_flag & os.ST_NOEXEC:
        problem = "programs do not run in {}: its file system is mounted noexec".format(root)
    return problem


def interpreters_of(root: str, code: str) -> dict[str, str | None]:
    """Return the interpreter of each series that a framework line needs; None if none runs."""
    uv = interpreters.any_uv(root)
    return {series: interpreters.find(series, uv, root) for series in _series(code)}


def _series(code: str) -> list[str]:
    """Return the interpreter series that the shipped framework lines need."""
    folder = os.path.join(code, "frameworks")
    found = set()
    for line in os.listdir(folder):
        described = read_json(os.path.join(folder, line, "framework.json"))
        for variant in (described or {}).get("variants", {}).values():
            found.update(variant.get("pythons", []))
    return sorted(found, key=interpreters.version)


def environments(root: str) -> list[dict[str, Any]]:
    """Return the complete framework environments: name, line, variant, last use."""
    folder = os.path.join(root, "envs")
    if not os.path.isdir(folder):
        return []
    found = []
    for name in sorted(os.listdir(folder)):
        marker = os.path.join(folder, name, ".ok.json")
        described = read_json(marker)
        if described is not None:
            entry = {key: described.get(key) for key in ("line", "variant", "version")}
            entry.update({"name": name, "used_at_s": os.stat(marker).st_mtime})
            found.append(entry)
    return found
