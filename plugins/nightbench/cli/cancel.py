"""What `nightbench cancel` does with a bisect and a drill, which are more than one run."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from nightbench.cli import common
from nightbench.core.errors import UserError

if TYPE_CHECKING:
    from nightbench.spool import RunSpool

LONGEST_S = 60.0
"""Making an environment is no launch that could be ended; whoever waits for longer is told."""
AGAIN_S = 5.0
REASON = "cancelled by the user"


def end_bisect(name: str) -> bool:
    """End the test of a bisect that runs, and the bisect; False where there is none so named.

    Raises:
        UserError: it has ended, a node does not answer, or its process goes on all the same.
    """
    from nightbench import gang
    from nightbench.experiments import bisect_store

    folder = next((each for each in common.spool().bisects() if each.run_id == name), None)
    if folder is None:
        return False
    document, asked = bisect_store.known_of(folder)
    if document["state"] != "running":
        raise UserError(f"{name}: found it {document['state']}; expected one that is measured")
    cluster = common.choose(asked.suite, asked.cluster).cluster
    targets = common.reach(cluster)
    until = time.monotonic() + LONGEST_S
    while True:
        # Anew each time: its process may have begun another launch, or another test.
        for step in bisect_store.steps_of(folder):
            if step["status"] == "running":
                asyncio.run(gang.cancel_run(step["comparison_id"], cluster, targets, REASON))
        if _let_go(folder):
            break
        if time.monotonic() > until:
            raise UserError(
                f"{name}: its process goes on, perhaps because it makes an environment; what ran "
                f"on {cluster.name} has been ended. Try again, or press Ctrl-C where it runs"
            )
    now = folder.run() or {}
    if now["state"] == "running":
        # Killed before: nobody else says so.
        folder.save_run({**now, "state": "stopped", "stopped": REASON})
        _store(folder)
    common.say(
        f"{name} is cancelled: no process of it is left on {cluster.name}. Go on: nightbench "
        f"bisect --resume {name}"
    )
    return True


def refuse_drill(name: str) -> None:
    """Say how a drill is ended.

    Raises:
        UserError: there is a drill of that name.
    """
    if any(each.run_id == name for each in common.spool().drills()):
        raise UserError(
            f"{name} is a drill; press Ctrl-C where it runs. It ends its processes on the nodes, "
            f"and `nightbench drill --resume {name}` goes on"
        )


def _let_go(folder: RunSpool) -> bool:
    """Wait a little for the process that steers it to end."""
    until = time.monotonic() + AGAIN_S
    while folder.is_steered():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def _store(folder: RunSpool) -> None:
    from nightbench.cli.bisect import store
    from nightbench.experiments import bisect_store

    store(bisect_store.document_of(folder))
