"""A run through Airflow: trigger the DAG, follow it to its end, report what failed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nightbench.cli import common
from nightbench.cli.common import out, say
from nightbench.cli.live_view import LiveView
from nightbench.core.errors import UserError
from nightbench.local.airflow_api import AirflowApi
from nightbench.spool import RunSpool, Spool

DAG = "on_demand"
PARSE_TIMEOUT_S = 120.0
REFRESH_S = 1.0
STATE_INTERVAL_S = 4.0
_ENDED = ("success", "failed")
_NOT_OFFERED = "is not one of"
"""Airflow's message about a value that the form does not offer."""
_BY_A_PERSON = "Trigger cancelled by user action"
_TAIL = 5
"""Lines of a failed task's log that are shown."""


@dataclass(frozen=True)
class DagOutcome:
    """How a DAG run ended."""

    state: str
    """success or failed, from Airflow."""
    run: RunSpool | None
    """The run's spool; None where the DAG failed before the plan was stored."""
    failures: tuple[str, ...]
    """What failed, each with the place to look at."""


def airflow_runs() -> AirflowApi | None:
    """Return the API of this machine's Airflow, or None where it does not answer."""
    from nightbench.local import deployment

    place = common.home()
    if not place.secrets_file.is_file() or not place.ports_file.is_file():
        return None
    api = deployment.load(place).api()
    try:
        healthy = api.health()
    except UserError:
        return None
    return api if healthy.get("scheduler") == "healthy" else None


def trigger(api: AirflowApi, conf: Mapping[str, Any], note: str) -> str:
    """Start the DAG `on_demand`, and return the DAG run's id.

    Raises:
        UserError: the DAG does not exist, or refuses the values.
    """
    until = time.monotonic() + PARSE_TIMEOUT_S
    while api.dag(DAG) is None:
        broken = api.import_errors()
        if broken or time.monotonic() > until:
            said = "\n".join(
                f"{file}: {trace.strip().splitlines()[-1]}" for file, trace in broken.items()
            )
            raise UserError(
                f"Airflow has no DAG {DAG}. {said or 'It has not been parsed yet.'}\n"
                "Look: nightbench logs dag-processor"
            )
        time.sleep(1)
    api.unpause(DAG)
    # A key that is left out keeps the form's default.
    given = {key: value for key, value in conf.items() if value not in (None, [], "")}
    waiting = False
    while True:
        try:
            return api.trigger(DAG, given, note=note)
        except UserError as error:
            # Names have been checked against the files: Airflow has not read a new file yet.
            if _NOT_OFFERED not in str(error) or time.monotonic() > until:
                raise
        if not waiting:
            say("Airflow has not read the newest suites and clusters yet: waiting for it")
            waiting = True
        time.sleep(2)


def follow(
    api: AirflowApi, spool: Spool, dag_run_id: str, history: Mapping[str, float]
) -> DagOutcome:
    """Show the progress of a DAG run until it has ended."""
    state, run = wait_for_plan(api, spool, dag_run_id)
    if run is not None:
        say(f"run {run.run_id}: {len(run.planned())} cases")
        with LiveView(out, run, run.planned(), history) as view:
            asked = 0.0
            note = ""
            while state not in _ENDED:
                # Asked seldom: measurements may run on this machine.
                if time.monotonic() - asked >= STATE_INTERVAL_S:
                    asked = time.monotonic()
                    state = str(api.dag_run(DAG, dag_run_id)["state"])
                    idle = all(case.status != "running" for case in view.states())
                    note = _activity(api, dag_run_id) if idle else ""
                view.refresh(note)
                time.sleep(REFRESH_S)
    failures = _failures(api, run, dag_run_id) if state == "failed" else ()
    return DagOutcome(state, run, failures)


def wait_for_plan(api: AirflowApi, spool: Spool, dag_run_id: str) -> tuple[str, RunSpool | None]:
    """Wait until a DAG run has stored its plan, or has ended; return its state and its spool."""
    said = ""
    while True:
        state = str(api.dag_run(DAG, dag_run_id)["state"])
        run = run_of(spool, dag_run_id)
        if run is not None and run.planned():
            return state, run
        if state in _ENDED:
            return state, run
        if state != said:
            said = state
            say(f"DAG run {dag_run_id}: {state}, not planned yet")
        time.sleep(REFRESH_S)


def run_of(spool: Spool, dag_run_id: str) -> RunSpool | None:
    """Return the run of a DAG run."""
    for run in reversed(spool.runs()):
        if (run.run() or {}).get("dag_run_id") == dag_run_id:
            return run
    return None


def _activity(api: AirflowApi, dag_run_id: str) -> str:
    """Return what Airflow does while no case runs."""
    tasks = api.task_instances(DAG, dag_run_id)
    working = [t for t in tasks if t.get("state") in ("running", "queued", "scheduled", "deferred")]
    names = dict.fromkeys(f"{t['task_id']} {t['state']}" for t in working)
    return ", ".join(names)


def _failures(api: AirflowApi, run: RunSpool | None, dag_run_id: str) -> tuple[str, ...]:
    """Return what failed in Airflow itself; the table of results has the cases that failed."""
    ended = _ended_cases(run)
    planned = {document["case_id"] for document in run.planned()} if run else set()
    said = []
    for task in api.task_instances(DAG, dag_run_id):
        name, tries = str(task["task_id"]), int(task.get("try_number") or 0)
        case = task.get("rendered_map_index")
        if task.get("state") != "failed" or tries == 0 or case in ended:
            continue
        index = int(task.get("map_index", -1))
        if index >= 0 and run is not None and case not in planned:
            continue  # it was ended before its case was known
        tail = api.log_tail(DAG, dag_run_id, name, tries, index, _TAIL)
        if any(_BY_A_PERSON in line for line in tail):
            continue
        lines = "\n    ".join(line for line in tail if line.strip() and "::" not in line[:2])
        where = f"{api.base_url}/dags/{DAG}/runs/{dag_run_id}"
        said.append(f"task {name} {case or ''} failed; its log: {where}\n    {lines}")
    return tuple(said)


def _ended_cases(run: RunSpool | None) -> set[str]:
    """Return the cases of a run that have an outcome."""
    if run is None:
        return set()
    stores = {case_id: run.latest(case_id) for case_id in run.case_ids()}
    return {case_id for case_id, store in stores.items() if store and store.outcome() is not None}
