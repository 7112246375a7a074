"""What a night had no room for: listed with its reason, neither missing nor failed, no verdict."""

from __future__ import annotations

import dataclasses

from tests.sql.conftest import Database, Rows
from tests.sql.given import Given
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import EXITED, case, plan, spooled

from nightbench.core.budget import CaseHistory
from nightbench.core.model import (
    Case,
    CaseStatus,
    CaseToLoad,
    Reason,
    ReasonCode,
    Run,
    RunKind,
    VerdictKind,
)
from nightbench.core.run_plan import RunPlan
from nightbench.night.planning import case_histories
from nightbench.spool import CaseOutcome, Spool
from nightbench.spool.plans import mark_ended, read_plan, store_plan
from nightbench.warehouse import Warehouse, connect

BEFORE, WITHIN, NEVER, MEASURED = (case(batch) for batch in (1, 2, 4, 8))
REASON = Reason(ReasonCode.NIGHT_FULL, observed="about 2 h", expected="20 min until 06:00 UTC")
ENDED = Reason(
    ReasonCode.WINDOW_ENDED,
    subject="2026-03-01 06:00 UTC",
    observed="1 good of 3 repeats",
    expected="3 good repeats",
)


def left_out(given_plan: RunPlan) -> RunPlan:
    """The same plan with one case left out beforehand."""
    cases = tuple(
        dataclasses.replace(each, planned=dataclasses.replace(each.planned, left_out=REASON))
        if each.planned.case_id == BEFORE.case_id
        else each
        for each in given_plan.cases
    )
    return dataclasses.replace(given_plan, cases=cases)


def a_short_night(spool: Spool, run: Run) -> None:
    """One case is left out beforehand, one by the window's end, one never ran, one is measured."""
    spooled(spool, run, {BEFORE: None, WITHIN: 100.0, NEVER: None, MEASURED: 50.0})
    folder = store_plan(left_out(plan(run, (BEFORE, WITHIN, NEVER, MEASURED))), spool)
    store = folder.case(WITHIN.case_id)
    known = CaseOutcome.from_json(store.outcome() or {})
    ended = dataclasses.replace(known, status=CaseStatus.LEFT_OUT, reasons=(ENDED,))
    store.save_outcome(ended.to_json())
    mark_ended(folder)


def test_it_is_listed_before_anything_is_loaded(
    given: Given, loader: Warehouse, reader: Warehouse, rows: Rows
) -> None:
    run = given.run(0)
    planned = [each.planned for each in left_out(plan(run, (BEFORE, NEVER))).cases]
    loader.runs.plan(run, planned)
    found = {row["case_id"]: (row["status"], row["reasons"]) for row in reader.runs.results()}
    assert found == {
        BEFORE.case_id: ("left_out", [REASON.to_json()]),
        NEVER.case_id: ("missing", []),
    }
    assert reader.runs.planned_cases(run.run_id) == sorted(planned, key=lambda each: each.case_id)
    # Planned anew with room for it: it is as any other.
    loader.runs.plan(run, [dataclasses.replace(each, left_out=None) for each in planned])
    assert {row["left_out"] for row in rows("select left_out from raw.planned_case")} == {None}


def test_a_short_night_from_its_files_to_its_verdicts(
    pipeline: Pipeline, spool: Spool, given: Given, reader: Warehouse, rows: Rows
) -> None:
    run = given.run(0, suite="seeded")
    a_short_night(spool, run)
    assert {c.planned.case_id: c.left_out for c in read_plan(spool.run(run.run_id)).cases} == {
        **dict.fromkeys((c.case_id for c in (WITHIN, NEVER, MEASURED)), None),
        BEFORE.case_id: REASON,
    }

    result = pipeline.ingest(run)
    assert "1 measured, 0 quarantined, 0 failed or not measured, 1 missing, 2 left out" in result

    judged = pipeline.judge(run)
    assert {v.case_id: v.kind for v in judged.verdicts} == {
        NEVER.case_id: VerdictKind.MISSING,
        MEASURED.case_id: VerdictKind.INSUFFICIENT_DATA,
    }
    assert {alert["case_id"] for alert in reader.alerts.find()} == {NEVER.case_id}
    shown = {row["case_id"]: row for row in reader.runs.results(run.run_id)}
    assert shown[BEFORE.case_id]["status"] == shown[WITHIN.case_id]["status"] == "left_out"
    assert shown[WITHIN.case_id]["reasons"] == [ENDED.to_json()]
    assert shown[WITHIN.case_id]["verdict"] is None
    # Its repeats are kept, and nothing is quarantined for there being too few.
    assert len(rows("select * from marts.fct_repeat where case_id = %s", WITHIN.case_id)) == 3
    assert rows("select * from raw.measurement where quarantine_reasons is not null") == []
    (counts,) = reader.runs.find()
    assert {key: counts[key] for key in ("planned", "measured", "failed", "left_out")} == {
        "planned": 4,
        "measured": 1,
        "failed": 0,
        "left_out": 2,
    }
    listed = rows("select * from marts.fct_left_out order by case_id")
    assert [(r["case_id"], r["code"], r["observed"]) for r in listed] == [
        (BEFORE.case_id, "night_full", "about 2 h"),
        (WITHIN.case_id, "window_ended", "1 good of 3 repeats"),
    ]
    medians = {row["case_id"] for row in rows("select case_id from marts.fct_measurement")}
    assert medians == {MEASURED.case_id}


