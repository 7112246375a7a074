"""`nightbench compare confirm` where nothing can be measured, against a real PostgreSQL."""

from __future__ import annotations

import getpass
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
from typer.testing import CliRunner, Result

from nightbench.cli import common, experiment_common
from nightbench.cli.confirm import INCONCLUSIVE
from nightbench.cli.main import app
from nightbench.config import load_catalog
from nightbench.core.errors import UserError
from nightbench.core.model import Run, RunKind, Suite
from nightbench.core.model.experiments import NIGHTBENCH
from nightbench.experiments.engine import ExperimentContext
from nightbench.gang import Shipment
from nightbench.night.ingest import ingest_run
from nightbench.night.judge import judge_run
from nightbench.night.suspected_regressions import confirmation_of, suspected_regression
from nightbench.spool import Spool
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.connection import Connection

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

Ask = Callable[[str], str]


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
    """A confirmation was requested, and its nodes were examined."""

    def make(by: str) -> str:
        (alert,) = reader.alerts.find()
        night = plan(run, [STEADY, FALLS])
        suspect = suspected_regression(reader, night, alert)
        assert suspect is not None
        asked = confirmation_of(replace(suspect, good=None), night, by)  # one build alone
        document = {"request": {"alert_id": falls, "unfit": {}}}
        spool.comparison(asked.name).save_run(document)
        assert Warehouse(connection).experiments.add(asked)
        return asked.name

    return make


def context(chosen: object, *, outside_hours: bool) -> ExperimentContext:
    """The night's nodes, which nobody gets as far as."""
    suite = Suite("seeded", "tests", "local", (FALLS,))
    cluster = plan(Run("x", "seeded", "local", RunKind.NIGHTLY, datetime.now(UTC)), [FALLS]).cluster
    shipment = Shipment(BENCHMARKS)
    return ExperimentContext(
        suite, cluster, load_catalog(BENCHMARKS), targets={}, shipment=shipment
    )


class ChosenNothing:
    """Files of a suite that this test does not have."""

    def __init__(self, *_: object) -> None:
        """Take a suite and a cluster."""

    def choose(self) -> None:
        """Read no files."""


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nightbench.cli.confirm.Selection", ChosenNothing)
    monkeypatch.setattr(experiment_common, "context_of", context)


def confirmed(alert_id: int) -> Result:
    words = ["compare", "confirm", str(alert_id), "--outside-hours"]
    return CliRunner().invoke(app, words)


def test_what_cannot_be_measured_is_over_for_a_person(
    ask: Ask, falls: int, connection: Connection
) -> None:
    asked = ask("ada")
    done = confirmed(falls)
    assert done.exit_code == INCONCLUSIVE, done.output
    assert "is defined differently than" in done.stdout
    row = Warehouse(connection).experiments.get(asked)
    assert row is not None
    assert (row["state"], row["verdict"]) == ("done", "inconclusive")
    assert "is defined differently than" in row["result"]["sentence"]


def test_what_a_night_has_requested_goes_back_to_the_queue(
    ask: Ask, falls: int, connection: Connection
) -> None:
    asked = ask(NIGHTBENCH)
    assert "is defined differently than" in str(confirmed(falls).exception)
    row = Warehouse(connection).experiments.get(asked)
    assert row is not None
    assert (row["state"], row["verdict"]) == ("queued", None)


@pytest.mark.parametrize(("by", "continues"), [(getpass.getuser(), True), ("ada", False)])
def test_only_what_the_same_user_interrupted_continues(
    by: str, continues: bool, ask: Ask, falls: int, connection: Connection
) -> None:
    experiments = Warehouse(connection).experiments
    asked = ask(by)
    assert experiments.begin(asked, None)
    assert experiments.leave(asked, None, "cancelled", spent_s=0.0, why="interrupted")
    assert confirmed(falls).exit_code == INCONCLUSIVE
    states = {row["name"]: row["state"] for row in experiments.find(alert_ids=[falls])}
    assert states.pop(asked) == ("done" if continues else "cancelled")
    assert list(states.values()) == ([] if continues else ["done"])


def test_closed_hours_leave_no_question_behind(
    falls: int, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(chosen: object, *, outside_hours: bool) -> NoReturn:
        raise UserError("cluster local: closed until 22:00")

    monkeypatch.setattr(experiment_common, "context_of", closed)
    assert "closed until 22:00" in str(confirmed(falls).exception)
    assert Warehouse(connection).experiments.find(alert_ids=[falls]) == []
