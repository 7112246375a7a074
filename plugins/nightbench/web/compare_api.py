"""The read-only JSON API of the pages: comparisons, published figures beside ours."""

from typing import Annotated, Any, Literal, get_args

from fastapi import Query

from nightbench.warehouse.pages import OpenPages
from nightbench.web.compare_models import (
    ComparedPair,
    ComparedPairs,
    ComparedSides,
    ProposedSides,
    PublishedCell,
    PublishedCells,
    PublishedTables,
    Standing,
)
from nightbench.web.ui_api import csv_response

By = Literal["framework", "cluster", "version", "build", "run"]
Format = Literal["json", "csv"]


class CompareApi:
    """Handlers of the API that the pages Compare and Published read."""

    def __init__(self, repository: OpenPages) -> None:
        self._repository = repository

    def pairs(
        self,
        by: By,
        one: str,
        other: str,
        search: str = "",
        standing: Standing | Literal[""] = "",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
        size: Annotated[int, Query(ge=1, le=500)] = 100,
        format: Format = "json",
    ) -> Any:
        """Medians that did equal work but for one property: pairs, or those of one standing."""
        is_csv = format == "csv"
        limit, offset = (None, 0) if is_csv else (size, (page - 1) * size)
        with self._repository() as repository:
            found = repository.compare(
                by, one, other, search or None, standing or None, limit, offset
            )
        rows = [row for row in found if row["standing"] is not None]
        if is_csv:
            return csv_response(rows, list(ComparedPair.model_fields))
        counts = {name: found[0][name] for name in get_args(Standing)}
        shown = [standing] if standing else ["faster", "slower", "unclear"]
        return ComparedPairs.of(
            items=rows,
            means=found[0]["means"],
            total=sum(counts[name] for name in shown),
            page=page,
            size=size,
            **counts,
        )

    def sides(self, by: By) -> ComparedSides:
        """What can be compared by a property."""
        with self._repository() as repository:
            return ComparedSides(items=[row["side"] for row in repository.compare_sides(by)])

    def proposal(self) -> ProposedSides:
        """What is compared where nothing was chosen, by version."""
        with self._repository() as repository:
            return ProposedSides.of(repository.compare_proposal() or {"one": None, "other": None})

    def tables(self) -> PublishedTables:
        """The figures and tables of the public benchmarks' documents."""
        with self._repository() as repository:
            return PublishedTables.of(items=repository.published_figures())

    def cells(self, source_document: str, figure: str = "", format: Format = "json") -> Any:
        """The cells of one figure, each beside the medians that match it."""
        with self._repository() as repository:
            rows = repository.published(source_document, figure or None)
        if format == "csv":
            return csv_response(rows, list(PublishedCell.model_fields))
        return PublishedCells.of(items=rows)
