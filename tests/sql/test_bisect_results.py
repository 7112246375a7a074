"""Bisects in a real PostgreSQL: recorded as they go, found by their alert, shown on it."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.sql.conftest import Database, Rows
from tests.sql.given import Given
from typer.testing import CliRunner

from nightbench.cli import common
from nightbench.cli.main import app
from nightbench.config.experiment_requests import BisectRequest
from nightbench.core.documents import to_document
from nightbench.core.errors import UserError
from nightbench.core.model import Verdict, VerdictKind
from nightbench.core.model.experiments import Experiment, ExperimentKind
from nightbench.experiments.bisect_request import (
    bisect_document,
    complete_request,
    save_step,
    store_bisect,
)
from nightbench.experiments.record import Ended, ExperimentRecord
from nightbench.spool import Spool
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.connection import Connection

VERSIONS = ("1.0", "1.1", "1.2", "1.3")


def request(case_id: str, alert_id: int | None = None) -> BisectRequest:
    return BisectRequest(
        case_id, "demo", "local", "1.0", "1.3", VERSIONS, "fake", alert_id=alert_id
    )


def begun(asked: BisectRequest, database: Database, said: list[str]) -> ExperimentRecord:
    """The record of a bisect at a terminal."""
    document, alert_id = to_document(asked), asked.alert_id
    experiment = Experiment(
        "bisect-1",
        ExperimentKind.BISECT,
        document,
        "demo",
        "local",
        "ada",
        alert_id,
        budget_s=3600.0,
    )
    record = ExperimentRecord(experiment, lambda: connect(database.loader), said.append)
    record.begin()
    return record


def step(number: int, kind: str, version: str, result: str | None, **more: Any) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    return {
        "number": number,
        "kind": kind,
        "version": version,
        "against": "1.0",
        "comparison_id": f"ab-{number}",
        "status": "ended" if result else "running",
        "result": result,
        "why": "",
        "ratio": None,
        "low": None,
        "high": None,
        "rounds": 0,
        "wanted_rounds": 5,
        "min_effect": 0.01,
        "started_at": now,
        "ended_at": now if result else None,
        "spent_s": 30.0,
        **more,
    }


def test_a_bisect_is_recorded_after_each_test_and_shown_on_its_alert(
    connection: Connection,
    warehouse: Database,
    spool: Spool,
    alert_id: int,
    rows: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository = Warehouse(connection).experiments
    case_id = rows("select case_id from raw.alert")[0]["case_id"]
    asked, folder = request(case_id, alert_id), spool.comparison("bisect-1")
    store_bisect(folder, asked, "ada", "demo", "local")
    record = begun(asked, warehouse, [])
    assert record.note(bisect_document(folder)) is None
    (found,) = repository.find(alert_ids=[alert_id])
    assert (found["state"], found["verdict"]) == ("running", None)
    assert found["result"]["versions"] == list(VERSIONS)

    figures = {"ratio": 0.9, "low": 0.89, "high": 0.91, "rounds": 5}
    save_step(folder, step(1, "check", "1.3", "bad", **figures))
    save_step(folder, step(2, "search", "1.1", "good", why="a\x00in it"))
    save_step(folder, step(3, "search", "1.2", None))
    for _ in range(2):  # recorded twice, it is there once
        record.note(bisect_document(folder))
    told = rows("select * from marts.fct_experiment_step order by number")
    assert [each["status"] for each in told] == ["ended", "ended", "running"]
    assert [each["ratio"] for each in told] == [0.9, None, None]
    assert repository.find(alert_ids=[alert_id])[0]["result"]["spent_s"] == 90.0

    save_step(folder, step(3, "search", "1.2", "bad"))
    save_step(folder, step(4, "verify", "1.2", "bad", against="1.1"))
    record.leave(Ended("done", "", bisect_document(folder, "done")))
    (found,) = repository.find(alert_ids=[alert_id])
    assert (found["state"], found["verdict"]) == ("done", "found")
    assert found["result"]["first_bad"] == "1.2"

    monkeypatch.setattr(common, "has_warehouse", lambda: True)
    monkeypatch.setattr(common, "warehouse_dsn", lambda role: warehouse.reader)
    shown = CliRunner().invoke(app, ["alert", "show", str(alert_id)])
    assert "bisect-1: 1.2 is the first bad version; 1.1 before it is good" in shown.stdout
    document = json.loads(
        CliRunner().invoke(app, ["alert", "show", str(alert_id), "--json"]).stdout
    )
    (told,) = document["bisects"]
    assert told["first_bad"] == "1.2"
    assert [test["version"] for test in told["steps"]] == ["1.3", "1.1", "1.2", "1.2"]


def test_the_versions_of_an_alert_are_those_on_both_sides_of_the_last_change(
    loader: Warehouse, reader: Warehouse, warehouse: Database, given: Given
) -> None:
    case = given.case()
    nights = ["1.0", "1.1", "1.1", "1.2+cpu", "1.2+cpu"]
    for number, version in enumerate(nights):
        run = given.run(number)
        came = given.came_back(run, case)
        measured = dataclasses.replace(came.measurement, framework_version=version)
        came = dataclasses.replace(came, measurement=measured)
        loader.runs.load(given.batch(run, came))
    kind = VerdictKind.REGRESSED
    loader.alerts.open(Verdict(case.case_id, "local", run.run_id, kind, "slower", 9.0, 10.0, -0.1))
    alert_id = int(reader.alerts.find()[0]["alert_id"])
    found = complete_request(BisectRequest(alert_id=alert_id), lambda: connect(warehouse.reader))
    assert (found.good, found.bad) == ("1.1", "1.2")
    assert (found.case_id, found.cluster) == (case.case_id, "local")


def test_an_alert_without_a_change_of_version_needs_two_that_are_named(
    warehouse: Database, alert_id: int, given: Given
) -> None:
    def complete(alert_id: int, good: str = "", bad: str = "") -> BisectRequest:
        asked = BisectRequest(alert_id=alert_id, good=good, bad=bad)
        return complete_request(asked, lambda: connect(warehouse.reader))

    with pytest.raises(UserError, match="so no version can be the cause"):
        complete(alert_id)
    with pytest.raises(UserError, match="There is no alert 999"):
        complete(999)
    # Two versions that are named need no change: the runtime below them may be to blame.
    with pytest.raises(UserError, match="expected --good and --bad"):
        complete(alert_id, bad="1.2")
    found = complete(alert_id, "1.0", "1.2")
    assert (found.good, found.bad, found.suite) == ("1.0", "1.2", given.run().suite)


def test_a_warehouse_without_our_tables_ends_no_bisect(empty: Database) -> None:
    said: list[str] = []
    record = begun(request("some-case"), empty, said)
    record.note({"steps": []})
    record.leave(Ended("done", "", {"steps": []}))
    assert len(said) == 3
    assert "only in the spool: Cannot store bisect-1" in said[0]


def test_a_terminals_experiment_is_recorded_once_the_warehouse_is_back(
    warehouse: Database, empty: Database, loader: Warehouse
) -> None:
    record = begun(request("some-case"), empty, [])
    record.connect = lambda: connect(warehouse.loader)
    assert record.note() is None
    (row,) = loader.experiments.find()
    assert (row["state"], row["dag_run_id"]) == ("running", None)
    record.leave(Ended("cancelled", "interrupted at its terminal"))
    assert loader.experiments.find()[0]["state"] == "cancelled"
    assert loader.experiments.spent() == {}, "only the queue's time counts"
