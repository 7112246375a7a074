"""Triggering the DAG: a form that is older than the files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nightbench.cli import dag_run
from nightbench.core.errors import UserError
from nightbench.local.airflow_api import AirflowApi, AirflowUnavailable
from nightbench.spool import Spool

REFUSED = "Airflow refused: 400 Invalid input for cluster: 'lab' is not one of [None, 'local']"


class Api:
    """Refuses some times, as Airflow does until it has read a new file."""

    def __init__(self, refusals: list[str]) -> None:
        self.refusals = refusals
        self.parsed: list[str] = []

    def parse_again(self, dag_id: str) -> None:
        self.parsed.append(dag_id)
        raise AirflowUnavailable("Airflow does not answer")

    def dag(self, dag_id: str) -> dict[str, Any]:
        return {"dag_id": dag_id}

    def unpause(self, dag_id: str) -> None:
        pass

    def trigger(self, dag_id: str, conf: Mapping[str, Any], run_id: str, note: str = "") -> str:
        if self.refusals:
            raise UserError(self.refusals.pop(0))
        return run_id


def trigger(refusals: list[str]) -> str:
    return dag_run.trigger(cast(AirflowApi, Api(refusals)), {"cluster": "lab"}, "")


def test_a_cluster_that_airflow_has_not_read_yet_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    api = Api([REFUSED, REFUSED])
    found = dag_run.trigger(cast(AirflowApi, api), {"cluster": "lab"}, "")
    assert found.startswith("manual__")
    assert api.parsed == ["on_demand"]


def test_any_other_refusal_is_told_at_once() -> None:
    with pytest.raises(UserError, match="403"):
        trigger(["Airflow refused: 403"])


def test_waiting_for_airflow_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dag_run, "PARSE_TIMEOUT_S", 0.0)
    with pytest.raises(UserError, match="is not one of"):
        trigger([REFUSED, REFUSED])


def test_an_id_of_several_dag_runs_means_the_newest_run() -> None:
    document = {"dag_run_id": "scheduled__1"}
    runs = [SimpleNamespace(run_id=name, run=lambda: document) for name in ("older", "newer")]
    spool = cast(Spool, SimpleNamespace(runs=lambda: runs))
    for name, expected in (("scheduled__1", "newer"), ("older", "older")):
        found = dag_run.named(spool, name)
        assert found is not None
        assert found.run_id == expected
