"""Short nights and cases at once through a live scheduler, on a cluster that takes two at once."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.integration.live_airflow import Live, write_suite
from tests.integration.live_suites import STEP_S, THREADS, suites
from tests.sql.nights import Inbox

from nightbench.core.model import Build, Case, Measurement, PlannedCase, Run, RunKind, Strategy
from nightbench.spool import RunSpool
from nightbench.spool.plans import load_job
from nightbench.warehouse import Warehouse, connect

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
    nodes = {c: load_job(run, c, 0).job.lead.name for c in spans}
    assert set(nodes.values()) == {"n1", "n2"}
    at_once = {
        frozenset((one, other))
        for one, (start, end) in spans.items()
        for other, (begin, _) in spans.items()
        if one != other and start <= begin < end
    }
    assert at_once
    assert all(len({nodes[case_id] for case_id in pair}) == 2 for pair in at_once)


@pytest.mark.large
def test_a_fall_is_measured_again_before_its_message_is_sent(
    live: Live, inbox: Inbox, tmp_path: Path
) -> None:
    axes = {"batch_size_per_device": 2, "scale": "smoke", "threads": THREADS}
    case = Case("sleep", "fake", Strategy.COLLECTIVE, **axes)
    level, lost = case.batch_size_per_device / STEP_S, 0.15
    remember(live, case, [level] * 14 + [(1 - lost) * level] * 3)
    python = tmp_path / "slower/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nFAKE_STEP_S={STEP_S / (1 - lost)} exec python3 "$@"\n')
    python.chmod(0o755)

    falls = suites(inbox.url)["falls"]
    with_build = f"{falls['env']}\nbuilds: {{fake: {{path: {tmp_path / 'slower'}}}}}"
    write_suite(live.place / "dags", "falls", {**falls, "env": with_build})
    dag_run = live.trigger("falls", run_kind="nightly")
    run = live.run_of(dag_run)
    assert live.ended(dag_run) == "success", live.tasks(dag_run, "measure")
    assert {row["verdict"] for row in live.judged(run.run_id)} == {"regressed"}
    live.until(lambda: inbox.messages, "the night's message", wait_s=420)

    (message,) = inbox.messages
    text = json.dumps(message)
    assert case.case_id in text
    with contextlib.closing(connect(live.stack.dsn("nightbench_reader"))) as connection:
        (alert,) = Warehouse(connection).alerts.find(case_id=case.case_id)
    assert alert["confirmation"] == "confirmed", alert["confirmation_sentence"]
    assert alert["confirmation_sentence"] in message["message"]
    assert alert["confirmation_high"] < 0.97
    # None of its launches is a night: no run was planned for them, and no median came of them.
    assert live.rows(run.run_id)[0]["n"] == 2
    comparisons = [folder.run_id for folder in live.spool.comparisons()]
    assert len(comparisons) == 2  # on the night's node, and once on the other one


def remember(live: Live, case: Case, levels: list[float]) -> None:
    """Nights before tonight, the last one yesterday, as a site's older results."""
    now = datetime.now(UTC)
    entries = []
    for age, value in zip(range(len(levels), 0, -1), levels, strict=True):
        at = now - timedelta(days=age)
        run = Run(f"falls-{at:%Y%m%d}-old", "falls", "local", RunKind.NIGHTLY, at)
        planned = PlannedCase(case, Build("fake"), "", "samples")
        value *= 1 + 0.001 * (age % 3 - 1)
        entries.append(
            (run, planned, Measurement(
                run.run_id, case, "local", planned.build, "samples", (), n=3, throughput=value,
                spread=0.002,
            ))
        )  # fmt: skip
    with contextlib.closing(connect(live.stack.dsn("nightbench_loader"))) as connection:
        Warehouse(connection).runs.store_history(entries)


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
