"""Suites on pods through a live scheduler: medians, a killed triggerer, and cancelling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.drills.airflow_chaos import bring_back, kill, states
from tests.drills.kubernetes.pods import CLUSTER, GANG, Reached
from tests.integration.live_airflow import Live, live_airflow
from tests.integration.terminal import TRIAL
from tests.marks import marks

from nightbench.core.model import CaseStatus
from nightbench.local import lifecycle, processes
from nightbench.spool import RunSpool

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]

SUITES: dict[str, dict[str, Any]] = {
    "trial": {"text": TRIAL},
    "long": {"devices": "2x1", "steps": 60, "repeats": 3, "env": '{FAKE_STEP_S: "0.5"}'},
}
ENDS_S = 900.0


@pytest.fixture(scope="module")
def live(kubernetes: Reached) -> Iterator[Live]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", kubernetes.connection)
        with live_airflow(SUITES, CLUSTER.replace("IMAGE", kubernetes.image)) as running:
            yield running


def stepping(live: Live) -> tuple[str, RunSpool]:
    """A run whose gang steps in both pods."""
    dag_run = live.trigger("long")
    run = live.run_of(dag_run)
    live.until(lambda: (run.case(GANG).progress() or {}).get("phase"), "the gang to step", ENDS_S)
    return dag_run, run


def outcomes(run: RunSpool) -> list[str]:
    """How each case ended, for messages."""
    ids = [planned["case_id"] for planned in run.planned()]
    return [f"{case_id}: {run.case(case_id).outcome()}" for case_id in ids]


def nothing_is_left(live: Live, kubernetes: Reached, run: RunSpool) -> None:
    live.until(lambda: not kubernetes.pods(f"{run.run_id}/"), "the pods to be gone", 240.0)
    assert marks(run.run_id) == {}


def test_a_suite_reaches_medians(live: Live, kubernetes: Reached) -> None:
    dag_run = live.trigger("trial")
    run = live.run_of(dag_run)
    ended = live.ended(dag_run, wait_s=ENDS_S)
    assert ended == "success", [states(live, dag_run), *outcomes(run)]
    rows = live.judged(run.run_id)
    assert [(row["status"], row["n"]) for row in rows] == [("ok", 2)] * 3
    assert all(row["throughput"] > 0 for row in rows), rows
    nothing_is_left(live, kubernetes, run)


def test_a_killed_triggerer_costs_no_repeat(live: Live, kubernetes: Reached) -> None:
    dag_run, run = stepping(live)
    triggerer = live.stack.running("triggerer")
    assert triggerer is not None
    lifecycle.stop_watchdogs(live.stack.home)
    kill([triggerer.pid, *processes.descendants(triggerer.pid)])
    bring_back(live)
    ended = live.ended(dag_run, wait_s=ENDS_S)
    assert ended == "success", [states(live, dag_run), *outcomes(run)]
    outcome = run.case(GANG).outcome() or {}
    assert [each["status"] for each in outcome["repeats"]] == ["ok"] * 3
    nothing_is_left(live, kubernetes, run)


def test_a_run_that_is_marked_failed_deletes_its_pods(live: Live, kubernetes: Reached) -> None:
    dag_run, run = stepping(live)
    live.api.fail_run("on_demand", dag_run)
    nothing_is_left(live, kubernetes, run)
    outcome = live.until(run.case(GANG).outcome, "the outcome")
    assert outcome["status"] == CaseStatus.CANCELLED
