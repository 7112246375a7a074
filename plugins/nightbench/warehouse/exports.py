"""The history as rows for files: one mart, a month of runs at a time, by a server-side cursor."""

import dataclasses
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from nightbench.core.model import Run
from nightbench.warehouse.repository import Repository, Row
from nightbench.warehouse.statements import queries

EXPORTS = {
    "measurements": "marts.fct_measurement",
    "repeats": "marts.fct_repeat",
    "verdicts": "marts.fct_verdict",
    "alerts": "marts.fct_alert",
}
"""Possible exports by statement `export_<name>`: name -> view with the columns of its rows."""

BATCH_ROWS = 20_000
"""Rows in memory at once."""


@dataclasses.dataclass(frozen=True)
class ExportFilter:
    """Which rows are exported; None does not filter."""

    suite: str | None = None
    cluster: str | None = None
    case_id: str | None = None
    run_id: str | None = None
    since: datetime | None = None
    """Runs that began then or later."""
    until: datetime | None = None
    """Runs that began before."""

    def given(self) -> dict[str, str]:
        """The constraints by name, as text."""
        fields = vars(self).items()
        return {
            name: value.isoformat() if isinstance(value, datetime) else str(value)
            for name, value in fields
            if value is not None
        }


class ExportColumn(NamedTuple):
    """A column of an export: its type as PostgreSQL names it, and its comment."""

    name: str
    type: str
    description: str


class Batch(NamedTuple):
    """Rows of one month, the `month`-th of `months`; the last batch of a month may be empty."""

    month: int
    months: int
    rows: list[tuple[Any, ...]]


class ExportRepository(Repository):
    """Reads for `nightbench export` and reports."""

    def columns(self, name: str) -> list[ExportColumn]:
        """The columns of an export, in the order of its rows."""
        found = self.read("export_columns", view=EXPORTS[name])
        return [ExportColumn(**row) for row in found]

    def batches(self, name: str, chosen: ExportFilter) -> Generator[Batch]:
        """Yield the rows of an export in the order of their runs, all of one snapshot.

        The connection does nothing else before the iterator is exhausted or closed.
        """
        statement = getattr(queries(), f"export_{name}").sql
        constraints = vars(chosen)
        with self._snapshot(f"export {name}"):
            span = {key: constraints[key] for key in constraints if key != "case_id"}
            (found,) = self._rows("export_span", **span)
            if found["first_at"] is None:
                return
            begin = max(filter(None, (chosen.since, found["first_at"])))
            # The last run is included, although the end of a span is exclusive.
            end = min(filter(None, (chosen.until, found["last_at"] + timedelta(seconds=1))))
            spans = list(_months(begin, end))
            for month, (since, until) in enumerate(spans, start=1):
                with self._connection.cursor(name="export") as cursor:
                    cursor.itersize = BATCH_ROWS
                    cursor.execute(statement, {**constraints, "since": since, "until": until})
                    while rows := cursor.fetchmany(BATCH_ROWS):
                        yield Batch(month, len(spans), rows)
                yield Batch(month, len(spans), [])

    def of_run(self, name: str, run_id: str, case_id: str | None = None) -> list[Row]:
        """The rows of an export that are of one run, or of one case of it."""
        chosen = ExportFilter(run_id=run_id, case_id=case_id)
        return self.read(f"export_{name}", **vars(chosen))

    def metrics(self, chosen: ExportFilter) -> list[Row]:
        """Each series with its newest median and verdict, and the state of its live alert."""
        return self.read(
            "export_metrics", suite=chosen.suite, cluster=chosen.cluster, case_id=chosen.case_id
        )

    def histories(self, run: Run, case_ids: Iterable[str], days: int) -> dict[str, list[Row]]:
        """case_id -> medians of its nights up to a run, oldest first: started_at, throughput."""
        found: dict[str, list[Row]] = {}
        for row in self.read(
            "report_histories",
            run_id=run.run_id,
            cluster=run.cluster,
            case_ids=list(case_ids),
            since=run.started_at - timedelta(days=days),
            until=run.started_at,
        ):
            found.setdefault(row["case_id"], []).append(row)
        return found

    @contextmanager
    def _snapshot(self, doing: str) -> Iterator[None]:
        """A transaction with a snapshot of the warehouse; server-side cursors need one."""
        self._connection.set_session("REPEATABLE READ", readonly=True, autocommit=False)
        try:
            with self._transaction(doing):
                yield
        finally:
            if not self._connection.closed:
                self._connection.set_session("default", readonly="default", autocommit=True)


def _months(begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the calendar months (UTC) between two instants, the first and last ones in part."""
    while begin < end:
        first = begin.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = (first + timedelta(days=32)).replace(day=1)
        yield begin, min(following, end)
        begin = following
