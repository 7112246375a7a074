"""Loading: idempotent, whole or not at all, quarantine with reasons, verdicts and alerts."""

from __future__ import annotations

import ast
import json
import math
import re
from contextlib import closing
from dataclasses import replace
from statistics import median

import psycopg2
import pytest

from nightbench.core.errors import WarehouseRefused
from nightbench.core.model import (
    CaseStatus,
    CaseToLoad,
    CheckResult,
    PlannedCase,
    Reason,
    ReasonCode,
    Run,
    RunKind,
    Severity,
    Verdict,
    VerdictKind,
)
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.exports import EXPORTS
from nightbench.warehouse.statements import SQL, queries

NODES = ["control", "node_event", "node_preflight", "node_state", "node_state_change"]
"""Of the health of nodes: kept by `NodeRepository`, and never by the loader."""
TABLES = [
    *("alert", "alert_event", "build", "case", "failed_check", "cluster", "fingerprint"),
    *("measurement", "measurement_node", "planned_case", "reference_result", "repeat"),
    *("repeat_rank", "run", "series", "verdict"),
]
OTHERS = [
    *("alert_cause", "alert_rank", "deadline_check"),
    *("delivery", "detector_grade", "experiment"),
    *("drift", "lock", "message", "month", "night", "night_pair", "noise_event"),
    *("shared_change", "suite_watch"),
]
"""Of what is made of results: their keepers have tests of their own."""

BROKEN = Reason(ReasonCode.AGENT_ERROR, "n1", observed="it broke\x00")


def _everything(rows):
    """All rows of raw with the transactions that wrote them."""
    every = "select tableoid, ctid, xmin::text, t.* from raw.{} as t order by 1, 2"
    return {table: rows(every.format(table)) for table in TABLES}


def _full(given, night=0):
    run = given.run(night)
    one, two, bad, gone, lost = (given.case(batch_size_per_device=b) for b in (2, 4, 8, 16, 32))
    warning = CheckResult("measurement", None, "spread", Severity.WARN, False, "20 %", "5 %")
    return given.batch(
        run,
        given.came_back(run, one, checks=(warning,)),
        given.came_back(run, two, checks=(given.failed_check(repeat=3),)),
        given.came_back(run, bad, checks=(given.failed_check(),)),
        CaseToLoad(gone, 0, CaseStatus.FAILED, reasons=(BROKEN,)),
        missing=(lost,),
    )


def test_the_list_of_tables_is_whole(rows):
    found = rows(
        "select c.relname as tablename from pg_class as c where c.relkind in ('r', 'p')"
        " and c.relnamespace = 'raw'::regnamespace and not c.relispartition order by 1"
    )
    assert [row["tablename"] for row in found] == sorted([*TABLES, *NODES, *OTHERS])


def test_loading_twice_changes_nothing(loader, given, rows):
    batch = _full(given)
    loader.runs.plan(batch.run, batch.planned, batch.cluster)
    assert loader.runs.load(batch) is True
    before = _everything(rows)
    assert {t: len(found) for t, found in before.items()} == {
        "alert": 0,
        "alert_event": 0,
        "build": 1,
        "case": 5,
        "failed_check": 3,
        "cluster": 1,
        "fingerprint": 2,
        "measurement": 4,
        "measurement_node": 3,
        "planned_case": 5,
        "reference_result": 503,
        "repeat": 9,
        "repeat_rank": 9,
        "run": 1,
        "series": 5,
        "verdict": 0,
    }
    assert loader.runs.load(batch) is False
    loader.runs.plan(batch.run, batch.planned, batch.cluster)
    assert _everything(rows) == before


def test_a_planned_run_says_that_nothing_came_back_yet(loader, reader, given):
    run, case = given.run(), given.case()
    planned = PlannedCase(case, given.build, "d1", "images")
    loader.runs.plan(run, [planned])
    assert reader.runs.planned_cases(run.run_id) == [planned]
    assert reader.runs.get(run.run_id) == run
    (row,) = reader.runs.find()
    assert (row["planned"], row["measured"], row["loaded_at"]) == (1, 0, None)
    (standing,) = reader.runs.measured(run.run_id)
    assert (standing.status, standing.point) == (None, None)


