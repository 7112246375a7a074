"""The app behind the pages inside Airflow's API server, guarded by Airflow's login and rights."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request

from nightbench.accept.states import counts
from nightbench.config import find_clusters, load_catalog, locations
from nightbench.config.clusters import cluster_of
from nightbench.config.experiment_requests import CompareRequest
from nightbench.core.errors import UserError
from nightbench.experiments.experiment_reader import read_experiment
from nightbench.experiments.profiles import refuse_unprofiled, saved_profile
from nightbench.experiments.requests import checked_compare
from nightbench.orchestration.connections import WAREHOUSE_READER, WAREHOUSE_TRIAGE, connect
from nightbench.report.profile_page import profile_page
from nightbench.spool import open_spool
from nightbench.warehouse import Triage, Warehouse
from nightbench.warehouse.connection_pool import ConnectionPool
from nightbench.warehouse.experiments import ExperimentDesk
from nightbench.warehouse.pages import OpenPages, PageRepository
from nightbench.warehouse.repository import Row
from nightbench.web import PageAccess, PageUser, create_app
from nightbench.web.experiment_api import Comparing

log = logging.getLogger(__name__)

GUARD = "on_demand"
"""A user who may trigger this DAG may change alerts."""


def pooled_repository() -> OpenPages:
    """Return what opens a repository for one request, through the read-only Connection."""
    pool = ConnectionPool(lambda: connect(WAREHOUSE_READER))

    @contextmanager
    def opened() -> Iterator[PageRepository]:
        with pool.acquire() as connection:
            yield PageRepository(connection)

    return opened


@contextmanager
def open_triage(by: str) -> Iterator[Triage]:
    """The triage of one request in a person's name; its role may move alerts and nothing else."""
    with closing(connect(WAREHOUSE_TRIAGE)) as connection:
        yield Triage(connection, by)


def open_acceptances() -> list[dict[str, Any]]:
    """State of each cluster's acceptance, by today's files."""
    catalog = load_catalog()
    found = []
    for name in find_clusters(locations.dags_folder()):
        try:
            cluster = cluster_of(name, catalog)
        except UserError as error:
            # `nightbench validate` reports a wrong file; the other clusters are shown.
            log.warning("cluster %s: %s", name, error)
            continue
        with closing(connect(WAREHOUSE_READER)) as connection:
            known = Warehouse(connection).acceptance.modes(name)
        if known:
            found.append(counts(known, cluster, catalog))
    return found


@contextmanager
def open_desk(by: str) -> Iterator[ExperimentDesk]:
    """Requests and cancels experiments for a user, with the rights of the triage."""
    with closing(connect(WAREHOUSE_TRIAGE)) as connection:
        yield ExperimentDesk(connection, by)


def checked(given: Mapping[str, Any]) -> Row:
    """Return a body of a request as the queue takes it."""
    request = CompareRequest.from_params(given)
    return checked_compare(request, lambda: connect(WAREHOUSE_READER), open_spool())


def profile_page_of(profile_id: str) -> str | None:
    """Return the page of a profile; None if the spool does not have it."""
    document = saved_profile(open_spool(), profile_id)
    return None if document is None else profile_page(document, datetime.now(UTC))


def check_profile(line: str) -> None:
    """Refuse to profile a framework line that runs scripts of other programs."""
    refuse_unprofiled(line, load_catalog())


def build_app() -> FastAPI:
    """The app, guarded by Airflow's own access rules."""
    from airflow.sdk.configuration import conf

    from nightbench.orchestration.airflow_versions import lacking

    if lacks := lacking():
        log.warning("%s", lacks)

    return create_app(
        pooled_repository(),
        open_triage,
        _access(),
        open_spool,
        lambda name: read_experiment(open_spool(), name),
        open_acceptances,
        Comparing(checked, cluster_of, open_desk, profile_page_of, check_profile),
        base_url=conf.get("api", "base_url", fallback=""),
    )


def _access() -> PageAccess:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import (
        get_user,
        requires_access_connection,
        requires_access_dag,
    )

    # With a fixed name: otherwise Airflow takes the DAG from the URL, which the client chooses.
    trigger = requires_access_dag("POST", DagAccessEntity.RUN, param_dag_id=GUARD)

    def page_user(request: Request, user: Any = Depends(get_user)) -> PageUser:  # noqa: B008 - how FastAPI injects
        try:
            trigger(request, user)
        except HTTPException:
            return PageUser(user.get_name(), may_change=False)
        # The same question as `approve` below, which not every Airflow lets us call as a function.
        may_approve = get_auth_manager().is_authorized_connection(method="GET", user=user)
        return PageUser(user.get_name(), may_change=True, may_approve=may_approve)

    return PageAccess(
        reader=requires_access_dag("GET", DagAccessEntity.RUN),
        trigger=trigger,
        user=page_user,
        # In the simple auth manager: the role op, which can change what runs on the nodes anyway.
        approve=requires_access_connection("GET"),
        logs=requires_access_dag("GET", DagAccessEntity.TASK_LOGS),
    )
