"""cancel: end a run or an experiment and all its processes."""

import asyncio
import getpass
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Annotated, Any

import typer

from nightbench.cli import common, dag_run
from nightbench.cli.common import say, warn
from nightbench.core.errors import ItemErrors, UserError, WarehouseUnavailable
from nightbench.core.model import CaseStatus, Reason, ReasonCode
from nightbench.local.airflow_api import AirflowApi, AirflowUnavailable
from nightbench.spool import RunSpool, Spool

app = typer.Typer()

CANCEL_REASON = "cancelled by the user"
CANCEL_TIMEOUT_S = 60.0
"""Seconds to wait for the end. Building an environment may take longer; `cancel` reports this."""
CANCEL_RETRY_S = 5.0


@app.command()
def cancel(
    run: Annotated[
        str | None,
        typer.Argument(
            help="Id of a run, a DAG run or an experiment. [default: the run that is in progress]"
        ),
    ] = None,
) -> None:
    """End a run, comparison, bisect or other experiment, on all its nodes."""
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
    measured_elsewhere = found.is_controlled()
    dag_id, dag_run_id = (str(document.get(key) or "") for key in ("dag_id", "dag_run_id"))
    api = _airflow_of(dag_run_id) if dag_id and dag_run_id else None
    state = (api.dag_run(dag_id, dag_run_id) or {}).get("state") if api else None
    # Cases without a gang first: then no process begins them, and their preparation ends.
    _record_cancelled(found, begun=False)
    if api and state in ("queued", "running"):
        api.fail_run(dag_id, dag_run_id)
        say(f"Airflow ends its DAG run {dag_run_id}")
    where = common.cluster_of(document["cluster"])
    report = asyncio.run(gang.cancel_run(found.run_id, where, common.targets(where), CANCEL_REASON))
    for node, pids in report.killed.items():
        say(f"{node}: {len(report.stopped[node])} agents stopped, {len(pids)} processes ended")
    _record_cancelled(found, begun=True)
    plans.mark_ended(found)
    say(f"{found.run_id} is cancelled: none of its processes is left on {where.name}")
    # Airflow loads it: the checks take seconds of CPU, which could disturb another run here.
    if api:
        api.run_again(dag_id, dag_run_id, dag_run.LOADING)
        say(f"Airflow loads what was measured; then: nightbench results --run {found.run_id}")
    elif not measured_elsewhere:  # otherwise the direct run loads it
        say(f"To see the measured cases: nightbench results --run {found.run_id}")


def _airflow_of(dag_run_id: str) -> AirflowApi | None:
    """Return the API of the Airflow that controls a DAG run, or None if it does not answer."""
    api = None
    with suppress(AirflowUnavailable):
        api = dag_run.airflow_runs(
            f"Without a login, mark the DAG run {dag_run_id} as failed in Airflow's UI"
        )
    if api is None:
        warn("Airflow does not answer: only the processes on the nodes are ended")
    return api


def _has_ended(run: RunSpool) -> bool:
    """Return whether a run has ended and none of its cases is being measured again."""
    stores = [run.latest(planned["case_id"]) for planned in run.planned()]
    ended = all(store.outcome() is not None for store in stores if store is not None)
    return ended and run.has_ended


def _record_cancelled(run: RunSpool, *, begun: bool) -> None:
    """Record an outcome for cases that have none: those with a gang, or those without one."""
    for planned in run.planned():
        store = run.latest(planned["case_id"])
        progress = (store.progress() if store is not None else None) or {}
        if ("repeat" in progress) is not begun:
            continue
        store = store or run.case(planned["case_id"])
        store.end(CaseStatus.CANCELLED, [Reason(ReasonCode.CANCELLED, observed="by the user")])


def _find(spool: Spool, name: str | None) -> RunSpool:
    """Return the run of that name, or the only run that has not ended."""
    if name is not None:
        found = dag_run.named(spool, name)
        if found is None:
            raise dag_run.unknown_run(spool, name)
        return found
    going, errors = [], ItemErrors()
    for each in spool.runs():
        with errors.of(f"run {each.run_id}"):
            open_cases = [x for x in each.planned() if each.outcome(x["case_id"]) is None]
            going += [each] if open_cases and not each.has_ended else []
    if len(going) != 1:
        names = ", ".join(each.run_id for each in going) or "none"
        raise UserError(f"RUN: found none; expected the id of a run that has not ended: {names}")
    return going[0]


