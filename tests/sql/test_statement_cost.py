"""A statement about many series reads the nights of each: twice the series, twice the rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from tests.sql.conftest import Server
from tests.sql.given import NIGHT, Given

from nightbench.core.model import TrainingKind, Verdict, VerdictKind
from nightbench.warehouse import Triage, Warehouse, connect, statements
from nightbench.warehouse.connection import Connection

SERIES, NIGHTS = 120, 4
MOST_ROWS = 6 * SERIES * NIGHTS
"""Of a node of a plan: each night has a few rows in a table, and an index may yield some more.
Each series next to each other would be five times as many."""

LOSSES = {"first": (2.0, 2.0), "steps": (4, 4)}
WRITES = {"store_series"}


@pytest.fixture(scope="module")
def filled(server: Server, template: str) -> Iterator[Connection]:
    """A warehouse with some nights of many series, whose training was dismissed."""
    given, name = Given(), "nb_statement_cost"
    server.execute(f"create database {name} owner nightbench_owner template {template}")
    with closing(connect(server.dsn("nightbench_loader", name))) as connection:
        warehouse = Warehouse(connection)
        cases = [given.case(batch_size_per_device=size) for size in range(1, SERIES + 1)]
        for number in range(NIGHTS):
            run = given.run(number)
            warehouse.runs.load(
                given.batch(run, *(given.came_back(run, case, losses=LOSSES) for case in cases))
            )
            verdicts = [
                Verdict(
                    case.case_id,
                    run.cluster,
                    run.run_id,
                    VerdictKind.TRAINING_CHANGED if number == 1 else VerdictKind.OK,
                    "Training changed." if number == 1 else "No change.",
                    metric="training" if number == 1 else "throughput",
                    training=TrainingKind.SAME,
                    training_sentence="Training is the same.",
                )
                for case in cases
            ]
            if number == 1:
                for verdict in verdicts:
                    assert warehouse.alerts.open(verdict)
            else:
                warehouse.series.store_verdicts(verdicts)
        for alert in warehouse.alerts.find():
            Triage(connection, "ada").move(alert["alert_id"], "dismissed", "", "intended")
        server.execute("analyze", name)
        # A table of so few pages would be read whole rather than by its index.
        connection.cursor().execute("set enable_seqscan = off")
        yield connection
    server.execute(f"drop database {name} with (force)")


def statements_of_series() -> list[str]:
    known = statements.queries()
    return sorted(
        name
        for name in known.available_queries
        if not name.endswith("_cursor")
        and name not in WRITES
        and "case_ids" in (getattr(known, name).parameters or ())
    )


def rows_of(node: dict[str, Any]) -> Iterator[tuple[float, str]]:
    """Yield how many rows each node of a plan looked at, and its kind."""
    removed = sum(value for key, value in node.items() if key.startswith("Rows Removed by"))
    kind = f"{node['Node Type']} {node.get('CTE Name', node.get('Relation Name', ''))}"
    yield (node["Actual Rows"] + removed) * node["Actual Loops"], kind
    for part in node.get("Plans", ()):
        yield from rows_of(part)


@pytest.mark.parametrize("name", statements_of_series())
def test_a_statement_looks_at_no_night_next_to_another_series(
    name: str, filled: Connection
) -> None:
    statement = getattr(statements.queries(), name)
    at = NIGHT + timedelta(days=NIGHTS - 1)
    cases = [Given().case(batch_size_per_device=size).case_id for size in range(1, SERIES + 1)]
    runs = [Given().run(number).run_id for number in range(NIGHTS)]
    values = {
        **{"case_ids": cases, "clusters": ["local"] * SERIES, "run_ids": runs, "run_id": runs[-1]},
        **{"cluster": "local", "before": at, "until": at, "since": NIGHT, "started_at": NIGHT},
        **{"max_nights": 30, "max_older": 25, "max_changed": 5, "max_points": 180},
        **{"kinds": ["nightly"], "metric": "throughput"},
    }
    with filled.cursor() as cursor:
        cursor.execute(
            f"explain (analyze, format json) {statement.sql}",
            {parameter: values[parameter] for parameter in statement.parameters},
        )
        ((((plan,),),),) = [cursor.fetchall()]
    filled.rollback()

    most, node = max(rows_of(plan["Plan"]))
    assert most <= MOST_ROWS, node
