"""Verdicts on training do not depend on when nights are judged, accepted or judged again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.sql.conftest import Database, Rows
from tests.sql.given import Given
from tests.sql.nights import STEADY
from tests.sql.page_client import page_client
from tests.sql.pipeline import Pipeline
from tests.sql.test_training import AS_EVER, HALF_A_BATCH, judge

from nightbench.core.documents import from_document
from nightbench.core.model import RegressionPolicy, TrainingKind, Verdict, VerdictKind
from nightbench.core.model.experiments import ExperimentKind
from nightbench.night.suspected_regressions import SuspectedRegression
from nightbench.spool import Spool
from nightbench.warehouse import Triage, Warehouse

__all__ = ["judge"]

THIRD = [2.2, *AS_EVER[1:]]
OFF, WARN = RegressionPolicy(training="off"), RegressionPolicy(training="warn")


@pytest.fixture
def accept(reader: Warehouse, connection):
    """Dismisses the only live alert."""

    def accept(reason: str = "intended") -> None:
        (alert,) = reader.alerts.find()
        Triage(connection, "ada").move(alert["alert_id"], "dismissed", "new sampler", reason)

    return accept


@pytest.fixture
def again(pipeline: Pipeline, given: Given):
    """Judges a night that was measured before."""

    def again(night: int) -> Verdict:
        (verdict,) = pipeline.judge(given.run(night, suite="seeded")).verdicts
        return verdict

    return again


def test_nights_judged_again_after_a_change_was_accepted_keep_their_verdicts(
    judge, again, accept
) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH)
    accept()
    judge(6, HALF_A_BATCH)
    kinds = [again(night).training for night in (3, 5, 6)]
    assert kinds == [TrainingKind.SAME, TrainingKind.CHANGED, TrainingKind.SAME]


def test_a_night_that_nobody_has_judged_is_no_reference(
    judge, again, pipeline: Pipeline, given: Given, reader: Warehouse
) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    unjudged = given.run(5, suite="seeded")
    pipeline.measure(unjudged, {STEADY: 100.0}, losses={STEADY: HALF_A_BATCH})
    assert judge(6, HALF_A_BATCH).training is TrainingKind.CHANGED
    assert again(5).training is TrainingKind.CHANGED
    assert judge(7, HALF_A_BATCH).training is TrainingKind.CHANGED
    (alert,) = reader.alerts.find()
    assert alert["opened_run_id"] == given.run(6, suite="seeded").run_id


def test_nights_whose_losses_were_not_compared_are_no_reference(judge, reader: Warehouse) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH, policy=OFF)
    assert judge(6, HALF_A_BATCH).training is TrainingKind.CHANGED
    assert [each["metric"] for each in reader.alerts.find()] == ["training"]


def test_a_second_change_is_not_accepted_with_the_first(
    judge, accept, reader: Warehouse, rows: Rows, given: Given
) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH)
    accept()
    judge(6, THIRD, throughput=150.0)
    assert judge(7, THIRD, throughput=150.0).training is TrainingKind.CHANGED
    (alert,) = reader.alerts.find()
    nights = [given.run(night, suite="seeded").run_id for night in (5, 6)]
    assert [alert["last_good_run_id"], alert["first_bad_run_id"]] == nights
    assert rows("select round(throughput) as speed from marts.latest_median") == [{"speed": 100}]


def test_a_change_after_an_accepted_one_is_measured_against_the_accepted_nights(
    judge, accept, reader: Warehouse, given: Given, warehouse: Database, tmp_path, monkeypatch
) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH)
    accept()
    judge(6, AS_EVER, confirms=True)
    (asked,) = reader.experiments.find(kinds=[ExperimentKind.CONFIRM])
    suspect = from_document(SuspectedRegression, asked["request"])
    assert suspect.trained is not None
    assert [night["first"] for night in suspect.trained.nights] == [(2.1, 2.1)]
    assert suspect.good_run_id == given.run(5, suite="seeded").run_id
    app = page_client(warehouse, Spool(tmp_path), monkeypatch)
    tonight, good = app.get(f"/api/losses/local/{STEADY.case_id}").json()["curves"]
    assert (tonight["losses"], good["losses"]) == (AS_EVER, HALF_A_BATCH)


def test_a_live_alert_follows_the_nights_of_a_suite_that_only_warns(
    judge, accept, given: Given, reader: Warehouse, rows: Rows
) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH)
    judge(6, HALF_A_BATCH, throughput=150.0, policy=WARN)
    (alert,) = reader.alerts.find()
    assert alert["last_run_id"] == given.run(6, suite="seeded").run_id
    accept()
    assert rows("select round(throughput) as speed from marts.latest_median") == [{"speed": 150}]


def test_a_suite_that_compares_no_losses_leaves_another_suite_s_alert(
    judge, pipeline: Pipeline, given: Given, reader: Warehouse
) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH)
    other = given.run(6, suite="other")
    pipeline.measure(other, {STEADY: 100.0}, losses={STEADY: HALF_A_BATCH}, policy=OFF)
    pipeline.judge(other)
    assert [each["metric"] for each in reader.alerts.find()] == ["training"]


LINES = [replace(STEADY, framework=line) for line in ("fake", "jax", "pytorch")]


@pytest.fixture
def compare(pipeline: Pipeline, given: Given):
    """Judges a night of three lines; returns the verdicts on training by line."""

    def compare(night: int, **losses: list[float]) -> Mapping[str, TrainingKind | None]:
        run = given.run(night, suite="seeded")
        came = {case: 100.0 if case.framework in losses else None for case in LINES}
        found = {case: losses[case.framework] for case in LINES if case.framework in losses}
        pipeline.measure(run, came, losses=found)
        verdicts = {each.case_id: each.training for each in pipeline.judge(run).verdicts}
        return {case.framework: verdicts[case.case_id] for case in LINES}

    return compare


def test_a_wrong_line_stays_wrong_in_a_night_that_lacks_another_line(
    compare, reader: Warehouse, warehouse: Database, tmp_path, monkeypatch
) -> None:
    def alerts() -> list[tuple[float, float]]:
        found = [each for each in reader.alerts.find() if each["metric"] == "training"]
        return [(each["value"], each["baseline"]) for each in found]

    assert compare(0, fake=AS_EVER, jax=HALF_A_BATCH, pytorch=AS_EVER)["jax"] == "changed"
    assert compare(1, jax=HALF_A_BATCH, pytorch=AS_EVER)["jax"] == "changed"
    assert compare(2, jax=HALF_A_BATCH)["jax"] == "changed"
    assert compare(3, fake=AS_EVER, jax=HALF_A_BATCH, pytorch=AS_EVER)["jax"] == "changed"
    assert alerts() == [(2.1, 2.0)]
    for night in (4, 5):
        kinds = compare(night, fake=AS_EVER, jax=AS_EVER, pytorch=AS_EVER)
        assert kinds["fake"] == kinds["pytorch"] == "same"
    assert kinds["jax"] == "same"
    assert alerts() == []
    app = page_client(warehouse, Spool(tmp_path), monkeypatch)
    curves = app.get(f"/api/losses/local/{LINES[1].case_id}").json()["curves"]
    assert [(each["role"], each["framework"]) for each in curves] == [
        *[("tonight", "jax"), ("good", "jax")],
        *[("line", "fake"), ("line", "pytorch")],
    ]


def test_a_night_that_agreed_with_nights_no_longer_accepted_is_no_reference(
    judge, accept, reader: Warehouse, connection
) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH)
    (alert,) = reader.alerts.find()
    accept()
    assert judge(6, HALF_A_BATCH).training is TrainingKind.SAME
    Triage(connection, "ada").move(alert["alert_id"], "open", "dismissed by mistake")
    assert judge(7, HALF_A_BATCH).training is TrainingKind.CHANGED
    assert [each["alert_id"] for each in reader.alerts.find()] == [alert["alert_id"]]
    assert judge(8, AS_EVER).training is TrainingKind.SAME
    assert reader.alerts.find() == []
    # Nor is it one after the repair, which ended the alert; the same fault alerts again.
    assert judge(9, AS_EVER).training is TrainingKind.SAME
    assert judge(10, HALF_A_BATCH).training is TrainingKind.CHANGED
    assert len(reader.alerts.find()) == 1


def test_good_nights_before_an_alert_is_opened_again_stay_references(
    judge, reader: Warehouse, connection
) -> None:
    """Without a dismissal, nights that ended the alert agreed with nights before the change."""
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH)
    (alert,) = reader.alerts.find()
    for night in range(6, 11):
        judge(night, AS_EVER)
    Triage(connection, "ada").move(alert["alert_id"], "open", "look again")
    judge(11, AS_EVER)
    assert reader.alerts.find() == []
    assert "11 nights since" in (judge(12, HALF_A_BATCH).training_sentence or "")


def test_the_repair_after_an_alert_was_opened_again_is_no_regression(
    judge, accept, reader: Warehouse, connection
) -> None:
    """Nights that agreed with an accepted change are no baseline once it is none."""
    for night in range(8):
        judge(night, AS_EVER, throughput=100 + 0.1 * (night % 2))
    for night in (8, 9):
        judge(night, HALF_A_BATCH, throughput=200)
    (alert,) = reader.alerts.find()
    accept()
    for night in range(10, 22):
        judge(night, HALF_A_BATCH, throughput=200 + 0.1 * (night % 2))
    Triage(connection, "ada").move(alert["alert_id"], "open", "a fault after all")
    for night in range(22, 26):
        verdict = judge(night, AS_EVER, throughput=100)
        assert verdict.training is TrainingKind.SAME
        assert verdict.kind is not VerdictKind.REGRESSED
    assert judge(26, HALF_A_BATCH, throughput=200).training is TrainingKind.CHANGED
