"""Times every statement that reads, with parameters as pages, commands and the judge give them."""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg2.errors
from psycopg2.extras import Json, RealDictCursor
from tests.performance.warehouse.history import SUITES, History

from nightbench.core.errors import UserError
from nightbench.detection import NIGHTS_READ
from nightbench.detection.training import PROVED_NIGHTS
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.statements import SQL, queries
from nightbench.web.ui_api import STEPS_SHOWN

CALLS = 5
READER_S = 60.0
"""The limit of sql/reader_limits.sql."""

LONG_S = 20.0
"""No more calls of a query than two when they take longer together."""

WRITES = frozenset(
    {
        *("spend_experiment", "give_up_experiments", "store_message", "store_series"),
        *("lock_for_transaction", "try_session_lock"),
        *("ensure_month", "drop_old_details", "refresh_statistics"),
    }
)
"""Statements that return rows and write: those that load and judge a night are among its time."""

NOTHING: Mapping[str, Any] = dict.fromkeys(
    (
        *("suite", "cluster", "workload", "framework", "case_id", "run_id", "alert_id"),
        *("group_key", "states", "node", "before", "since"),
        *("state", "search", "shown", "experiment_id", "requested_by", "names", "kinds"),
    )
)
"""Parameters that do not constrain where they are null: pages and commands leave them out."""

WHOLE: Mapping[str, Mapping[str, Any]] = {
    "series": NOTHING,
    "page_labels": {},
    "case_past": {},
    "histories": {"case_ids": "every_case"},
    "newest_of_cases": {"case_ids": "every_case"},
    "judged_since": {"case_ids": "every_case"},
    "alerts": NOTHING,
    "page_alerts": NOTHING | {"alert_ids": None},
    "page_alert_marks": NOTHING,
    "alert_moves": {},
    "regressions": {},
    "runs": NOTHING,
    "nights": NOTHING,
    "detector_grades": NOTHING,
    "noise_events": NOTHING,
    "noisy_series": NOTHING,
    "drifts": NOTHING,
    "experiments": NOTHING | {"alert_ids": None},
    "experiments_spent": {},
    "ui_series": NOTHING,
    "ui_choices": {},
    "ui_compare": NOTHING,
    "ui_compare_sides": {},
    "ui_published_figures": {},
    "ui_published": {},
    "ui_overview": {},
    "ui_curves": {},
    "export_metrics": {"suite": None, "cluster": None, "case_id": None},
    "site_series": {},
    "site_changes": {},
    "site_references": {},
}
"""Statements that can go over all series and years, with the parameters that make them do so.
`every_case` stands for the cases of the largest suite."""

_FACTS = re.compile(r"\braw\.measurement\b")
_VIEWS = re.compile(r"\b(marts\.|staging\.(result|repeat))")


@dataclass(frozen=True)
class Figure:
    """One line of the figures."""

    name: str
    milliseconds: float | None
    """None: it was ended after a minute, as any query of an analyst is."""
    rows: int
    whole: bool


def parameters_of(history: History, connection: Connection) -> dict[str, Any]:
    """Return a realistic value of each parameter, by name: of the last stored night."""

    def first(query: str, *given: Any) -> dict[str, Any]:
        with connection.cursor(cursor_factory=RealDictCursor) as cursor:
            cursor.execute(query, given)
            found = cursor.fetchone()
        if found is None:
            raise UserError(f"The history holds nothing for: {query}")
        return dict(found)

    cluster = SUITES[0][1]
    run = first(
        "select r.run_id, r.run_key, r.suite, r.started_at from raw.run as r "
        "inner join benchmark.run as n using (run_key) where r.suite = %s "
        "order by n.run_at desc limit 1",
        f"{SUITES[0][0]}_{cluster}",
    )
    planned = _all(
        connection,
        "select s.case_id, s.series_key from raw.planned_case as p inner join raw.series as s "
        "using (series_key) where p.run_key = %s order by s.case_id",
        run["run_key"],
    )
    cases = [case_id for case_id, _ in planned]
    run_ids = [
        row
        for (row,) in _all(
            connection,
            "select run_id from raw.run where suite = %s order by started_at desc limit 14",
            run["suite"],
        )
    ]
    alert_ids = [row for (row,) in _all(connection, "select max(alert_id) from raw.alert") if row]
    at = run["started_at"]
    axes = first("select workload, framework from raw.case where case_id = %s", cases[0])
    reference = first(
        "select source_document, figure from staging.reference_result where not is_empty limit 1"
    )
    return {
        **axes,
        **reference,
        "by": "framework",
        "one": "pytorch",
        "other": "paddle3",
        "case_id": cases[0],
        "case_ids": cases[:20],
        "every_case": cases,
        "cluster": cluster,
        "suite": run["suite"],
        "run_id": run["run_id"],
        "run_ids": run_ids,
        "run_keys": [run["run_key"]],
        "series_keys": [series_key for _, series_key in planned[:20]],
        "rules": Json([{"suite": run["suite"], "frameworks": [], "workloads": []}]),
        "generation": 0,
        "repeat": 1,
        "alert_id": alert_ids[0] if alert_ids else 0,
        "alert_ids": alert_ids,
        "group_key": f"framework_version-{at:%Y-%m-%d}",
        "states": ["open", "acknowledged"],
        "experiment_id": 1,
        "names": ["none"],
        "requested_by": "ada",
        "clusters": [cluster] * len(cases[:20]),
        "axes": "{}",
        "state": "alert",
        "search": "bert",
        "shown": "slower",
        "sort": "change",
        "together": "framework",
        "skipped": 0,
        "view": "marts.fct_measurement",
        "node": f"{cluster}-1",
        "at": at,
        "started_at": at - timedelta(days=1),
        "before": at,
        "until": at,
        "since": at - timedelta(days=90),
        "month": (at - timedelta(days=120)).date().replace(day=1),
        "month_begins": (at - timedelta(days=120)).replace(day=1, hour=0, minute=0),
        "night": at.date(),
        "kinds": ["nightly"],
        "max_nights": NIGHTS_READ,
        "max_older": 0,
        "max_changed": PROVED_NIGHTS,
        "max_steps": STEPS_SHOWN,
        "definition_digest": "",
        "nights": 28,
        "max_points": 180,
        "max_rows": 200,
        "watched": 14,
        "imported": False,
        "live": True,
        "subjects": ["1"],
        "news": ["none"],
        "dag_id": "suite",
        "dag_run_id": "none",
        "fingerprint_ids": [f"fp-{cluster}-{cluster}-1-0"],
        "build_ids": ["pytorch-cu126-index-2.0"],
        "document": "paddle-fluid",
        "figures": ["1"],
        "metric": "throughput",
        # What means something else in one statement than in the others.
        "night_runs.since": at - timedelta(days=7),
    }


