"""The task of one case: generations, the end of its night, and defects on the last try."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from tests.unit.orchestration.task_context import context
from tests.unit.short_suite import NOW, OPEN, RUN, SINGLE, files, plan, short_spool

from nightbench.core.errors import UserError
from nightbench.core.model import JobSpec, KubernetesPolicy
from nightbench.gang import NodeUnreachable
from nightbench.orchestration.operators import GangOperator, generation_of_try, job_after_clear
from nightbench.spool import Spool
from nightbench.spool.plans import PlannedJob, load_job, save_job


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    return short_spool(tmp_path, monkeypatch)


def test_the_first_try_is_generation_zero() -> None:
    assert generation_of_try(None, 1) == 0


def test_an_automatic_retry_goes_on_with_the_same_generation() -> None:
    assert generation_of_try({"generation": 2, "max_tries": 3}, 3) == 2


def test_a_clear_makes_a_new_generation_each_time() -> None:
    assert generation_of_try({"generation": 0, "max_tries": 1}, 2) == 1
    # Also one that never came to write a job.
    second = {"generation": 1, "max_tries": 2}
    assert generation_of_try(second, 2) == 1
    assert generation_of_try(second, 4) == 2


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
    with pytest.raises(AirflowSkipException, match="was left out: not started"):
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
    with pytest.raises(UserError, match="cluster pair allows measuring only at"):
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


@pytest.mark.parametrize("away", [True, False])
def test_pods_of_a_case_that_could_not_be_prepared_are_deleted(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    files(tmp_path)
    _, run = plan(spool)
    planned = load_job(run, SINGLE, 0)
    pods = KubernetesPolicy(images={"fake": "image"})
    save_job(run, PlannedJob.of(planned.job, dataclasses.replace(planned.on, kubernetes=pods)))
    deleted = []

    def prepare(*_: object) -> None:
        raise NodeUnreachable("node-a", "default/node-a", "the stream was lost")

    async def delete(job: JobSpec, *_: object) -> None:
        deleted.append(job.job_id)

    def targets(*_: object) -> dict[str, object]:
        if away:
            raise UserError("no such Connection")
        return {}

    monkeypatch.setattr(GangOperator, "_prepare", prepare)
    monkeypatch.setattr("nightbench.orchestration.ssh_targets.ssh_targets", targets)
    monkeypatch.setattr("nightbench.gang.pods.delete_pods_of", delete)
    case, tonight = GangOperator(task_id="measure", nightbench_run=RUN, case_id=SINGLE), context()
    with pytest.raises(AirflowException):
        case.execute(tonight)
    assert deleted == [], "a retry uses them"
    tonight["ti"].try_number = 2
    with pytest.raises(AirflowFailException, match="the stream was lost"):
        case.execute(tonight)
    assert len(deleted) == int(not away)
    assert (run.case(SINGLE).outcome() or {})["status"] == "failed"
