"""A suite that is judged by another figure than throughput, from the spool to the message."""

from __future__ import annotations

import pytest
from tests.sql.conftest import Rows
from tests.sql.given import Given
from tests.sql.nights import NIGHTS, STEADY, Inbox
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import near

from nightbench.core.model import RegressionPolicy, Verdict, VerdictKind
from nightbench.core.model.metrics import METRICS, JudgedMetric
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connection

GB = 1_000_000_000


@pytest.fixture
def judge(pipeline: Pipeline, given: Given):
    def judge(
        night: int, metric: JudgedMetric, *, peak_bytes: int = GB, suite: str = "seeded"
    ) -> Verdict:
        run = given.run(night, suite=suite)
        policy = RegressionPolicy(metric=metric)
        pipeline.measure(run, {STEADY: 100.0}, policy=policy, peak_bytes=peak_bytes)
        (verdict,) = pipeline.judge(run).verdicts
        return verdict

    return judge


@pytest.fixture
def past(connection: Connection, given: Given) -> None:
    """Nights of one throughput whose memory grew by a quarter three nights ago."""
    loader = Warehouse(connection)
    for night in range(NIGHTS):
        run = given.run(night, suite="seeded")
        wobble = 1 + 0.002 * (night % 3 - 1)
        level = 1.25 * GB if night >= NIGHTS - 3 else GB
        came = near(
            given,
            run,
            STEADY,
            100.0 * wobble,
            peak_resident_bytes=round(wobble * level),
            peak_allocator_bytes=round(wobble * 60 * GB),
            joules_per_unit=0.5 * wobble,
            tokens_per_s=1000.0 * wobble,
            model_flops_per_s=3e12 * wobble,
            mfu=0.4 * wobble,
        )
        loader.runs.load(given.batch(run, came))


@pytest.mark.usefixtures("past")
def test_a_rise_of_memory_is_a_regression_with_an_alert_of_its_own(
    judge, reader: Warehouse, rows: Rows, inbox: Inbox
) -> None:
    verdict = judge(NIGHTS, "peak_resident_bytes", peak_bytes=round(1.25 * GB))

    assert (verdict.kind, verdict.metric) == (VerdictKind.REGRESSED, "peak_resident_bytes")
    assert verdict.change == pytest.approx(0.25, abs=0.01)
    assert verdict.low is not None
    assert verdict.high is not None
    assert 0.2 < verdict.low < verdict.high < 0.3
    assert "Tonight's 1.25 GB is 25.0% above the baseline." in verdict.sentence
    (alert,) = reader.alerts.find()
    assert (alert["metric"], alert["value"]) == ("peak_resident_bytes", 1.25 * GB)
    (message,) = inbox.messages
    assert "peak resident bytes regressed by 25.0%" in message["title"]
    assert "tonight: 1.25 GB" in message["message"]
    assert "samples/s" not in message["message"]
    (stored,) = rows("select metric, value from marts.fct_verdict")
    assert stored == {"metric": "peak_resident_bytes", "value": 1.25 * GB}

    # Another suite that measures the same series judges its throughput, and leaves the alert alone.
    assert judge(NIGHTS + 1, "throughput", suite="other").kind is VerdictKind.OK
    assert [each["state"] for each in reader.alerts.find()] == ["open"]

    for night in (NIGHTS + 2, NIGHTS + 3):
        assert judge(night, "peak_resident_bytes").kind is not VerdictKind.REGRESSED
    assert reader.alerts.find() == []


@pytest.mark.usefixtures("past")
def test_a_median_without_the_figure_is_not_judged_and_says_why(judge, reader: Warehouse) -> None:
    verdict = judge(NIGHTS, "joules_per_unit")

    assert verdict.kind is VerdictKind.INSUFFICIENT_DATA
    assert verdict.value is None
    assert verdict.sentence.startswith("Not judged: joules_per_unit: ")
    assert reader.alerts.find() == []
    assert "states no model FLOPs" in judge(NIGHTS + 1, "tflops_per_device").sentence


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.usefixtures("past")
def test_the_history_of_each_metric_is_what_the_marts_say(
    metric: str, reader: Warehouse, rows: Rows
) -> None:
    points = reader.series.history(STEADY.case_id, "local", metric=METRICS[metric])

    stored = rows(
        f"select {metric} as value from marts.fct_measurement"
        f" where {metric} is not null order by started_at"
    )
    assert [point.value for point in points] == pytest.approx([row["value"] for row in stored])
    assert len(points) == NIGHTS
