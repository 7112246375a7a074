"""Runs through a live scheduler, a real PostgreSQL and real SSH: `fake`, and one real framework.

One stack serves these tests and those of the nights (conftest.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess

import pytest
from tests.command import COMMAND
from tests.integration.live_airflow import Live, write_suite
from tests.integration.live_suites import PARAMETERS, PEAK_TFLOPS
from tests.integration.terminal import marked

from nightbench.core.model import CaseStatus
from nightbench.warehouse import connect

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]


def test_a_run_ends_with_rows_and_verdicts_in_the_warehouse(live: Live) -> None:
    dag_run = live.trigger("good", run_kind="nightly")
    run = live.run_of(dag_run)
    # As `nightbench run` asks again where the answer was lost: no second run.
    assert live.api.trigger("on_demand", {"suite": "good"}, dag_run) == dag_run

    assert live.ended(dag_run) == "success", live.tasks(dag_run, "measure")

    rows = live.judged(run.run_id)
    assert {row["case_id"] for row in rows} == {
        "sleep-fake-collective-1x1-bs2-smoke",
        "sleep-fake-collective-2x1-bs2-smoke",
    }
    for row in rows:
        assert (row["status"], row["quarantined"], row["n"]) == ("ok", False, 2)
        assert row["verdict"] == "insufficient_data"
        assert row["run_kind"] == "nightly"
        assert 0 < row["throughput"] < 1000
    assert set(live.launches(run.run_id).values()) == {1}
    names = {task["rendered_map_index"] for task in live.tasks(dag_run, "measure")}
    assert names == {row["case_id"] for row in rows}
    assert marked(run.run_id) == []
    digest = live.stack.home.spool / "reports" / f"{run.run_id}.md"
    live.until(lambda: digest.is_file() and digest.stat().st_size, "the digest, after the verdicts")
    assert digest.read_text().startswith("# good on local")
    assert digest.with_suffix(".html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_a_real_framework_is_provisioned_on_its_node_and_measured(live: Live) -> None:
    dag_run = live.trigger("torch")
    run = live.run_of(dag_run)

    assert live.ended(dag_run) == "success", live.tasks(dag_run, "measure")

    (row,) = live.judged(run.run_id)
    assert (row["status"], row["quarantined"], row["n"], row["unit"]) == ("ok", False, 1, "images")
    assert row["framework_version"].startswith("2.13.0")
    assert row["throughput"] > 0
    with (
        contextlib.closing(connect(live.stack.dsn("nightbench_reader"))) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "select parameters, array_length(step_seconds, 1), precision from staging.repeat_rank"
            " where run_id = %s",
            (run.run_id,),
        )
        assert cursor.fetchall() == [(25_557_032, 5, "fp32")]
    assert marked(run.run_id) == []


@pytest.mark.large
def test_a_foreign_script_s_mfu_stands_beside_ours(live: Live) -> None:
    dag_run = live.trigger("foreign")
    run = live.run_of(dag_run)

    assert live.ended(dag_run) == "success", live.tasks(dag_run, "measure")

    (row,) = live.judged(run.run_id)
    assert (row["status"], row["quarantined"], row["n"], row["unit"]) == ("ok", False, 2, "tokens")
    with (
        contextlib.closing(connect(live.stack.dsn("nightbench_reader"))) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "select tokens_per_s_per_device, tflops_per_device, mfu, reported"
            " from marts.fct_measurement where run_id = %s",
            (run.run_id,),
        )
        ((tokens, tflops, mfu, reported),) = cursor.fetchall()
        cursor.execute(
            "select reported from marts.fct_repeat where run_id = %s order by repeat", (run.run_id,)
        )
        repeats = [said for (said,) in cursor.fetchall()]
    assert row["reported"] == reported
    # Ours: six operations for each parameter and token, and the unmasked half of attention.
    counted = 6 * PARAMETERS + 6 * 16 * 2048 * 128
    assert tflops == pytest.approx(tokens * counted / 1e12, rel=0.001)
    assert mfu == pytest.approx(tflops / PEAK_TFLOPS["cluster"])
    # Its own, of one of two devices, without attention and by another peak: as printed.
    assert set(reported) == {"tflops_per_device", "mfu_percent"}
    fastest = 6 * PARAMETERS * 8 * 128 / 0.03 / 1e12
    assert 0 < reported["tflops_per_device"] < fastest
    by_its_peak = 100 * reported["tflops_per_device"] / PEAK_TFLOPS["script"]
    assert reported["mfu_percent"] == pytest.approx(by_its_peak, abs=0.02)
    for name, value in reported.items():
        assert value == pytest.approx(sum(said[name] for said in repeats) / 2)


def test_a_result_that_fails_a_check_is_quarantined(live: Live) -> None:
    dag_run = live.trigger("torn")
    run = live.run_of(dag_run)

    assert live.ended(dag_run) == "success", live.tasks(dag_run, "measure")

    (row,) = live.judged(run.run_id)
    assert row["quarantined"], row
    assert any("no good repeat" in r["observed"] for r in row["quarantine_reasons"]), row
    with (
        contextlib.closing(connect(live.stack.dsn("nightbench_reader"))) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("select 1 from marts.fct_measurement where run_id = %s", (run.run_id,))
        assert cursor.fetchall() == []
        cursor.execute(
            "select repeat, quarantine_reasons from marts.fct_repeat"
            " where run_id = %s and is_quarantined order by repeat",
            (run.run_id,),
        )
        repeats = cursor.fetchall()
    assert [repeat for repeat, _ in repeats] == [1, 2]
    assert all(any(r["subject"] == "weights_agree" for r in reasons) for _, reasons in repeats)


@pytest.mark.slow
def test_a_case_that_failed_is_not_launched_again_by_the_retry(live: Live) -> None:
    dag_run = live.trigger("dying")
    run = live.run_of(dag_run)

    assert live.ended(dag_run) == "failed"

    (task,) = live.tasks(dag_run, "measure")
    assert (task["state"], task["try_number"]) == ("failed", 2)
    launches = live.launches(run.run_id)
    assert set(launches.values()) == {1}
    assert {job.split("/")[1] for job, _, _ in launches} == {"g0"}
    # The ingest ran all the same, and the verdict says so.
    (row,) = live.judged(run.run_id)
    assert (row["status"], row["verdict"]) == ("failed", "failed")
    assert row["throughput"] is None


@pytest.mark.slow
def test_a_clear_by_a_person_measures_a_new_generation(live: Live) -> None:
    dag_run = live.trigger("good", repeats=1, frameworks=["fake"])
    run = live.run_of(dag_run)
    assert live.ended(dag_run) == "success", live.tasks(dag_run, "measure")
    case = "sleep-fake-collective-1x1-bs2-smoke"
    (index,) = (
        task["map_index"]
        for task in live.tasks(dag_run, "measure")
        if task["rendered_map_index"] == case
    )

    live.api._send(
        "POST",
        "/api/v2/dags/on_demand/clearTaskInstances",
        json={
            "dry_run": False,
            "dag_run_id": dag_run,
            "task_ids": [["measure", index]],
            "only_failed": False,
            "include_downstream": True,
            "reset_dag_runs": True,
        },
    )

    live.until(lambda: live.state(dag_run) in ("queued", "running"), "the cleared run to begin")
    assert live.ended(dag_run) == "success", live.tasks(dag_run, "measure")
    assert run.generations(case) == [0, 1]
    assert set(live.launches(run.run_id).values()) == {1}


def test_a_run_that_is_marked_failed_leaves_no_process(live: Live) -> None:
    dag_run = live.trigger("stubborn")
    run = live.run_of(dag_run)
    case_id = "sleep-fake-collective-2x1-bs2-smoke"

    # What prepares the nodes carries the mark too: a run that is failed then is never deferred.
    def is_controlled() -> bool:
        return (run.case(case_id).progress() or {}).get("state") == "running"

    live.until(is_controlled, "the trigger's first repeat")
    live.until(lambda: len(marked(run.run_id)) >= 6, "two agents, two ranks and their daemons")

    live.api.fail_run("on_demand", dag_run)

    live.until(lambda: not marked(run.run_id), "every process to end")
    outcome = live.until(run.case(case_id).outcome, "the outcome")
    assert outcome["status"] == CaseStatus.CANCELLED
    assert live.state(dag_run) == "failed"


@pytest.mark.slow
def test_a_run_that_is_cancelled_is_loaded_by_airflow_and_not_by_the_command(live: Live) -> None:
    # More than end before the command is there.
    dag_run = live.trigger("long", repeats=50)
    run = live.run_of(dag_run)
    case_id = "sleep-fake-collective-2x1-bs2-smoke"
    live.until(lambda: run.case(case_id).repeat(1), "a repeat that is measured")

    done = subprocess.run(
        [*COMMAND, "cancel", run.run_id],
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert marked(run.run_id) == []
    # Seconds of CPU each, while another run may be measured.
    assert re.findall(r"\| +(great_expectations|pandas)$", done.stderr, re.MULTILINE) == []
    (row,) = live.judged(run.run_id)
    assert (row["status"], 1 <= row["n"] < 50) == ("cancelled", True)
    assert live.ended(dag_run) == "failed"
    again = subprocess.run(
        [*COMMAND, "cancel", run.run_id], capture_output=True, text=True, check=False
    )
    assert again.stdout.endswith("nothing was changed\n")


@pytest.mark.slow
def test_while_the_warehouse_is_away_the_run_waits_and_the_next_one_loads_it(live: Live) -> None:
    stack = live.stack
    dag_run = live.trigger("good", repeats=1, run_kind="drill")
    run = live.run_of(dag_run)
    live.until(lambda: run.latest("sleep-fake-collective-1x1-bs2-smoke"), "the first case")
    original = stack.home.connections_file.read_text(encoding="utf-8")
    broken = json.loads(original)
    broken["nightbench_warehouse"]["port"] = 1
    stack.home.connections_file.write_text(json.dumps(broken), encoding="utf-8")
    try:
        live.until(
            lambda: any(t["state"] == "up_for_retry" for t in live.tasks(dag_run, "ingest")),
            "the ingest to fail",
        )
        assert run.loaded() is None
    finally:
        stack.home.connections_file.write_text(original, encoding="utf-8")
        stack.home.connections_file.chmod(0o600)

    assert live.ended(dag_run) == "success", live.tasks(dag_run, "measure")
    assert run.loaded() is not None
    assert {row["status"] for row in live.rows(run.run_id)} == {"ok"}


def test_what_the_form_cannot_run_is_refused_before_anything_is_launched(live: Live) -> None:
    dag_run = live.trigger("good", workloads=["resnet50_v1.5"])

    assert live.ended(dag_run) == "failed"

    (task,) = live.tasks(dag_run, "plan")
    # No retry mends what a person wrote.
    assert (task["state"], task["try_number"]) == ("failed", 1)
    text = "\n".join(live.api.log_tail("on_demand", dag_run, "plan", 1, -1, 40))
    assert 'workload: found "resnet50_v1.5"' in text


def test_airflow_takes_it_that_the_form_is_to_be_parsed_again(live: Live) -> None:
    """How soon it then has the new suite depends on the machine; without it, within a minute."""

    def offered() -> list[str]:
        answer = live.api._send("GET", "/api/v2/dags/on_demand/details")
        suites: list[str] = answer.json()["params"]["suite"]["schema"]["enum"]
        return suites

    assert "newest" not in offered()
    write_suite(live.place / "dags", "newest", {})

    for _ in range(2):  # the second while the first waits
        live.api.parse_again("on_demand")

    live.until(lambda: "newest" in offered(), "the form to offer the new suite")


@pytest.mark.slow
def test_maintenance_sweeps_the_nodes_and_keeps_what_is_young(live: Live) -> None:
    live.api.unpause("nightbench_upkeep")
    before = {run.run_id for run in live.spool.runs()}

    dag_run = live.api.trigger("nightbench_upkeep", {})

    assert live.ended(dag_run, "nightbench_upkeep") == "success"
    tasks = live.api.task_instances("nightbench_upkeep", dag_run)
    states = {task["task_id"]: task["state"] for task in tasks}
    assert states["sweep"] == states["expire_files"] == "success"
    assert {run.run_id for run in live.spool.runs()} == before
