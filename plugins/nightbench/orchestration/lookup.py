"""Airflow Connections by their ids, from wherever this process may ask.

Outside of Airflow's processes Connections come from `AIRFLOW_CONN_*`, from the configured secrets
backend, from `<home>/connections.json`, and from Airflow's database where that can be reached.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from nightbench.core.errors import UserError
from nightbench.orchestration.places import home_folder

if TYPE_CHECKING:
    from airflow.sdk import Connection

log = logging.getLogger(__name__)

MADE_BY_UP = (
    "nightbench_warehouse",
    "nightbench_warehouse_reader",
    "nightbench_warehouse_triage",
    "nightbench_local",
)
"""Connections of the control plane that runs on one machine."""


def get_connection(conn_id: str, named: str = "") -> Connection:
    """A Connection by its id.

    Args:
        conn_id: the id.
        named: who names it, for the message where nobody knows it.

    Raises:
        UserError: nobody knows it.
    """
    from airflow.sdk import BaseHook

    try:
        return BaseHook.get_connection(conn_id)
    except not_found():
        found = None if _in_task() else _from_home(conn_id) or _from_database(conn_id)
        if found is None:
            raise missing(conn_id, named) from None
        return found


def not_found() -> tuple[type[BaseException], ...]:
    """What is raised for a Connection that nobody knows."""
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    return (AirflowNotFoundException, AirflowRuntimeError)


def missing(conn_id: str, named: str = "") -> UserError:
    """The error for a Connection that nobody knows; `named` says who names it."""
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    made = "`nightbench up` makes it. " if conn_id in MADE_BY_UP else ""
    return UserError(
        f"connection {conn_id}{named}: no such Airflow Connection. {made}Add it in the UI (Admin, "
        f"Connections), with `nightbench airflow connections add {quote(conn_id)} …`, or as "
        f"{variable} in the environment of every Airflow process"
    )


def _in_task() -> bool:
    """Whether this process is a task's or a trigger's: those ask Airflow's API and nobody else."""
    from airflow.sdk.execution_time import task_runner

    return getattr(task_runner, "SUPERVISOR_COMMS", None) is not None


def _from_home(conn_id: str) -> Connection | None:
    """From the file that `nightbench up` writes, for terminals without Airflow's settings."""
    path = home_folder() / "connections.json"
    if not path.is_file():
        return None
    from airflow.sdk import Connection

    entry = json.loads(path.read_text(encoding="utf-8")).get(conn_id)
    if entry is None:
        return None
    extra = entry.get("extra")
    fields = {**entry, "extra": json.dumps(extra) if isinstance(extra, dict) else extra}
    return Connection(conn_id=conn_id, **fields)


def _from_database(conn_id: str) -> Connection | None:
    """From Airflow's database, where this terminal is told how to reach it."""
    if not os.environ.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
        return None
    from airflow.secrets.metastore import MetastoreBackend
    from sqlalchemy.exc import SQLAlchemyError

    try:
        stored = MetastoreBackend().get_connection(conn_id)
    except SQLAlchemyError as error:
        log.warning("Airflow's database cannot be asked for %s: %s", conn_id, type(error).__name__)
        return None
    if stored is None:
        return None
    from airflow.sdk import Connection

    return Connection(
        conn_id=conn_id,
        conn_type=stored.conn_type,
        host=stored.host,
        port=stored.port,
        login=stored.login,
        password=stored.password,
        schema=stored.schema,
        extra=stored.extra,
    )