# --- experiments -------------------------------------------------------------------------


def _cancel_experiment(name: str) -> bool:
    """End an experiment and its processes on the nodes; False if none has this id."""
    from nightbench import gang
    from nightbench.core.model.experiments import LIVE
    from nightbench.experiments.comparison import saved_result
    from nightbench.experiments.experiment_spool import DRILL, request_cancel, schema_of
    from nightbench.experiments.measuring import resume_command
    from nightbench.warehouse import opened

    spool = common.spool()
    found = _folders(spool, name)
    if found and (found[0].run() or {}).get("schema") == schema_of(DRILL):
        raise UserError(
            f"{name} is a drill; press Ctrl-C in its terminal. The drill then ends its processes "
            f"on the nodes, and `nightbench drill --resume {name}` continues"
        )
    row = _row_of(name)
    was_live = row is not None and row["state"] in LIVE
    if row is not None and was_live:
        _move(row["experiment_id"])
    if not found:
        if row is not None:
            say(f"{name} is cancelled" if was_live else f"{name} had ended: nothing was changed")
        return row is not None
    compared = [each for each in found if not (each.folder / "steps").exists()]
    results = [saved_result(each) for each in compared]
    if results and all(results) and not (was_live or any(each.is_controlled() for each in found)):
        at = max(str(result["ended_at"]) for result in results if result)
        say(f"{name} had ended at {at}: nothing was changed")
        return True
    document = found[0].run() or {}
    request = document["request"]
    cluster = common.cluster_of(request.get("cluster") or document["cluster"])
    targets, limit = common.targets(cluster), time.monotonic() + CANCEL_TIMEOUT_S
    while True:
        # Listed again each time: its process may have begun another launch, or another comparison.
        for each in _folders(spool, name):
            if not (saved_result(each) or {}).get("complete"):
                request_cancel(each, CANCEL_REASON)
                asyncio.run(gang.cancel_run(each.run_id, cluster, targets, CANCEL_REASON))
        if _released(spool, name):
            break
        if time.monotonic() > limit:
            raise UserError(
                f"{name}: still running, perhaps building an environment; its processes on "
                f"{cluster.name} were ended. Try again, or press Ctrl-C in its terminal"
            )
    if row is not None and row["dag_run_id"] is None:
        # Its process may have been killed before it could store this.
        with suppress(WarehouseUnavailable), opened(common.open_warehouse) as warehouse:
            warehouse.experiments.leave(name, None, "cancelled", spent_s=0.0, why=CANCEL_REASON)
    kind = document["schema"].removeprefix("nightbench.").partition("/")[0]
    say(
        f"{name} is cancelled: none of its processes is left on {cluster.name}. Continue: "
        f"{resume_command(kind, name, request)}"
    )
    return True


def _folders(spool: Spool, name: str) -> list[RunSpool]:
    """Return the folder of an experiment and the folders of its further comparisons, or none."""
    found = [x for x in spool.comparisons() if x.run_id == name or x.run_id.startswith(f"{name}-")]
    found.sort(key=lambda each: len(each.run_id))
    return found if found and found[0].run_id == name else []


def _row_of(name: str) -> Mapping[str, Any] | None:
    with suppress(WarehouseUnavailable), common.reader() as warehouse:
        return warehouse.experiments.get(name)
    return None


def _move(experiment_id: int) -> None:
    from nightbench.warehouse.experiments import ExperimentDesk

    with suppress(WarehouseUnavailable), closing(common.open_warehouse()) as connection:
        ExperimentDesk(connection, getpass.getuser()).move(
            experiment_id, "cancelled", CANCEL_REASON
        )


def _released(spool: Spool, name: str) -> bool:
    """Wait a little for the measuring process to end; return False if it continues."""
    limit = time.monotonic() + CANCEL_RETRY_S
    while any(each.is_controlled() for each in _folders(spool, name)):
        if time.monotonic() > limit:
            return False
        time.sleep(0.1)
    return True