def test_a_row_that_is_refused_keeps_the_whole_run_out(loader, given, rows):
    run = given.run()
    good = given.came_back(run, given.case())
    bad = given.came_back(run, given.case(batch_size_per_device=4), throughput=math.nan)
    with pytest.raises(WarehouseRefused, match=r"measurement_throughput_check.*Nothing was stored"):
        loader.runs.load(given.batch(run, good, bad))
    stored = {table for table, found in _everything(rows).items() if found}
    assert stored == {"reference_result"}


def test_the_same_broken_figure_is_kept_in_quarantine(loader, given, rows):
    run = given.run()
    bad = given.came_back(
        run, given.case(), throughput=math.nan, minimum=-1.0, checks=(given.failed_check(),)
    )
    loader.runs.load(given.batch(run, bad))
    assert rows("select throughput, n, status from raw.measurement") == [
        {"throughput": None, "n": 3, "status": "ok"}
    ]
    assert rows("select quarantine_reasons from raw.measurement") == [
        {"quarantine_reasons": [given.failed_check().reason.to_json()]}
    ]
    assert rows("select * from marts.fct_measurement") == []


def test_a_broken_repeat_says_what_was_found(loader, given, rows):
    run = given.run()
    case = given.came_back(run, given.case())
    broken = replace(case.repeats[0].summary, throughput=math.inf)
    repeats = (replace(case.repeats[0], summary=broken), *case.repeats[1:])
    loader.runs.load(given.batch(run, replace(case, repeats=repeats)))
    (row,) = rows("select throughput, reasons from raw.repeat where repeat = 1")
    assert row["throughput"] is None
    figure = Reason(ReasonCode.BAD_FIGURE, subject="throughput", observed="inf")
    assert row["reasons"] == [figure.to_json()]


def test_repeats_hold_the_slowest_ranks_steps_and_every_rank(loader, given, rows):
    run, case = given.run(), given.case(nodes=2)
    came_back = given.came_back(run, case)
    loader.runs.load(given.batch(run, came_back))
    slowest = came_back.repeats[0].record.ranks[1]
    assert rows("select slowest_rank, steps, median_step_s from raw.repeat where repeat = 1") == [
        {
            "slowest_rank": "trainer-1",
            "steps": len(slowest.step_seconds),
            "median_step_s": median(slowest.step_seconds),
        }
    ]
    (rank,) = rows("select * from raw.repeat_rank where repeat = 1 and process = 'trainer-1'")
    assert rank["window_wall_s"] == slowest.window_wall_s
    assert rank["step_seconds"] == list(slowest.step_seconds)
    assert rank["step_end_s"] == list(slowest.step_end_s)
    assert rank["versions"] == {"python": "3.11.7", "pytorch": "2.13.0+cpu"}
    assert rank["parameters"] == 25_557_032
    assert (rank["fingerprint_id"], rank["clock_offset_s"]) == ("fp-n2", -12.5)
    (node,) = rows("select * from raw.measurement_node where node = 'n2'")
    assert node["fingerprint_id"] == "fp-n2"


def test_throughput_can_be_recomputed_from_what_is_stored(loader, given, rows):
    run = given.run()
    loader.runs.load(given.batch(run, given.came_back(run, given.case(nodes=2))))
    recomputed = rows(
        "select repeat, sum(samples) / max(window_wall_s) as throughput from staging.repeat_rank"
        " group by repeat order by repeat"
    )
    assert [row["throughput"] for row in recomputed] == pytest.approx([10.0, 11.0, 12.0])


def test_losses_that_are_not_there_are_null(loader, given, rows):
    run = given.run()
    case = given.came_back(run, given.case(), throughputs=(10.0,))
    record = case.repeats[0].record
    rank = replace(record.ranks[0], loss_first=None, loss_window=(6.8, None))
    repeat = replace(case.repeats[0], record=replace(record, ranks=(rank,)))
    loader.runs.load(given.batch(run, replace(case, repeats=(repeat,))))
    assert rows("select loss_first, loss_window from raw.repeat_rank") == [
        {"loss_first": None, "loss_window": [6.8, None]}
    ]


