"""Medians, verdicts and alerts as metrics: what Prometheus's own parser reads of them."""

from __future__ import annotations

from contextlib import closing

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.sql.page_client import page_client
from typer.testing import CliRunner

from nightbench.cli.main import app
from nightbench.core.errors import UserError
from nightbench.core.model import TrainingKind, Verdict, VerdictKind
from nightbench.core.prometheus import prometheus_text
from nightbench.spool import Spool
from nightbench.warehouse import connect
from nightbench.warehouse.exports import ExportFilter, ExportRepository


@pytest.fixture
def measured(loader, given):
    """Two nights of two cases, of which one has fallen."""
    case, other = given.case(), given.case(nodes=2)
    for night in (0, 1):
        run = given.run(night)
        came = [given.came_back(run, each, (9.0, 10.0, 11.0 + night)) for each in (case, other)]
        loader.runs.load(given.batch(run, *came))
    before = Verdict(
        case.case_id, "local", given.run(0).run_id, VerdictKind.OK, "", 12.5, 12.5, 0.0
    )
    found = Verdict(
        *(case.case_id, "local", run.run_id, VerdictKind.REGRESSED, "", 10.0, 12.5, -0.2),
        training=TrainingKind.SAME,
        training_sentence="Training is the same.",
    )
    loader.series.store_verdicts([found, before])
    loader.alerts.open(found)
    return case, other, run


def of_case(text: str, case_id: str) -> dict[str, tuple[float, dict[str, str]]]:
    return {
        sample.name: (sample.value, sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels["case_id"] == case_id
    }


def test_prometheus_reads_newest_median_verdict_and_alert(
    measured, warehouse, tmp_path, monkeypatch
):
    case, other, run = measured
    text = page_client(warehouse, Spool(tmp_path), monkeypatch).get("/api/metrics")
    assert text.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    fell, steady = of_case(text.text, case.case_id), of_case(text.text, other.case_id)
    value, labels = fell["nightbench_throughput"]
    assert value == 10.0
    assert (labels["suite"], labels["cluster"]) == ("demo", "local")
    assert fell["nightbench_measured_timestamp_seconds"][0] == run.started_at.timestamp()
    assert fell["nightbench_change_ratio"][0] == pytest.approx(-0.2)
    assert fell["nightbench_verdict"][1]["verdict"] == "regressed"
    assert fell["nightbench_alert"][1]["alert_state"] == "open"
    assert fell["nightbench_training"][1]["training"] == "same"
    absent = {
        *("nightbench_verdict", "nightbench_training"),
        *("nightbench_change_ratio", "nightbench_alert"),
    }
    assert fell.keys() - steady.keys() == absent
    assert "nightbench_mfu_ratio" not in fell, "its devices have no peak"


def test_what_a_script_printed_has_a_gauge_of_its_own(measured, warehouse):
    with closing(connect(warehouse.reader)) as connection:
        row, silent = ExportRepository(connection).metrics(ExportFilter())
    assert row["reported"] is None
    printed = {"mfu_percent": 43.5, "tflops_per_device": 215.0}
    text = "".join(prometheus_text([row | {"reported": printed}, silent]))
    assert "nightbench_mfu_ratio{" not in text, "never taken for ours"
    found = {
        (sample.labels["case_id"], sample.labels["figure"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "nightbench_reported"
    }
    assert found == {(row["case_id"], name): value for name, value in printed.items()}


def test_the_command_writes_a_file_for_the_textfile_collector(
    measured, warehouse, tmp_path, monkeypatch
):
    monkeypatch.setenv("NIGHTBENCH_WAREHOUSE", warehouse.reader)
    file = tmp_path / "nightbench.prom"

    def export(*words: str) -> str:
        words = ("export", str(file), *words)
        return CliRunner().invoke(app, words, catch_exceptions=False).output

    assert "2 series" in export()
    assert of_case(file.read_text(), measured[0].case_id)
    assert "0 series" in export("--cluster", "elsewhere")
    assert not of_case(file.read_text(), measured[0].case_id), "old figures would alarm for ever"
    with pytest.raises(UserError, match="--since: found with prometheus"):
        export("--since", "2026-01-01")


def test_labels_are_escaped(measured, warehouse):
    with closing(connect(warehouse.reader)) as connection:
        (row, _) = ExportRepository(connection).metrics(ExportFilter())
    odd = 'images "of\\a\nkind"'
    text = "".join(prometheus_text([row | {"unit": odd}]))
    assert of_case(text, row["case_id"])["nightbench_throughput"][1]["unit"] == odd
