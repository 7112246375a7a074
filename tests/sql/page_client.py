"""The pages' app as the API server has it, but for Airflow's login."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.sql.conftest import Database

from nightbench.core.model import Cluster
from nightbench.experiments.experiment_reader import read_experiment
from nightbench.orchestration import page_app
from nightbench.orchestration.connections import WAREHOUSE_READER, WAREHOUSE_TRIAGE
from nightbench.spool import Spool
from nightbench.warehouse import connect
from nightbench.warehouse.repository import Row
from nightbench.web import PageAccess, PageUser, create_app
from nightbench.web.experiment_api import Comparing

ADA = PageUser("ada", may_change=True)


def anyone() -> None:
    """Let everybody in."""


def page_client(
    warehouse: Database,
    spool: Spool,
    patch: pytest.MonkeyPatch,
    user: PageUser = ADA,
    require_logs: Callable[[], None] = anyone,
    check: Callable[[Mapping[str, Any]], Row] = dict,
    cluster_of: Callable[[str], Cluster] = lambda name: Cluster(name, ()),
) -> TestClient:
    """A browser of one user on a warehouse, with the roles that the pages have, and a spool."""
    roles = {WAREHOUSE_READER: warehouse.reader, WAREHOUSE_TRIAGE: warehouse.triage}
    patch.setattr(page_app, "connect", lambda conn_id: connect(roles[conn_id]))
    access = PageAccess(anyone, anyone, lambda: user, anyone, require_logs)
    patch.setattr(page_app, "open_spool", lambda: spool)
    comparing = Comparing(
        check,
        cluster_of,
        page_app.open_desk,
        page_app.profile_page_of,
        page_app.check_profile,
    )
    repository, triage = page_app.pooled_repository(), page_app.open_triage
    return TestClient(
        create_app(
            repository,
            triage,
            access,
            lambda: spool,
            lambda name: read_experiment(spool, name),
            list,
            comparing,
        )
    )
