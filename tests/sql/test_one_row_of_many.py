"""A row whose JSON is damaged, or of a newer release, costs nothing but itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from fastapi.testclient import TestClient
from psycopg2.extras import Json
from tests.sql.conftest import Database, Rows
from tests.sql.given import NIGHT, Given
from tests.sql.nights import FALLS, NIGHTS, STEADY, Inbox, history
from tests.sql.page_client import page_client
from tests.sql.spooled import spooled
from tests.sql.test_experiments_api import bisect, step
from tests.sql.test_nodes import POLICY, control, event, judged, look
from typer.testing import CliRunner

from nightbench.cli.main import app as command
from nightbench.core.model import Verdict, VerdictKind
from nightbench.core.model.alerts import CauseEvidence, CauseKind
from nightbench.night.ingest import ingest_run
from nightbench.night.judge import judge_run
from nightbench.nodes.quarantine import FAULT
from nightbench.spool import Spool
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.connection import Connection

BISECT = bisect(step(1, "1.2", "good", "ab-1"))
NEWER: dict[str, Any] = {"code": "disk_melted", "observed": "at 900 °C", "place": {"rack": 7}}
SAID = "disk_melted: at 900 °C"
Damaged = Callable[[str, Any], AbstractContextManager[None]]


@pytest.fixture
def run_id(loader: Warehouse, given: Given) -> str:
    """Three nights of two series with alerts, causes, faults of nodes and a bisect; the last."""
    cases = given.case(), given.case(nodes=2)
    for night, level in enumerate((100.0, 101.0, 90.0)):
        run = given.run(night)
        loader.runs.load(given.batch(run, *(given.came_back(run, c, (level,) * 3) for c in cases)))
    evidence = (CauseEvidence("the GPU is hot", rival=CauseKind.DRIVER),)
    for case in cases:
        slower = Verdict(
            case.case_id, "local", run.run_id, VerdictKind.REGRESSED, "slower", 86.0, 100.0, -0.14,
            2, since=NIGHT + timedelta(days=2),
        )  # fmt: skip
        loader.series.store_verdicts([slower])
        loader.alerts.open(slower)
    cause = {"run_id": run.run_id, "kind": "thermal", "sentence": "hot", "night": NIGHT.date()}
    rows = [{**cause, "alert_id": n, "evidence": evidence, "group_key": "g"} for n in (1, 2)]
    loader.causes.store(rows)
    loader.nodes.count("lab", [event(FAULT, 0, node) for node in ("n1", "n2")], POLICY)
    looked = [judged(look(node=node)) for node in ("n1", "n2")]
    loader.nodes.store_preflight("lab", run.run_id, looked, [control(2.0)], NIGHT)
    loader.experiments.store(BISECT)
    return run.run_id


@pytest.fixture
def damaged(warehouse: Database) -> Iterator[Damaged]:
    """Puts JSON into the newest row of a table for a while, whatever triggers say."""
    with closing(psycopg2.connect(warehouse.server.dsn("postgres", warehouse.name))) as made:
        made.autocommit = True
        cursor = made.cursor()
        cursor.execute("set session_replication_role = replica")

        @contextmanager
        def write(column: str, value: Any) -> Iterator[None]:
            table, name = column.split(".")
            newest = f"from raw.{table} order by tableoid desc, ctid desc limit 1"
            cursor.execute(f"select {name}, tableoid, ctid {newest}")
            before, *place = cursor.fetchone() or pytest.fail(f"raw.{table} is empty")
            for content in (value, before):
                cursor.execute(
                    f"update raw.{table} set {name} = %s where (tableoid, ctid) = (%s, %s) "
                    "returning tableoid, ctid",
                    (None if content is None else Json(content), *place),
                )
                place = list(cursor.fetchone() or ())
                if content is value:
                    yield

        yield write


DAMAGED = [
    ("measurement.reasons", [NEWER]),
    ("measurement.quarantine_reasons", ["text", None, {}]),
    ("measurement.reported", {"x": "y"}),
    ("planned_case.left_out", NEWER),
    ("planned_case.left_out", {}),
    ("node_state.reasons", [NEWER, 7]),
    ("node_event.reasons", [{"code": "person", "node": 5}]),
    ("node_preflight.findings", [None]),
    ("node_preflight.document", {"cpu": []}),
    ("repeat.reasons", [NEWER]),
    ("alert_cause.evidence", [{"text": "x", "rival": "newer"}]),
    ("alert_cause.evidence", ["text"]),
    ('"case".axes', {"workload": "w", "framework": "f", "strategy": "single", "scale": {}}),
    ("experiment.request", {}),
    ("experiment.request", {"case_id": 7, "good": "1.0", "bad": "1.4"}),
    ("experiment.result", {"steps": [None]}),
    ("fingerprint.document", {"node": []}),
]


def routes(client: TestClient, run_id: str, case_id: str) -> list[str]:
    """Addresses of all that can be read."""
    values = {"run_id": run_id, "case_id": case_id, "generation": 0, "repeat": 1, "name": BISECT}
    values |= {"cluster": "local", "experiment_id": BISECT["name"], "name": BISECT["name"]}
    values |= {"dag_id": "x", "dag_run_id": "x", "framework": "pytorch", "workload": "x"}
    found = []
    for path, operations in client.get("/api/openapi.json").json()["paths"].items():
        query = [
            f"{each['name']}={values[each['name']]}"
            for each in operations.get("get", {}).get("parameters", ())
            if each["in"] == "query" and each.get("required") and each["name"] in values
        ]
        if "get" in operations and "comparisons/{" not in path:
            for alert_id in (1, 2):
                filled = {**values, "alert_id": alert_id}
                url = re.sub(r"\{(\w+)\}", lambda m, of=filled: str(of.get(m[1], "x")), path)
                found.append(url + "?" * bool(query) + "&".join(query))
    return list(dict.fromkeys(found))


def test_all_pages_and_commands_answer(
    run_id: str,
    given: Given,
    damaged: Damaged,
    warehouse: Database,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    roles: None,
) -> None:
    client = page_client(warehouse, Spool(tmp_path), monkeypatch)
    urls = routes(client, run_id, given.case().case_id)
    right = {url: client.get(url).status_code for url in urls}
    assert list(right.values()).count(200) > 25
    wrong = []
    for column, value in DAMAGED:
        with damaged(column, value):
            for url, status in right.items():
                try:
                    assert client.get(url).status_code == status
                except Exception as error:
                    wrong.append(f"{column} = {value}: {url}: {error}")
            for words in (["results", "--run", run_id], ["alert", "list"], ["alert", "show", "1"]):
                if (done := CliRunner().invoke(command, words)).exit_code:
                    wrong.append(f"{column} = {value}: {words}: {done.exception}")
    assert wrong == [], "\n".join(wrong)


JUDGED = [
    ("measurement.losses", {"first": "x"}),
    ("measurement.losses", {"first": 7}),
    ("measurement.reasons", [NEWER]),
    ("repeat.reasons", [NEWER, None]),
    ("repeat_rank.versions", {"python": []}),
    ("alert_cause.evidence", ["text"]),
    ("experiment.result", {"outcome": "confirmed", "ratio": "x"}),
    ("node_preflight.findings", [None]),
    ("node_event.reasons", [7]),
    ('"case".axes', {"workload": "w", "framework": "f", "strategy": "single", "scale": {}}),
]


def test_the_next_nights_are_judged_and_reported(
    damaged: Damaged,
    connection: Connection,
    warehouse: Database,
    given: Given,
    spool: Spool,
    inbox: Inbox,
    rows: Rows,
) -> None:
    loader = Warehouse(connection)
    history(loader, given, (STEADY, FALLS), nights=NIGHTS)
    looked = [judged(look(node=node)) for node in ("n1", "n2")]
    loader.nodes.store_preflight("local", "seeded", looked, [control(2.0)], NIGHT)
    loader.nodes.count("local", [event(FAULT, 0)], POLICY)
    for number, (column, value) in enumerate([("", None), *JUDGED]):
        with damaged(column, value) if column else nullcontext():
            run = given.run(NIGHTS + number, suite="seeded")
            level = 90.0 - 10.0 * (number > 5)
            spooled(spool, run, {STEADY: 100.0, FALLS: level}, channels=[inbox.url])
            ingest_run(spool, run.run_id, lambda: connect(warehouse.loader))
            judge_run(spool, run.run_id, lambda: connect(warehouse.loader))
        if not number:
            (alert,) = rows("select alert_id from raw.alert")
            done = {
                "kind": "confirm",
                "state": "done",
                "ended_at": NIGHT,
                "run_id": run.run_id,
                **alert,
            }
            loader.experiments.store({**BISECT, "name": "confirm-1", "result": {"x": 1}, **done})
        query = "select kind from raw.verdict inner join raw.run using (run_key) where run_id = %s"
        assert len(rows(query, run.run_id)) == 2, column
    assert inbox.messages