def measure_reads(history: History, only: str | None = None) -> Iterator[Figure]:
    """Yield the figures of all queries.

    Raises:
        UserError: a statement has a parameter for which there is no value here.
    """
    with closing(history.connect("nightbench_reader", READER_S)) as connection:
        values = parameters_of(history, connection)
        for name, text, given, whole in _chosen(values):
            if only and only not in name:
                continue
            print(name, file=sys.stderr, flush=True)
            yield measured(name, partial(_count, connection, text, given), whole)


def measured(name: str, call: Callable[[], int], whole: bool = False) -> Figure:
    """Return the figure of a call that returns how many rows it read."""
    spent = list[float]()
    try:
        rows = call()
    except psycopg2.errors.QueryCanceled:
        return Figure(name, None, 0, whole)
    while len(spent) < CALLS and not (len(spent) >= 2 and sum(spent) > LONG_S):
        began = time.perf_counter()
        rows = call()
        spent.append(time.perf_counter() - began)
    return Figure(name, round(1000 * statistics.median(spent), 3), rows, whole)


def _chosen(
    values: Mapping[str, Any],
) -> Iterator[tuple[str, str, Mapping[str, Any] | None, bool]]:
    """Yield name, text, parameters and whole of each query."""
    known = queries()
    names = [
        name
        for name in known.available_queries
        if not name.endswith("_cursor") and getattr(known, name).operation.name == "SELECT"
    ]
    if gone := sorted({*WRITES, *WHOLE} - {*names}):
        raise UserError(f"{', '.join(gone)}: no statement of that name in sql/queries")
    for name in names:
        if name in WRITES:
            continue
        statement = getattr(known, name)
        if unknown := sorted({*statement.parameters} - {*values}):
            raise UserError(
                f"statement {name}: no value for {', '.join(unknown)}; expected one in "
                f"{parameters_of.__name__} of {__name__}"
            )
        given = {each: values.get(f"{name}.{each}", values[each]) for each in statement.parameters}
        forms = [(name, given, False)]
        if name in WHOLE:
            widest = {
                key: values[value] if value == "every_case" else value
                for key, value in WHOLE[name].items()
                if key in given
            }
            forms = [(name, given | widest, True)]
            if widest:
                forms.append((f"{name}_one", given, False))
        for label, chosen, whole in forms:
            yield label, statement.sql, chosen, whole
            if _FACTS.search(statement.sql) and not _VIEWS.search(statement.sql):
                text = _FACTS.sub("benchmark.measurement", statement.sql)
                yield f"{label}_unpartitioned", text, chosen, whole
    for path in sorted((SQL / "queries" / "analysts").glob("*.sql")):
        yield f"analysts/{path.stem}", path.read_text(encoding="utf-8"), None, True


def _count(connection: Connection, text: str, given: Mapping[str, Any] | None) -> int:
    return len(_all(connection, text, given))


def _all(connection: Connection, text: str, *given: Any) -> list[Any]:
    # As the repositories read: rows by column name cost as much as some of the queries.
    parameters = given[0] if len(given) == 1 and not isinstance(given[0], str | int) else given
    with connection.cursor() as cursor:
        cursor.execute(text, parameters or None)
        return list(cursor.fetchall())
