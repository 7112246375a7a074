from __future__ import annotations

from airflow.sdk.execution_time.comms import DagRunStateResult

from nightbench.orchestration.dag_common import dag_run_state


def test_a_dag_runs_state_is_read_as_airflow_answers_it() -> None:
    class Ti:
        def get_dagrun_state(self, dag_id: str, run_id: str) -> object:
            return DagRunStateResult(state="failed").state

    assert dag_run_state({"ti": Ti()})("on_demand", "one") == "failed"
