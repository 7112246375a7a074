"""cancel: end a run, a comparison of builds or a bisect, with all its processes."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from nightbench.cli import common, dag_run
from nightbench.cli.common import say, warn
from nightbench.cli.selection import Selection
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, Reason, ReasonCode
from nightbench.local.airflow_api import AirflowApi, AirflowUnavailable
from nightbench.spool import RunSpool, Spool

app = typer.Typer()

CANCEL_REASON = "cancelled by the user"
CANCEL_TIMEOUT_S = 60.0
"""An environment that is being made is no launch that could be ended; the user is told of it."""
CANCEL_RETRY_S = 5.0


@app.command()
def cancel(
    run: Annotated[
        str | None,
        typer.Argument(
            help="Id of a run, a DAG run, a comparison, a confirmation or a bisect; the run that "
            "goes on unless given."
        ),
    ] = None,
) -> None:
    """End a run, a comparison of builds or a bisect, and every process of it on all nodes."""
    from nightbench import gang
    from nightbench.spool import plans

    spool = common.spool()
    if run is not None and dag_run.named(spool, run) is None and _cancel_experiment(run):
        return
    found = _find(spool, run)
    document = found.run() or {}
    if _has_ended(found):
        say(f"{found.run_id} had ended at {document['ended_at']}: nothing was changed")
        return
    measured_elsewhere = found.is_steered()
    dag_id, dag_run_id = (str(document.get(key) or "") for key in ("dag_id", "dag_run_id"))
    api = _steering(dag_run_id) if dag_id and dag_run_id else None
    state = (api.dag_run(dag_id, dag_run_id) or {}).get("state") if api else None
    # First what has no gang yet: nobody begins it now, and what is being prepared for it ends.
    _record_cancelled(found, begun=False)
    if api and state in ("queued", "running"):
        api.fail_run(dag_id, dag_run_id)
        say(f"Airflow ends its DAG run {dag_run_id}")
    where = common.cluster_of(document["cluster"])
    report = asyncio.run(gang.cancel_run(found.run_id, where, common.reach(where), CANCEL_REASON))
    for node, pids in report.killed.items():
        say(f"{node}: {len(report.stopped[node])} agents told to stop, {len(pids)} processes swept")
    _record_cancelled(found, begun=True)
    plans.mark_ended(found)
    say(f"{found.run_id} is cancelled: no process with its mark is left on {where.name}")
    # Loaded elsewhere: the checks take seconds of CPU, which another run may be measured with.
    if api:
        api.run_again(dag_id, dag_run_id, dag_run.LOADING)
        say(f"Airflow loads what was measured; then: nightbench results --run {found.run_id}")
    elif not measured_elsewhere:  # else by the direct run itself
        say(f"What was measured: nightbench results --run {found.run_id}")


def _steering(dag_run_id: str) -> AirflowApi | None:
    """Return the API of the Airflow that steers a DAG run, or None if it does not answer.

    Raises:
        UserError: it needs a login that this terminal does not have; nothing was changed.
    """
    api = None
    with suppress(AirflowUnavailable):
        api = dag_run.airflow_runs(
            f"Without it, mark the DAG run {dag_run_id} as failed in Airflow's UI"
        )
    if api is None:
        warn("Airflow does not answer: ending the processes on the nodes only")
    return api


def _has_ended(run: RunSpool) -> bool:
    """Tell whether a run has ended and none of its cases is measured again."""
    stores = [run.latest(planned["case_id"]) for planned in run.planned()]
    ended = all(store.outcome() is not None for store in stores if store is not None)
    return ended and run.has_ended


def _record_cancelled(run: RunSpool, *, begun: bool) -> None:
    """Give the cases that have no outcome one: those that have a gang, or those that have none."""
    for planned in run.planned():
        store = run.latest(planned["case_id"])
        progress = (store.progress() if store is not None else None) or {}
        if ("repeat" in progress) is not begun:
            continue
        store = store or run.case(planned["case_id"])
        store.end(CaseStatus.CANCELLED, [Reason(ReasonCode.CANCELLED, observed="by the user")])


def _find(spool: Spool, name: str | None) -> RunSpool:
    """The run of that name, or the only one that has not ended."""
    if name is not None:
        found = dag_run.named(spool, name)
        if found is None:
            raise dag_run.unknown_run(spool, name)
        return found
    going = [each for each in spool.runs() if _goes_on(each)]
    if len(going) != 1:
        names = ", ".join(each.run_id for each in going) or "none"
        raise UserError(f"Which run? Give its id; these have not ended: {names}")
    return going[0]


def _goes_on(run: RunSpool) -> bool:
    return not run.has_ended and any(run.outcome(x["case_id"]) is None for x in run.planned())


# --- experiments -------------------------------------------------------------------------


def _cancel_experiment(name: str) -> bool:
    """End an experiment and its processes on the nodes; False where none has this id."""
    spool = common.spool()

    def named(folders: Sequence[RunSpool]) -> RunSpool | None:
        # By comparing names: the id of a DAG run is no name of a folder.
        return next((each for each in folders if each.run_id == name), None)

    if (comparison := named(spool.comparisons())) is not None:
        _cancel_comparison(comparison)
    elif (bisect := named(spool.bisects())) is not None:
        _cancel_bisect(bisect)
    elif named(spool.drills()) is not None:
        raise UserError(
            f"{name} is a drill; press Ctrl-C where it runs. It ends its processes on the nodes, "
            f"and `nightbench drill --resume {name}` goes on"
        )
    else:
        return False
    return True


def _cancel_comparison(folder: RunSpool) -> None:
    from nightbench import gang
    from nightbench.cli.ab import chosen_of
    from nightbench.experiments.ab import AbRequest
    from nightbench.experiments.comparison import saved_result
    from nightbench.experiments.experiment_spool import (
        COMPARISON,
        PROFILE,
        read_request,
        request_cancel,
    )

    is_profile = (folder.run() or {}).get("schema") == PROFILE.schema
    document = read_request(folder, PROFILE if is_profile else COMPARISON)
    request, name = document["request"], folder.run_id
    result = saved_result(folder)
    if result is not None and (result["complete"] or not folder.is_steered()):
        _say_ended(name, f"ended at {result['ended_at']}")
        return
    if "alert_id" in request:
        cluster = common.cluster_of(document["cluster"])
        resume = f"nightbench alert confirm {request['alert_id']}"
    elif is_profile:
        cluster = common.cluster_of(document["cluster"])
        resume = f"nightbench profile {request['of']}"
    elif "run_id" in request:
        cluster = common.cluster_of(document["cluster"])
        resume = f"clear the task `reference` of {request['run_id']}"
    else:
        cluster = chosen_of(AbRequest(**request)).cluster
        resume = f"nightbench ab --resume {name}"
    request_cancel(folder, CANCEL_REASON)
    asyncio.run(gang.cancel_run(name, cluster, common.reach(cluster), CANCEL_REASON))
    _say_cancelled(name, cluster.name, resume)


def _cancel_bisect(folder: RunSpool) -> None:
    from nightbench import gang
    from nightbench.experiments import bisect_request
    from nightbench.experiments.experiment_spool import request_cancel
    from nightbench.experiments.reporting import BisectReporter

    request, name = bisect_request.request_of(folder), folder.run_id
    document = folder.run() or {}
    if document["state"] != "running":
        stopped = document["stopped"]
        _say_ended(
            name, f"been stopped ({stopped})" if stopped else f"ended at {document['ended_at']}"
        )
        return
    cluster = Selection(request.suite, request.cluster).choose().cluster
    targets, spool = common.reach(cluster), common.spool()
    request_cancel(folder, CANCEL_REASON)
    limit = time.monotonic() + CANCEL_TIMEOUT_S
    while True:
        # Anew each time: its process may have begun another launch, or another step.
        for step in bisect_request.read_steps(folder):
            if step["status"] == "running":
                comparison_id = step["comparison_id"]
                request_cancel(spool.comparison(comparison_id), CANCEL_REASON)
                asyncio.run(gang.cancel_run(comparison_id, cluster, targets, CANCEL_REASON))
        if _released(folder):
            break
        if time.monotonic() > limit:
            raise UserError(
                f"{name}: its process goes on, perhaps because it makes an environment; what ran "
                f"on {cluster.name} has been ended. Try again, or press Ctrl-C where it runs"
            )
    if (folder.run() or {})["state"] == "running":
        # Its process was killed before and cannot say so.
        bisect_request.mark_stopped(folder, CANCEL_REASON)
        bisect_request.load_bisect(
            common.open_warehouse, folder, BisectReporter(common.say).not_loaded
        )
    _say_cancelled(name, cluster.name, f"nightbench bisect --resume {name}")


def _released(folder: RunSpool) -> bool:
    """Wait a little for the process that measures to end; False where it goes on."""
    limit = time.monotonic() + CANCEL_RETRY_S
    while folder.is_steered():
        if time.monotonic() > limit:
            return False
        time.sleep(0.1)
    return True


def _say_ended(name: str, how: str) -> None:
    say(f"{name} had {how}: nothing was changed")


def _say_cancelled(name: str, cluster: str, resume: str) -> None:
    say(f"{name} is cancelled: no process of it is left on {cluster}. Go on: {resume}")
