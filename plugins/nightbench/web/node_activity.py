"""What goes on on nodes now, as controllers write it to the spool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from nightbench.spool import Spool
from nightbench.warehouse.repository import Row
from nightbench.web.alert_models import NodeActivity

HOLDING = ("running", "collecting")
"""States in which the gang has the locks of all its nodes."""


def node_activity(spool: Spool, runs: Iterable[Row]) -> Iterator[NodeActivity]:
    """Yield the cases under way of runs that may be, each with the nodes that it holds or wants."""
    for run in runs:
        folder = spool.run(run["run_id"])
        for case_id in folder.case_ids():
            case = folder.latest(case_id)
            job = case.job() if case else None
            progress = case.progress() if case else None
            if case is None or job is None or progress is None or case.outcome() is not None:
                continue
            state = str(progress["state"])
            yield NodeActivity(
                cluster=run["cluster"],
                run_id=run["run_id"],
                case_id=case_id,
                nodes=[node["name"] for node in job["nodes"]],
                is_holding=state in HOLDING,
                state=state,
                message=str(progress.get("message") or ""),
                repeat=progress.get("repeat"),
                repeats=progress.get("repeats"),
                since=case.prepared_at(),
                at=datetime.fromisoformat(progress["at"]),
            )
