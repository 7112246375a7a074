"""What every DAG of the repository keeps to."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PYTHON = os.environ.get("NIGHTBENCH_TEST_PYTHON", sys.executable)
"""Of an environment with another Airflow, for `tests/integration/test_versions.py`."""
REPO = HERE.parents[1]
HEAVY = {"great_expectations", "asyncssh", "psycopg2", "pandas", "apprise", "paramiko", "numpy"}

Parsed = dict[str, Any]


def parse(folder: Path, hash_seed: str, **more: str) -> Parsed:
    """Parse the DAG files in an interpreter of its own, with more environment."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "250",
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPO / "dags"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "NIGHTBENCH_DAGS": str(HERE / "fixtures"),
        "PYTHONHASHSEED": hash_seed,
        **more,
    }
    done = subprocess.run(
        [PYTHON, str(HERE / "parse_dags.py"), str(REPO / "dags")],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    return parse(tmp_path_factory.mktemp("airflow"), "1")


@pytest.fixture(scope="module")
def tasks(parsed: Parsed) -> dict[str, dict[str, Any]]:
    return {
        f"{dag_id}.{task_id}": task
        for dag_id, dag in parsed["dags"].items()
        for task_id, task in dag["tasks"].items()
    }


def test_nothing_fails_to_import(parsed: Parsed) -> None:
    assert parsed["import_errors"] == {}
    assert parsed["plugin_errors"] == {}
    assert "nightbench" in parsed["plugins"]


def test_a_suite_has_a_dag_when_it_has_a_schedule(parsed: Parsed) -> None:
    assert set(parsed["dags"]) == {
        "on_demand",
        "nightbench_verdicts",
        "nightbench_accept",
        "nightbench_experiments",
        "nightbench_upkeep",
        "nightly_nightly_cpu",
        "nightly_nightly_wide",
        # Cannot be read: shown with the reason, and never scheduled.
        "nightly_bad_schedule",
        "nightly_broken",
    }
    assert parsed["dags"]["nightly_nightly_cpu"]["schedule"] == "CronTriggerTimetable"


@pytest.mark.parametrize(
    ("dag_id", "words"),
    [
        ("nightly_bad_schedule", "schedule: found 'at night'"),
        ("nightly_broken", "broken.yaml:2: not valid YAML: "),
    ],
)
def test_a_bad_suite_says_why_and_leaves_the_others_alone(
    parsed: Parsed, dag_id: str, words: str
) -> None:
    dag = parsed["dags"][dag_id]
    assert dag["schedule"] == "NullTimetable"
    assert words in dag["doc"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("suite: only\n\tmatrix: []\n", "only.yaml:2: not valid YAML: .*the tab by spaces"),
        ("[" * 1000, "only.yaml:1: found hundreds of nested lists or mappings"),
        ("", "only.yaml:1: found nothing; expected a mapping"),
        (None, "There is no suite:.* add a file to .*/suites"),
    ],
    ids=["tab", "deep", "empty", "removed"],
)
def test_the_form_stays_and_says_why_the_only_suite_cannot_be_read(
    text: str | None, why: str, tmp_path: Path
) -> None:
    (tmp_path / "suites").mkdir()
    if text is not None:
        (tmp_path / "suites" / "only.yaml").write_text(text)
    parsed = parse(tmp_path, "1", NIGHTBENCH_DAGS=str(tmp_path))
    assert parsed["import_errors"] == {}
    dag = parsed["dags"]["on_demand"]
    assert dag["params"]["suite"]["enum"] == ["" if text is None else "only"]
    for shown in (dag["doc"], dag["params"]["suite"]["description_md"]):
        assert re.search(why, shown)
    # A run that is in progress has all of its tasks.
    whole = parse(tmp_path, "1")["dags"]["on_demand"]
    assert dag["tasks"].keys() == whole["tasks"].keys()


def test_a_file_whose_name_no_dag_can_have_leaves_the_others_alone(tmp_path: Path) -> None:
    shutil.copytree(HERE / "fixtures", tmp_path / "dags")
    suites = tmp_path / "dags" / "suites"
    for name in ("base copy", "a+b", "base (1)", "n" * 101, "n" * 243):
        shutil.copy(suites / "nightly_cpu.yaml", suites / f"{name}.yaml")
    parsed = parse(tmp_path, "1", NIGHTBENCH_DAGS=str(tmp_path / "dags"))
    assert parsed["import_errors"] == {}
    assert parsed["dags"]["nightly_nightly_cpu"]["schedule"] == "CronTriggerTimetable"
    said = "**This suite is not scheduled:** the name of the file:"
    refused = [dag for dag in parsed["dags"].values() if said in dag["doc"]]
    assert [dag["schedule"] for dag in refused] == ["NullTimetable"] * 5


