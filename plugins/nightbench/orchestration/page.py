"""The pages inside Airflow's API server: our app behind Airflow's login."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fastapi import Depends, HTTPException, Request

from nightbench.orchestration.connections import WAREHOUSE_READER, WAREHOUSE_TRIAGE, connect
from nightbench.web import AlertTriage, NotAllowed, PageAccess, PageUser, create_app

if TYPE_CHECKING:
    from fastapi import FastAPI

    from nightbench.warehouse.connection import Connection
    from nightbench.warehouse.pages import PageRepository

GUARD = "on_demand"
"""Whoever may trigger this DAG may change alerts."""


@contextmanager
def open_repository() -> Iterator[PageRepository]:
    """A repository for one request, through the read-only Connection."""
    from nightbench.warehouse.pages import PageRepository

    connection = connect(WAREHOUSE_READER)
    try:
        yield PageRepository(connection)
    finally:
        connection.close()


class WarehouseTriage:
    """Moves alerts in the name of a person; a refused move raises `NotAllowed`."""

    def __init__(self, connection: Connection, by: str) -> None:
        from nightbench.warehouse import Triage

        self._triage = Triage(connection, by)

    def move(self, alert_id: int, to: str, why: str = "", reason: str | None = None) -> str:
        """Make it acknowledged, resolved, dismissed, or open."""
        with _allowed():
            return self._triage.move(alert_id, to, why, reason)

    def snooze(self, alert_id: int, until: datetime, why: str = "") -> str:
        """Send no message of it before a time."""
        with _allowed():
            return self._triage.snooze(alert_id, until, why)

    def assign(self, alert_id: int, owner: str, why: str = "") -> str:
        """Say whose it is."""
        with _allowed():
            return self._triage.assign(alert_id, owner, why)


@contextmanager
def _allowed() -> Iterator[None]:
    from nightbench.warehouse import MoveRefused

    try:
        yield
    except MoveRefused as error:
        raise NotAllowed(str(error)) from error


@contextmanager
def open_triage(by: str) -> Iterator[AlertTriage]:
    """The triage of one request in a person's name; its role may move alerts and nothing else."""
    connection = connect(WAREHOUSE_TRIAGE)
    try:
        yield WarehouseTriage(connection, by)
    finally:
        connection.close()


def build_page(airflow_url: str) -> FastAPI:
    """The app, guarded by Airflow's own access rules."""
    from airflow.sdk.configuration import conf

    return create_app(
        open_repository,
        open_triage,
        _access(),
        form_secret=_form_secret(conf.get("api", "secret_key")),
        airflow_url=airflow_url,
        base_url=conf.get("api", "base_url", fallback=""),
    )


def _access() -> PageAccess:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import get_user, requires_access_dag

    # By name: else the DAG would be the one that the address names, which whoever asks writes.
    trigger = requires_access_dag("POST", DagAccessEntity.RUN, param_dag_id=GUARD)

    def page_user(request: Request, user: Any = Depends(get_user)) -> PageUser:  # noqa: B008
        try:
            trigger(request, user)
        except HTTPException:
            return PageUser(user.get_name(), may_change=False)
        return PageUser(user.get_name(), may_change=True)

    return PageAccess(
        reader=requires_access_dag("GET", DagAccessEntity.RUN), trigger=trigger, user=page_user
    )


def _form_secret(airflow_secret: str) -> bytes:
    """A key of our own from the one that all of a site's API servers share."""
    return hmac.new(airflow_secret.encode(), b"nightbench: forms of alerts", "sha256").digest()
