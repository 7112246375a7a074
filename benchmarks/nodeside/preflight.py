"""The preflight of a node before a night: preflight/1."""

from __future__ import annotations

import os
import platform
import time
from typing import Any, Mapping, Sequence

from nodeside import control_measurements, gpus, system
from nodeside.files import boot_id
from nodeside.interpreters import any_uv
from nodeside.locks import current_holders
from nodeside.neighbours import CpuMeter
from nodeside.processor import cpu_description
from nodeside.root_folder import (
    environments,
    interpreters_of,
    why_not_usable,
    why_not_writable,
)
from nodeside.sweep import sweep

SCHEMA = "nightbench.preflight/1"
_LOOK_S = 1.0
_NAMED = 0.05


def preflight(
    root: str,
    job_root: str | None,
    lock_dir: str | None,
    code: str,
    cpus: Sequence[int],
    controls_of: str | None,
    prefixes: Mapping[str, str],
) -> dict[str, Any]:
    """Return the preflight/1 document; this changes nothing, except that it creates the roots.

    Args:
        root: folder of Nightbench on the node.
        job_root: folder of the state of jobs; None: the root.
        lock_dir: folder of the node's lock.
        code: folder of the shipped code.
        cpus: cores that jobs are pinned to; empty: all.
        controls_of: device kind that is also measured: `cpu` (up to 3 s), or `gpu` too (plus the
            import of a framework); nothing if None, or if the node is locked.
        prefixes: framework line -> prefix that the site prepared, for control measurements of GPUs.
    """
    jobs = None
    if job_root:
        problem, disk = why_not_writable(job_root), system.disk(job_root)
        jobs = {"path": job_root, "problem": problem, "disk": disk}
    present = [core for core in cpus if core in os.sched_getaffinity(0)]
    problem = why_not_usable(root)
    holders = current_holders(lock_dir, os.environ)
    processor = cpu_description()
    shown, gpu_problem = gpus.health()
    # Before the controls, which would be found as foreign work.
    foreign = _foreign(present, [gpu["uuid"] for gpu in shown])
    measured: list[dict[str, Any]] = []
    control_problem = None
    # Work of the holder of the node's lock would be measured with them.
    if controls_of is not None and not holders:
        measured = control_measurements.of_cpu(present)
        if shown and controls_of != "cpu":
            more, control_problem = control_measurements.of_devices(
                controls_of, code, root, prefixes
            )
            measured += more
    return {
        "schema": SCHEMA,
        "boot_id": boot_id(),
        "python": platform.python_version(),
        "root": root,
        "writable": problem is None,
        "problem": problem,
        "clock": system.clock(),
        "disk": system.disk(root),
        "job_root": jobs,
        "shm_free_bytes": system.shared_memory_free(),
        "cpu": dict(system.cpu_state(), **{name: processor[name] for name in ("model", "machine")}),
        "memory": system.memory_state(),
        "limits": system.limits(),
        "session": system.session(),
        "interpreters": interpreters_of(root, code),
        "uv": any_uv(root) is not None,
        "envs": environments(root),
        "gpus": shown,
        "gpu_problem": gpu_problem,
        "links": system.links(),
        "foreign": foreign,
        "lock_holders": holders,
        "orphans": sweep(None, False)["found"],
        "controls": measured,
        "control_problem": control_problem,
    }


def _foreign(cpus: Sequence[int], devices: Sequence[str]) -> dict[str, Any]:
    """Measure the foreign work on the cores for a second, and list that on the GPUs."""
    meter = CpuMeter(cpus, None, _NAMED)
    time.sleep(_LOOK_S)
    scan = meter.scan_processes()
    share = meter.share(scan.from_s, scan.to_s)
    found = gpus.compute_processes(devices)
    return {
        "cpu_share": round(share.share, 3),
        "processes": gpus.foreign(None, found, True)
        + meter.foreign_processes(share.from_s, share.to_s),
    }