def test_every_dag_is_described_bounded_and_never_overtakes_itself(parsed: Parsed) -> None:
    for dag_id, dag in parsed["dags"].items():
        assert "nightbench" in dag["tags"], dag_id
        assert len(dag["tags"]) > 1, dag_id
        assert dag["doc"], dag_id
        assert dag["description"], dag_id
        assert dag["catchup"] is False, dag_id
        # Several clusters at once: the locks of nodes keep nights apart, the queue experiments.
        # Deadlines are also checked while the daily upkeep goes on.
        at_once = 4 if dag_id in ("nightbench_experiments", "nightbench_upkeep") else 1
        assert dag["max_active_runs"] == at_once, dag_id
        assert dag["timeout_s"], dag_id


def test_only_what_starts_nothing_by_itself_starts_unpaused(parsed: Parsed) -> None:
    unpaused = {dag_id for dag_id, dag in parsed["dags"].items() if dag["paused"] is False}
    # What a night has asked for is confirmed: paused, its message would wait.
    assert unpaused == {
        "on_demand",
        "nightbench_accept",
        "nightbench_experiments",
        "nightbench_verdicts",
        "nightbench_upkeep",
    }


def test_task_logs_are_removed_by_themselves_only_in_a_deployment_of_our_own(
    parsed: Parsed, tmp_path: Path
) -> None:
    ours = parse(tmp_path, "1", NIGHTBENCH_STACK="/somewhere")
    for document, days in ((parsed, None), (ours, 30)):
        assert document["dags"]["nightbench_upkeep"]["defaults"]["log_days"] == days


def test_deadlines_are_checked_every_quarter_of_an_hour(parsed: Parsed) -> None:
    dag = parsed["dags"]["nightbench_upkeep"]
    assert dag["schedule"] == "CronTriggerTimetable"
    assert "*/15 * * * *" in str(parsed["serialized"]["nightbench_upkeep"])
    tasks = dag["tasks"]
    # Nothing that is done once a day comes before the check, nor keeps the next run from it.
    assert tasks["check_deadlines"]["upstream"] == []
    daily = {name for name, task in tasks.items() if "is_daily_work_due" in task["upstream"]}
    assert daily == {"load_waiting", "send_unsent_messages", "clusters_to_sweep"}
    assert {task["max_active_tis_per_dag"] for task in tasks.values()} == {1}


def test_the_queue_of_experiments_is_looked_at_without_a_form_and_after_a_night(
    tasks: dict[str, dict[str, Any]], parsed: Parsed
) -> None:
    dag_id = "nightbench_experiments"
    dag = parsed["dags"][dag_id]
    assert dag["schedule"] == "AssetOrTimeSchedule"
    assert "*/5 * * * *" in str(parsed["serialized"][dag_id])
    assert "nightbench_suspects" in str(parsed["serialized"][dag_id])
    assert set(dag["tasks"]) == {"measure", "send_messages"}
    fields = ("a", "b", "suite", "cases", "alert_id", "good", "bad")
    assert {dag["params"][name]["type"][0] for name in fields} == {"null"}
    # A night's message is sent whatever came of measuring; the site follows it.
    assert tasks[f"{dag_id}.send_messages"]["upstream"] == ["measure"]
    assert tasks[f"{dag_id}.send_messages"]["trigger_rule"] == "all_done"
    assert tasks[f"{dag_id}.send_messages"]["outlets"] == ["nightbench_verdicts"]


def test_nodes_are_looked_at_before_anything_is_measured(tasks: dict[str, dict[str, Any]]) -> None:
    for dag_id in ("on_demand", "nightly_nightly_cpu"):
        assert tasks[f"{dag_id}.preflight"]["upstream"] == ["plan"]
        assert "preflight" in tasks[f"{dag_id}.measure"]["upstream"]


def test_every_task_has_an_owner_a_time_limit_and_retries(
    tasks: dict[str, dict[str, Any]],
) -> None:
    for name, task in tasks.items():
        assert task["owner"] not in ("", "airflow"), name
        assert task["timeout_s"], name
        # The ingest waits for a warehouse that is away.
        assert task["retries"] in ((5,) if name.endswith(".ingest") else (1, 2)), name


def test_the_owner_of_a_suite_owns_its_tasks(tasks: dict[str, dict[str, Any]]) -> None:
    assert tasks["nightly_nightly_cpu.measure"]["owner"] == "benchmarks"


