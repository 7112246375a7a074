"""Bisects in a real PostgreSQL: stored as they go, found by their alert, shown on it."""

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
from nightbench.core.errors import UserError, WarehouseRefused
from nightbench.core.model import Verdict, VerdictKind
from nightbench.experiments.bisect_request import (
    BisectGoal,
    BisectRequest,
    bisect_document,
    complete_goal,
    load_bisect,
    save_step,
    store_bisect,
)
from nightbench.experiments.reporting import BisectReporter
from nightbench.spool import RunSpool, Spool
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.experiments import BisectRepository

VERSIONS = ("1.0", "1.1", "1.2", "1.3")


def request(case_id: str, alert_id: int | None = None) -> BisectRequest:
    return BisectRequest(case_id, "demo", "local", "fake", VERSIONS, 3600.0, 20, alert_id=alert_id)


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


def store(repository: BisectRepository, folder: RunSpool) -> None:
    document = bisect_document(folder)
    repository.store(document, document["steps"])


def test_a_bisect_is_stored_after_each_test_and_shown_on_its_alert(
    connection: Connection,
    warehouse: Database,
    spool: Spool,
    alert_id: int,
    rows: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository = Warehouse(connection).bisects
    case_id = rows("select case_id from raw.alert")[0]["case_id"]
    folder = store_bisect(spool, "bisect-1", request(case_id, alert_id), "ada", "demo", "local")
    store(repository, folder)
    (found,) = repository.find(alert_id=alert_id)
    assert (found["state"], found["outcome"], found["steps"]) == ("running", None, 0)
    assert found["versions"] == list(VERSIONS)

    figures = {"ratio": 0.9, "low": 0.89, "high": 0.91, "rounds": 5}
    save_step(folder, step(1, "check", "1.3", "bad", **figures))
    save_step(folder, step(2, "search", "1.1", "good", why="a \x00 in it"))
    save_step(folder, step(3, "search", "1.2", None))
    for _ in range(2):  # stored twice, it is there once
        store(repository, folder)
    told = repository.read("bisect_steps", bisect_id="bisect-1")
    assert [each["status"] for each in told] == ["ended", "ended", "running"]
    assert told[1]["why"] == "a \\x00 in it"
    assert repository.find("bisect-1")[0]["spent_s"] == 90.0

    save_step(folder, step(3, "search", "1.2", "bad"))
    save_step(folder, step(4, "verify", "1.2", "bad", against="1.1"))
    known = folder.run() or {}
    folder.save_run({**known, "state": "ended", "ended_at": datetime.now(UTC).isoformat()})
    store(repository, folder)
    (found,) = repository.find(alert_id=alert_id)
    assert (found["outcome"], found["last_good"], found["first_bad"]) == ("found", "1.1", "1.2")
    assert found["ratio"] == 0.9

    monkeypatch.setattr(common, "has_warehouse", lambda: True)
    monkeypatch.setattr(common, "warehouse_dsn", lambda role: warehouse.reader)
    shown = CliRunner().invoke(app, ["alert", "show", str(alert_id)])
    assert "bisect-1: 1.2 is the first bad version; 1.1 before it is good" in shown.stdout
    document = json.loads(
        CliRunner().invoke(app, ["alert", "show", str(alert_id), "--json"]).stdout
    )
    (told,) = document["bisects"]
    assert told["first_bad"] == "1.2"
    assert [test["version"] for test in told["tests"]] == ["1.3", "1.1", "1.2", "1.2"]


def test_a_step_that_ended_has_a_result(connection: Connection, spool: Spool) -> None:
    repository = Warehouse(connection).bisects
    folder = store_bisect(spool, "bisect-1", request("some-case"), "ada", "demo", "local")
    save_step(folder, step(1, "check", "1.3", "bad"))
    document = bisect_document(folder)
    document["steps"][0]["result"] = None
    with pytest.raises(WarehouseRefused):
        repository.store(document, document["steps"])
    assert repository.find() == []


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
        loader.runs.load(given.bundle(run, came))
    kind = VerdictKind.REGRESSED
    loader.alerts.open(Verdict(case.case_id, "local", run.run_id, kind, "slower", 9.0, 10.0, -0.1))
    alert_id = int(reader.alerts.find()[0]["alert_id"])
    found = complete_goal(BisectGoal(alert_id), lambda: connect(warehouse.reader))
    assert (found.good, found.bad) == ("1.1", "1.2")
    assert (found.case_id, found.cluster) == (case.case_id, "local")


def test_an_alert_without_a_change_of_version_needs_two_that_are_named(
    warehouse: Database, alert_id: int, given: Given
) -> None:
    def complete(goal: BisectGoal) -> BisectGoal:
        return complete_goal(goal, lambda: connect(warehouse.reader))

    with pytest.raises(UserError, match="so no version can be to blame"):
        complete(BisectGoal(alert_id))
    with pytest.raises(UserError, match="There is no alert 999"):
        complete(BisectGoal(999))
    # Two versions that are named need no change: the runtime below them may be to blame.
    with pytest.raises(UserError, match="name both versions"):
        complete(BisectGoal(alert_id, bad="1.2"))
    found = complete(BisectGoal(alert_id, "1.0", "1.2"))
    assert (found.good, found.bad, found.suite) == ("1.0", "1.2", given.run().suite)


def test_a_warehouse_without_our_tables_ends_no_bisect(empty: Database, spool: Spool) -> None:
    told: list[str] = []
    reporter = BisectReporter(told.append)
    folder = store_bisect(spool, "bisect-1", request("some-case"), "ada", "demo", "local")
    load_bisect(lambda: connect(empty.loader), folder, reporter.not_loaded)
    assert "waits in the spool: Cannot store bisect bisect-1" in told[0]
