"""A controller as a program: prepares and measures the pickled case, and logs what it hears."""

from __future__ import annotations

import asyncio
import pickle
import sys
from pathlib import Path

from upath import UPath

from nightbench.gang import GangEvent, prepare, run_gang
from nightbench.spool import CaseStore


def say(event: GangEvent) -> None:
    print(event.kind, event.node or "", event.message, flush=True)


async def main() -> None:
    job, targets, shipment, folder = pickle.loads(Path(sys.argv[1]).read_bytes())
    await prepare(job, targets, shipment, say)
    outcome = await run_gang(job, targets, CaseStore(UPath(folder)), say)
    print(outcome.status, outcome.why, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