def test_a_second_generation_replaces_the_first_in_the_marts(loader, given, rows):
    run, case = given.run(), given.case()
    first = given.came_back(run, case)
    loader.runs.load(given.batch(run, first))
    second = given.came_back(run, case, (20.0, 21.0, 22.0), generation=1)
    loader.runs.load(given.batch(run, first, second))
    assert rows("select throughput from marts.fct_measurement") == [{"throughput": 21.0}]
    assert len(rows("select 1 from raw.measurement")) == 2


def test_a_case_that_was_not_planned_is_refused(loader, given, rows):
    run = given.run()
    batch = given.batch(run, given.came_back(run, given.case()))
    with pytest.raises(WarehouseRefused, match="were not planned"):
        loader.runs.load(replace(batch, planned=()))
    assert rows("select * from raw.run") == []


def test_two_loads_of_one_run_at_once(warehouse, given, rows):
    from concurrent.futures import ThreadPoolExecutor

    batch = _full(given)

    def load(_):
        with closing(connect(warehouse.loader)) as connection:
            return Warehouse(connection).runs.load(batch)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(load, range(2))) == [False, True]


# --- verdicts and alerts ------------------------------------------------------------------


def _verdict(run: Run, case, kind=VerdictKind.REGRESSED, change=-0.1) -> Verdict:
    return Verdict(
        case_id=case.case_id,
        cluster=run.cluster,
        run_id=run.run_id,
        kind=kind,
        sentence=f"throughput {change:+.0%} against 12 nights",
        value=9.0,
        baseline=10.0,
        change=change,
        history=12,
    )


def test_verdicts_are_stored_once_and_read_back(loader, reader, given):
    run, case = given.run(), given.case()
    loader.runs.load(given.batch(run, given.came_back(run, case)))
    verdict = _verdict(run, case)
    assert loader.series.store_verdicts([verdict]) == 1
    assert loader.series.store_verdicts([verdict]) == 0
    assert reader.series.verdicts(run.run_id) == [verdict]
    changed = replace(verdict, kind=VerdictKind.OK, change=None)
    assert loader.series.store_verdicts([changed]) == 1
    assert reader.series.verdicts(run.run_id) == [changed]


def test_a_series_has_one_live_alert(loader, reader, given):
    case, nights = given.case(), [given.run(n) for n in range(4)]
    for run in nights:
        loader.runs.load(given.batch(run, given.came_back(run, case)))
    first, second, third, fourth = (_verdict(run, case) for run in nights)
    assert loader.alerts.open(first) is True
    assert loader.alerts.open(first) is False
    assert loader.alerts.open(replace(second, change=-0.2, sentence="worse")) is False
    (alert,) = reader.alerts.find()
    assert (alert["opened_run_id"], alert["last_run_id"]) == (first.run_id, second.run_id)
    assert (alert["state"], alert["sentence"], alert["change"]) == ("open", "worse", -0.2)

    assert loader.alerts.end(alert["alert_id"], third.run_id, "over") is True
    assert loader.alerts.end(alert["alert_id"], third.run_id, "over") is False
    assert reader.alerts.find() == []
    # The run that opened it is judged again: no new alert for the same night.
    assert loader.alerts.open(first) is False
    assert loader.alerts.open(fourth) is True
    states = [a["state"] for a in reader.alerts.find(states=None)]
    assert states == ["open", "resolved"]


def test_an_alert_is_told_once(loader, reader, given):
    run, case = given.run(), given.case()
    loader.runs.load(given.batch(run, given.came_back(run, case)))
    loader.alerts.open(_verdict(run, case))
    (untold,) = reader.messages.read("unnotified_alerts", suite=run.suite, cluster=run.cluster)
    assert (untold["case_id"], untold["kind"]) == (case.case_id, "alert")
    item = (untold["kind"], untold["subject"], untold["news"])
    assert loader.messages.settle([item]) == 1
    assert loader.messages.settle([item]) == 0
    assert reader.messages.read("unnotified_alerts", suite=run.suite, cluster=run.cluster) == []
    (alert,) = reader.alerts.find()
    assert alert["notified_at"] is not None


