"""What a night asks for, what waits for it, and what is told: on a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import pytest
from tests.sql import nights
from tests.sql.conftest import Database, Rows
from tests.sql.given import Given
from tests.sql.nights import FALLS, NIGHTS, STEADY, Inbox, history
from tests.sql.spooled import case, spooled

from nightbench.alerts.notify import notify_run
from nightbench.core.documents import from_document
from nightbench.core.errors import WarehouseRefused
from nightbench.core.model import Cluster, MeasuredCase, Run, RunKind
from nightbench.core.model.alerts import Confirmation, ConfirmationResult
from nightbench.core.model.experiments import NIGHTBENCH, Experiment, ExperimentKind
from nightbench.experiments import confirm, experiment_queue
from nightbench.experiments.experiment_queue import take
from nightbench.experiments.record import Ended, ExperimentRecord
from nightbench.night.ingest import ingest_run
from nightbench.night.judge import judge_run
from nightbench.night.suspected_regressions import SuspectedRegression, request_confirmations
from nightbench.spool import RunSpool, Spool
from nightbench.spool.plans import read_plan
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.experiments import ExperimentRepository
from nightbench.warehouse.runs import RunRepository

LESS = case(64)
"""Falls less than `FALLS`."""


@pytest.fixture
def repository(connection: Connection) -> ExperimentRepository:
    return Warehouse(connection).experiments


def confirm_s(folder: RunSpool, seconds: float) -> None:
    """Give the night so much time for its suspects."""
    document = folder.run() or {}
    folder.save_run({**document, "policy": {**document["policy"], "confirm_s": seconds}})


Night = Callable[..., Run]


@pytest.fixture
def night(
    spool: Spool, warehouse: Database, connection: Connection, given: Given, inbox: Inbox
) -> Night:
    """A night on which `FALLS` lost ten per cent and `LESS` eight, judged."""

    def make(seconds: float = 3600.0, *, confirms: bool = True) -> Run:
        history(Warehouse(connection), given, (STEADY, FALLS, LESS), nights=NIGHTS)
        run = given.run(NIGHTS, suite="seeded")
        came = {STEADY: 100.0, FALLS: 90.0, LESS: 92.0}
        confirm_s(spooled(spool, run, came, channels=[inbox.url]), seconds)
        ingest_run(spool, run.run_id, lambda: connect(warehouse.loader))
        judge(spool, warehouse, run, confirms=confirms)
        return run

    return make


@pytest.fixture(autouse=True)
def less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(nights.MOVED, LESS.case_id, 92.0)


def judge(spool: Spool, warehouse: Database, run: Run, *, confirms: bool = True) -> None:
    judge_run(spool, run.run_id, lambda: connect(warehouse.loader), confirms=confirms)


def test_what_brings_most_is_asked_for_first_and_what_does_not_fit_says_why(
    night: Night, repository: ExperimentRepository, spool: Spool, warehouse: Database
) -> None:
    # A repeat takes 20 s by the past nights: two times five of them and preparing take 230 s.
    run = night(seconds=300.0)
    second, first = repository.find(run_id=run.run_id)
    assert (first["case_id"], first["state"]) == (FALLS.case_id, "queued")
    assert (second["case_id"], second["state"]) == (LESS.case_id, "cancelled")
    assert "takes about" in second["why"]
    assert "were left" in second["why"]
    judge(spool, warehouse, run)
    assert repository.find(run_id=run.run_id) == [second, first]  # asked once, however often judged
    suspect = from_document(SuspectedRegression, first["request"])
    assert (suspect.value, suspect.nodes) == (pytest.approx(90.0, rel=0.01), ("n1",))
    assert suspect.baseline == pytest.approx(100.0, rel=0.01)
    assert suspect.good is not None
    assert (suspect.good.version, suspect.good_version) == ("2.13.0", "2.13.0+cpu")
    assert suspect.good_run_id == f"seeded-{run.started_at.replace(day=17):%Y%m%dT%H%M%S}-0a1b"


def test_off_means_that_nothing_is_asked_and_all_is_told_at_once(
    night: Night, repository: ExperimentRepository, inbox: Inbox
) -> None:
    run = night(seconds=0.0)
    assert repository.find(run_id=run.run_id) == []
    assert len(inbox.messages) == 1


def test_who_cannot_confirm_does_not_wait(
    night: Night, repository: ExperimentRepository, inbox: Inbox
) -> None:
    run = night(confirms=False)
    assert repository.find(run_id=run.run_id) == []
    assert len(inbox.messages) == 1


def test_a_message_waits_and_says_what_came_out_once(
    night: Night,
    repository: ExperimentRepository,
    spool: Spool,
    warehouse: Database,
    inbox: Inbox,
    reader: Warehouse,
) -> None:
    run = night()
    assert inbox.messages == []
    rows = repository.waiting(run.run_id)
    assert [row["case_id"] for row in rows] == [FALLS.case_id, LESS.case_id]

    def open_loader() -> Connection:
        return connect(warehouse.loader)

    outcomes = (ConfirmationResult.CONFIRMED, ConfirmationResult.NOT_CONFIRMED)
    for row, outcome in zip(rows, outcomes, strict=True):
        assert repository.begin(row["name"], "run-1")
        said = Confirmation(outcome, f"{outcome} on n1.", 0.9, 0.89, 0.91, 5)
        ended = confirm.ended_as(said, here={"cases": []})
        assert repository.leave(row["name"], "run-1", "done", spent_s=9.0, result=ended.result)
        assert not repository.begin(row["name"], "run-1")
    for _ in range(2):
        notify_run(spool, run.run_id, open_loader)
        judge(spool, warehouse, run)

    assert len(inbox.messages) == 1
    text = json.dumps(inbox.messages[0])
    assert "confirmed on n1." in text
    assert "2 of 2 suspected regressions were measured again, within " in text
    assert ": 1 confirmed, 1 not confirmed. Median uncertainty of a drop: \\u00b11.0%" in text
    below = text.lower().index("not confirmed")
    assert text.index(FALLS.case_id) < below < text.rindex(LESS.case_id)
    alerts = {row["case_id"]: row for row in reader.alerts.find()}
    assert alerts[FALLS.case_id]["confirmation"] == "confirmed"
    assert alerts[FALLS.case_id]["confirmation_ratio"] == pytest.approx(0.9)
    assert alerts[LESS.case_id]["confirmation"] == "not_confirmed"
    assert alerts[LESS.case_id]["state"] == "open"  # the alert stays; only nobody is paged


def test_what_does_not_end_in_time_is_given_up_and_told(
    night: Night,
    repository: ExperimentRepository,
    spool: Spool,
    warehouse: Database,
    inbox: Inbox,
    server: Any,
) -> None:
    run = night()

    def open_loader() -> Connection:
        return connect(warehouse.loader)

    assert confirm.runs_to_notify(open_loader) == []
    server.execute("update raw.experiment set until = now() - interval '1 second'", warehouse.name)
    for _ in range(2):  # until the message was sent
        assert confirm.runs_to_notify(open_loader) == [run.run_id]
    assert {row["state"] for row in repository.find(run_id=run.run_id)} == {"cancelled"}
    notify_run(spool, run.run_id, open_loader)
    assert len(inbox.messages) == 1
    assert confirm.runs_to_notify(open_loader) == []
    # Who measured on all the same is heard: late, and without a second message.
    late = repository.find(run_id=run.run_id)[0]["name"]
    for outcome, is_first in (("confirmed", True), ("not_confirmed", False)):
        said = {"outcome": outcome, "sentence": "So."}
        assert repository.leave(late, None, "done", spent_s=1.0, result=said) is is_first
    assert not repository.leave(late, None, "queued", spent_s=1.0)
    notify_run(spool, run.run_id, open_loader)
    assert len(inbox.messages) == 1


def test_a_person_may_ask_again_and_nobody_waits_for_that(
    night: Night, repository: ExperimentRepository, inbox: Inbox, reader: Warehouse
) -> None:
    run = night(seconds=0.0)
    alert = next(row for row in reader.alerts.find() if row["case_id"] == FALLS.case_id)

    def ask(name: str, by: str, until: datetime | None = None) -> bool:
        more = {"alert_id": alert["alert_id"], "run_id": run.run_id, "until": until}
        where = ("seeded", "local", by)
        asked = Experiment(name, ExperimentKind.CONFIRM, {"change": -0.1}, *where, **more)
        return repository.add(asked)

    assert all([ask(f"confirm-{k}", "ada") for k in range(2)])
    assert repository.waiting(run.run_id) == []
    soon = datetime.now(UTC) + timedelta(minutes=1)
    assert [ask(f"confirm-n{k}", NIGHTBENCH, soon) for k in range(2)] == [True, False]
    assert len(inbox.messages) == 1


def test_a_run_on_demand_doubts_nothing(
    spool: Spool,
    warehouse: Database,
    connection: Connection,
    given: Given,
    repository: ExperimentRepository,
) -> None:
    history(Warehouse(connection), given, (FALLS,))
    run = given.run(NIGHTS, suite="seeded", run_kind=RunKind.ON_DEMAND)
    spooled(spool, run, {FALLS: 90.0})
    ingest_run(spool, run.run_id, lambda: connect(warehouse.loader))
    judge(spool, warehouse, run)
    assert repository.find() == []


def test_readers_see_outcomes_and_change_none(
    night: Night, warehouse: Database, rows: Rows
) -> None:
    night()
    assert {r["confirmation_state"] for r in rows("select * from marts.fct_alert")} == {"queued"}
    with closing(connect(warehouse.reader)) as connection:
        with pytest.raises(WarehouseRefused):
            Warehouse(connection).experiments.give_up_overdue("no")
        with connection.cursor() as cursor, pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("update raw.experiment set state = 'running'")


def test_ask_alone_is_idempotent_for_two_judges(
    night: Night, spool: Spool, warehouse: Database, repository: ExperimentRepository
) -> None:
    run = night()
    plan = read_plan(spool.run(run.run_id))
    with closing(connect(warehouse.loader)) as other:
        request_confirmations(Warehouse(other), replace(plan))
    assert len(repository.find(run_id=run.run_id)) == 2
    assert len(repository.waiting(run.run_id)) == 2


def test_what_keeps_a_night_from_asking_keeps_no_message(
    night: Night, repository: ExperimentRepository, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(*_: Any) -> float:
        raise PermissionError(13, "Permission denied", "/wheels")

    monkeypatch.setattr("nightbench.night.suspected_regressions.expected_seconds", torn)
    run = night()
    assert repository.find(run_id=run.run_id) == []
    assert len(inbox.messages) == 1


def test_a_night_is_read_once_however_many_suspects_it_has(
    night: Night,
    spool: Spool,
    warehouse: Database,
    repository: ExperimentRepository,
    server: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = night()
    server.execute("delete from raw.experiment", warehouse.name)
    read: list[str] = []
    measured = RunRepository.measured

    def counted(self: RunRepository, run_id: str) -> list[MeasuredCase]:
        read.append(run_id)
        return measured(self, run_id)

    monkeypatch.setattr(RunRepository, "measured", counted)
    with closing(connect(warehouse.loader)) as other:
        request_confirmations(Warehouse(other), read_plan(spool.run(run.run_id)))
    found = repository.find(run_id=run.run_id)
    assert len(found) == 2
    good = {row["good_run_id"] for row in found}
    assert sorted(read) == sorted({run.run_id, *good})


def test_a_night_goes_first_and_whoever_measures_there_yields_to_it(
    night: Night,
    repository: ExperimentRepository,
    spool: Spool,
    warehouse: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(experiment_queue, "cluster_of", lambda name: Cluster(name, ()))
    request = {"cases": ["x"], "rounds": 3}
    asked = Experiment("compare-1", ExperimentKind.COMPARE, request, "demo", "local", "ada")

    def open_loader() -> Connection:
        return connect(warehouse.loader)

    def next_one(**more: Any) -> Experiment:
        found = take(open_loader, spool, "run-1", lambda _: "running", list, **more)
        assert found is not None
        return found[0]

    assert repository.add(asked)
    first = next_one()
    assert first.name == "compare-1"
    record = ExperimentRecord(first, open_loader, print)
    assert record.note() is None
    run = night()
    assert record.note() == "waits: a night's suspected regressions are measured first"
    assert record.finished(spool.comparison("compare-1"), "so") == ("queued", "so")
    record.leave(Ended("queued", "so"))
    names = [row["name"] for row in repository.waiting(run.run_id)]
    assert take(open_loader, spool, "run-1", lambda _: "running", list, night="another") is None
    for name in names:
        assert next_one(night=run.run_id).name == name
        assert repository.leave(name, "run-1", "done", spent_s=1.0, result={"outcome": "confirmed"})
    # The night's message is sent before anybody's comparison goes on.
    assert take(open_loader, spool, "run-1", lambda _: "", list, night=run.run_id) is None
    assert next_one().name == "compare-1"


def test_only_what_was_given_up_is_said_to_have_been(
    night: Night, warehouse: Database, server: Any
) -> None:
    night(seconds=1.0)  # for no suspect at all: each is skipped, and none waited for
    # As where no channel took the message.
    server.execute("delete from raw.delivery", warehouse.name)
    assert confirm.runs_to_notify(lambda: connect(warehouse.loader)) == []


def test_an_alerts_confirmations_are_found_by_an_index(rows: Rows) -> None:
    found = rows("select indexdef from pg_indexes where tablename = 'experiment'")
    assert any("(alert_id, experiment_id)" in row["indexdef"] for row in found)
