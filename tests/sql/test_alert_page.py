"""The API of alerts on a real PostgreSQL, with the roles that they have in Airflow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import get_args

import psycopg2
import pytest
from fastapi.testclient import TestClient
from psycopg2.extras import Json
from tests.sql.conftest import Database
from tests.sql.given import Given
from tests.sql.page_client import page_client

from nightbench.alerts.ranking import store_ranks
from nightbench.core.documents import to_document
from nightbench.core.model import Verdict, VerdictKind
from nightbench.core.model.alerts import CauseEvidence
from nightbench.spool import Spool
from nightbench.warehouse import Triage, Warehouse, connect
from nightbench.warehouse import alert_actions as actions
from nightbench.warehouse.connection import Connection

BEARER = {"authorization": "Bearer abc.def"}


@pytest.fixture
def app(warehouse: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TestClient:
    return page_client(warehouse, Spool(tmp_path), monkeypatch)


def test_an_alert_is_found_read_and_moved(app: TestClient, alert_id: int) -> None:
    (listed,) = app.get("/api/alerts?framework=pytorch").json()["alerts"]
    assert (listed["alert_id"], listed["framework"]) == (alert_id, "pytorch")
    nothing = {"alerts": [], "total": 0, "page": 1, "size": 200}
    assert app.get("/api/alerts?framework=other").json() == nothing
    assert "slower" in app.get(f"/api/alerts/{alert_id}").json()["sentence"]
    at = f"/api/alerts/{alert_id}"
    app.post(f"{at}/acknowledge", json={"why": "looking"}, headers=BEARER)
    app.post(f"{at}/assign", json={"owner": "grace"}, headers=BEARER)
    app.post(f"{at}/snooze", json={"until": "2w"}, headers=BEARER)
    done = app.post(f"{at}/dismiss", json={"reason": "intended"}, headers=BEARER)
    assert (done.status_code, done.json()["state"]) == (200, "dismissed")
    told = [(e["what"], e["by_whom"], e["db_role"]) for e in done.json()["events"][1:]]
    ours = ("ada", "nightbench_triage")
    assert told == [(what, *ours) for what in ("moved", "assigned", "snoozed", "moved")]
    refused = app.post(f"{at}/resolve", json={}, headers=BEARER)
    assert refused.status_code == 409
    assert "is dismissed and cannot become resolved" in refused.json()["detail"]
    assert app.get("/api/alerts").json() == nothing
    assert len(app.get("/api/alerts?state=all").json()["alerts"]) == 1


def test_a_group_is_found_shown_and_moved_as_one(
    app: TestClient, connection: Connection, loader: Warehouse, reader: Warehouse, given: Given
) -> None:
    run, cases = given.run(), [given.case(batch_size_per_device=batch) for batch in (1, 2, 4)]
    loader.runs.load(given.batch(run, *(given.came_back(run, case) for case in cases)))
    for case in cases:
        kind = VerdictKind.REGRESSED
        loader.alerts.open(
            Verdict(case.case_id, "local", run.run_id, kind, "slower", 9.0, 10.0, -0.1)
        )
    ids = sorted(row["alert_id"] for row in reader.alerts.find())
    for alert_id in ids[:2]:
        connection.cursor().execute(
            "insert into raw.alert_cause (alert_id, run_id, kind, suspect, sentence, evidence, "
            "group_key, night) values (%s, %s, 'node', 'n1', 'all on n1', %s, 'local/node/n1', %s)",
            (
                alert_id,
                run.run_id,
                Json([to_document(CauseEvidence("the controls of n1 moved"))]),
                run.started_at,
            ),
        )
    found = app.get("/api/morning").json()["alerts"]
    assert sorted(each["alerts"] for each in found) == [1, 2]
    shown = app.get(f"/api/alerts/{ids[0]}").json()
    assert (shown["cause"], shown["cause_suspect"]) == ("node", "n1")
    assert shown["evidence_sentences"] == ["The controls of n1 moved."]
    assert len(shown["group"]) == 2
    triage = {"why": "n1 is being mended", "group": True}
    app.post(f"/api/alerts/{ids[0]}/acknowledge", json=triage, headers=BEARER)
    states = {row["alert_id"]: row["state"] for row in reader.alerts.find()}
    assert [states[alert_id] for alert_id in ids] == ["acknowledged", "acknowledged", "open"]
    again = app.post(f"/api/alerts/{ids[0]}/acknowledge", json=triage, headers=BEARER)
    assert again.status_code == 409


def test_groups_come_the_worst_first_page_by_page(
    app: TestClient, connection: Connection, loader: Warehouse, given: Given
) -> None:
    run = given.run()
    falls = {1: -0.04, 2: -0.3, 4: -0.05, 8: -0.06, 16: None}
    cases = {batch: given.case(batch_size_per_device=batch) for batch in falls}
    loader.runs.load(given.batch(run, *(given.came_back(run, c) for c in cases.values())))
    opened = []
    for batch, change in falls.items():
        kind = VerdictKind.FAILED if change is None else VerdictKind.REGRESSED
        verdict = Verdict(
            cases[batch].case_id, "local", run.run_id, kind, "said", 9.0, 10.0, change
        )
        loader.series.store_verdicts([verdict])
        loader.alerts.open(verdict)
        opened.append(reader_id(connection, cases[batch].case_id))
    for alert_id in opened[2:4]:
        connection.cursor().execute(
            "insert into raw.alert_cause (alert_id, run_id, kind, suspect, sentence, evidence, "
            "group_key, night) values (%s, %s, 'node', 'n1', 'all on n1', '[]', 'local/n1', %s)",
            (alert_id, run.run_id, run.started_at),
        )
    connection.cursor().execute(
        "insert into raw.experiment (name, kind, state, request, cluster, suite, alert_id, "
        "requested_by, budget_s, started_at) "
        "values ('b1', 'bisect', 'running', %s, 'local', 'demo', %s, 'ada', 60, %s)",
        (Json({"good": "1", "bad": "3"}), opened[3], run.started_at),
    )
    unranked = app.get("/api/alerts/groups").json()["items"]
    assert {each["head"]["severity_because"] for each in unranked} == {"is new"}
    store_ranks(Warehouse(connection), "local")
    whole = app.get("/api/alerts/groups").json()
    assert [(each["head"]["alert_id"], each["head"]["severity"]) for each in whole["items"]] == [
        (opened[4], "high"), (opened[1], "high"), (opened[3], "medium"), (opened[0], "low"),
    ]  # fmt: skip
    third = whole["items"][2]
    assert (third["alerts"], third["states"], third["medians"]) == (2, {"open": 2}, [11.0])
    assert (third["bisect"]["name"], third["bisect"]["tests"]) == ("b1", [])
    assert (whole["total"], whole["alerts"]) == (4, 5)
    last = app.get("/api/alerts/groups?size=3&page=2").json()
    assert [each["head"]["alert_id"] for each in last["items"]] == [opened[0]]
    (one,) = app.get("/api/alerts/groups?together=onset").json()["items"]
    assert (one["alerts"], one["head"]["alert_id"]) == (5, opened[4])
    assert app.get("/api/alerts/groups?together=nothing").json()["total"] == 5
    assert app.get("/api/alerts/groups?cluster=elsewhere").json()["items"] == []
    assert app.get(f"/api/alerts/{opened[2]}").json()["severity"] == "medium"
    assert app.get("/api/alerts?size=2&page=3").json()["total"] == 5


def reader_id(connection: Connection, case_id: str) -> int:
    """The number of a series' only alert."""
    with connection.cursor() as cursor:
        cursor.execute("select alert_id from raw.alert where case_id = %s", (case_id,))
        ((alert_id,),) = cursor.fetchall()
    return int(alert_id)