def test_the_database_itself_refuses_a_second_live_alert(loader, given, warehouse):
    run, case = given.run(), given.case()
    loader.runs.load(given.batch(run, given.came_back(run, case)))
    later = given.run(1)
    loader.runs.load(given.batch(later, given.came_back(later, case)))
    loader.alerts.open(_verdict(run, case))
    with (
        closing(psycopg2.connect(warehouse.owner)) as owner,
        pytest.raises(psycopg2.errors.UniqueViolation, match="alert_one_open_for_each_series"),
    ):
        owner.cursor().execute(
            "insert into raw.alert"
            " (case_id, cluster, kind, sentence, opened_run_id, last_run_id, news_run_id)"
            " values (%s, 'local', 'regressed', 'x', %s, %s, %s)",
            (case.case_id, *[later.run_id] * 3),
        )


# --- reading ------------------------------------------------------------------------------


def test_a_series_history_is_nightly_good_and_oldest_first(loader, reader, given):
    case = given.case()
    for night, (kind, throughput, checks) in enumerate(
        [
            (RunKind.NIGHTLY, 10.0, ()),
            (RunKind.ON_DEMAND, 99.0, ()),
            (RunKind.NIGHTLY, 50.0, (given.failed_check(),)),
            (RunKind.NIGHTLY, 11.0, ()),
            (RunKind.NIGHTLY, 12.0, ()),
        ]
    ):
        run = given.run(night, run_kind=kind)
        loader.runs.load(given.batch(run, given.came_back(run, case, (throughput,), checks=checks)))
    history = reader.series.history(case.case_id, "local", before=given.run(4).started_at)
    assert [(p.at, p.value, p.run_id) for p in history] == [
        (given.run(0).started_at, 10.0, given.run(0).run_id),
        (given.run(3).started_at, 11.0, given.run(3).run_id),
    ]
    assert (history[0].n, history[0].definition_digest) == (1, "d1")
    assert history[0].framework_version == "2.13.0+cpu"
    every = reader.series.history(case.case_id, "local", kinds=tuple(RunKind))
    assert [p.value for p in every] == [10.0, 99.0, 11.0, 12.0]
    assert reader.series.history(case.case_id, "elsewhere") == []


def test_how_each_planned_case_stands(loader, reader, given):
    batch = _full(given)
    loader.runs.load(batch)
    standing = {m.case_id: m for m in reader.runs.measured(batch.run.run_id)}
    one, two, bad, gone, lost = (p.case_id for p in batch.planned)
    assert standing[one].point.value == 11.0
    assert standing[two].point.value == 11.0
    assert standing[bad].point is None
    assert standing[bad].quarantine_reasons == (given.failed_check().reason,)
    assert standing[gone].status is CaseStatus.FAILED
    assert standing[gone].reasons == (replace(BROKEN, observed="it broke\\x00"),)
    assert standing[lost].status is None
    (run,) = reader.runs.find(suite="demo", cluster="local")
    counts = [run[k] for k in ("planned", "measured", "failed", "quarantined")]
    assert counts == [5, 2, 1, 1]
    assert reader.runs.get(batch.run.run_id).run_kind is RunKind.NIGHTLY
    assert reader.runs.get("unknown") is None


