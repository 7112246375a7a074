"""Reads for the public site: they return only data that a rule allows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from psycopg2.extras import Json

from nightbench.core.model import Suite
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.repository import Repository, Row

SERIES_AT_ONCE = 100


class SiteRepository(Repository):
    """Reads nights of the suites that have `publish`, and of these what it names."""

    def __init__(self, connection: Connection, suites: Iterable[Suite]) -> None:
        super().__init__(connection)
        self._rules = Json(
            [{"suite": each.name, **vars(each.publish)} for each in suites if each.publish]
        )

    def shown(self, name: str, **parameters: Any) -> list[Row]:
        """Rows of a statement of `sql/queries/site.sql`, of what the rules let leave."""
        return self.read(name, rules=self._rules, **parameters)

    def points(self, series: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
        """Yield each of some series with its nights: lists of the same length, oldest first."""
        for start in range(0, len(series), SERIES_AT_ONCE):
            some = {row["series_key"]: row for row in series[start : start + SERIES_AT_ONCE]}
            rows = self.shown("site_points", series_keys=list(some))
            found = {row["series_key"]: row for row in rows}
            yield from ((row, found[key]) for key, row in some.items())
