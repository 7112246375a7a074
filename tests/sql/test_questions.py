"""The ready-made questions: what counts, and a decoy for each rule that says what does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.sql.conftest import Ask
from tests.sql.given import NIGHT, PYTORCH

from nightbench.core.model import (
    Build,
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
from nightbench.warehouse.statements import SQL

LONG_AGO = "'2000-01-01'::timestamptz"
FILES = sorted(path.stem for path in (SQL / "queries" / "analysts").glob("*.sql"))
WHEEL = Build("pytorch", source="wheel", digest="ab" * 32)


def quoted(text: str) -> str:
    return f"'{text}'"


def load(loader, run, given, *cases, **more):
    loader.runs.load(given.batch(run, *cases, **more))
    return run


def private(given, run, case, throughputs):
    """A batch with one result of a build that was named for the run."""
    planned = PlannedCase(case, WHEEL, "d1", "images", private_build=True)
    came = given.came_back(run, case, throughputs, build=WHEEL)
    return replace(given.batch(run, came), planned=(planned,))


@pytest.mark.parametrize("name", FILES)
def test_a_question_answers_in_an_empty_warehouse(ask: Ask, name):
    with_references = {"published_references": {"with_unmatched": "true"}}
    rows = ask(name, **with_references.get(name, {}))
    assert len(rows) == (503 if name in with_references else 0)


# --- newest, history, regressions -----------------------------------------------------------


def test_the_newest_medians(loader, given, ask: Ask):
    case, other = given.case(), given.case(workload="vgg16", framework="paddle3")
    first = given.run(0)
    load(loader, first, given, given.came_back(first, case, (9.0,)))
    newest = given.run(1)
    load(loader, newest, given, given.came_back(newest, case), given.came_back(newest, other))
    bad = given.run(2)
    refused = given.came_back(bad, case, (99.0,), checks=(given.failed_check(),))
    load(loader, bad, given, refused)
    for night, kind in ((3, RunKind.DRILL), (4, RunKind.CONFIRM)):
        run = given.run(night, run_kind=kind)
        load(loader, run, given, given.came_back(run, case, (99.0,)))
    trial = given.run(5)
    loader.runs.load(private(given, trial, case, (99.0,)))
    loader.alerts.open(
        Verdict(case.case_id, "local", newest.run_id, VerdictKind.REGRESSED, "slow", 9.0, 10.0)
    )
    found = ask("latest_medians", workload="'resnet50_v1.5'")
    assert [(r["case_id"], float(r["throughput"]), r["run_id"]) for r in found] == [
        (case.case_id, 11.0, newest.run_id)
    ]
    assert found[0]["alert_state"] == "open"
    assert [r["case_id"] for r in ask("latest_medians", framework="'paddle3'")] == [other.case_id]
    assert len(ask("latest_medians")) == 2
    assert ask("latest_medians", cluster="'elsewhere'") == []


def test_a_series_says_what_changed_from_night_to_night(loader, given, ask: Ask, rows):
    case = given.case()
    nights = [
        ("n1", "550.1", {}),
        ("n1", "550.1", {"framework_version": "2.14"}),
        ("n1", "560.2", {"framework_version": "2.14"}),
        ("n2", "560.2", {"framework_version": "2.14", "definition_digest": "d2"}),
    ]
    for night, (node, driver, changed) in enumerate(nights):
        run = given.run(night, code_digest="c1" if night < 3 else "c2")
        fingerprint = f"fp-{node}-{driver}"
        came = given.came_back(run, case, nodes=(node,), fingerprint_id=fingerprint, **changed)
        came = replace(
            came,
            repeats=tuple(
                replace(r, record=replace(r.record, fingerprints={node: fingerprint}))
                for r in came.repeats
            ),
        )
        document = {"schema": "nightbench.fingerprint/1", "gpus": [{"index": 0, "driver": driver}]}
        batch = replace(given.batch(run, came), fingerprints={fingerprint: document})
        loader.runs.load(batch)
    decoy = given.run(4)
    load(loader, decoy, given, given.came_back(decoy, given.case(nodes=2)))
    period = {"since": "'2026-03-01'::timestamptz", "until": "'2026-03-10'::timestamptz"}
    found = ask("series_history", case_id=quoted(case.case_id), **period)
    assert [(r["framework_version"], r["driver"], r["changed"]) for r in found] == [
        ("2.13.0+cpu", "550.1", None),
        ("2.14", "550.1", "version"),
        ("2.14", "560.2", "state of the nodes"),
        ("2.14", "560.2", "definition, code, nodes"),
    ]


def test_what_regressed_in_a_period(loader, given, ask: Ask):
    cases = {
        name: given.case(batch_size_per_device=2 + i)
        for i, name in enumerate(("small", "large", "improved", "earlier"))
    }
    earlier, run = given.run(0), given.run(10)
    for each in (earlier, run):
        load(loader, each, given, *(given.came_back(each, case) for case in cases.values()))
    for name, kind, change in (
        ("small", VerdictKind.REGRESSED, -0.05),
        ("large", VerdictKind.REGRESSED, -0.2),
        ("improved", VerdictKind.IMPROVED, 0.3),
        ("earlier", VerdictKind.REGRESSED, -0.5),
    ):
        night = earlier if name == "earlier" else run
        loader.alerts.open(
            Verdict(cases[name].case_id, "local", night.run_id, kind, name, 9.0, 10.0, change)
        )
    period = {"since": "'2026-03-05'::timestamptz", "until": "'2026-03-20'::timestamptz"}
    found = ask("regressions", **period)
    assert [(r["case_id"], float(r["change_percent"]), r["state"]) for r in found] == [
        (cases["large"].case_id, -20.0, "open"),
        (cases["small"].case_id, -5.0, "open"),
    ]
    assert ask("regressions", **period, suite="'another'") == []
    assert ask("regressions", **period, cluster="'another'") == []


# --- comparisons ----------------------------------------------------------------------------


def test_two_runs_are_compared_case_by_case(loader, given, ask: Ask):
    case, gone, new = (given.case(batch_size_per_device=b) for b in (2, 4, 8))
    before, after = given.run(0), given.run(1)
    repeats = (10.0, 10.0, 10.0)
    load(
        loader,
        before,
        given,
        given.came_back(before, case, repeats, half_width=0.03),
        given.came_back(before, gone),
    )
    load(
        loader,
        after,
        given,
        given.came_back(after, case, (8.0,) * 3, half_width=0.04),
        given.came_back(after, new),
    )
    for decoy in (given.run(2, suite="other"), given.run(2, run_kind=RunKind.DRILL, tail="d")):
        load(loader, decoy, given, given.came_back(decoy, case, (99.0,)))
    by_hand = {"run_id": quoted(after.run_id), "other_run_id": quoted(before.run_id)}
    found = ask("compare_runs", **by_hand)
    assert [(r["case_id"], r["ratio"] and float(r["ratio"])) for r in found] == [
        (case.case_id, 0.8),
        *sorted([(gone.case_id, None), (new.case_id, None)]),
    ]
    # exp(-0.05) and exp(0.05) around 0.8
    assert (float(found[0]["low"]), float(found[0]["high"])) == (0.761, 0.841)
    assert ask("compare_runs", run_id=quoted(after.run_id)) == found
    # Two suites began at one time: the newest one has no run before it.
    assert {r["other_run_id"] for r in ask("compare_runs")} == {None}


def test_two_versions_of_a_framework(loader, given, ask: Ask):
    case = given.case()
    measured = [(10.0, "1.0", {}), (12.0, "1.0", {}), (6.0, "2.0", {}), (5.0, "2.0", {})]
    decoys = [
        (99.0, "1.0", {"definition_digest": "d0"}),
        (99.0, "2.0", {"checks": (given.failed_check(),)}),
    ]
    for night, (value, version, more) in enumerate([decoys[0], *measured, decoys[1]]):
        run = given.run(night)
        load(
            loader,
            run,
            given,
            given.came_back(run, case, (value,), framework_version=version, **more),
        )
    trial = given.run(8, run_kind=RunKind.ON_DEMAND)
    loader.runs.load(private(given, trial, case, (99.0,)))
    drill = given.run(9, run_kind=RunKind.DRILL)
    load(loader, drill, given, given.came_back(drill, case, (99.0,), framework_version="2.0"))
    for chosen in ({}, {"version": "'2.0'", "other_version": "'1.0'"}):
        (found,) = ask("compare_versions", since=LONG_AGO, **chosen)
        assert (found["version"], found["other_version"]) == ("2.0", "1.0")
        assert (float(found["ratio"]), found["runs"], found["other_runs"]) == (0.5, 2, 2)
        assert float(found["low"]) < 0.5 < float(found["high"])
    (turned,) = ask("compare_versions", since=LONG_AGO, version="'1.0'", other_version="'2.0'")
    assert float(turned["ratio"]) == 2.0
    assert ask("compare_versions", since=LONG_AGO, framework="'jax'") == []


def test_two_builds_with_a_private_one(loader, given, ask: Ask):
    case = given.case()
    for night, value in enumerate((10.0, 10.0)):
        run = given.run(night)
        load(loader, run, given, given.came_back(run, case, (value,)))
    trial = given.run(2, run_kind=RunKind.ON_DEMAND)
    loader.runs.load(private(given, trial, case, (11.0,)))
    drill = given.run(3, run_kind=RunKind.DRILL)
    loader.runs.load(private(given, drill, case, (99.0,)))
    (found,) = ask("compare_versions", since=LONG_AGO, by="'build'")
    assert (found["version"], found["other_version"]) == (WHEEL.build_id, PYTORCH.build_id)
    assert (float(found["ratio"]), found["runs"], found["other_runs"]) == (1.1, 1, 2)
    assert found["low"] is None


def test_a_case_on_two_clusters(loader, given, ask: Ask):
    case = given.case()
    for cluster, value in (("a", 10.0), ("b", 20.0)):
        run = given.run(cluster=cluster, tail=cluster)
        load(loader, run, given, given.came_back(run, case, (value,)))
    # Another case, on both clusters only by another axis.
    run = given.run(1, cluster="b", tail="b")
    load(loader, run, given, given.came_back(run, replace(case, precision="bf16"), (99.0,)))
    (found,) = ask("compare_clusters")
    assert (found["cluster"], found["other_cluster"], float(found["ratio"])) == ("a", "b", 0.5)
    (turned,) = ask("compare_clusters", cluster="'b'", other_cluster="'a'")
    assert float(turned["ratio"]) == 2.0


def test_dgc_beside_dense_exchange_for_each_bandwidth(loader, given, ask: Ask):
    run = given.run()
    came = []
    for bandwidth, dense, dgc in (("full", 10.0, 9.0), ("10gbit", 8.0, 8.0), ("100mbit", 1.0, 4.0)):
        case = given.case(nodes=2, link_bandwidth=bandwidth)
        compressed = replace(case, compression="dgc", sparsity=99.9)
        came += [given.came_back(run, case, (dense,)), given.came_back(run, compressed, (dgc,))]
    # Dense exchange alone at this bandwidth.
    came.append(given.came_back(run, given.case(nodes=2, link_bandwidth="1gbit"), (99.0,)))
    load(loader, run, given, *came)
    assert [(r["link_bandwidth"], float(r["gain"])) for r in ask("dgc_bandwidth")] == [
        ("100mbit", 4.0),
        ("10gbit", 1.0),
        ("full", 0.9),
    ]


def test_strategies_are_no_equal_looking_rows(loader, given, ask: Ask):
    """Batches are compared within a strategy and every other axis, and each row says which."""
    run, came = given.run(), []
    for strategy, slower in ((Strategy.SINGLE, 1.0), (Strategy.COLLECTIVE, 2.0)):
        for layout in ("default", "channels_last"):
            for batch, value in ((2, 10.0), (4, 15.0)):
                case = given.case(batch_size_per_device=batch, strategy=strategy, layout=layout)
                came.append(given.came_back(run, case, (value / slower,)))
    load(loader, run, given, *came)
    found = ask("batch_sizes")
    assert [r["strategy"] for r in found] == ["collective"] * 4 + ["single"] * 4
    assert [r["batch_size_per_device"] for r in found] == [2, 4] * 4
    assert [r["gain_over_smaller"] and float(r["gain_over_smaller"]) for r in found] == [
        None,
        1.5,
    ] * 4
    scaled = ask("scaling")
    assert sorted((r["strategy"], float(r["throughput"])) for r in scaled) == sorted(
        [("collective", 5.0), ("collective", 7.5), ("single", 10.0), ("single", 15.0)] * 2
    )
    for rows in (found, scaled):
        assert {r["case_id"] for r in rows} == {each.case.case_id for each in came}


# --- noise ----------------------------------------------------------------------------------


def steps(loader, given, case, values, node="n1", **more):
    for night, value in enumerate(values):
        run = given.run(night, tail=f"{case.batch_size_per_device}-{node}", **more)
        load(loader, run, given, given.came_back(run, case, (value,), nodes=(node,)))


def test_noise_is_no_step(loader, given, ask: Ask):
    stepped, noisy = given.case(), given.case(batch_size_per_device=4)
    steps(loader, given, stepped, (10.0, 10.0, 10.0, 5.0, 5.0, 5.0))
    steps(loader, given, noisy, (10.0, 10.2, 10.0, 10.2, 10.0))
    drill = given.run(9, run_kind=RunKind.DRILL)
    load(loader, drill, given, given.came_back(drill, noisy, (99.0,)))
    found = ask("noise_by_series", since=LONG_AGO)
    assert [(r["case_id"], r["nights"]) for r in found] == [
        (noisy.case_id, 5),
        (stepped.case_id, 6),
    ]
    # ln(1.02) between two nights: a standard deviation of 1.4826 / sqrt(2) of it.
    assert float(found[0]["between_nights_percent"]) == pytest.approx(2.076, abs=0.001)
    assert float(found[1]["between_nights_percent"]) == 0.0
    assert ask("noise_by_series", since=LONG_AGO, suite="'another'") == []


def test_the_noise_of_nodes(loader, given, ask: Ask):
    quiet, noisy = given.case(), given.case(batch_size_per_device=4)
    steps(loader, given, quiet, (10.0, 10.0, 10.0), "n1")
    steps(loader, given, noisy, (10.0, 12.0, 10.0), "n2")
    # A change of the node is no noise of either.
    run = given.run(5)
    load(loader, run, given, given.came_back(run, quiet, (99.0,), nodes=("n2",)))
    found = ask("noise_by_node", since=LONG_AGO)
    assert [(r["node"], r["series"], r["pairs_of_nights"]) for r in found] == [
        ("n2", 1, 2),
        ("n1", 1, 2),
    ]
    assert found[0]["worst_case_id"] == noisy.case_id
    assert float(found[1]["median_noise_percent"]) == 0.0


def test_the_noise_of_nodes_is_known_without_nightly_runs(loader, given, ask: Ask):
    steps(loader, given, given.case(), (10.0, 12.0, 10.0), run_kind=RunKind.ON_DEMAND)
    drill = given.run(9, run_kind=RunKind.DRILL)
    load(loader, drill, given, given.came_back(drill, given.case(), (99.0,), nodes=("n1",)))
    (found,) = ask("noise_by_node", since=LONG_AGO)
    assert (found["node"], found["pairs_of_nights"]) == ("n1", 2)
    assert ask("noise_by_node", since=LONG_AGO, run_kind="'nightly'") == []


# --- nights, plans, time, nodes ---------------------------------------------------------------


def five_outcomes(given, run):
    """A night with a good case and four that are not, each for another reason."""
    good, bad, failed, late, missing = (given.case(batch_size_per_device=2**i) for i in range(1, 6))
    exited = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1")
    batch = given.batch(
        run,
        given.came_back(run, good),
        given.came_back(run, bad, checks=(given.failed_check(),)),
        CaseToLoad(failed, 0, CaseStatus.FAILED, (exited,)),
        CaseToLoad(late, 0, CaseStatus.LEFT_OUT, (Reason(ReasonCode.PROCESS_EXITED, "", "", ""),)),
        missing=(missing,),
    )
    return batch, (good, bad, failed, late, missing)


def test_complete_nights_and_what_is_missing(loader, given, ask: Ask):
    run, whole = given.run(0), given.run(1)
    batch, _ = five_outcomes(given, run)
    loader.runs.load(batch)
    load(loader, whole, given, given.came_back(whole, given.case()))
    by_hand = given.run(2, run_kind=RunKind.ON_DEMAND)
    load(loader, by_hand, given, given.came_back(by_hand, given.case()))
    planned_only = given.run(3)
    loader.runs.plan(planned_only, [PlannedCase(given.case(), PYTORCH, "d1", "images")])
    columns = ("run_id", "planned", "measured", "quarantined", "failed", "left_out", "missing")
    assert [
        (*(r[c] for c in columns), r["is_complete"]) for r in ask("nights", since=LONG_AGO)
    ] == [
        (planned_only.run_id, 1, 0, 0, 0, 0, 1, False),
        (whole.run_id, 1, 1, 0, 0, 0, 0, True),
        (run.run_id, 5, 1, 1, 1, 1, 1, False),
    ]
    assert ask("nights", since=LONG_AGO, cluster="'another'") == []


def test_what_was_planned_and_not_measured(loader, given, ask: Ask):
    batch, (good, bad, failed, late, missing) = five_outcomes(given, given.run(0))
    loader.runs.load(batch)
    later = given.run(1)
    load(loader, later, given, given.came_back(later, failed))
    by_hand = given.run(2, run_kind=RunKind.ON_DEMAND)
    load(loader, by_hand, given, missing=(good,))
    period = {"since": LONG_AGO, "until": "'2026-12-31'::timestamptz"}
    found = {r["case_id"]: r for r in ask("planned_and_measured", **period)}
    assert {c: r["last_outcome"] for c, r in found.items()} == {
        bad.case_id: "quarantined",
        failed.case_id: "failed",
        late.case_id: "left_out",
        missing.case_id: "missing",
    }
    assert (found[failed.case_id]["planned"], found[failed.case_id]["measured"]) == (2, 1)
    assert (found[failed.case_id]["last_code"], found[failed.case_id]["last_node"]) == (
        "process_exited",
        "n1",
    )
    assert found[bad.case_id]["last_observed"] == "1.7 % apart"


def test_time_spent_counts_what_was_measured_twice(loader, given, ask: Ask):
    one, two = given.case(), given.case(nodes=2)
    run = given.run(0)
    load(
        loader,
        run,
        given,
        given.came_back(run, one, elapsed_s=3600.0),
        given.came_back(run, two, elapsed_s=1800.0),
    )
    again = given.came_back(run, one, generation=1, elapsed_s=3600.0)
    load(loader, run, given, again, given.came_back(run, two, elapsed_s=1800.0))
    bad = given.run(1, suite="other")
    refused = given.came_back(bad, one, checks=(given.failed_check(),), elapsed_s=900.0)
    # No rank had begun: its two nodes are those of its plan.
    exited = CaseToLoad(two, 0, CaseStatus.FAILED, (), elapsed_s=900.0)
    load(loader, bad, given, refused, exited)
    outside = given.run(100)
    load(loader, outside, given, given.came_back(outside, one, elapsed_s=9e6))
    period = {"since": LONG_AGO, "until": "'2026-03-20'::timestamptz"}
    demo, other = ask("time_spent", **period)
    assert (demo["suite"], demo["cases"], float(demo["hours"])) == ("demo", 3, 2.5)
    # Two hours on one node, half an hour on two; the first hour was superseded.
    assert (float(demo["node_hours"]), float(demo["hours_without_figure"])) == (3.0, 1.0)
    assert (other["suite"], float(other["hours_without_figure"])) == ("other", 0.5)
    assert float(other["node_hours"]) == 0.75
    assert float(demo["percent_of_cluster"]) == pytest.approx(83.3)


def test_a_night_costs_what_its_failed_cases_cost_too(loader, given, ask: Ask):
    good, refused, failed = (given.case(nodes=2, batch_size_per_device=b) for b in (2, 4, 8))
    night = given.run(0)
    exited = (Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1"),)
    load(
        loader,
        night,
        given,
        given.came_back(night, good, elapsed_s=3600.0),
        given.came_back(night, refused, checks=(given.failed_check(),), elapsed_s=1800.0),
        # No rank had begun: its two nodes are those of its plan.
        CaseToLoad(failed, 0, CaseStatus.FAILED, exited, elapsed_s=900.0),
    )
    again = given.came_back(night, good, generation=1, elapsed_s=3600.0)
    load(loader, night, given, again)
    by_hand = given.run(1, run_kind=RunKind.ON_DEMAND)
    load(loader, by_hand, given, given.came_back(by_hand, good, elapsed_s=720.0))
    drill = given.run(2, run_kind=RunKind.DRILL)
    load(loader, drill, given, given.came_back(drill, good))
    (found,) = ask("night_costs", since=LONG_AGO)
    assert (found["run_id"], found["cases"], found["measured"]) == (night.run_id, 3, 1)
    assert found["launches"] == 9
    assert float(found["hours"]) == 2.75
    hours = ("", "_measured", "_failed", "_quarantined", "_superseded", "_per_figure")
    assert [float(found[f"node_hours{part}"]) for part in hours] == [5.5, 2, 0.5, 1, 2, 5.5]
    every = ask("night_costs", since=LONG_AGO, run_kind="null::text")
    assert [r["run_id"] for r in every] == [by_hand.run_id, night.run_id]
    assert ask("night_costs", since=LONG_AGO, suite="'another'") == []


def test_how_much_of_their_devices_is_used(loader, given, ask: Ask):
    known = given.case(workload="bert_base", nodes=2, batch_size_per_device=2)
    unknown = given.case(workload="bert_base", batch_size_per_device=4)
    silent = given.case(workload="sleep")
    run = given.run()
    figures = {"device": "NVIDIA X1", "tokens_per_s": 2e4, "model_flops_per_s": 4e14}
    backs = []
    for case, more in (
        (known, {**figures, "peak_flops": 1e15, "mfu": 0.4}),
        (unknown, {**figures, "mfu_absent": "no peak of NVIDIA X1 at fp32 is known"}),
        (silent, {"mfu_absent": "sleep states no model FLOPs"}),
    ):
        back = given.came_back(run, case)
        backs.append(replace(back, measurement=replace(back.measurement, **more)))
    load(loader, run, given, *backs)
    one, other = ask("utilisation")
    assert (one["case_id"], other["case_id"]) == (known.case_id, unknown.case_id)
    names = ("tokens_per_s_per_device", "tflops_per_device", "mfu_percent")
    assert [float(one[name]) for name in names] == [10_000, 200, 40]
    assert (float(other["tflops_per_device"]), other["mfu_percent"]) == (400, None)
    assert other["mfu_absent"] == "no peak of NVIDIA X1 at fp32 is known"
    assert ask("utilisation", workload="'vgg16'") == []


def test_what_changed_on_a_node_between_two_dates(loader, given, ask: Ask):
    def document(driver, *cards, **more):
        gpus = [{"index": i, "driver": driver, "model": card} for i, card in enumerate(cards)]
        names = {
            "schema": "nightbench.fingerprint/1",
            "taken_at": driver,
            "packages": {"p": driver},
        }
        return names | {"gpus": gpus, "kernel": "6.1", "flags": ["avx", "fma"]} | more

    states = {
        0: {"n1": ("f1", document("550", "A100")), "n2": ("g1", document("550", "A100"))},
        5: {
            "n1": ("f2", document("560", "A100", "A100", kernel=None)),
            "n2": ("g1", document("550", "A100")),
        },
        50: {
            "n1": ("f3", document("999", "A100")),
            "n2": ("g3", document("999", "A100")),
        },
    }
    case = given.case(nodes=2)
    for night, nodes in states.items():
        run = given.run(night)
        came = given.came_back(run, case)
        names = {node: name for node, (name, _) in nodes.items()}
        came = replace(
            came,
            repeats=tuple(
                replace(r, record=replace(r.record, fingerprints=names)) for r in came.repeats
            ),
        )
        documents = dict(nodes.values())
        loader.runs.load(replace(given.batch(run, came), fingerprints=documents))
    dates = {"before": "'2026-03-02'::timestamptz", "since": "'2026-03-10'::timestamptz"}
    found = ask("node_changes", **dates)
    assert [(r["node"], r["field"], r["before"], r["since"]) for r in found] == [
        ("n1", "gpus.0.driver", "550", "560"),
        ("n1", "gpus.1.driver", None, "560"),
        ("n1", "gpus.1.index", None, "1"),
        ("n1", "gpus.1.model", None, "A100"),
        ("n1", "kernel", "6.1", None),
    ]
    assert ask("node_changes", **dates, node="'n2'") == []


def test_published_figures_without_a_match_are_left_out(loader, given, ask: Ask):
    axes = {"framework": "tensorflow1", "batch_size_per_device": 128, "devices_per_node": 8}
    full = given.case(nodes=4, trainers=32, scale="full", **axes)
    run = given.run()
    load(
        loader,
        run,
        given,
        given.came_back(run, full, (5000.0,)),
        given.came_back(run, replace(full, scale="smoke"), (50.0,)),
        given.came_back(run, replace(full, precision="bf16"), (9000.0,)),
    )
    found = ask("published_references", workload="'resnet50_v1.5'")
    assert {r["case_id"] for r in found} == {full.case_id}
    assert {float(r["measured_value"]) for r in found if r["metric"] == "throughput"} == {5000.0}
    assert ask("published_references", framework="'jax'") == []


def test_dates_of_the_questions_are_relative_to_now(loader, given, ask: Ask):
    """A question that is run as it ships sees yesterday's night."""
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
    run = replace(given.run(), started_at=at)
    load(loader, run, given, given.came_back(run, given.case()))
    assert at > NIGHT
    for name in ("series_history", "noise_by_series", "nights", "time_spent"):
        assert len(ask(name)) == 1, name
