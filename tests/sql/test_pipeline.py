"""From files in the spool to medians, verdicts and one message: on a real PostgreSQL."""

from __future__ import annotations

import json

import pytest
from tests.sql.conftest import Rows
from tests.sql.given import Given
from tests.sql.nights import BREAKS, FALLS, NEW, NIGHTS, RISES, STEADY, VANISHES, Inbox, history
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import EXITED, STEPS, spooled

from nightbench.core.errors import UserError, WarehouseUnavailable
from nightbench.core.model import Reason, ReasonCode, RunKind, VerdictKind
from nightbench.night.ingest import ingest_ended, ingest_run, waiting_runs
from nightbench.spool import Spool
from nightbench.warehouse import Warehouse, connect


def test_a_run_is_loaded_once_and_its_median_is_what_its_steps_say(
    pipeline: Pipeline, spool: Spool, given: Given, rows: Rows
) -> None:
    run = given.run(0, suite="seeded")
    spooled(spool, run, {STEADY: 100.0, NEW: 50.0})
    assert [waiting.run_id for waiting in waiting_runs(spool)] == [run.run_id]

    first = pipeline.ingest(run)
    again = pipeline.ingest(run)

    assert "loaded: 2 measured, 0 quarantined, 0 failed or not measured" in first
    assert "nothing changed" in again
    assert waiting_runs(spool) == []
    medians = {r["case_id"]: r for r in rows("select * from marts.fct_measurement")}
    assert set(medians) == {STEADY.case_id, NEW.case_id}
    # By hand, from the raw step times: samples of a repeat over the seconds of its steps.
    by_hand = rows(
        "select %s / sum(lap) as throughput from staging.repeat_rank, unnest(step_seconds) as lap"
        " where case_id = %s group by repeat order by throughput",
        float(STEPS * STEADY.batch_size_per_device),
        STEADY.case_id,
    )
    assert medians[STEADY.case_id]["throughput"] == pytest.approx(by_hand[1]["throughput"])
    assert medians[STEADY.case_id]["throughput"] == pytest.approx(100.0)
    assert medians[STEADY.case_id]["n"] == 3


def test_windows_that_contradict_their_steps_never_become_a_median(
    pipeline: Pipeline, spool: Spool, given: Given, rows: Rows
) -> None:
    run = given.run(0, suite="seeded")
    spooled(spool, run, {STEADY: 100.0}, wall_factor=1.05)

    result = pipeline.ingest(run)

    assert ": 0 measured" in result
    assert rows("select * from marts.fct_measurement") == []
    reasons = rows("select quarantine_reasons as reasons from raw.repeat where repeat = 1")[0][
        "reasons"
    ]
    assert "window_matches_steps" in {reason["subject"] for reason in reasons}


def test_a_disturbed_repeat_is_seen_with_its_reason_and_never_counts(
    pipeline: Pipeline, spool: Spool, given: Given, rows: Rows
) -> None:
    run = given.run(0, suite="seeded")
    store = spooled(spool, run, {STEADY: 100.0}).case(STEADY.case_id)
    # A fourth launch, of which somebody else's work took half.
    slow = json.loads(json.dumps(store.result(2, "n1")))
    summary = slow["processes"][0]["summary"]
    summary["step_seconds"] = [2 * lap for lap in summary["step_seconds"]]
    summary["window"]["wall_s"] *= 2
    store.save_result(4, "n1", slow)
    why = Reason(ReasonCode.FOREIGN_CPU, "n1", None, "48% of the cores: cc1 (pid 812)", "10%")
    record = store.repeat(1) or {}
    store.save_repeat(4, {**record, "status": "disturbed", "reasons": [why.to_json()]})

    result = pipeline.ingest(run)

    assert ": 1 measured, 0 quarantined" in result
    median = rows("select * from marts.fct_measurement")[0]
    assert (median["n"], median["throughput"]) == (3, pytest.approx(100.0))
    assert rows("select minimum from raw.measurement")[0]["minimum"] > 99
    seen = rows("select * from marts.fct_repeat where repeat = 4")[0]
    assert (seen["status"], seen["reasons"]) == ("disturbed", [why.to_json()])
    (told,) = rows(
        "select code, node, observed, expected from marts.fct_reason"
        " where repeat = 4 and not is_quarantine"
    )
    assert told == {
        "code": "foreign_cpu",
        "node": "n1",
        "observed": "48% of the cores: cc1 (pid 812)",
        "expected": "10%",
    }
    assert seen["throughput"] == pytest.approx(50.0)
    assert seen["is_quarantined"]


