"""What the tables of suites read: newest good medians, why there is none, published figures."""

from __future__ import annotations

from dataclasses import replace

from nightbench.core.model import CaseStatus, CaseToLoad, Reason, ReasonCode, RunKind, SuiteTable
from nightbench.core.model.suites import PublishedFigures

EXITED = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1")


def test_the_newest_good_median_outlives_a_later_failure(loader, reader, given):
    case = given.case()
    first, second, third = (given.run(night) for night in range(3))
    loader.runs.load(given.batch(first, given.came_back(first, case, (10.0, 11.0, 12.0))))
    loader.runs.load(given.batch(second, given.came_back(second, case, (20.0, 21.0, 22.0))))
    failed = CaseToLoad(case, 0, CaseStatus.FAILED)
    loader.runs.load(given.batch(third, failed))
    (found,) = reader.tables.results([case.case_id], third.cluster).values()
    assert (found.throughput, found.run_id, found.reason) == (21.0, second.run_id, None)
    assert found.minibatches == 21.0 / case.batch_size_per_device
    assert reader.tables.results([case.case_id], "elsewhere") == {}
    assert reader.tables.newest_scale(third.suite, third.cluster) == case.scale
    assert reader.tables.newest_scale(third.suite, "elsewhere") is None


def test_without_a_good_median_the_newest_attempt_says_why(loader, reader, given):
    bad, missing, checked = (given.case(batch_size_per_device=n) for n in (2, 4, 8))
    run = given.run()
    failed = CaseToLoad(bad, 0, CaseStatus.FAILED, reasons=(EXITED,))
    quarantined = given.came_back(run, checked, checks=(given.failed_check(),))
    loader.runs.load(given.batch(run, failed, quarantined, missing=(missing,)))
    found = reader.tables.results([c.case_id for c in (bad, missing, checked)], run.cluster)
    assert found[bad.case_id].reason == "failed: n1: trainer-0 exited with code 1"
    assert found[missing.case_id].reason == "missing"
    assert found[checked.case_id].reason.startswith("quarantined: ")
    assert all(each.throughput is None for each in found.values())


def test_the_bytes_sent_and_the_wait_for_data_are_stored(loader, reader, given, rows):
    case, run = given.case(), given.run()
    back = given.came_back(run, case)
    figures = {"sent_bytes_per_step": 204_720, "data_wait_s": 0.25}
    power = {"power_w": 350.5}
    repeats = tuple(
        replace(
            each,
            summary=replace(each.summary, **figures, **power),
            record=replace(
                each.record, ranks=tuple(replace(r, **figures) for r in each.record.ranks)
            ),
        )
        for each in back.repeats
    )
    measured = replace(back.measurement, **figures)
    loader.runs.load(given.batch(run, replace(back, repeats=repeats, measurement=measured)))
    (found,) = reader.tables.results([case.case_id], run.cluster).values()
    assert found.sent_bytes_per_step == 204_720
    (row,) = reader.runs.results(run.run_id)
    assert figures.items() <= row.items()
    views = ("staging.repeat_rank", "staging.result")
    views += ("marts.fct_measurement", "marts.fct_repeat", "marts.latest_median")
    assert rows("select distinct power_w from marts.fct_repeat") == [power]
    for view in views:
        assert rows(f"select distinct sent_bytes_per_step, data_wait_s from {view}") == [figures]


def test_tokens_flops_mfu_and_energy_are_stored(loader, reader, given, rows):
    case, run = given.case(), given.run()
    back = given.came_back(run, case)
    figures = {"tokens_per_s": 2e4, "model_flops_per_s": 4e14, "peak_flops": 1e15, "mfu": 0.4}
    figures |= {"device": "NVIDIA X1", "mfu_absent": None}
    figures |= {"power_w": 400.0, "joules_per_unit": 0.02, "energy_absent": None}
    figures |= {"reported": {"tflops_per_device": 253.41, "mfu_percent": 25.62}}
    measured = replace(back.measurement, **figures)
    loader.runs.load(given.batch(run, replace(back, measurement=measured)))
    figures |= {"tokens_per_s_per_device": 2e4, "tflops_per_device": 400}
    (row,) = reader.runs.results(run.run_id)
    assert figures.items() <= row.items()
    for view in ("staging.result", "marts.fct_measurement", "marts.latest_median"):
        assert rows(f"select {', '.join(figures)} from {view}") == [figures]


def test_a_drill_is_no_result(loader, reader, given):
    case = given.case()
    run = replace(given.run(), run_kind=RunKind.DRILL)
    loader.runs.load(given.batch(run, given.came_back(run, case)))
    assert reader.tables.results([case.case_id], run.cluster) == {}


def test_published_figures_come_in_our_words(reader):
    table = SuiteTable(
        name="fp32",
        title="Figures",
        rows=("framework",),
        columns=("devices",),
        published=PublishedFigures(document="dlperf-report-v1", figures=("fp32 bsz=128",)),
    )
    figures = reader.tables.published(table, {"resnet50_v1.5"})
    assert len(figures) == 32
    one = next(f for f in figures if f.axes["framework"] == "tensorflow1" and f.axes["nodes"] == 4)
    assert (one.value, one.variant, one.version) == (
        9514.64,
        "NVIDIA DeepLearningExamples",
        "1.15.2",
    )
    assert reader.tables.published(table, {"bert_base"}) == []
    speedup = table.model_copy(update={"metric": "speedup"})
    assert reader.tables.published(speedup, {"resnet50_v1.5"}) == []
