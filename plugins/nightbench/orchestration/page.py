"""The results page inside Airflow's API server: our app behind Airflow's login."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nightbench.orchestration.connections import WAREHOUSE_READER
from nightbench.orchestration.runs import connect
from nightbench.web import create_app

if TYPE_CHECKING:
    from fastapi import FastAPI

    from nightbench.warehouse import Reader
    from nightbench.warehouse.connection import Connection

POINTS = 180
"""Results of a series that are drawn."""

RUNS = 25

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
        return self._reader.alerts(limit=50)

    def run_of(self, dag_id: str, dag_run_id: str) -> str | None:
        """The run that a DAG run made."""
        found = self._rows("page_run_of_dag_run", dag_id=dag_id, dag_run_id=dag_run_id)
        return str(found[0]["run_id"]) if found else None

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


def build_page(airflow_url: str) -> FastAPI:
    """The app, guarded by Airflow's own access rules."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag

    return create_app(
        open_repository,
        require_reader=requires_access_dag("GET", DagAccessEntity.RUN),
        require_trigger=requires_access_dag("POST", DagAccessEntity.RUN),
        airflow_url=airflow_url,
    )
