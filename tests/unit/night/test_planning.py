"""A night from a request to its plan: waited for, fitted, left out, and requested by day."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from tests.unit.short_suite import (
    LATER,
    NOW,
    OPEN,
    PAIR,
    SINGLE,
    clock,
    files,
    hours,
    plan,
    short_spool,
)

from nightbench.config import load_catalog
from nightbench.config.run_request import RunRequest
from nightbench.core.errors import UserError, WarehouseRefused, WarehouseUnavailable
from nightbench.core.model import ReasonCode
from nightbench.night.planning import TooLateForNight, night_start
from nightbench.spool import Spool
from nightbench.spool.plans import load_job, read_plan


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    return short_spool(tmp_path, monkeypatch)


def test_without_hours_all_cases_run_in_the_order_of_the_file(spool: Spool) -> None:
    cases, run = plan(spool, night=True)
    assert cases == [SINGLE, PAIR]
    assert load_job(run, SINGLE, 0).job.deadline is None


@pytest.mark.parametrize("error", [WarehouseUnavailable("lost"), WarehouseRefused("too old")])
def test_a_warehouse_that_fails_within_the_planning_does_not_cost_the_night(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, error: UserError
) -> None:
    def fails(*_: object) -> NoReturn:
        raise error

    opened = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr("nightbench.warehouse.runs.RunRepository.case_past", fails)
    monkeypatch.setattr("nightbench.warehouse.runs.RunRepository.plan", fails)
    cases, run = plan(spool, open_warehouse=lambda: opened, night=True)
    assert cases == [SINGLE, PAIR]
    assert run.planned()


def test_a_night_has_its_end_and_what_it_has_no_room_for(spool: Spool, tmp_path: Path) -> None:
    # Twenty minutes: a repeat may take ten, and of what is guessed only one case fits.
    files(tmp_path, night="budget: 20m")
    cases, run = plan(spool, night=True)
    assert cases == [SINGLE]
    assert load_job(run, SINGLE, 0).job.deadline == NOW + timedelta(minutes=20)
    with pytest.raises(UserError, match="found no file"):
        load_job(run, PAIR, 0)
    left_out = {case.planned.case_id: case.left_out for case in read_plan(run).cases}
    assert left_out[SINGLE] is None
    assert left_out[PAIR] is not None
    assert left_out[PAIR].code is ReasonCode.NIGHT_FULL
    outcome = run.case(PAIR).outcome() or {}
    assert (outcome["status"], outcome["reasons"]) == ("left_out", [left_out[PAIR].to_json()])


def test_a_person_is_refused_outside_the_hours_unless_it_is_asked_for(
    spool: Spool, tmp_path: Path
) -> None:
    files(tmp_path, limits=f'hours: "{LATER}"')
    with pytest.raises(UserError, match="--outside-hours on the command line"):
        plan(spool)
    cases, run = plan(spool, outside_hours=True)
    assert cases == [SINGLE, PAIR]
    job = load_job(run, SINGLE, 0)
    assert (job.job.deadline, job.cluster.window) == (None, None)


def test_a_persons_run_ends_with_the_clusters_hours_and_knows_no_window(
    spool: Spool, tmp_path: Path
) -> None:
    files(tmp_path, night=f'window: "{LATER}", budget: 1m', limits=f'hours: "{OPEN}"')
    cases, run = plan(spool)
    assert cases == [SINGLE, PAIR]
    deadline = load_job(run, SINGLE, 0).job.deadline
    assert deadline is not None
    assert f"{deadline:%H:%M}" == clock(timedelta(hours=8))


def test_the_night_is_waited_for(spool: Spool, tmp_path: Path) -> None:
    scheduled = RunRequest("short", night=True)
    assert night_start(scheduled, NOW, load_catalog()) is None
    files(tmp_path, night=f'window: "{LATER}"')
    begin = night_start(scheduled, NOW, load_catalog())
    assert begin is not None
    assert f"{begin:%H:%M}" == clock(timedelta(hours=2))
    assert night_start(RunRequest("short"), NOW, load_catalog()) is None
    files(tmp_path, night=f'window: "{hours(timedelta(hours=14), timedelta(hours=15))}"')
    with pytest.raises(TooLateForNight, match=r"3 h from now\. Either this run started too late"):
        night_start(scheduled, NOW, load_catalog())
