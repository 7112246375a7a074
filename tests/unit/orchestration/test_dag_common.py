from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
from airflow.sdk.definitions.context import (
    _AIRFLOW_PARSING_CONTEXT_DAG_ID,
    _AIRFLOW_PARSING_CONTEXT_TASK_ID,
)
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import ParamValidationError
from airflow.sdk.execution_time.comms import DagRunStateResult

from nightbench.orchestration.dag_common import base_url, dag_run_state
from nightbench.orchestration.suite_dags import on_demand_dag
from nightbench.orchestration.verdict_dags import _results_page


def test_a_dag_runs_state_is_read_as_airflow_answers_it() -> None:
    class Ti:
        def get_dagrun_state(self, dag_id: str, run_id: str) -> object:
            return DagRunStateResult(state="failed").state

    assert dag_run_state({"ti": Ti()})("on_demand", "one") == "failed"


@pytest.mark.parametrize(
    ("setting", "links"),
    [
        # As Airflow is installed: `[api] base_url` has no value.
        (None, []),
        ("", []),
        ("https://a.org/team/", ["Results page: https://a.org/team/nightbench/?run=r1"]),
    ],
)
def test_without_an_address_reports_have_no_link(
    setting: str | None, links: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "AIRFLOW__API__BASE_URL"
    monkeypatch.delenv(name, raising=False)
    if setting is not None:
        monkeypatch.setenv(name, setting)
    assert base_url() == (setting or "").rstrip("/")
    assert _results_page("r1") == links


@pytest.mark.parametrize("others", [[], ["other"]], ids=["the only one", "one of two"])
def test_a_run_goes_on_whose_suite_and_cluster_were_removed(
    others: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHTBENCH_DAGS", str(tmp_path))
    (tmp_path / "suites").mkdir()
    for name in others:
        (tmp_path / "suites" / f"{name}.yaml").write_text(f"suite: {name}\n")
    given = {"suite": "gone", "cluster": "gone", "scale": "gone"}
    for name in (_AIRFLOW_PARSING_CONTEXT_DAG_ID, _AIRFLOW_PARSING_CONTEXT_TASK_ID):
        monkeypatch.setenv(name, "")  # Airflow restores values, but does not remove one
    # As Airflow's task runner parses the DAG file, and then takes the values of the run.
    with _airflow_parsing_context_manager(dag_id="on_demand", task_id="ingest"):
        dag = on_demand_dag()
    found = process_params(dag, dag.get_task("ingest"), given, suppress_exception=False)
    assert {name: found[name] for name in given} == given
    # The form itself offers what there is, and the trigger refuses the rest.
    dag = on_demand_dag()
    with pytest.raises(ParamValidationError, match="is not one of"):
        process_params(dag, dag.get_task("ingest"), given, suppress_exception=False)
