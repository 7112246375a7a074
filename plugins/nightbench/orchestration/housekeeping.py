"""Retention on the control plane, and the sweep of a cluster's nodes."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

from nightbench.core.errors import UserError
from nightbench.orchestration import places

DAY_S = 86400.0
log = logging.getLogger(__name__)


def expire_spool(days: float) -> int:
    """Remove loaded runs that are older; returns how many."""
    removed = places.spool().expire(days)
    for run_id in removed:
        log.info("removed run %s from the spool", run_id)
    return len(removed)


def expire_logs(days: float, folder: Path | None = None) -> int:
    """Remove task and DAG-processor logs that nobody has written to for so long.

    Args:
        days: how old.
        folder: Airflow's own log folder when None.

    Returns:
        How many files were removed.
    """
    from airflow.sdk.configuration import conf

    root = folder or Path(conf.get("logging", "base_log_folder"))
    limit = time.time() - days * DAY_S
    removed = 0
    for path in sorted(root.rglob("*"), key=lambda p: len(p.parts), reverse=True):
        if path.is_symlink():
            continue
        if path.is_dir():
            if path.stat().st_mtime < limit and not any(path.iterdir()):
                path.rmdir()
        elif path.suffix == ".log" and path.stat().st_mtime < limit:
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def sweep_cluster(name: str, keep_days: float) -> dict[str, Any]:
    """End our orphaned processes on a cluster's nodes and remove what is old there.

    A node that does not answer is told and keeps no other from being swept: its orphans end with
    their lease, and before the next night's preflight.

    Raises:
        UserError: no such cluster, a wrong file, or no node answers.
    """
    from nightbench.config import find_clusters, load_cluster
    from nightbench.gang import clean, sweep
    from nightbench.orchestration.connections import ssh_targets

    files = find_clusters(places.dags_folder())
    if name not in files:
        have = ", ".join(sorted(files)) or "none"
        raise UserError(f'cluster: found "{name}"; expected one of {have}')
    cluster = load_cluster(files[name], home=places.home_folder())
    targets = ssh_targets(cluster)
    shipment = places.shipment()

    async def both() -> tuple[dict[str, Any], dict[str, Any]]:
        swept = await sweep(cluster, targets, shipment, kill=True)
        return swept, await clean(cluster, targets, shipment, keep_days)

    swept, cleaned = asyncio.run(both())
    away = {n: a["problem"] for n, a in {**swept, **cleaned}.items() if a.get("problem")}
    for node, why in away.items():
        log.error("%s was not swept: %s", node, why)
    if len(away) == len(cluster.nodes):
        raise UserError(f"no node of {name} could be swept: {next(iter(away.values()))}")
    for node, found in swept.items():
        for process in found["found"]:
            log.info("%s: orphan %s of %s", node, process.get("pid"), process.get("job"))
        log.info("%s: %d orphans ended", node, len(found["killed"]))
    return {
        "killed": {node: len(found["killed"]) for node, found in swept.items()},
        "removed": {node: len(found.get("removed", ())) for node, found in cleaned.items()},
        "away": sorted(away),
    }
