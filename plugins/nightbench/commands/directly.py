"""`nightbench run --direct`: a run over SSH from this process, loaded where a warehouse answers."""

from __future__ import annotations

import getpass

from nightbench.commands import common
from nightbench.commands.common import FAILED, INTERRUPTED, err, out, say
from nightbench.commands.live import LiveView
from nightbench.commands.outcome import is_good, show_run
from nightbench.model import RunKind
from nightbench.spool import Spool
from nightbench.warehouse.connection import WarehouseUnavailable


def measure_directly(chosen: common.Chosen) -> int:
    """Plan, measure, load and judge a run; return the exit code.

    Raises:
        UserError: nothing was launched: a Connection is missing, say.
    """
    from nightbench import direct, pipeline

    place = common.home()
    place.make()
    targets = common.reach(chosen.cluster)
    plan = pipeline.make_plan(
        chosen.suite,
        chosen.cluster,
        chosen.catalog,
        run_kind=RunKind.ON_DEMAND,
        requested_by=getpass.getuser(),
    )
    spool = common.spool()
    folder = pipeline.store_plan(plan, spool)
    run_id = plan.run.run_id
    say(f"run {run_id}: {len(plan.jobs)} cases on {chosen.cluster.name}, over SSH, no scheduler")
    interrupted = False
    with LiveView(out, folder, folder.planned(), common.history(chosen.cluster.name)) as view:
        try:
            direct.measure(
                plan.jobs,
                folder,
                targets,
                common.shipment(chosen.cluster),
                on_event=view.hear,
                refresh=view.refresh,
            )
        except KeyboardInterrupt:
            interrupted = True
    pipeline.mark_ended(folder)
    if interrupted:
        say(f"{run_id} was cancelled; its processes on the nodes have been ended")
    load_and_judge(spool, run_id)
    rows = show_run(run_id, await_verdicts=False)
    if interrupted:
        return INTERRUPTED
    return 0 if all(map(is_good, rows)) else FAILED


def load_and_judge(spool: Spool, run_id: str) -> None:
    """Load a run into the warehouse and judge it; where that is away the run waits."""
    from nightbench import pipeline

    try:
        say(pipeline.ingest_run(spool, run_id, common.open_warehouse).sentence())
    except WarehouseUnavailable as error:
        err.print(f"not loaded, it waits in {spool.root}: {error}", markup=False, soft_wrap=True)
        return
    pipeline.judge_run(spool, run_id, common.open_warehouse)
