"""A run through Airflow: trigger the DAG, follow it to its end, report what failed."""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from nightbench.cli import common
from nightbench.cli.common import say
from nightbench.config.control_plane import (
    AIRFLOW,
    ControlPlane,
    airflow_command,
    control_plane,
    log_of,
)
from nightbench.core.budget import duration
from nightbench.core.errors import UserError
from nightbench.core.printable import shown
from nightbench.local.airflow_api import AirflowApi, AirflowUnavailable
from nightbench.spool import RunSpool, Spool

T = TypeVar("T")

DAG = "on_demand"
LOADING = ("ingest", "all_measured")
"""Tasks of a run that load results and check whether every case has a result."""
EXPECTED = f"{AIRFLOW}=https://USER:PASSWORD@HOST:PORT"
"""How a terminal names a team's Airflow."""
TO_MEASURE = (
    f"Without a login, trigger the DAG {DAG} in the UI, or measure without Airflow: --direct"
)
PARSE_TIMEOUT_S = 120.0
REFRESH_S = 1.0
STATE_INTERVAL_S = 4.0
GIVE_UP_S = 900.0
"""Time to wait for an Airflow that does not answer; its run continues."""
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
    """The run's spool; None if the DAG failed before the plan was stored."""
    failures: tuple[str, ...]
    """Failures, each with the place to look at."""


def airflow_api(otherwise: str) -> AirflowApi | None:
    """Return the API of this control plane's Airflow, or None if there is none.

    `otherwise` says what a user without a login can do, without a full stop.

    Raises:
        UserError: a team's Airflow is not named, or its address cannot be read.
    """
    from nightbench.local import deployment

    match control_plane():
        case ControlPlane.LOCAL:
            return deployment.load(common.home()).api()
        case ControlPlane.TEAM:
            if not (named := os.environ.get(AIRFLOW)):
                raise UserError(
                    f"This is a team's Airflow, and its API needs a login: set {EXPECTED}, and "
                    f"call the command again. {otherwise}"
                )
            return team_api(named)
    return None


def team_address() -> str:
    """Return the address of a team's Airflow without a login.

    `NIGHTBENCH_AIRFLOW` names it; otherwise this terminal's configuration of Airflow does.
    """
    if named := os.environ.get(AIRFLOW):
        return team_api(named).base_url
    from nightbench.orchestration.airflow_check import address

    return address()


def team_api(named: str) -> AirflowApi:
    """Return the API of a team's Airflow from an address with a login.

    Raises:
        UserError: the address has no login.
    """
    found = urlsplit(named)
    if found.scheme not in ("http", "https") or not found.hostname or found.password is None:
        raise UserError(f"{AIRFLOW}: found no address with a login in it; expected {EXPECTED}")
    site = f"{found.scheme}://{found.netloc.rpartition('@')[2]}{found.path.rstrip('/')}"
    login = (unquote(found.username or ""), unquote(found.password))
    return AirflowApi(site, *login, trust_env=True)


def airflow_runs(otherwise: str) -> AirflowApi | None:
    """Return the API of this control plane's Airflow, or None if it does not answer.

    `otherwise`: see `airflow_api`.

    Raises:
        UserError: a team's Airflow is not named, does not answer, or its scheduler does not run.
    """
    api = airflow_api(otherwise)
    if api is None:
        return None
    try:
        healthy = api.health()
    except UserError:
        if control_plane() is ControlPlane.TEAM:
            raise
        return None
    return api if healthy.get("scheduler") == "healthy" else None


