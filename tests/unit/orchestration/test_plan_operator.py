"""The task that plans: it waits for its night, goes on after a retry, and refuses for good."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from tests.unit.orchestration.task_context import context
from tests.unit.short_suite import LATER, OPEN, PAIR, SINGLE, clock, files, hours, short_spool

from nightbench.orchestration.operators import PlanOperator
from nightbench.spool import Spool
from nightbench.spool.plans import read_plan


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    return short_spool(tmp_path, monkeypatch)


def test_a_run_that_is_made_up_for_by_day_is_skipped(spool: Spool, tmp_path: Path) -> None:
    files(tmp_path, night=f'window: "{hours(timedelta(hours=14), timedelta(hours=15))}"')
    with pytest.raises(AirflowSkipException, match="too late for its night"):
        PlanOperator(task_id="plan", suite="short").execute(context())
    # Who asks for a night in the form is told that it is not now.
    asked = context("manual")
    asked["params"] = {"suite": "short", "night": True}
    with pytest.raises(AirflowFailException, match="more than 3 h from now"):
        PlanOperator(task_id="plan", suite=None).execute(asked)
    assert spool.runs() == []


def test_a_suite_without_hours_is_measured_whenever_its_dag_is_unpaused(
    spool: Spool, tmp_path: Path
) -> None:
    files(tmp_path)
    assert len(PlanOperator(task_id="plan", suite="short").execute(context())) == 2
    assert len(spool.runs()) == 1


def test_the_plan_defers_until_the_night_begins_and_then_stores_it(
    spool: Spool, tmp_path: Path
) -> None:
    files(tmp_path, night=f'window: "{LATER}"')
    task, tonight = PlanOperator(task_id="plan", suite="short"), context()
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(tonight)
    assert deferred.value.method_name == "opened"
    moment = deferred.value.trigger.serialize()[1]["moment"]
    assert f"{moment:%H:%M}" == clock(timedelta(hours=2))
    assert spool.runs() == []

    files(tmp_path, night=f'window: "{OPEN}"')
    entries = task.opened(tonight, "22:00")
    run_id = tonight["pushed"]["nightbench_run"]
    assert entries == [{"nightbench_run": run_id, "case_id": each} for each in (SINGLE, PAIR)]
    assert (spool.run(run_id).run() or {})["run_kind"] == "nightly"
    # A retry goes on with the same run, a clear begins another.
    assert task.execute(tonight) == entries
    cleared = context(max_tries=3)
    assert task.execute(cleared)[0]["nightbench_run"] != run_id


def test_more_cases_than_airflow_maps_are_refused_before_anything_is_stored(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "1")
    with pytest.raises(AirflowFailException, match="found 2 cases to measure; expected 1 at most"):
        PlanOperator(task_id="plan", suite="short").execute(context("manual"))
    assert spool.runs() == []


def test_a_person_who_triggers_a_nightly_dag_does_not_wait(spool: Spool, tmp_path: Path) -> None:
    files(tmp_path, night=f'window: "{LATER}"')
    by_hand = context("manual")
    assert len(PlanOperator(task_id="plan", suite="short").execute(by_hand)) == 2
    run_id = by_hand["pushed"]["nightbench_run"]
    assert (spool.run(run_id).run() or {})["run_kind"] == "on_demand"


def test_a_night_without_room_for_any_case_still_has_its_run(spool: Spool, tmp_path: Path) -> None:
    files(tmp_path, night="budget: 1m")
    tonight = context()
    assert PlanOperator(task_id="plan", suite="short").execute(tonight) == []
    run = spool.run(tonight["pushed"]["nightbench_run"])
    assert all(case.left_out for case in read_plan(run).cases)


def test_what_a_person_wrote_wrong_is_not_tried_again(spool: Spool, tmp_path: Path) -> None:
    files(tmp_path, night="window: tonight")
    with pytest.raises(AirflowFailException, match="expected hours with their time zone"):
        PlanOperator(task_id="plan", suite="short").execute(context())
