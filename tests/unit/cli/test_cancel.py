"""Cancelling a run of a team's Airflow from a terminal that lacks a login, or whose API is away."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from nightbench.cli.cancel import cancel
from nightbench.core.errors import UserError
from nightbench.spool import RunSpool, Spool

DAG_RUN = "manual__1"
CASE = "one"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSpool:
    for name in [name for name in os.environ if name.startswith(("AIRFLOW", "NIGHTBENCH"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE", "{}")
    made = Spool(tmp_path / "spool").run("fit-1")
    of_airflow = {"dag_id": "on_demand", "dag_run_id": DAG_RUN}
    made.save_run({"run_id": "fit-1", "cluster": "gone", **of_airflow})
    made.save_planned([{"case_id": CASE, "unit": "images", "definition_digest": "d"}])
    return made


def test_without_a_login_nothing_is_cancelled_and_the_ui_is_named(run: RunSpool) -> None:
    with pytest.raises(UserError, match=f"mark the DAG run {DAG_RUN} as failed") as refused:
        cancel("fit-1")
    assert "NIGHTBENCH_AIRFLOW=https://USER:PASSWORD@HOST:PORT" in str(refused.value)
    assert "--direct" not in str(refused.value)
    assert run.outcome(CASE) is None


def test_an_airflow_that_does_not_answer_keeps_no_process_running(
    run: RunSpool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("NIGHTBENCH_AIRFLOW", f"http://ada:secret@127.0.0.1:{port}")
    # The cluster is looked up next: its nodes would be reached now.
    with pytest.raises(UserError, match="gone"):
        cancel("fit-1")
    assert "only the processes on the nodes are ended" in capsys.readouterr().err
    assert run.outcome(CASE) is not None