def trigger(api: AirflowApi, conf: Mapping[str, Any], note: str) -> str:
    """Start the DAG `on_demand` once, even if an answer is lost; return the DAG run's id.

    Raises:
        UserError: the DAG does not exist, refuses the values, or Airflow has not answered for
            `GIVE_UP_S`.
    """
    until = time.monotonic() + PARSE_TIMEOUT_S
    while api.dag(DAG) is None:
        broken = api.import_errors()
        if broken or time.monotonic() > until:
            said = "\n".join(
                f"{file}: {trace.strip().splitlines()[-1]}" for file, trace in broken.items()
            )
            raise UserError(
                f"Airflow has no DAG {DAG}. {said or 'Airflow has not parsed the DAG yet.'}\n"
                f"Look: {log_of('dag-processor')}"
            )
        time.sleep(1)
    api.unpause(DAG)
    # A key that is left out keeps the form's default.
    given = {key: value for key, value in conf.items() if value not in (None, [], "")}
    dag_run_id = f"manual__{datetime.now(UTC).isoformat()}_{secrets.token_hex(4)}"
    waiting = False
    away_since_s: float | None = None
    while True:
        try:
            return api.trigger(DAG, given, dag_run_id, note=note)
        except AirflowUnavailable as error:
            unknown = f"{error}. It is not known whether the run was started"
            if away_since_s is None:
                away_since_s = time.monotonic()
                say(f"{unknown}; asking again until Airflow answers")
            elif time.monotonic() - away_since_s > GIVE_UP_S:
                raise UserError(
                    f"{unknown}. If it was, follow the run: nightbench run --follow {dag_run_id}"
                ) from error
            time.sleep(REFRESH_S)
            continue
        except UserError as error:
            # The names exist in the files, so Airflow has not yet read a new file.
            if _NOT_OFFERED not in str(error) or time.monotonic() > until:
                raise
        if not waiting:
            say("Airflow has not read the newest suites and clusters yet; waiting until it has")
            with contextlib.suppress(AirflowUnavailable):  # Airflow reads it within a minute anyway
                api.parse_again(DAG)
            waiting = True
        time.sleep(2)


