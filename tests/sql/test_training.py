"""Whether a case still trains as before: from the spool to verdict, alert and message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.sql.conftest import Rows
from tests.sql.given import Given
from tests.sql.nights import STEADY, Inbox
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import STEPS

from nightbench.core.model import RegressionPolicy, TrainingKind, Verdict, VerdictKind
from nightbench.night.training_verdicts import NIGHTS_COMPARED
from nightbench.warehouse import Triage, Warehouse

AS_EVER = [2.0, *(1.9 - 0.05 * step for step in range(STEPS))]
HALF_A_BATCH = [2.1, *AS_EVER[1:]]


@pytest.fixture
def judge(pipeline: Pipeline, given: Given):
    def judge(
        night: int,
        losses: Sequence[float],
        *,
        throughput: float = 100.0,
        version: str = "1.0",
        policy: RegressionPolicy | None = None,
        confirms: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> Verdict:
        run = given.run(night, suite="seeded", env=env)
        pipeline.measure(
            run,
            {STEADY: throughput},
            version=version,
            policy=policy or RegressionPolicy(),
            losses={STEADY: losses},
        )
        (verdict,) = pipeline.judge(run, confirms=confirms).verdicts
        return verdict

    return judge


def test_a_change_opens_an_alert_and_ends_it_when_training_is_as_before(
    judge, reader: Warehouse, rows: Rows, inbox: Inbox
) -> None:
    kinds = [judge(night, AS_EVER).training for night in range(5)]
    assert kinds == [TrainingKind.NOT_COMPARABLE, *[TrainingKind.SAME] * 4]

    verdict = judge(5, HALF_A_BATCH)

    assert verdict.training is TrainingKind.CHANGED
    assert verdict.training_sentence is not None
    assert verdict.training_sentence.startswith("Training changed: first loss 2 -> 2.1. 5 nights ")
    (alert,) = reader.alerts.find()
    assert (alert["verdict"], alert["metric"]) == ("training_changed", "training")
    assert (alert["value"], alert["baseline"]) == (2.1, 2.0)
    (message,) = inbox.messages
    assert "training changed by 5.0%" in message["title"]
    assert "first loss 2 -> 2.1" in message["message"]
    (stored,) = rows("select training from marts.fct_verdict order by started_at desc limit 1")
    assert stored == {"training": "changed"}

    assert judge(6, HALF_A_BATCH).training is TrainingKind.CHANGED
    assert len(inbox.messages) == 1
    assert judge(7, AS_EVER).training is TrainingKind.SAME
    assert reader.alerts.find() == []


def test_a_single_bit_alerts_after_five_equal_nights(judge, reader: Warehouse) -> None:
    nearly = [*AS_EVER[:3], AS_EVER[3] + 1e-12, *AS_EVER[4:]]
    for night in range(5):
        judge(night, AS_EVER)
    verdict = judge(5, nearly)
    assert verdict.training is TrainingKind.CHANGED
    assert verdict.training_sentence is not None
    assert "had the same losses to the last bit" in verdict.training_sentence
    assert [each["metric"] for each in reader.alerts.find()] == ["training"]


def test_another_version_may_round_otherwise_but_not_train_otherwise(judge) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    rounded = [loss * (1 + 5e-7) for loss in AS_EVER]
    assert judge(5, rounded, version="1.1").training is TrainingKind.SAME
    assert judge(6, HALF_A_BATCH, version="1.2").training is TrainingKind.CHANGED


def test_what_a_person_accepts_is_compared_from_then_on(
    judge, reader: Warehouse, connection
) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH)
    judge(6, HALF_A_BATCH)
    (alert,) = reader.alerts.find()
    Triage(connection, "ada").move(alert["alert_id"], "dismissed", "new sampler", "intended")

    assert judge(7, HALF_A_BATCH).training is TrainingKind.SAME
    assert judge(8, AS_EVER).training is TrainingKind.CHANGED


def test_a_result_counts_again_once_its_training_was_accepted(
    judge, reader: Warehouse, rows: Rows, connection
) -> None:
    newest = "select throughput from marts.latest_median"
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH, throughput=200.0)
    assert rows(newest) == [{"throughput": pytest.approx(100.0)}]
    (alert,) = [each for each in reader.alerts.find() if each["metric"] == "training"]
    Triage(connection, "ada").move(alert["alert_id"], "dismissed", "new sampler", "intended")
    assert rows(newest) == [{"throughput": pytest.approx(200.0)}]


def test_an_improvement_that_trains_otherwise_says_so_first(judge) -> None:
    for night in range(20):
        judge(night, AS_EVER)
    verdicts = [judge(night, HALF_A_BATCH, throughput=150.0) for night in range(20, 24)]
    assert verdicts[-1].kind is VerdictKind.IMPROVED
    assert verdicts[-1].sentence.startswith("Training changed: first loss 2 -> 2.1. ")


def test_the_repair_of_a_faster_wrong_build_is_no_regression(judge, reader: Warehouse) -> None:
    for night in range(11):
        judge(night, AS_EVER, throughput=100.0 + 0.1 * (night % 2))
    for night in range(11, 21):
        judge(night, HALF_A_BATCH, throughput=200.0 + 0.1 * (night % 2))
    repaired = [judge(night, AS_EVER, throughput=100.0 + 0.1 * (night % 2)) for night in (21, 22)]
    assert [verdict.kind for verdict in repaired] == [VerdictKind.OK] * 2
    assert {verdict.history for verdict in repaired} == {11, 12}
    regressed = [judge(night, AS_EVER, throughput=90.0).kind for night in (23, 24, 25)]
    assert regressed[-1] is VerdictKind.REGRESSED


def test_a_suite_may_only_store_it_or_not_ask(judge, reader: Warehouse) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    assert judge(5, HALF_A_BATCH, policy=RegressionPolicy(training="warn")).training == "changed"
    assert judge(6, HALF_A_BATCH, policy=RegressionPolicy(training="off")).training is None
    assert reader.alerts.find() == []


def test_without_an_alert_a_change_is_no_result_either_until_a_user_accepts_it(
    judge, reader: Warehouse, rows: Rows, connection
) -> None:
    newest = "select round(throughput) as speed from marts.latest_median"
    warn = RegressionPolicy(training="warn")
    judge(0, AS_EVER)
    assert judge(1, HALF_A_BATCH, throughput=200.0).training == "changed"
    assert (reader.alerts.find(), rows(newest)) == ([], [{"speed": 100}])

    for night in range(2, 6):
        judge(night, HALF_A_BATCH, throughput=200.0, policy=warn)
    assert (reader.alerts.find(), rows(newest)) == ([], [{"speed": 100}])

    judge(6, HALF_A_BATCH, throughput=200.0)
    (alert,) = reader.alerts.find()
    Triage(connection, "ada").move(alert["alert_id"], "dismissed", "new sampler", "intended")
    assert rows(newest) == [{"speed": 200}]
    assert judge(7, HALF_A_BATCH, throughput=300.0, policy=warn).training is TrainingKind.SAME
    assert rows(newest) == [{"speed": 300}]


def test_a_change_that_nobody_accepts_is_never_a_reference(judge, reader: Warehouse) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    kinds = {judge(night, HALF_A_BATCH).training for night in range(5, 5 + NIGHTS_COMPARED + 2)}
    assert kinds == {TrainingKind.CHANGED}
    assert len(reader.alerts.find()) == 1


def test_after_a_false_alarm_both_levels_are_normal(judge, reader: Warehouse, connection) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH)
    (alert,) = reader.alerts.find()
    Triage(connection, "ada").move(alert["alert_id"], "dismissed", "", "false_alarm")
    for night in range(6, 12):
        assert judge(night, AS_EVER).training is TrainingKind.SAME
    # The last five nights do not decide this one.
    assert judge(12, HALF_A_BATCH).training is TrainingKind.SAME
    assert reader.alerts.find() == []


def test_an_earlier_version_must_repeat_its_own_nights(judge) -> None:
    """It rounds as neither its own nights nor the last five do."""
    for night in range(5):
        judge(night, AS_EVER, version="1.0")
    for night in range(5, 10):
        rounded = [loss * (1 + 5e-7) for loss in AS_EVER]
        assert judge(night, rounded, version="1.1").training is TrainingKind.SAME
    between = [loss * (1 + 2e-7) for loss in AS_EVER]
    # Those of the newest five nights, which are another version's.
    assert judge(10, rounded, version="1.0").training is TrainingKind.CHANGED
    assert judge(10, between, version="1.1").training is TrainingKind.CHANGED
    assert judge(11, between, version="1.0").training is TrainingKind.CHANGED
    assert judge(12, AS_EVER, version="1.0").training is TrainingKind.SAME


def test_a_window_is_compared_with_older_ones_of_its_length(judge) -> None:
    """The newest five nights have other lengths. Before, their losses decided alone."""
    for night in range(15):
        kind = judge(night, AS_EVER[: len(AS_EVER) - night % 3]).training
        assert kind is (TrainingKind.SAME if night else TrainingKind.NOT_COMPARABLE)
    fault = [*AS_EVER[:8], AS_EVER[8] + 1e-9, *AS_EVER[9:]]
    assert judge(15, fault).training is TrainingKind.CHANGED


def test_an_alert_ends_when_the_suite_compares_no_losses(judge, reader: Warehouse) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH)
    assert len(reader.alerts.find()) == 1
    judge(6, HALF_A_BATCH, policy=RegressionPolicy(training="off"))
    assert reader.alerts.find() == []


def test_a_change_while_the_suite_compares_no_losses_is_reported_afterwards(
    judge, reader: Warehouse
) -> None:
    off = RegressionPolicy(training="off")
    for night in range(5):
        judge(night, AS_EVER)
    for night in range(5, 8):
        assert judge(night, HALF_A_BATCH, policy=off).training is None
    assert judge(8, HALF_A_BATCH).training is TrainingKind.CHANGED
    assert [each["metric"] for each in reader.alerts.find()] == ["training"]


def test_a_change_that_goes_back_after_it_was_accepted_is_a_change(
    judge, reader: Warehouse, connection
) -> None:
    for night in range(5):
        judge(night, AS_EVER)
    judge(5, HALF_A_BATCH)
    (alert,) = reader.alerts.find()
    Triage(connection, "ada").move(alert["alert_id"], "dismissed", "new sampler", "intended")
    for night in range(6, 10):
        assert judge(night, HALF_A_BATCH).training is TrainingKind.SAME
    back = judge(10, AS_EVER)
    assert (back.training_sentence or "").startswith(
        "Training changed: first loss 2.1 -> 2. 5 nights since 2026-"
    )
    (alert,) = reader.alerts.find()
    Triage(connection, "ada").move(alert["alert_id"], "dismissed", "sampler is out", "intended")
    assert judge(11, AS_EVER).training is TrainingKind.SAME
    assert judge(12, HALF_A_BATCH).training is TrainingKind.CHANGED


def test_a_throughput_alert_is_reopened_beside_one_about_training(
    judge, reader: Warehouse, connection
) -> None:
    for night in range(20):
        judge(night, AS_EVER)
    for night in range(20, 24):
        judge(night, AS_EVER, throughput=90.0)
    (slower,) = reader.alerts.find()
    triage = Triage(connection, "ada")
    triage.move(slower["alert_id"], "dismissed", "", "intended")
    judge(24, HALF_A_BATCH, throughput=90.0)
    assert [each["metric"] for each in reader.alerts.find()] == ["training"]
    triage.move(slower["alert_id"], "open")
    assert {each["metric"] for each in reader.alerts.find()} == {"throughput", "training"}
