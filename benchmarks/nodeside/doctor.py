"""What a node has, for people who look before they run."""

from __future__ import annotations

import os
import platform
import time
from typing import Any

from nodeside import interpreters
from nodeside.files import AgentError, free_bytes, probe_writable, read_json
from nodeside.fingerprint import gpus
from nodeside.locks import current_holder
from nodeside.telemetry import memory


def doctor(root: str, lock_dir: str | None, code: str) -> dict[str, Any]:
    """The doctor's document; nothing is changed except that `root` is made."""
    problem = None
    try:
        probe_writable(root)
    except AgentError as error:
        problem = str(error)
    return {
        "python": platform.python_version(),
        "root": root,
        "writable": problem is None,
        "problem": problem,
        "disk_free_bytes": free_bytes(root),
        "interpreters": {
            series: interpreters.find(series, interpreters.any_uv(root)) for series in _series(code)
        },
        "gpus": gpus(),
        "uv": interpreters.any_uv(root) is not None,
        "envs": environments(root),
        "lock_holder": current_holder(lock_dir, os.environ),
        "load1": os.getloadavg()[0],
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": memory()[1],
        "clock_wall_s": time.time(),
    }


def _series(code: str) -> list[str]:
    """Interpreter series that the shipped framework lines ask for."""
    folder = os.path.join(code, "frameworks")
    found = set()
    for line in os.listdir(folder):
        described = read_json(os.path.join(folder, line, "framework.json"))
        if described and described.get("python"):
            found.add(described["python"])
    return sorted(found, key=lambda series: [int(part) for part in series.split(".")])


def environments(root: str) -> list[dict[str, Any]]:
    """Framework environments that are complete: name, line, variant, last use."""
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
