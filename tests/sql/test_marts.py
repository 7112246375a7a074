"""Given rows, expected rows: one test or more for each mart, and each ready-made question."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nightbench.core.history_file import HistoryFile
from nightbench.core.model import (
    Build,
    Case,
    CaseStatus,
    CaseToLoad,
    PlannedCase,
    Reason,
    ReasonCode,
    RunKind,
    Strategy,
    Verdict,
    VerdictKind,
)
from nightbench.warehouse.history_import import read_history
from nightbench.warehouse.references import load_references
from nightbench.warehouse.statements import SQL

EXITED = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1")


def test_fct_measurement_has_one_row_per_series_and_run(loader, given, rows):
    cases = (given.case(), given.case(nodes=2), given.case(batch_size_per_device=4))
    for night in range(2):
        run = given.run(night)
        one, two, bad = cases
        loader.runs.load(
            given.batch(
                run,
                given.came_back(run, one),
                given.came_back(
                    run,
                    two,
                    (18.0, 20.0, 19.0),
                    speedup=1.9,
                    efficiency=0.95,
                    baseline_case_id=one.case_id,
                ),
                given.came_back(run, bad, checks=(given.failed_check(),)),
                CaseToLoad(given.case(batch_size_per_device=8), 0, CaseStatus.FAILED),
                CaseToLoad(given.case(batch_size_per_device=16), 0, CaseStatus.CANCELLED),
                missing=(given.case(batch_size_per_device=32),),
            )
        )
    found = rows(
        "select case_id, run_id, cluster, nodes, throughput, throughput_min, throughput_max,"
        " throughput_mad, minibatches_per_s, speedup, efficiency, baseline_case_id, is_synthetic,"
        " node_names, sync, is_imported from marts.fct_measurement order by run_id, case_id"
    )
    assert [(r["run_id"], r["case_id"]) for r in found] == [
        (given.run(night).run_id, case.case_id) for night in range(2) for case in cases[:2]
    ]
    assert found[1] == {
        "case_id": cases[1].case_id,
        "run_id": given.run(0).run_id,
        "cluster": "local",
        "nodes": 2,
        "throughput": 19.0,
        "throughput_min": 18.0,
        "throughput_max": 20.0,
        "throughput_mad": 1.0,
        "minibatches_per_s": 19.0 / 4,
        "speedup": 1.9,
        "efficiency": 0.95,
        "baseline_case_id": cases[0].case_id,
        "is_synthetic": True,
        "node_names": ["n1", "n2"],
        "sync": None,
        "is_imported": False,
    }


def test_one_case_on_two_clusters_is_two_series(loader, given, rows):
    for cluster in ("local", "a100"):
        run = given.run(cluster=cluster, tail=cluster)
        loader.runs.load(given.batch(run, given.came_back(run, given.case())))
    assert rows("select cluster from marts.fct_measurement order by 1") == [
        {"cluster": "a100"},
        {"cluster": "local"},
    ]


def test_fct_repeat_keeps_what_the_median_leaves_out(loader, given, rows):
    run, case = given.run(), given.case()
    came = given.came_back(run, case, (10.0, 12.0), checks=(given.failed_check(repeat=2),))
    crashed = replace(
        given.repeat(3, 11.0),
        record=replace(
            given.repeat(3, 11.0).record,
            status="failed",
            reasons=(EXITED,),
            ranks=(),
            error="KeyError: 'lr'",
        ),
        summary=None,
    )
    loader.runs.load(given.batch(run, replace(came, repeats=(*came.repeats, crashed))))
    assert rows(
        "select repeat, status, reasons, is_quarantined, throughput, steps, median_step_s, samples"
        " from marts.fct_repeat order by repeat"
    ) == [
        {
            "repeat": 1,
            "status": "ok",
            "reasons": [],
            "is_quarantined": False,
            "throughput": 10.0,
            "steps": 4,
            "median_step_s": pytest.approx(0.2),
            "samples": 8.0,
        },
        {
            "repeat": 2,
            "status": "ok",
            "reasons": [],
            "is_quarantined": True,
            "throughput": 12.0,
            "steps": 4,
            "median_step_s": pytest.approx(2 / 12),
            "samples": 8.0,
        },
        {
            "repeat": 3,
            "status": "failed",
            "reasons": [EXITED.to_json()],
            "is_quarantined": False,
            "throughput": None,
            "steps": None,
            "median_step_s": None,
            "samples": None,
        },
    ]
    assert rows("select repeat, error from marts.fct_repeat where error is not null") == [
        {"repeat": 3, "error": "KeyError: 'lr'"}
    ]
    (row,) = loader.runs.results(run.run_id)
    assert row["error"] == loader.runs.case_error(run.run_id, case.case_id) == "KeyError: 'lr'"
    assert loader.runs.case_error(run.run_id, "another") is None


def test_a_sharded_median_says_over_how_many_devices_and_what(loader, given, rows):
    run, whole = given.run(), given.case(nodes=4)
    split = {"shard": 2, "shard_stage": 3, "tensor": 2, "context": 2, "expert": 2}
    cases = (whole, replace(whole, **split, state_precision="bf16"))
    loader.runs.load(given.batch(run, *(given.came_back(run, case) for case in cases)))
    for view in ("fct_measurement", "latest_median"):
        axes = "shard, shard_stage, tensor, context, expert, state_precision"
        found = rows(f"select {axes} from marts.{view} order by shard")
        assert [tuple(row.values()) for row in found] == [
            (1, None, 1, 1, 1, "fp32"),
            (2, 3, 2, 2, 2, "bf16"),
        ]


def test_a_batch_that_a_run_found_stands_in_its_series(loader, reader, given, rows):
    case = given.case(nodes=2, batch_size_per_device="max")
    for night, found in enumerate((64, 60)):
        run = given.run(night)
        loader.runs.load(
            given.batch(run, given.came_back(run, case, (240.0,), found_batch_size=found))
        )
    assert [
        (r["case_id"], r["batch_size_per_device"], r["global_batch_size"], r["minibatches_per_s"])
        for r in rows("select * from marts.fct_measurement where is_batch_found order by run_id")
    ] == [(case.case_id, 64, 128, 240 / 128), (case.case_id, 60, 120, 2.0)]
    assert "-bsmax-" in case.case_id
    (known,) = rows("select batch_size_per_device from staging.series")
    assert known["batch_size_per_device"] is None
    assert len(reader.series.history(case.case_id, "local")) == 2
    (shown,) = reader.runs.results(run_id=run.run_id)
    assert shown["batch_size_per_device"] == 60


def test_dim_cluster_describes_each_cluster_once(loader, given, rows):
    for night in range(2):
        loader.runs.load(given.batch(given.run(night)))
    loader.runs.plan(given.run(cluster="undescribed", tail="u"), ())
    found = rows("select * from marts.dim_cluster order by cluster")
    assert [(r["cluster"], r["runs"], r["node_names"], r["is_shared"]) for r in found] == [
        ("local", 2, ["n1", "n2"], True),
        ("undescribed", 1, None, None),
    ]
    assert found[0]["last_run_at"] == given.run(1).started_at


def test_fct_verdict_stands_beside_the_series(loader, given, rows):
    run, case = given.run(), given.case()
    loader.runs.load(given.batch(run, given.came_back(run, case, checks=(given.failed_check(),))))
    loader.series.store_verdicts(
        [Verdict(case.case_id, "local", run.run_id, VerdictKind.FAILED, "quarantined")]
    )
    assert rows(
        "select case_id, run_id, suite, framework, verdict, sentence, is_quarantined,"
        " framework_version from marts.fct_verdict"
    ) == [
        {
            "case_id": case.case_id,
            "run_id": run.run_id,
            "suite": "demo",
            "framework": "pytorch",
            "verdict": "failed",
            "sentence": "quarantined",
            "is_quarantined": True,
            "framework_version": "2.13.0+cpu",
        }
    ]


def test_fct_alert_has_the_life_of_an_alert(loader, given, rows):
    run, case = given.run(), given.case()
    loader.runs.load(given.batch(run, given.came_back(run, case)))
    loader.alerts.open(
        Verdict(case.case_id, "local", run.run_id, VerdictKind.REGRESSED, "-10 %", 9.0, 10.0, -0.1)
    )
    (opened,) = rows("select alert_id from marts.fct_alert")
    loader.alerts.end(opened["alert_id"], run.run_id, "over")
    (alert,) = rows("select * from marts.fct_alert")
    assert (alert["verdict"], alert["state"], alert["change"]) == ("regressed", "resolved", -0.1)
    assert alert["closed_at"] is not None


# --- references ---------------------------------------------------------------------------


def test_all_published_figures_and_empty_cells_are_there_once(connection, rows):
    counts = rows(
        "select is_empty, count(*) as cells from staging.reference_result group by 1 order by 1"
    )
    assert counts == [{"is_empty": False, "cells": 360}, {"is_empty": True, "cells": 143}]
    assert rows("select count(*) as n from marts.fct_reference") == [{"n": 503}]
    with connection:
        assert load_references(connection) == 0


@pytest.mark.usefixtures("own_warehouse")  # references change
def test_a_corrected_figure_replaces_the_old_one(connection, rows, tmp_path):
    shutil.copytree(SQL / "references", tmp_path / "references")
    published = tmp_path / "references" / "published_results.csv"
    published.write_text(published.read_text().replace(",15.44,", ",15.5,"))
    with connection:
        assert load_references(connection, tmp_path / "references") == 1
    assert len(rows("select 1 from raw.reference_result where value = 15.5")) == 1
    assert rows("select count(*) as n from raw.reference_result") == [{"n": 503}]


def test_references_speak_our_words_and_keep_theirs(rows):
    lines = rows(
        "select framework_text, framework, count(*) as cells from staging.reference_result"
        " group by 1, 2 order by 1, 2"
    )
    assert {(r["framework_text"], r["framework"]) for r in lines} == {
        ("maxtext", "external"),
        ("megatron_bridge", "external"),
        ("mxnet", "mxnet"),
        ("nemo", "external"),
        ("oneflow", "oneflow"),
        ("paddlepaddle", "paddle1"),
        ("paddlepaddle_fluid", "paddle1"),
        ("paddlepaddle_v2", "paddle_v2"),
        ("pytorch", "pytorch"),
        ("tensorflow", "tensorflow1"),
        ("tensorflow", "tensorflow2"),
        ("torchtitan", "external"),
    }
    amp = rows(
        "select distinct precision, precision_text, compiler from staging.reference_result"
        " where precision_text = 'amp' order by compiler"
    )
    assert [(r["precision"], r["compiler"]) for r in amp] == [("fp16", "none"), ("fp16", "xla")]
    dgc = rows(
        "select link_gbit_per_s, compression from staging.reference_result"
        " where figure = 'dgc under different bandwidth' order by 1, 2"
    )
    assert [(r["link_gbit_per_s"], r["compression"]) for r in dgc] == [
        (speed, compression) for speed in (1, 10, 100) for compression in ("dgc", "none")
    ]
    doubtful = rows(
        "select count(*) as n from staging.reference_result where is_unit_doubtful and unit is null"
    )
    assert doubtful == [{"n": 12}]


def test_fct_reference_stands_beside_what_was_measured(loader, given, rows):
    run = given.run()
    axes = {
        "framework": "tensorflow1",
        "batch_size_per_device": 128,
        "scale": "full",
        "devices_per_node": 8,
    }
    full = given.case(nodes=4, trainers=32, **axes)
    smoke = replace(full, scale="smoke")
    other_precision = replace(full, precision="fp16")
    loader.runs.load(
        given.batch(
            run,
            given.came_back(run, full, (5000.0,)),
            given.came_back(run, smoke, (50.0,)),
            given.came_back(run, other_precision, (9000.0,)),
        )
    )
    beside = rows(
        "select case_id, cluster, published_value, published_device, unit, measured_value,"
        " measured_is_synthetic, figure from marts.fct_reference where case_id is not null"
        " and not is_empty and figure = 'fp32 bsz=128'"
    )
    assert beside == [
        {
            "case_id": full.case_id,
            "cluster": "local",
            "published_value": beside[0]["published_value"],
            "published_device": "V100-SXM2-16GB",
            "unit": "images/s",
            "measured_value": 5000.0,
            "measured_is_synthetic": True,
            "figure": "fp32 bsz=128",
        }
    ]
    assert beside[0]["published_value"] > 1000
    cases = rows("select distinct case_id from marts.fct_reference where case_id is not null")
    assert smoke.case_id not in {row["case_id"] for row in cases}


def test_trainers_that_share_nodes_stand_beside_no_figure_of_nodes(loader, given, rows):
    run = given.run()
    case = Case(
        workload="word2vec",
        framework="paddle1",
        strategy=Strategy.PARAMETER_SERVER,
        nodes=8,
        trainers=8,
        pservers=8,
        batch_size_per_device=100,
        sync="async",
    )
    shared = replace(case, nodes=4, devices_per_node=2)
    came_back = [
        given.came_back(run, each, (4000.0,), nodes=("n1",), unit="words")
        for each in (case, shared)
    ]
    loader.runs.load(given.batch(run, *came_back))
    beside = rows(
        "select case_id, nodes, trainers from marts.fct_reference"
        " where workload = 'word2vec' and case_id is not null and not is_empty"
    )
    assert beside == [{"case_id": case.case_id, "nodes": 8, "trainers": 8}]


def test_neither_a_graph_nor_shared_nodes_stand_where_the_original_states_neither(
    loader, given, rows
):
    run = given.run()
    grid = Case(
        workload="vgg16_cifar",
        framework="paddle1",
        strategy=Strategy.PARAMETER_SERVER,
        nodes=4,
        devices_per_node=5,
        trainers=20,
        pservers=20,
        batch_size_per_device=64,
    )
    alone = replace(grid, nodes=20, devices_per_node=1)
    dlperf = given.case(framework="mxnet", batch_size_per_device=128, scale="full")
    graph = replace(dlperf, execution="graph")
    cases = (grid, alone, dlperf, graph)
    came_back = [given.came_back(run, each, (90.0,), efficiency=0.9) for each in cases]
    loader.runs.load(given.batch(run, *came_back))
    beside = rows("select distinct case_id from marts.fct_reference where case_id is not null")
    assert {row["case_id"] for row in beside} == {alone.case_id, dlperf.case_id}


def test_an_empty_cell_is_filled_by_a_measurement_in_its_unit(loader, given, rows):
    run = given.run()
    case = Case(
        workload="vgg16_cifar",
        framework="paddle1",
        strategy=Strategy.PARAMETER_SERVER,
        nodes=100,
        trainers=100,
        pservers=20,
        batch_size_per_device=64,
    )
    loader.runs.load(
        given.batch(run, given.came_back(run, case, (6400.0,), nodes=("n1",), efficiency=0.8))
    )
    filled = rows(
        "select metric, unit, measured_value, is_empty from marts.fct_reference"
        " where case_id = %s order by metric, unit",
        case.case_id,
    )
    # 6400 images/s at a global batch of 64 x 100 is one mini-batch per second.
    assert [(r["metric"], r["unit"], r["measured_value"], r["is_empty"]) for r in filled] == [
        ("scaling_efficiency", "percent", 80.0, True),
        ("throughput", "mini-batches/s", 1.0, True),
    ]


# --- ready-made questions -----------------------------------------------------------------


def test_the_scaling_table(loader, given, ask):
    one, two = given.case(), given.case(nodes=2)
    for night in range(2):
        run = given.run(night)
        loader.runs.load(
            given.batch(
                run,
                given.came_back(run, one, (10.0,)),
                given.came_back(
                    run,
                    two,
                    (19.0 + night,),
                    speedup=(19.0 + night) / 10,
                    efficiency=(19.0 + night) / 20,
                    baseline_case_id=one.case_id,
                ),
            )
        )
    found = ask("scaling")
    assert [
        (r["devices"], float(r["throughput"]), r["speedup"] and float(r["speedup"])) for r in found
    ] == [("1x1", 10.0, None), ("2x1", 20.0, 2.0)]
    assert {r["run_id"] for r in found} == {given.run(1).run_id}


def test_the_framework_comparison_ranks_equal_work_only(loader, given, ask):
    run = given.run()
    cases = {
        "pytorch": (given.case(), 10.0),
        "paddle3": (given.case(framework="paddle3"), 8.0),
        "jax": (given.case(framework="jax", precision="bf16"), 30.0),
    }
    loader.runs.load(
        given.batch(run, *(given.came_back(run, case, (t,)) for case, t in cases.values()))
    )
    found = ask("framework_comparison")
    assert [(r["framework"], float(r["relative_to_fastest"])) for r in found] == [
        ("pytorch", 1.0),
        ("paddle3", 0.8),
    ]


def test_the_batch_sizes(loader, given, ask):
    run = given.run()
    cases = {b: given.case(batch_size_per_device=b) for b in (2, 4, 8)}
    loader.runs.load(
        given.batch(run, *(given.came_back(run, case, (10.0 * b,)) for b, case in cases.items()))
    )
    gains = [(r["batch_size_per_device"], r["gain_over_smaller"]) for r in ask("batch_sizes")]
    assert [(b, g and float(g)) for b, g in gains] == [(2, None), (4, 2.0), (8, 2.0)]


def _nights_ago(given, days, **more):
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(days=days)
    return replace(given.run(days, **more), started_at=at)


def test_the_series_history(loader, given, ask):
    case = given.case()
    for days, throughput in ((40, 1.0), (20, 99.0), (3, 10.0), (2, 11.0), (1, 21.0)):
        run = _nights_ago(given, days)
        loader.runs.load(given.batch(run, given.came_back(run, case, (throughput,))))
    found = ask("series_history")
    assert [float(r["throughput"]) for r in found] == [10.0, 11.0, 21.0]
    # The median before: 99; of 99 and 10; of 99, 10 and 11.
    assert [round(float(r["change_percent"]), 1) for r in found] == [-89.9, -79.8, 90.9]


def _two_lines_on_two_nodes(given):
    return {
        (framework, node): given.case(framework=framework, batch_size_per_device=2 + i)
        for framework in ("pytorch", "paddle3")
        for i, node in enumerate(("n1", "n2"))
    }


def _load_nights(loader, given, tonight):
    cases = _two_lines_on_two_nodes(given)
    for night in range(4):
        run = given.run(night)
        came = []
        for (framework, node), case in cases.items():
            changed = tonight(framework, node) if night == 3 else {}
            factor = changed.pop("factor", 1.0)
            version = changed.pop("version", "1.0")
            came.append(
                given.came_back(
                    run, case, (10.0 * factor,), nodes=(node,), framework_version=version
                )
            )
        loader.runs.load(given.batch(run, *came))


def test_a_sick_node_drags_every_line_that_runs_on_it(loader, given, ask):
    _load_nights(loader, given, lambda _, node: {"factor": 0.8 if node == "n2" else 1.0})
    found = {r["name"]: r for r in ask("sick_node_or_slow_release")}
    changes = {name: float(row["median_change_percent"]) for name, row in found.items()}
    assert changes == {"n1": 0.0, "n2": -20.0, "paddle3 1.0": -10.0, "pytorch 1.0": -10.0}
    assert (found["n2"]["series"], found["n2"]["slower_by_3_percent"]) == (2, 2)
    assert not found["pytorch 1.0"]["is_new"]


def test_a_slow_release_drags_its_line_on_every_node(loader, given, ask):
    _load_nights(
        loader,
        given,
        lambda framework, _: {"factor": 0.8, "version": "2.0"} if framework == "pytorch" else {},
    )
    found = {r["name"]: r for r in ask("sick_node_or_slow_release")}
    changes = {name: float(row["median_change_percent"]) for name, row in found.items()}
    assert changes == {"n1": -10.0, "n2": -10.0, "paddle3 1.0": 0.0, "pytorch 2.0": -20.0}
    assert found["pytorch 2.0"]["is_new"]


# --- imported history ---------------------------------------------------------------------

HEADER = "at,cluster,workload,framework,strategy,nodes,batch_size_per_device,scale,throughput,unit"


def _csv(tmp_path, *lines, header=HEADER):
    path = tmp_path / "history.csv"
    path.write_text("\n".join((header, *lines)) + "\n", encoding="utf-8")
    return path


def test_imported_nights_feed_baselines(loader, reader, given, rows, tmp_path):
    case = given.case(nodes=2)
    line = "local,resnet50_v1.5,pytorch,collective,2,2,smoke"
    path = _csv(
        tmp_path,
        f"2026-02-01T01:00:00Z,{line},18.5,images",
        f"2026-02-02T02:00:00+01:00,{line},19.5,images",
    )
    assert loader.runs.store_history(read_history(HistoryFile(path))) == (2, 2)
    assert loader.runs.store_history(read_history(HistoryFile(path))) == (2, 0)
    history = reader.series.history(case.case_id, "local")
    assert [(p.value, p.at.isoformat()) for p in history] == [
        (18.5, "2026-02-01T01:00:00+00:00"),
        (19.5, "2026-02-02T01:00:00+00:00"),
    ]
    # Unknown, not another definition: it must not cut the series.
    assert {p.definition_digest for p in history} == {None}
    assert rows("select distinct run_kind, is_imported from marts.fct_measurement") == [
        {"run_kind": "nightly", "is_imported": True}
    ]
    assert reader.runs.latest() is None
    assert reader.runs.find() == []
    assert len(reader.runs.find(imported=True)) == 2


def test_a_corrected_line_replaces_the_old_one(loader, reader, given, tmp_path):
    line = "2026-02-01T01:00:00Z,local,resnet50_v1.5,pytorch,collective,1,2,smoke"
    for value in ("18.5", "28.5"):
        entries = read_history(HistoryFile(_csv(tmp_path, f"{line},{value},images")))
        assert loader.runs.store_history(entries) == (1, 1)
    (point,) = reader.series.history(given.case().case_id, "local")
    assert point.value == 28.5


def test_what_was_planned_and_never_loaded(loader, given, rows):
    run, case = given.run(run_kind=RunKind.ON_DEMAND), given.case()
    planned = PlannedCase(case, Build("pytorch", source="wheel", digest="ab" * 32), "d1", "images")
    loader.runs.plan(run, [planned])
    assert rows("select build_id, source from raw.build order by build_id") == [
        {"build_id": "pytorch-cpu-wheel-abababab", "source": "wheel"}
    ]
    assert rows("select 1 from marts.fct_measurement") == []
