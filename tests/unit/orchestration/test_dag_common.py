from __future__ import annotations

import pytest
from airflow.sdk.execution_time.comms import DagRunStateResult

from nightbench.orchestration.dag_common import base_url, dag_run_state
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