def test_a_run_waits_while_the_warehouse_is_away(
    pipeline: Pipeline, spool: Spool, given: Given, rows: Rows
) -> None:
    run = given.run(0, suite="seeded")
    spooled(spool, run, {STEADY: 100.0})
    with pytest.raises(WarehouseUnavailable):
        ingest_run(spool, run.run_id, lambda: connect("host=127.0.0.1 port=1 dbname=warehouse"))
    assert [waiting.run_id for waiting in waiting_runs(spool)] == [run.run_id]

    assert ingest_ended(spool, pipeline.connect) == [run.run_id]

    assert len(rows("select * from marts.fct_measurement")) == 1


def test_a_night_yields_all_six_verdicts_and_a_drop_alerts_once(
    pipeline: Pipeline, given: Given, reader: Warehouse, inbox: Inbox
) -> None:
    history(pipeline.loader, given, (STEADY, FALLS, RISES, BREAKS, VANISHES))
    expected = {
        STEADY: (100.0, VerdictKind.OK),
        FALLS: (90.0, VerdictKind.REGRESSED),
        RISES: (112.0, VerdictKind.IMPROVED),
        NEW: (50.0, VerdictKind.INSUFFICIENT_DATA),
        BREAKS: (EXITED, VerdictKind.FAILED),
        VANISHES: (None, VerdictKind.MISSING),
    }
    for night in (NIGHTS, NIGHTS + 1, NIGHTS + 2):
        run = given.run(night, suite="seeded")
        came = {each: throughput for each, (throughput, _) in expected.items()}
        pipeline.measure(run, came)
        result = pipeline.judge(run)
        pipeline.judge(run)
        if night == NIGHTS:
            found = {v.case_id: v.kind for v in result.verdicts}
            assert found == {each.case_id: kind for each, (_, kind) in expected.items()}
            assert all(verdict.sentence for verdict in reader.series.verdicts(run.run_id))

    assert len(inbox.messages) == 1
    assert FALLS.case_id in inbox.messages[0]["message"]
    assert "10" in inbox.messages[0]["message"]
    assert {alert["case_id"] for alert in reader.alerts.find()} == {
        each.case_id for each in (FALLS, BREAKS, VANISHES)
    }


def test_a_message_that_no_channel_took_is_sent_by_the_next_try(
    pipeline: Pipeline, spool: Spool, given: Given, inbox: Inbox
) -> None:
    history(pipeline.loader, given, (FALLS,))
    run = given.run(NIGHTS, suite="seeded")
    pipeline.measure(run, {FALLS: 90.0}, channels=["json://127.0.0.1:1"])
    with pytest.raises(UserError, match=r"no channel of suite seeded accepted the message"):
        pipeline.judge(run)

    spooled(spool, run, {FALLS: 90.0}, channels=[inbox.url])
    for _ in range(2):
        pipeline.judge(run)

    assert len(inbox.messages) == 1


def test_a_run_on_demand_opens_no_alert(
    pipeline: Pipeline, given: Given, reader: Warehouse
) -> None:
    history(pipeline.loader, given, (FALLS,))
    run = given.run(NIGHTS, suite="seeded", run_kind=RunKind.ON_DEMAND)
    pipeline.measure(run, {FALLS: 90.0})

    result = pipeline.judge(run)

    assert [verdict.kind for verdict in result.verdicts] == [VerdictKind.REGRESSED]
    assert reader.alerts.find() == []
