"""The read-only JSON API of the pages: runs with their cases."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query

from nightbench.core.model import reasons_from_json
from nightbench.core.sentences import sentence, sentences
from nightbench.warehouse.pages import OpenPages
from nightbench.warehouse.repository import Row
from nightbench.web.errors import NotFound
from nightbench.web.run_models import DagRunRun, RunCase, RunPage, RunResults, RunRow
from nightbench.web.ui_api import csv_response


class RunApi:
    """Handlers of the API that the pages of runs read."""

    def __init__(self, repository: OpenPages) -> None:
        self._repository = repository

    def index(
        self,
        suite: str = "",
        cluster: str = "",
        imported: bool = False,
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
        size: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> RunPage:
        """Runs, newest first."""
        offset = (page - 1) * size
        with self._repository() as repository:
            rows = repository.find_runs(suite or None, cluster or None, imported, size + 1, offset)
        return RunPage(
            items=[RunRow.of(row) for row in rows[:size]],
            page=page,
            size=size,
            has_more=len(rows) > size,
        )

    def of_dag_run(self, dag_id: str, dag_run_id: str) -> DagRunRun:
        """The run that a DAG run made."""
        with self._repository() as repository:
            return DagRunRun(run_id=repository.run_of(dag_id, dag_run_id))

    def show(self, run_id: str, format: Literal["json", "csv"] = "json") -> Any:
        """One run with what came of each planned case."""
        with self._repository() as repository:
            run = repository.run(run_id)
            if run is None:
                raise NotFound(f"The warehouse has no run {run_id[:200]}.")
            cases = [case_of(row) for row in repository.results(run_id)]
        if format == "csv":
            columns = [key for key in RunCase.model_fields if key != "error"]
            return csv_response([case.model_dump() for case in cases], columns)
        return RunResults(run=RunRow.of(run), cases=cases)


def case_of(row: Row) -> RunCase:
    """Return what came of a case, from a row of `PageRepository.results`."""
    return RunCase.of(
        row,
        state=_state(row),
        sentences=_sentences(row),
        is_private_build=bool(row["private_build"]),
    )


def _state(row: Row) -> str:
    """Return a result in one word."""
    # A failed case fails a check as well; failed is more specific, as in the command's table.
    if row["status"] != "ok":
        return str(row["status"])
    if row["quarantined"]:
        return "quarantined"
    if row["private_build"]:
        return "private_build"
    return str(row["verdict"] or "measured")


def _sentences(row: Row) -> list[str]:
    """Return the sentence of its verdict, or why it has none; the failed checks if quarantined."""
    if row["status"] == "ok" and row["quarantined"]:
        return [sentence(reason) for reason in reasons_from_json(row["quarantine_reasons"])]
    said = row["verdict_sentence"] or sentences(reasons_from_json(row["reasons"]))
    untried = f"Untried mode: {row['untried']}." if row["untried"] else ""
    return [each for each in (said, untried) if each]
