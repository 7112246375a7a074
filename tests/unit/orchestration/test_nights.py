"""A night from its plan to its cases: waited for, fitted, left out, and asked for by day."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from nightbench.config.run_request import RunRequest
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, Reason, ReasonCode, RunKind
from nightbench.night.planning import TooLateForNight, night_start, plan_run
from nightbench.orchestration.connections import connect
from nightbench.orchestration.gang_operator import GangOperator, job_after_clear
from nightbench.orchestration.gang_trigger import GangTrigger
from nightbench.orchestration.plan_operator import PlanOperator
from nightbench.spool import RunSpool, Spool
from nightbench.spool.planned_job import load_job, save_job
from nightbench.spool.plans import read_plan
from nightbench.warehouse import WarehouseRefused, WarehouseUnavailable
from nightbench.warehouse.connection import Connect

NOW = datetime.now(UTC)
RUN = "short-20261121T010203-9f3a"
SINGLE, PAIR = (f"sleep-fake-collective-{size}-bs2-smoke" for size in ("1x1", "2x1"))

CLUSTER = """\
cluster: pair
{limits}
nodes:
  - hosts: 127.0.0.[2-3]
    name: n[1-2]
    ssh_conn_id: nightbench_pair
"""
SUITE = """\
suite: short
owner: tests
cluster: pair
scale: smoke
schedule: "0 1 * * *"
{night}
timeouts: {{repeat: 10m}}
matrix:
  - workload: sleep
    frameworks: [fake]
    strategy: collective
    devices: [1x1, 2x1]
    batch_size_per_device: 2
"""


def clock(after: timedelta) -> str:
    return f"{NOW + after:%H:%M}"


def hours(start: timedelta, end: timedelta) -> str:
    return f"{clock(start)}-{clock(end)} UTC"


OPEN = hours(timedelta(hours=-1), timedelta(hours=8))
LATER = hours(timedelta(hours=2), timedelta(hours=10))


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setenv("NIGHTBENCH_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("NIGHTBENCH_DAGS", str(tmp_path / "dags"))
    # Nobody answers there: plans wait in the spool.
    monkeypatch.setenv(
        "AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE", "postgresql://nobody:x@127.0.0.1:1/none"
    )
    files(tmp_path)
    return Spool(tmp_path / "spool")


def files(tmp_path: Path, night: str = "", limits: str = "") -> None:
    for name, text in (
        ("clusters/pair", CLUSTER.format(limits=f"limits: {{{limits}}}" if limits else "")),
        ("suites/short", SUITE.format(night=f"night: {{{night}}}" if night else "")),
    ):
        path = tmp_path / "dags" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def plan(
    spool: Spool, at: datetime = NOW, open_warehouse: Connect = connect, **request: Any
) -> tuple[list[str], RunSpool]:
    """Plan a run; the cases that are measured, and its files."""
    cases = plan_run(RunRequest("short", **request), RUN, at, spool, open_warehouse)
    return cases, spool.run(RUN)


# --- planning -----------------------------------------------------------------------------


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
    with pytest.raises(UserError, match="not there"):
        load_job(run, PAIR, 0)
    left_out = {case.planned.case_id: case.left_out for case in read_plan(run).cases}
    assert left_out[SINGLE] is None
    assert left_out[PAIR] is not None
    assert left_out[PAIR].code is ReasonCode.NIGHT_FULL
    outcome = run.case(PAIR).outcome() or {}
    assert (outcome["status"], outcome["reasons"]) == ("left_out", [left_out[PAIR].to_json()])


def test_who_was_left_out_comes_first_in_the_next_night(spool: Spool, tmp_path: Path) -> None:
    files(tmp_path, night="budget: 20m")
    _, run = plan(spool, night=True, run_kind=RunKind.NIGHTLY)
    run.case(SINGLE).end(CaseStatus.FAILED, [Reason(ReasonCode.CONTROLLER_ERROR, observed="x")])
    request = RunRequest("short", run_kind=RunKind.NIGHTLY, night=True)
    again = plan_run(request, f"{RUN[:-4]}0000", NOW + timedelta(days=1), spool, connect)
    assert again == [PAIR]


def test_a_person_is_refused_outside_the_hours_unless_it_is_asked_for(
    spool: Spool, tmp_path: Path
) -> None:
    files(tmp_path, limits=f'hours: "{LATER}"')
    with pytest.raises(UserError, match="--outside-hours on the command line"):
        plan(spool)
    cases, run = plan(spool, outside_hours=True)
    assert cases == [SINGLE, PAIR]
    job = load_job(run, SINGLE, 0)
    assert (job.job.deadline, job.hours) == (None, None)


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
    assert night_start(scheduled, NOW) is None
    files(tmp_path, night=f'window: "{LATER}"')
    begin = night_start(scheduled, NOW)
    assert begin is not None
    assert f"{begin:%H:%M}" == clock(timedelta(hours=2))
    assert night_start(RunRequest("short"), NOW) is None
    files(tmp_path, night=f'window: "{hours(timedelta(hours=14), timedelta(hours=15))}"')
    with pytest.raises(TooLateForNight, match="more than 3 h from now: this run comes too late"):
        night_start(scheduled, NOW)


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


# --- the tasks ----------------------------------------------------------------------------


class Store(dict[str, Any]):
    """Airflow's task state store, as far as the operators use it."""

    def set(self, key: str, value: Any, **_: Any) -> None:
        self[key] = value


