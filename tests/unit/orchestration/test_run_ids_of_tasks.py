"""Which runs the tasks that judge and tell go through, and what one that fails does to others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from nightbench.core.errors import UserError
from nightbench.orchestration import experiments_dag, verdict_dags
from nightbench.orchestration.dag_common import SUSPECTS, SUSPECTS_ALIAS


def context(*extras: dict[str, Any] | None, run_ids: list[str] | None = None) -> dict[str, Any]:
    """As Airflow gives it to a task of a DAG run that events of an asset made."""
    events = [SimpleNamespace(extra=extra) for extra in extras]
    return {"triggering_asset_events": {"asset": events}, "params": {"run_ids": run_ids}}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs that were told of; `bad` cannot be. There is nothing to give up."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example.org")
    heard: list[str] = []

    def notify_run(spool: object, run_id: str, *_: object, **__: object) -> list[object]:
        if run_id == "bad":
            raise UserError("no channel took it")
        heard.append(run_id)
        return []

    monkeypatch.setattr("nightbench.alerts.notify.notify_run", notify_run)
    return heard


def waiting(patch: pytest.MonkeyPatch, told: list[str], *run_ids: str) -> None:
    """Runs whose messages wait no longer, until they are sent."""
    patch.setattr(
        "nightbench.experiments.confirm.runs_to_notify",
        lambda _: [each for each in run_ids if each not in told],
    )


def test_a_message_that_is_refused_keeps_no_other_run_from_its_own(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(monkeypatch, told, "a", "bad", "late")
    with pytest.raises(AirflowException, match="run bad: no channel took it"):
        experiments_dag.send_messages.function()
    assert told == ["a", "late"]


def test_nothing_is_sent_where_no_night_waited(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(monkeypatch, told)
    with pytest.raises(AirflowSkipException):
        experiments_dag.send_messages.function()


def test_a_run_whose_message_waits_for_something_else_publishes_nothing(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(monkeypatch, [], "snoozed")
    with pytest.raises(AirflowSkipException, match="another measurement"):
        experiments_dag.send_messages.function()
    waiting(monkeypatch, told, "a")
    told.clear()
    assert experiments_dag.send_messages.function() == ["a"]


def test_each_field_of_the_form_may_stay_empty() -> None:
    for name, param in experiments_dag._form().items():
        if param.value in (None, "", []):
            assert "null" in param.schema["type"], name
        param.resolve(None if param.value is None else param.value)


def test_a_request_with_a_field_that_does_not_exist_is_refused() -> None:
    run = SimpleNamespace(run_id="r", triggering_user_name="ada")
    with pytest.raises(AirflowFailException, match=r'found "alert"; .* mean "alert_id"'):
        experiments_dag.measure.function(dag_run=run, params={"alert": 7, "rounds": 3})


def test_an_event_that_a_person_made_names_no_runs() -> None:
    assert verdict_dags.loaded_runs.function(**context({"by": "ada"}, run_ids=["a"])) == ["a"]
    events = (None, {}, {"by": "ada"}, {"run_ids": ["a"]})
    assert verdict_dags.loaded_runs.function(**context(*events)) == ["a"]


def test_confirmations_of_all_runs_are_requested_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "nightbench.experiments.confirm.runs_to_confirm", lambda _, named: list(named)[1:]
    )
    added: list[Any] = []
    outlets = {
        SUSPECTS_ALIAS: SimpleNamespace(add=lambda *args, **more: added.append((args, more)))
    }
    named = context({"run_ids": ["a", "b"]}, {"run_ids": ["a"]})
    assert verdict_dags.request_confirmations.function(**named, outlet_events=outlets) == ["b"]
    assert added == [((SUSPECTS,), {"extra": {"run_ids": ["b"]}})]