def test_a_run_is_planned_examined_measured_and_loaded_whatever_its_cases_end(
    tasks: dict[str, dict[str, Any]],
) -> None:
    for dag_id in ("on_demand", "nightly_nightly_cpu"):
        measure, ingest = tasks[f"{dag_id}.measure"], tasks[f"{dag_id}.ingest"]
        assert measure["operator"] == "GangOperator"
        assert tasks[f"{dag_id}.plan"]["operator"] == "PlanOperator"
        assert tasks[f"{dag_id}.preflight"]["upstream"] == ["plan"]
        assert measure["upstream"] == ["plan", "preflight"]
        assert ingest["trigger_rule"] == "all_done"
        assert "measure" in ingest["upstream"]
        # The run's state says whether every case was measured.
        assert tasks[f"{dag_id}.all_measured"]["trigger_rule"] == "none_failed"
        assert "measure" in tasks[f"{dag_id}.all_measured"]["upstream"]


def test_as_many_cases_go_at_once_as_the_cluster_takes(tasks: dict[str, dict[str, Any]]) -> None:
    at_once = {
        dag_id: tasks[f"{dag_id}.measure"]["max_active_tis_per_dagrun"]
        for dag_id in ("nightly_nightly_cpu", "nightly_nightly_wide", "on_demand")
    }
    # The form may choose any cluster: the largest number, and nodes' locks below that.
    assert at_once == {"nightly_nightly_cpu": 1, "nightly_nightly_wide": 3, "on_demand": 3}


def test_the_form_offers_what_there_is(parsed: Parsed) -> None:
    form = parsed["dags"]["on_demand"]["params"]
    assert form["suite"]["enum"] == ["by_hand", "nightly_cpu", "nightly_wide"]
    assert form["cluster"]["enum"] == [None, "pair", "wide"]
    assert "pytorch" in form["frameworks"]["examples"]
    assert "fake" not in form["frameworks"]["examples"]
    assert form["strategies"]["examples"] == ["single", "collective", "parameter_server"]
    assert form["repeats"]["minimum"] == 1
    assert "smoke" in form["scale"]["enum"]
    assert form["run_kind"]["enum"][0] == "nightly"


def test_the_form_of_an_acceptance_offers_clusters_and_lines(parsed: Parsed) -> None:
    dag = parsed["dags"]["nightbench_accept"]
    assert set(dag["tasks"]) == {"accept"}
    form = dag["params"]
    assert form["cluster"]["enum"] == ["pair", "wide"]
    assert "pytorch" in form["lines"]["examples"]
    assert "fake" not in form["lines"]["examples"]
    assert form["modes"]["type"] == ["null", "array"]
    assert set(form) == {"cluster", "lines", "modes", "again", "untried", "outside_hours"}


def test_parsing_imports_nothing_heavy(parsed: Parsed) -> None:
    assert HEAVY & set(parsed["modules"]) == set()
    assert "nightbench.gang" not in parsed["modules"]
    assert "nightbench.warehouse" not in parsed["modules"]


def test_our_modules_do_not_shadow_the_standard_library(parsed: Parsed) -> None:
    for name, path in parsed["standard"].items():
        assert "nightbench" not in path, name
        assert "site-packages" not in path, name


def test_parsed_twice_gives_the_same_dags(
    parsed: Parsed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    again = parse(tmp_path_factory.mktemp("again"), "4242")
    assert again["serialized"] == parsed["serialized"]


def test_runs_are_judged_each_for_itself_and_confirmed_whatever_came_of_their_messages(
    tasks: dict[str, dict[str, Any]], parsed: Parsed
) -> None:
    dag = "nightbench_verdicts"
    # One that cannot be judged, or told of, keeps no other from it: each has a task and its time.
    assert tasks[f"{dag}.judge"]["is_mapped"]
    assert tasks[f"{dag}.judge"]["upstream"] == ["loaded_runs"]
    assert tasks[f"{dag}.judge"]["max_active_tis_per_dagrun"] == 1
    assert tasks[f"{dag}.judge"]["outlets"] == []
    # A failed task's events are lost.
    assert tasks[f"{dag}.request_confirmations"]["trigger_rule"] == "all_done"
    assert tasks[f"{dag}.request_confirmations"]["upstream"] == ["judge"]
    assert tasks[f"{dag}.request_confirmations"]["outlets"] == ["nightbench_suspects"]
    # The end of a DAG run is that of its last tasks: this one alone would hide what failed.
    assert tasks[f"{dag}.publish"]["trigger_rule"] == "none_failed"
    assert tasks[f"{dag}.publish"]["upstream"] == ["judge"]
    # The site follows what was judged, and what was measured again.
    assert tasks["nightbench_experiments.send_messages"]["outlets"] == ["nightbench_verdicts"]
    serialized = parsed["serialized"][dag]["dag"]["timetable"]
    assert {"nightbench_medians", "nightbench_verdicts"} <= set(
        re.findall("nightbench_\\w+", str(serialized))
    )
    assert parsed["dags"][dag]["timeout_s"] > 8 * tasks[f"{dag}.judge"]["timeout_s"]
