"""`nightbench alert confirm` where nothing can be measured, against a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest
from tests.sql.conftest import Database
from tests.sql.given import Given
from tests.sql.nights import FALLS, NIGHTS, STEADY, history
from tests.sql.spooled import plan, spooled

from nightbench.cli import alert_confirm, common
from nightbench.config import load_catalog
from nightbench.core.errors import UserError
from nightbench.core.model import Run, Suite
from nightbench.core.run_plan import RunPlan
from nightbench.experiments.engine import ExperimentContext
from nightbench.gang import Shipment
from nightbench.night.ingest import ingest_run
from nightbench.night.judge import judge_run
from nightbench.night.suspected_regressions import new_confirmation_id, suspected_regression
from nightbench.spool import Spool
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.experiments import NIGHTBENCH

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

Ask = Callable[[str], int]


@pytest.fixture
def run(
    spool: Spool,
    warehouse: Database,
    connection: Connection,
    given: Given,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Run:
    """A night on which a case lost ten per cent."""
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NIGHTBENCH_SPOOL", str(spool.root))
    monkeypatch.setattr(common, "has_warehouse", lambda: True)
    monkeypatch.setattr(common, "warehouse_dsn", lambda role: warehouse.loader)
    history(Warehouse(connection), given, (STEADY, FALLS), nights=NIGHTS)
    run = given.run(NIGHTS, suite="seeded")
    spooled(spool, run, {STEADY: 100.0, FALLS: 90.0})
    ingest_run(spool, run.run_id, lambda: connect(warehouse.loader))
    judge_run(spool, run.run_id, lambda: connect(warehouse.loader), confirms=False)
    return run


@pytest.fixture
def falls(run: Run, reader: Warehouse) -> int:
    (alert,) = reader.alerts.find()
    return int(alert["alert_id"])


@pytest.fixture
def ask(run: Run, falls: int, reader: Warehouse, spool: Spool, connection: Connection) -> Ask:
    """Somebody has asked for it, and has looked at the nodes."""

    def make(by: str) -> int:
        (alert,) = reader.alerts.find()
        suspect = suspected_regression(reader, plan(run, [STEADY, FALLS]), alert)
        assert suspect is not None
        name = new_confirmation_id(datetime.now(UTC))
        suspect = replace(suspect, good=None)  # one build alone
        spool.comparison(name).save_run({"request": {"alert_id": falls, "unfit": {}}})
        repository = Warehouse(connection).confirmations
        made = repository.request(falls, run.run_id, name, suspect.to_json(), within_s=None, by=by)
        assert made is not None
        return made

    return make


def context(night: RunPlan, outside_hours: bool) -> ExperimentContext:
    """The night's nodes, which nobody gets as far as."""
    suite = Suite("seeded", "tests", "local", (FALLS,))
    shipment = Shipment(BENCHMARKS)
    catalog = load_catalog(BENCHMARKS)
    return ExperimentContext(suite, night.cluster, catalog, targets={}, shipment=shipment)


def test_what_cannot_be_measured_is_over_for_a_person(
    ask: Ask,
    falls: int,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(alert_confirm, "_context", context)
    asked = ask("ada")
    code = alert_confirm.confirm_alert(falls, outside_hours=True, json=False)
    assert code == alert_confirm.INCONCLUSIVE
    assert "is defined otherwise now" in capsys.readouterr().out
    (row,) = Warehouse(connection).confirmations.find(confirmation_id=asked)
    assert (row["state"], row["outcome"]) == ("ended", "inconclusive")
    assert "is defined otherwise now" in row["sentence"]


def test_what_nightbench_itself_asked_for_is_left_to_it(
    ask: Ask, falls: int, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_confirm, "_context", context)
    asked = ask(NIGHTBENCH)
    with pytest.raises(UserError, match="is defined otherwise now"):
        alert_confirm.confirm_alert(falls, outside_hours=True, json=False)
    (row,) = Warehouse(connection).confirmations.find(confirmation_id=asked)
    assert row["state"] == "running"


def test_closed_hours_leave_no_question_behind(
    falls: int, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(night: RunPlan, outside_hours: bool) -> NoReturn:
        raise UserError("cluster local: closed until 22:00")

    monkeypatch.setattr(alert_confirm, "_context", closed)
    with pytest.raises(UserError, match="closed until 22:00"):
        alert_confirm.confirm_alert(falls, outside_hours=False, json=False)
    assert Warehouse(connection).confirmations.find(alert_id=falls) == []