class DagRunFollower:
    """Follows a DAG run to its end, also if Airflow's API does not answer for some time."""

    def __init__(self, api: AirflowApi, spool: Spool, dag_run_id: str, dag_id: str = DAG) -> None:
        self._api = api
        self._spool = spool
        self._dag_run_id = dag_run_id
        self._dag_id = dag_id
        self._away_since_s: float | None = None

    def follow(self) -> DagOutcome:
        """Show the progress of the run; return how it ended.

        Raises:
            UserError: Airflow refused, or has not answered for `GIVE_UP_S`.
        """
        state, run = self._wait_for_plan()
        if run is not None:
            state = self._show(state, run)
        if state != "failed":
            return DagOutcome(state, run, ())
        while (failures := self._ask(lambda: self._failures(run))) is None:
            time.sleep(REFRESH_S)
        return DagOutcome(state, run, failures)

    def _show(self, state: str, run: RunSpool) -> str:
        say(f"run {run.run_id}: {len(run.planned())} cases")
        with common.live_view(run) as view:
            asked = float("-inf")
            note = ""
            while state not in _ENDED:
                # Seldom, because measurements may run on this machine.
                if time.monotonic() - asked >= STATE_INTERVAL_S:
                    asked = time.monotonic()
                    state = self._ask(self._state) or state
                    idle = all(case.status != "running" for case in view.states())
                    note = (self._ask(self._activity) or "") if idle else ""
                view.refresh(note)
                time.sleep(REFRESH_S)
        return state

    def _wait_for_plan(self) -> tuple[str, RunSpool | None]:
        """Wait until the plan is stored, or the run has ended; return its state and its spool."""
        said = ""
        while True:
            state = self._ask(self._state)
            run = named(self._spool, self._dag_run_id)
            if state is not None:
                if state in _ENDED or (run is not None and run.planned()):
                    return state, run
                now = f"{state}, not planned yet{self._ask(self._paused) or ''}"
                if now != said:
                    said = now
                    say(f"DAG run {self._dag_run_id}: {now}")
            time.sleep(REFRESH_S)

    def _paused(self) -> str:
        """Return that Airflow starts no task of a paused DAG, and how to unpause it."""
        if not (self._api.dag(self._dag_id) or {}).get("is_paused"):
            return ""
        command = f"{airflow_command()} dags unpause {self._dag_id}"
        return f"; DAG {self._dag_id} is paused, so Airflow starts none of its tasks: `{command}`"

    def _ask(self, question: Callable[[], T]) -> T | None:
        """Return Airflow's answer; None while there is none, for at most `GIVE_UP_S`."""
        now_s = time.monotonic()
        try:
            answer = question()
        except AirflowUnavailable as error:
            if self._away_since_s is None:
                self._away_since_s = now_s
                say(f"{error}. The run continues; asking again until Airflow answers")
            elif now_s - self._away_since_s > GIVE_UP_S:
                raise UserError(
                    f"{error}. Airflow has not answered for {duration(GIVE_UP_S)}. The run "
                    f"continues. Follow the run: nightbench run --follow {self._dag_run_id}"
                ) from error
            return None
        if self._away_since_s is not None:
            self._away_since_s = None
            say("Airflow answers again")
        return answer

    def _state(self) -> str:
        found = self._api.dag_run(self._dag_id, self._dag_run_id)
        if found is None:
            what = f"run: found {shown(self._dag_run_id)}, which"
            stored = named(self._spool, self._dag_run_id)
            if stored is not None:
                raise UserError(
                    f"{what} Airflow no longer has; see `nightbench results --run {stored.run_id}`"
                )
            raise UserError(
                f"{what} is neither in {self._spool.root} nor a run of Airflow's DAG "
                f"{self._dag_id}; see `nightbench runs`"
            )
        return str(found["state"])

    def _activity(self) -> str:
        tasks = self._api.task_instances(self._dag_id, self._dag_run_id)
        busy = ("running", "queued", "scheduled", "deferred")
        names = [f"{t['task_id']} {t['state']}" for t in tasks if t.get("state") in busy]
        return ", ".join(dict.fromkeys(names)) + self._paused()

    def _failures(self, run: RunSpool | None) -> tuple[str, ...]:
        """Return the failures of Airflow itself; failed cases are in the table of results."""
        ended = {case for case in run.case_ids() if run.outcome(case)} if run else set()
        planned = {document["case_id"] for document in run.planned()} if run else set()
        said = []
        for task in self._api.task_instances(self._dag_id, self._dag_run_id):
            name, tries = str(task["task_id"]), int(task.get("try_number") or 0)
            case = task.get("rendered_map_index")
            if task.get("state") != "failed" or tries == 0 or case in ended:
                continue
            index = int(task.get("map_index", -1))
            if index >= 0 and run is not None and case not in planned:
                continue  # the task ended before its case was known
            tail = self._api.log_tail(self._dag_id, self._dag_run_id, name, tries, index, _TAIL)
            if any(_BY_A_PERSON in line for line in tail):
                continue
            lines = "\n    ".join(line for line in tail if line.strip() and "::" not in line[:2])
            where = f"{self._api.base_url}/dags/{self._dag_id}/runs/{self._dag_run_id}"
            said.append(f"task {name} {case or ''} failed; its log: {where}\n    {lines}")
        return tuple(said)


def follow_spool(run: RunSpool) -> None:
    """Show a run that is measured without Airflow until it has ended.

    Raises:
        UserError: the process that measured it is gone.
    """
    with common.live_view(run) as view:
        while not run.has_ended:
            if run.is_controlled() is False:
                time.sleep(STATE_INTERVAL_S)  # the run records its end after its last case
                if not run.has_ended:
                    raise UserError(
                        f"{run.run_id}: the process that measured it is gone; its processes on the "
                        "nodes end when their lease expires. End the run now: nightbench cancel "
                        f"{run.run_id}"
                    )
            view.refresh()
            time.sleep(REFRESH_S)


def named(spool: Spool, name: str) -> RunSpool | None:
    """Return the run with this id, or the newest run of the DAG run with this id."""
    for each in reversed(spool.runs()):
        if name in (each.run_id, (each.run() or {}).get("dag_run_id")):
            return each
    return None


def unknown_run(spool: Spool, name: str) -> UserError:
    """Return the error for a run that is not in the spool."""
    return UserError(
        f"run: found {shown(name)}, which is not in {spool.root}; see `nightbench runs`"
    )