def test_an_alert_outlives_a_night_that_had_no_room(
    pipeline: Pipeline, spool: Spool, given: Given, reader: Warehouse
) -> None:
    broken = given.run(0, suite="seeded")
    spooled(spool, broken, {BEFORE: EXITED})
    a_short_night(spool, given.run(1, suite="seeded"))
    for run in (broken, given.run(1, suite="seeded")):
        pipeline.ingest(run)
        pipeline.judge(run)
    alerts = {alert["case_id"]: alert for alert in reader.alerts.find()}
    assert alerts[BEFORE.case_id]["state"] == "open"
    assert alerts[BEFORE.case_id]["last_run_id"] == broken.run_id


def came(
    given: Given,
    run: Run,
    case: Case,
    throughputs: tuple[float, ...],
    status: CaseStatus,
    elapsed_s: float | None,
) -> CaseToLoad:
    """A case that ended otherwise than well."""
    batch = given.came_back(run, case, throughputs or (1.0,), elapsed_s=elapsed_s)
    if not throughputs:
        batch = dataclasses.replace(batch, repeats=(), measurement=None)
    return dataclasses.replace(batch, status=status, reasons=(ENDED,))


def test_the_past_of_cases(
    loader: Warehouse,
    reader: Warehouse,
    given: Given,
    rows: Rows,
    warehouse: Database,
) -> None:
    good, bad, asked, half = (given.case(batch_size_per_device=b) for b in (1, 2, 4, 8))
    for night, seconds in enumerate((12.0, 24.0, 90.0)):
        run = given.run(night)
        whole = given.came_back(run, good, (1.0, 2.0, 3.0), elapsed_s=seconds)
        loader.runs.load(given.batch(run, whole))
    last = given.run(3)
    failed = came(given, last, bad, (), CaseStatus.FAILED, None)
    ended = came(given, last, half, (1.0,), CaseStatus.LEFT_OUT, 9.0)
    before = came(given, given.run(4), good, (), CaseStatus.LEFT_OUT, None)
    loader.runs.load(given.batch(last, failed, ended))
    loader.runs.load(given.batch(given.run(4), before))
    once = given.run(5, run_kind=RunKind.ON_DEMAND)
    loader.runs.load(given.batch(once, given.came_back(once, asked, (1.0,), elapsed_s=7.0)))

    nights = [given.run(night).started_at for night in range(4)]
    expected = {
        good.case_id: CaseHistory(24.0, 8.0, nights[2], "d1", noise=0.0),
        bad.case_id: CaseHistory(None, None, nights[3]),
        half.case_id: CaseHistory(None, None, nights[3]),
        asked.case_id: CaseHistory(7.0, 7.0, None, "d1"),
    }
    assert reader.runs.case_past("local") == expected
    assert reader.runs.case_past("elsewhere") == {}
    # Another protocol takes another time: what was measured by the old one no longer counts.
    changed = given.run(6)
    other = given.came_back(changed, good, (1.0,), elapsed_s=5.0, definition_digest="d2")
    loader.runs.load(given.batch(changed, other))
    expected[good.case_id] = CaseHistory(5.0, 5.0, changed.started_at, "d2", noise=0.0)
    assert reader.runs.case_past("local") == expected
    assert case_histories("local", lambda: connect(warehouse.loader)) == expected
