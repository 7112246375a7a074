"""The task `preflight` on a worker whose spool is not that of the worker that planned."""

from __future__ import annotations

import socket

import pytest
from airflow.sdk.exceptions import AirflowFailException

from nightbench.orchestration.suite_dags import preflight


def test_a_spool_that_is_not_shared_is_refused_with_host_and_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NIGHTBENCH_SPOOL", str(tmp_path))
    with pytest.raises(AirflowFailException) as refused:
        preflight.function([{"nightbench_run": "demo-1", "case_id": "case"}])
    said = str(refused.value)
    assert socket.gethostname() in said
    assert str(tmp_path / "runs" / "demo-1") in said
    assert "NIGHTBENCH_SPOOL" in said


def test_a_run_without_cases_needs_no_spool(tmp_path, monkeypatch):
    monkeypatch.setenv("NIGHTBENCH_SPOOL", str(tmp_path))
    assert preflight.function([]) is None