def test_each_page_finds_its_rows_with_the_reader_s_rights(app: TestClient, alert_id: int) -> None:
    for address in ("trust", "nodes", "alerts?state=all&cluster=local", f"alerts/{alert_id}"):
        answer = app.get(f"/api/{address}")
        assert answer.status_code == 200, answer.text
    assert [each["cluster"] for each in app.get("/api/trust").json()["labels"]] == ["local"]


@contextmanager
def undone(connection: Connection) -> Iterator[None]:
    """What is done inside is rolled back."""
    connection.autocommit = False
    try:
        yield
    finally:
        connection.rollback()
        connection.autocommit = True


def test_what_is_offered_is_what_the_functions_allow(warehouse: Database, alert_id: int) -> None:
    ways = {
        "open": (),
        "acknowledged": (("acknowledged", None),),
        "resolved": (("resolved", None),),
        "dismissed": (("dismissed", "intended"),),
    }
    calls = {
        "reason": "select triage.move_alert(%(id)s, %(to)s, 'ada', '', 'intended')",
        "until": "select triage.snooze_alert(%(id)s, now() + interval '1 day', 'ada')",
        "owner": "select triage.assign_alert(%(id)s, 'grace', 'ada')",
        "": "select triage.move_alert(%(id)s, %(to)s, 'ada')",
    }
    allowed = {}
    for state, moves in ways.items():
        allowed[state] = set()
        for action in actions.ACTIONS.values():
            with closing(connect(warehouse.triage)) as connection, undone(connection):
                cursor = connection.cursor()
                for to, reason in moves:
                    cursor.execute(
                        "select triage.move_alert(%s, %s, 'ada', '', %s)", (alert_id, to, reason)
                    )
                try:
                    cursor.execute(calls[action.field], {"id": alert_id, "to": action.to})
                except psycopg2.errors.RaiseException:
                    continue
                allowed[state].add(action.name)
    assert allowed == {
        state: {action.name for action in actions.actions_for(state)} for state in actions.STATES
    }


def test_a_reason_that_is_offered_is_one_that_the_warehouse_takes(
    warehouse: Database, alert_id: int
) -> None:
    taken = []
    for reason in (*actions.REASONS, "bored"):
        with (
            closing(connect(warehouse.triage)) as connection,
            undone(connection),
            suppress(psycopg2.errors.RaiseException),
        ):
            connection.cursor().execute(
                "select triage.move_alert(%s, 'dismissed', 'ada', '', %s)", (alert_id, reason)
            )
            taken.append(reason)
    assert taken == list(actions.REASONS)
    assert get_args(actions.Dismissal.model_fields["reason"].annotation) == tuple(actions.REASONS)


def test_the_page_s_roles_can_do_no_more(
    warehouse: Database, reader: Warehouse, triage: Triage, alert_id: int
) -> None:
    for dsn in (warehouse.reader, warehouse.triage):
        with closing(connect(dsn)) as connection, pytest.raises(psycopg2.Error, match="permission"):
            connection.cursor().execute("update raw.alert set state = 'resolved'")
