"""Short nights and cases at once through a live scheduler, on a cluster that takes two at once."""

from __future__ import annotations

from datetime import datetime

import pytest
from tests.integration.live_airflow import Live

from nightbench.spool import RunSpool
from nightbench.spool.plans import load_job

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_short_night_measures_what_it_has_room_for(live: Live) -> None:
    dag_run = live.trigger("short", night=True, run_kind="nightly")
    run = live.run_of(dag_run)

    assert live.ended(dag_run) == "success", live.tasks(dag_run, "measure")

    live.until(lambda: run.loaded() is not None, "the run to be loaded")
    rows = {row["case_id"]: row for row in live.rows(run.run_id)}
    assert {row["status"] for row in rows.values()} == {"ok", "left_out"}
    (out,) = (row for row in rows.values() if row["status"] == "left_out")
    assert [r["code"] for r in out["reasons"]] == ["night_full"]
    assert [task["state"] for task in live.tasks(dag_run, "measure")] == ["success"]

    # Who was left out comes first in the next night.
    again = live.trigger("short", night=True, run_kind="nightly")
    assert live.ended(again) == "success"
    second = live.rows(live.run_of(again).run_id)
    assert {row["case_id"]: row["status"] for row in second}[out["case_id"]] == "ok"


def test_a_night_without_room_is_no_failure(live: Live) -> None:
    dag_run = live.trigger("none", night=True)
    run = live.run_of(dag_run)

    assert live.ended(dag_run) == "success"

    live.until(lambda: run.loaded() is not None, "the run to be loaded")
    assert {row["status"] for row in live.rows(run.run_id)} == {"left_out"}
    assert live.launches(run.run_id) == {}


@pytest.mark.large
def test_cases_that_share_no_node_are_measured_at_once(live: Live) -> None:
    dag_run = live.trigger("many")
    run = live.run_of(dag_run)
    assert live.ended(dag_run) == "success", live.tasks(dag_run, "measure")
    spans = {case_id: span(run, case_id) for case_id in run.case_ids()}
    nodes = {c: load_job(run, c, 0).job.nodes[0].name for c in spans}
    assert set(nodes.values()) == {"n1", "n2"}
    at_once = {
        frozenset((one, other))
        for one, (start, end) in spans.items()
        for other, (begin, _) in spans.items()
        if one != other and start <= begin < end
    }
    assert at_once
    assert all(len({nodes[case_id] for case_id in pair}) == 2 for pair in at_once)


def span(run: RunSpool, case_id: str) -> tuple[datetime, datetime]:
    """From the launch of a case to its end."""
    store = run.case(case_id)
    began, ended = store.repeat(1), store.outcome()
    assert began is not None
    assert ended is not None
    return (
        datetime.fromisoformat(began["started_at"]),
        datetime.fromisoformat(ended["ended_at"]),
    )