def context(run_type: str = "scheduled", max_tries: int = 1, store: Store | None = None) -> Any:
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(
        max_tries=max_tries, try_number=1, xcom_push=lambda key, value: pushed.update({key: value})
    )
    return {
        "dag_run": SimpleNamespace(
            run_type=run_type, triggering_user_name=None, dag_id="d", run_id="r"
        ),
        "ti": ti,
        "task_state_store": Store() if store is None else store,
        "params": {},
        "pushed": pushed,
    }


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
    cleared = context(max_tries=3, store=tonight["task_state_store"])
    assert task.execute(cleared)[0]["nightbench_run"] != run_id


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


def test_a_case_whose_turn_comes_too_late_is_left_out_at_once(spool: Spool, tmp_path: Path) -> None:
    files(tmp_path, night="budget: 3h")
    # By the clock that the operator looks at: this module was imported some time ago.
    _, run = plan(spool, at=datetime.now(UTC) - timedelta(hours=2, minutes=55), night=True)
    case = GangOperator(task_id="measure", nightbench_run=RUN, case_id=SINGLE)
    late = context()
    with pytest.raises(AirflowSkipException, match="and a repeat may take 10 min"):
        case.execute(late)
    outcome = run.case(SINGLE).outcome() or {}
    assert outcome["status"] == "left_out"
    assert run.case(SINGLE).job() is None
    # A retry says the same.
    with pytest.raises(AirflowSkipException, match="was left out: not begun"):
        case.execute(late)


def test_a_repeat_that_is_known_to_be_short_still_fits(spool: Spool, tmp_path: Path) -> None:
    files(tmp_path, night="budget: 3h")
    # By the clock that the operator looks at: this module was imported some time ago.
    _, run = plan(spool, at=datetime.now(UTC) - timedelta(hours=2, minutes=55), night=True)
    planned = load_job(run, SINGLE, 0)
    job = dataclasses.replace(planned.job, expected_repeat_s=30.0)
    save_job(run, dataclasses.replace(planned, job=job))
    case = GangOperator(task_id="measure", nightbench_run=RUN, case_id=SINGLE)
    # It goes on to its nodes, which nobody has a Connection for.
    with pytest.raises(AirflowFailException, match="nightbench_pair"):
        case.execute(context())
    assert (run.case(SINGLE).outcome() or {})["status"] == "failed"


def test_a_person_who_clears_a_case_asks_for_it_now(spool: Spool, tmp_path: Path) -> None:
    files(tmp_path, night="budget: 3h", limits=f'hours: "{OPEN}"')
    _, run = plan(spool, at=NOW - timedelta(minutes=30), night=True)
    first = load_job(run, SINGLE, 0).job.deadline
    assert first == NOW + timedelta(minutes=150)
    planned = job_after_clear(run, load_job(run, SINGLE, 1), NOW)
    assert planned.job.deadline is not None
    assert planned.job.deadline > first
    # The triggerer reads the same, and the first generation stays as it was.
    assert load_job(run, SINGLE, 1) == planned
    assert load_job(run, SINGLE, 0).job.deadline == first
    with pytest.raises(UserError, match="cluster pair may be measured on at"):
        job_after_clear(run, planned, NOW + timedelta(hours=9))


def test_a_defect_ends_the_case_on_the_last_try(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, night="budget: 3h")
    _, run = plan(spool, night=True)

    def prepare(*_: object) -> None:
        raise AttributeError("module 'tarfile' has no attribute 'data_filter'")

    monkeypatch.setattr(GangOperator, "_prepare", prepare)
    case, tonight = GangOperator(task_id="measure", nightbench_run=RUN, case_id=SINGLE), context()
    with pytest.raises(AttributeError):
        case.execute(tonight)
    assert run.case(SINGLE).outcome() is None
    tonight["ti"].try_number = 2
    with pytest.raises(AttributeError):
        case.execute(tonight)
    outcome = run.case(SINGLE).outcome() or {}
    assert outcome["status"] == "failed"
    assert "a defect of Nightbench" in outcome["reasons"][0]["observed"]
    assert "data_filter" in outcome["reasons"][0]["observed"]


def test_a_defect_in_the_triggerer_ends_the_case_on_the_last_try(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, night="budget: 3h")
    _, run = plan(spool, night=True)

    async def look_up(self: GangTrigger) -> None:
        raise KeyError("nodes")

    monkeypatch.setattr(GangTrigger, "_look_up", look_up)

    def steer(last_try: bool) -> None:
        trigger = GangTrigger(RUN, SINGLE, 0, last_try=last_try)
        with pytest.raises(KeyError):
            asyncio.run(anext(trigger.run()))

    steer(last_try=False)
    assert run.case(SINGLE).outcome() is None
    steer(last_try=True)
    assert "KeyError('nodes')" in (run.case(SINGLE).outcome() or {})["reasons"][0]["observed"]
