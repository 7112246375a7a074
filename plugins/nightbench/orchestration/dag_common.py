"""Shared parts of the DAGs: assets, defaults, and requests of tasks to Airflow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import DAG, Asset, AssetAlias, AssetAny, DagRunState, Param, get_parsing_context
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowRuntimeError
from pydantic import TypeAdapter

from nightbench.config.request_fields import options_of
from nightbench.config.run_request import RunRequest, resolve_request
from nightbench.core.errors import UserError
from nightbench.orchestration.connections import connect

if TYPE_CHECKING:
    from airflow.sdk.bases.timetable import BaseTimetable

    from nightbench.alerts import Delivery
    from nightbench.experiments.engine import ExperimentContext

MEDIANS = Asset("nightbench_medians", uri="x-nightbench://warehouse/marts/fct_measurement")
"""Updated when a run has been loaded; its event's extra holds `run_ids`."""

SUSPECTS = Asset("nightbench_suspects", uri="x-nightbench://suspects")
"""Updated when a night's regressions are to be measured again; its event's extra holds `run_ids`.
"""
SUSPECTS_ALIAS = AssetAlias("nightbench_suspects")
"""The outlet of a task that updates `SUSPECTS` only if there are any."""

VERDICTS = Asset("nightbench_verdicts", uri="x-nightbench://warehouse/marts/fct_verdict")
"""Updated when a night's suspects were measured again; the site follows."""

START = datetime(2026, 1, 1, tzinfo=UTC)
DEFAULTS: dict[str, Any] = {
    "owner": "nightbench",
    "retries": 1,
    "retry_delay": timedelta(seconds=30),
    "execution_timeout": timedelta(minutes=30),
}

log = logging.getLogger(__name__)
T = TypeVar("T")


def our_dag(
    dag_id: str,
    *,
    schedule: str | Sequence[Asset] | AssetAny | BaseTimetable | None,
    tags: Sequence[str],
    defaults: Mapping[str, Any] | None = None,
    **more: Any,
) -> DAG:
    """A DAG with our defaults: one run at a time, and none for what it missed.

    `defaults` of its tasks add to `DEFAULTS` or replace them, `more` are arguments of `DAG`.

    Airflow checks a run's values at the start of every task, against the form of that moment. In a
    task the form has no choices, so that a run continues if its suite was removed or broken.
    The trigger has checked the values, and the first task checks them against the files.
    """
    if get_parsing_context().task_id:
        for field in more.get("params", {}).values():
            field.schema.pop("enum", None)
    usual = {"start_date": START, "catchup": False, "max_active_runs": 1}
    arguments = {**usual, "default_args": {**DEFAULTS, **(defaults or {})}, **more}
    return DAG(dag_id, schedule=schedule, tags=["nightbench", *tags], **arguments)


def form(request: Any, choices: Mapping[str, Mapping[str, Any]]) -> dict[str, Param]:
    """Return the fields of a trigger form, as the class of a request describes them.

    `choices` adds to the JSON schema of fields: which values there are in this project.
    """
    schemas = TypeAdapter(request).json_schema()["properties"]
    found: dict[str, Param] = {}
    for name, field in options_of(request).items():
        schema = {**schemas[name], "description": field.description}
        # An empty field of a form is None, also if the field takes several names.
        if either := schema.pop("anyOf", None):
            (kind,) = (each for each in either if each["type"] != "null")
            schema |= {**kind, "type": ["null", kind["type"]]}
        elif schema.get("default") in ([], ""):
            schema |= {"type": ["null", schema["type"]], "default": None}
        schema |= choices.get(name, {})
        found[name] = Param(schema.pop("default", None), **schema)
    return found


def optional_names(title: str, description: str, **more: Any) -> Param:
    """A field for several names, which may stay empty; `more` of its JSON schema."""
    more |= {"type": ["null", "array"], "items": {"type": "string"}}
    return Param(None, title=title, description=description, **more)


@contextmanager
def user_errors_fail_task(*, for_good: bool = False) -> Iterator[None]:
    """Fail the task with the text of a `UserError`, without its traceback.

    Raises:
        AirflowException: in place of the `UserError`; Airflow retries it.
        AirflowFailException: the same `for_good`, if no retry fixes what a user asked for.
    """
    try:
        yield
    except UserError as error:
        # A line of its own: terminals do not show the text of an exception.
        log.error("%s", error)
        raise (AirflowFailException if for_good else AirflowException)(str(error)) from None


def measured(work: Coroutine[Any, Any, T], refresh: Callable[[], None]) -> T:
    """Return what a measurement returns; `refresh` is called every second.

    Raises:
        AirflowException: it was ended from outside, and its processes on the nodes with it.
    """
    from nightbench.gang import case_runner

    try:
        return asyncio.run(case_runner.run_interruptible(work, refresh))
    except KeyboardInterrupt:
        raise AirflowException("ended from outside; a retry continues") from None


def base_url() -> str:
    """Return the address of Airflow's UI without a slash at its end; empty if it is not set.

    `[api] base_url` is unset by default. Messages and reports have no links then.
    """
    return str(conf.get("api", "base_url", fallback="")).rstrip("/")


def is_last_try(context: Mapping[str, Any]) -> bool:
    """Whether Airflow will not retry after this try."""
    return bool(context["ti"].try_number > context["ti"].max_tries)


def dag_run_state(context: Mapping[str, Any]) -> Callable[[str, str], str | None]:
    """A function of dag_id and DAG run id; returns the state of that DAG run, None if unknown."""

    def ask(dag_id: str, dag_run_id: str) -> str | None:
        try:
            # The value may be an enumeration member, although it is annotated as str.
            return str(DagRunState(context["ti"].get_dagrun_state(dag_id, dag_run_id)).value)
        except AirflowRuntimeError as error:
            log.info("Airflow does not know DAG run %s of %s: %s", dag_run_id, dag_id, error)
            return None

    return ask


def log_refused(deliveries: Iterable[Delivery]) -> None:
    """Warn of each channel that refused a message."""
    for delivery in deliveries:
        if not delivery.sent:
            log.warning("%s accepted no message: %s", delivery.channel, delivery.error)


def experiment_context(
    suite: str,
    cluster: str,
    *,
    outside_hours: bool = False,
    until: datetime | None = None,
) -> ExperimentContext:
    """Return where a task measures an experiment, and by what: see `engine.experiment_context`.

    Raises:
        UserError: an unknown name, a missing Connection, or closed hours.
    """
    from nightbench.accept.states import accepting_catalog
    from nightbench.experiments import engine
    from nightbench.orchestration.ssh_targets import ssh_targets

    request = RunRequest(suite, cluster=cluster)
    chosen, where, catalog = resolve_request(request, accepting_catalog(connect))
    return engine.experiment_context(
        chosen,
        where,
        catalog,
        ssh_targets(where),
        connect,
        outside_hours=outside_hours,
        until=until,
    )