def test_results_rows_show_every_planned_case_with_its_mark(loader, reader, given):
    batch = _full(given)
    loader.runs.load(batch)
    case = batch.cases[0].case
    loader.series.store_verdicts([_verdict(batch.run, case, VerdictKind.OK, 0.01)])
    results = {row["case_id"]: row for row in reader.runs.results()}
    one, _, bad, gone, lost = (p.case_id for p in batch.planned)
    expected = {
        "cluster": "local",
        "framework": "pytorch",
        "framework_version": "2.13.0+cpu",
        "workload": "resnet50_v1.5",
        "strategy": "collective",
        "nodes": 1,
        "devices_per_node": 1,
        "trainers": 1,
        "pservers": 0,
        "batch_size_per_device": 2,
        "precision": "fp32",
        "throughput": 11.0,
        "unit": "images",
        "n": 3,
        "spread": pytest.approx(2 / 11),
        "speedup": None,
        "efficiency": None,
        "verdict": "ok",
        "quarantined": False,
        "status": "ok",
    }
    assert {k: results[one][k] for k in expected} == expected
    assert (results[bad]["quarantined"], results[bad]["throughput"]) == (True, 11.0)
    assert results[gone]["status"] == "failed"
    assert (results[lost]["status"], results[lost]["unit"], results[lost]["n"]) == (
        "missing",
        "images",
        0,
    )
    json.dumps(list(results.values()), default=str)
    assert reader.runs.results("no-such-run") == []


def test_latest_medians_take_the_newest_of_each_series_that_is_measured_for_itself(
    loader, rows, given
):
    one, two = given.case(), given.case(nodes=2)
    kinds = (RunKind.NIGHTLY, RunKind.ON_DEMAND, RunKind.DRILL, RunKind.CONFIRM)
    for night, kind in enumerate(kinds):
        run = given.run(night, run_kind=kind)
        cases = (one, two) if night == 0 else (one,)
        loader.runs.load(
            given.batch(run, *(given.came_back(run, c, (10.0 + night,)) for c in cases))
        )
    found = rows("select case_id, throughput from marts.latest_median")
    assert {r["case_id"]: r["throughput"] for r in found} == {
        one.case_id: 11.0,
        two.case_id: 10.0,
    }


# --- the statements -----------------------------------------------------------------------


def test_every_statement_is_used_by_the_package():
    package = "".join(
        path.read_text() for path in (SQL.parent / "plugins" / "nightbench").rglob("*.py")
    )
    names = [name for name in queries().available_queries if not name.endswith("_cursor")]
    assert len(names) > 100
    exported = {f"export_{name}" for name in EXPORTS}
    unused = [n for n in names if f'"{n}"' not in package and f"().{n}" not in package]
    assert set(unused) == exported


def test_statements_are_read_with_the_parameters_that_they_declare():
    text = "".join(path.read_text() for path in (SQL / "queries").glob("*.sql"))
    declared = {
        name: set(filter(None, re.split(r"[,\s]+", parameters)))
        for name, parameters in re.findall(r"^-- name: (\w+)\(([^)]*)\)", text, re.M)
    }
    calls = 0
    for path in (SQL.parent / "plugins" / "nightbench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="read" | "first" | "_rows" | "_tuples"),
                    args=[ast.Constant(value=str(name))],
                    keywords=keywords,
                ):
                    calls += 1
                    given = {each.arg for each in keywords}
                    # `**` brings more, which nobody sees before the call.
                    known = declared[name] if None in given else given
                    assert given - {None} | known == declared[name], f"{path}:{node.lineno}"
    assert calls > 100


def test_figures_from_a_log_are_loaded_without_what_it_does_not_state(given, loader, rows):
    run = given.run()
    batch = given.came_back(run, given.case())
    unstated = {"loss_first": None, "loss_window": (), "weights_digest": None, "parameters": None}
    repeats = tuple(
        replace(
            each,
            record=replace(
                each.record,
                ranks=tuple(
                    replace(rank, precision=None, versions={"external": "0123456789ab"}, **unstated)
                    for rank in each.record.ranks
                ),
            ),
            summary=replace(each.summary, loss_first=None, loss_median=None),
        )
        for each in batch.repeats
    )
    loader.runs.load(given.batch(run, replace(batch, repeats=repeats)))
    found = rows("select distinct precision, loss_first, parameters, versions from raw.repeat_rank")
    assert [dict(row) for row in found] == [
        {
            "precision": None,
            "loss_first": None,
            "parameters": None,
            "versions": {"external": "0123456789ab"},
        }
    ]
