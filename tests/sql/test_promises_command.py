"""`nightbench nights` and `nightbench series noisy` against a real PostgreSQL."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from tests.sql.given import Given
from typer.testing import CliRunner, Result

from nightbench.cli.main import app
from nightbench.core.expected_nights import ExpectedNight, NightState, NightStatus
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.nights import NightRepository


def run(*words: str) -> Result:
    result = CliRunner().invoke(app, list(words))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def repository(connection: Connection) -> NightRepository:
    return Warehouse(connection).nights


def store(repository: NightRepository, state: NightState, hours: float) -> None:
    """A night that was due so many hours ago."""
    now = datetime.now(UTC)
    due = now - timedelta(hours=hours)
    night = ExpectedNight(due - timedelta(hours=8), due + timedelta(hours=16), due, "07:00 UTC")
    repository.store("seeded", "local", night, NightStatus(state, "no run was planned"), now)


def test_nights_are_listed_and_a_monitor_is_told(roles: None, repository: NightRepository) -> None:
    assert run("nights").stdout == ""
    assert run("nights", "--check").exit_code == 1  # Nobody has ever checked.
    repository.store_check(1, 0, datetime.now(UTC))
    shown = run("nights").stdout
    assert shown.startswith("No night was expected in the last 7 days; suites with a schedule: 1")
    store(repository, NightState.MET, 2)
    assert run("nights", "--check").exit_code == 0
    assert re.search(r"checked \d+ s ago", run("nights").stdout)
    assert run("alert", "list").stdout.startswith("No open alerts")
    store(repository, NightState.MISSING, 1)
    shown = run("nights", "--check")
    assert shown.exit_code == 1
    assert "missing" in shown.stdout
    assert run("nights").exit_code == 0
    assert run("alert", "list").stdout.startswith("missing: seeded on local, run of ")
    assert {row["state"] for row in json.loads(run("nights", "--json").stdout)} == {
        "met",
        "missing",
    }


def test_a_check_that_is_long_ago_is_said(roles: None, repository: NightRepository) -> None:
    repository.store_check(1, 0, datetime.now(UTC) - timedelta(hours=3))
    shown = run("nights", "--check")
    assert shown.exit_code == 1
    assert "Deadlines were last checked 3 h ago" in shown.stderr


def test_what_was_missing_long_ago_alarms_nobody(roles: None, repository: NightRepository) -> None:
    repository.store_check(1, 0, datetime.now(UTC))
    store(repository, NightState.MISSING, 40)
    assert run("nights", "--check").exit_code == 0
    assert "missing" in run("nights").stdout


def test_noisy_series_are_listed(roles: None, loader: Warehouse, given: Given) -> None:
    assert run("series", "noisy").stdout == "No series is noisy.\n"
    night, case = given.run(), given.case()
    loader.runs.load(given.batch(night, given.came_back(night, case)))
    loader.series.store_noise_event(
        {
            "case_id": case.case_id,
            "cluster": "local",
            "run_id": night.run_id,
            "at": night.started_at,
            "what": "noisy",
            "spread": 0.2,
            "max_spread": 0.1,
            "sentence": "its night-to-night noise is 20.0%; the limit is 10.0%",
        }
    )
    assert run("series", "noisy").stdout == (
        f"{case.case_id} on local, since 2026-03-01: its night-to-night noise is 20.0%; "
        "the limit is 10.0%\n"
    )
    (row,) = json.loads(run("series", "noisy", "--json").stdout)
    assert row["since_run_id"] == night.run_id
