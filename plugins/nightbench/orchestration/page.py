"""The pages inside Airflow's API server: our app behind Airflow's login."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from fastapi import Depends, HTTPException, Request

from nightbench.orchestration.connections import WAREHOUSE_READER, WAREHOUSE_TRIAGE, connect
from nightbench.web import Access, Desk, NotAllowed, Visitor, create_app

if TYPE_CHECKING:
    from fastapi import FastAPI

    from nightbench.warehouse import Reader
    from nightbench.warehouse.connection import Connection

POINTS = 180
"""Results of a series that are drawn."""

RUNS = 25
BISECTS = 5
GROUP = 1000
NIGHTS = timedelta(days=14)
"""How long a night that brought nothing is shown."""

LIVE = ("open", "acknowledged")

GUARD = "on_demand"
"""Whoever may trigger this DAG may change alerts."""

Row = dict[str, Any]


class WarehouseRepository:
    """Answers the pages from the warehouse; one connection for each request."""

    def __init__(self, connection: Connection) -> None:
        from nightbench.warehouse import Reader

        self._connection = connection
        self._reader: Reader = Reader(connection)

    def series(
        self, workload: str | None, framework: str | None, cluster: str | None
    ) -> Sequence[Row]:
        """Results of all series, oldest first."""
        return self._rows(
            "page_series",
            workload=workload,
            framework=framework,
            cluster=cluster,
            case_id=None,
            max_points=POINTS,
        )

    def series_of(self, case_id: str, cluster: str) -> Sequence[Row]:
        """The results of one series."""
        return self._rows(
            "page_series",
            workload=None,
            framework=None,
            cluster=cluster,
            case_id=case_id,
            max_points=POINTS,
        )

    def choices(self) -> Sequence[Row]:
        """Combinations that have results."""
        return self._rows("page_choices")

    def runs(self) -> Sequence[Row]:
        """The newest runs."""
        return self._reader.runs(limit=RUNS)

    def run(self, run_id: str) -> Row | None:
        """One run with its counts."""
        found = self._rows(
            "runs", run_id=run_id, suite=None, cluster=None, imported=True, max_rows=1
        )
        return found[0] if found else None

    def results(self, run_id: str) -> Sequence[Row]:
        """Every planned case of a run."""
        return self._reader.results_rows(run_id)

    def alerts(self) -> Sequence[Row]:
        """Live alerts."""
        return self.find_alerts(LIVE, None, None, 50)

    def find_alerts(
        self,
        states: Sequence[str] | None,
        cluster: str | None,
        framework: str | None,
        limit: int,
    ) -> Sequence[Row]:
        """Alerts with what their case is."""
        return self._alerts(
            states=None if states is None else list(states),
            cluster=cluster,
            framework=framework,
            max_rows=limit,
        )

    def alert(self, alert_id: int) -> Row | None:
        """One alert."""
        found = self._alerts(alert_id=alert_id)
        return found[0] if found else None

    def group(self, group_key: str) -> Sequence[Row]:
        """The alerts of one cause."""
        return self._alerts(group_key=group_key, max_rows=GROUP)

    def alert_events(self, alert_id: int) -> Sequence[Row]:
        """The history of an alert."""
        return self._reader.alert_events(alert_id)

    def bisects(self, alert_id: int) -> Sequence[Row]:
        """Searches for the version behind an alert, with their tests."""
        found = self._rows("bisects", alert_id=alert_id, bisect_id=None, max_rows=BISECTS)
        for row in found:
            row["tests"] = self._rows("bisect_steps", bisect_id=row["bisect_id"])
        return found

    def noisy(self) -> Sequence[Row]:
        """Series that are noisy now."""
        return self._rows("noisy_series", cluster=None)

    def drifts(self) -> Sequence[Row]:
        """Series that creep now."""
        return self._reader.drifts()

    def grades(self) -> Sequence[Row]:
        """The newest grades of the detector."""
        return self._rows("detector_grades", suite=None, cluster=None, before=None)

    def missing_nights(self) -> Sequence[Row]:
        """Nights of late that brought nothing."""
        since = datetime.now(UTC) - NIGHTS
        return self._rows(
            "nights", suite=None, cluster=None, states=["missing"], since=since, max_rows=RUNS
        )

    def labels(self) -> Sequence[Row]:
        """What people made of the alerts of the last year."""
        return self._rows("page_labels")

    def run_of(self, dag_id: str, dag_run_id: str) -> str | None:
        """The run that a DAG run made."""
        found = self._rows("page_run_of_dag_run", dag_id=dag_id, dag_run_id=dag_run_id)
        return str(found[0]["run_id"]) if found else None

    def _alerts(self, **given: Any) -> list[Row]:
        nothing = dict.fromkeys(("states", "cluster", "framework", "alert_id", "group_key"))
        return self._rows("page_alerts", **{**nothing, "max_rows": 1, **given})

    def _rows(self, name: str, **parameters: Any) -> list[Row]:
        from psycopg2.extras import RealDictCursor

        from nightbench.warehouse.connection import reported
        from nightbench.warehouse.statements import statement

        with (
            reported(f"read from the warehouse ({name})"),
            self._connection.cursor(cursor_factory=RealDictCursor) as cursor,
        ):
            cursor.execute(statement(name), parameters)
            return [dict(row) for row in cursor.fetchall()]


@contextmanager
def open_repository() -> Iterator[WarehouseRepository]:
    """A repository for one request, through the read-only Connection."""
    connection = connect(WAREHOUSE_READER)
    try:
        yield WarehouseRepository(connection)
    finally:
        connection.close()


class TriageDesk:
    """Moves alerts in the name of a person; what is not allowed is said in the pages' own words."""

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
def open_desk(by: str) -> Iterator[Desk]:
    """A desk for one request of a person, through the Connection that may move alerts only."""
    connection = connect(WAREHOUSE_TRIAGE)
    try:
        yield TriageDesk(connection, by)
    finally:
        connection.close()


def build_page(airflow_url: str) -> FastAPI:
    """The app, guarded by Airflow's own access rules."""
    from airflow.sdk.configuration import conf

    return create_app(
        open_repository,
        open_desk,
        _access(),
        form_secret=_form_secret(conf.get("api", "secret_key")),
        airflow_url=airflow_url,
        base_url=conf.get("api", "base_url", fallback=""),
    )


def _access() -> Access:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import get_user, requires_access_dag

    # By name: else the DAG would be the one that the address names, which whoever asks writes.
    trigger = requires_access_dag("POST", DagAccessEntity.RUN, param_dag_id=GUARD)

    def visitor(request: Request, user: Any = Depends(get_user)) -> Visitor:  # noqa: B008
        try:
            trigger(request, user)
        except HTTPException:
            return Visitor(user.get_name(), may_change=False)
        return Visitor(user.get_name(), may_change=True)

    return Access(
        reader=requires_access_dag("GET", DagAccessEntity.RUN), trigger=trigger, visitor=visitor
    )


def _form_secret(airflow_secret: str) -> bytes:
    """A key of our own from the one that all of a site's API servers share."""
    return hmac.new(airflow_secret.encode(), b"nightbench: forms of alerts", "sha256").digest()
