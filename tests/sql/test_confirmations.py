"""What a night asks for, what waits for it, and what is told: on a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
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
from nightbench.core.model import MeasuredCase, Run, RunKind
from nightbench.core.model.alerts import Confirmation, ConfirmationResult
from nightbench.experiments import confirm
from nightbench.night.ingest import ingest_run
from nightbench.night.judge import judge_run
from nightbench.night.suspected_regressions import SuspectedRegression, request_confirmations
from nightbench.spool import RunSpool, Spool
from nightbench.spool.plans import read_plan
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.experiments import ConfirmationRepository
from nightbench.warehouse.runs import RunRepository

LESS = case(64)
"""Falls less than `FALLS`."""


@pytest.fixture
def repository(connection: Connection) -> ConfirmationRepository:
    return Warehouse(connection).confirmations


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
    night: Night, repository: ConfirmationRepository, spool: Spool, warehouse: Database
) -> None:
    # A repeat takes 20 s by the past nights: two times five of them and preparing take 230 s.
    run = night(seconds=300.0)
    first, second = repository.find(run_id=run.run_id)
    assert (first["case_id"], first["state"]) == (FALLS.case_id, "wanted")
    assert (second["case_id"], second["state"]) == (LESS.case_id, "skipped")
    assert "takes about" in second["sentence"]
    assert "were left" in second["sentence"]
    assert first["detail"]["gain_per_hour"] >= second["detail"]["gain_per_hour"] > 0
    judge(spool, warehouse, run)
    assert repository.find(run_id=run.run_id) == [first, second]  # asked once, however often judged
    suspect = from_document(SuspectedRegression, first["detail"])
    assert (suspect.value, suspect.nodes) == (pytest.approx(90.0, rel=0.01), ("n1",))
    assert suspect.baseline == pytest.approx(100.0, rel=0.01)
    assert suspect.good is not None
    assert (suspect.good.version, suspect.good_version) == ("2.13.0", "2.13.0+cpu")
    assert suspect.good_run_id == f"seeded-{run.started_at.replace(day=17):%Y%m%dT%H%M%S}-0a1b"


def test_off_means_that_nothing_is_asked_and_all_is_told_at_once(
    night: Night, repository: ConfirmationRepository, inbox: Inbox
) -> None:
    run = night(seconds=0.0)
    assert repository.find(run_id=run.run_id) == []
    assert len(inbox.messages) == 1


def test_who_cannot_confirm_does_not_wait(
    night: Night, repository: ConfirmationRepository, inbox: Inbox
) -> None:
    run = night(confirms=False)
    assert repository.find(run_id=run.run_id) == []
    assert len(inbox.messages) == 1


def test_a_message_waits_and_says_what_came_out_once(
    night: Night,
    repository: ConfirmationRepository,
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
        asked = confirm.begin_confirmation(open_loader, row["confirmation_id"])
        assert asked is not None
        assert asked.suspect.case_id == row["case_id"]
        said = Confirmation(outcome, f"{outcome} on n1.", 0.9, 0.89, 0.91, 5)
        confirm.end_confirmation(open_loader, asked, said, {"here": {"cases": []}})
        assert confirm.begin_confirmation(open_loader, row["confirmation_id"]) is None
    for _ in range(2):
        notify_run(spool, run.run_id, open_loader)
        judge(spool, warehouse, run)

    assert len(inbox.messages) == 1
    text = json.dumps(inbox.messages[0])
    assert "confirmed on n1." in text
    assert "2 of 2 suspected regressions, within " in text
    assert ": 1 confirmed, 1 not confirmed; a fall is known to \\u00b11.0% now" in text
    below = text.lower().index("not confirmed")
    assert text.index(FALLS.case_id) < below < text.rindex(LESS.case_id)
    alerts = {row["case_id"]: row for row in reader.alerts.find()}
    assert alerts[FALLS.case_id]["confirmation"] == "confirmed"
    assert alerts[FALLS.case_id]["confirmation_ratio"] == pytest.approx(0.9)
    assert alerts[LESS.case_id]["confirmation"] == "not_confirmed"
    assert alerts[LESS.case_id]["state"] == "open"  # the alert stays; only nobody is paged


def test_what_does_not_end_in_time_is_given_up_and_told(
    night: Night,
    repository: ConfirmationRepository,
    spool: Spool,
    warehouse: Database,
    inbox: Inbox,
    server: Any,
) -> None:
    run = night()

    def open_loader() -> Connection:
        return connect(warehouse.loader)

    assert confirm.give_up_overdue(open_loader) == []
    server.execute(
        "update raw.confirmation set until = now() - interval '1 second'", warehouse.name
    )
    assert confirm.give_up_overdue(open_loader) == [run.run_id]
    assert {row["state"] for row in repository.find(run_id=run.run_id)} == {"skipped"}
    notify_run(spool, run.run_id, open_loader)
    assert len(inbox.messages) == 1
    assert confirm.give_up_overdue(open_loader) == []
    # Who measured on all the same is heard: late, and without a second message.
    late = repository.find(run_id=run.run_id)[0]["confirmation_id"]
    assert repository.end(late, Confirmation(ConfirmationResult.CONFIRMED, "It is there."))
    assert not repository.end(late, Confirmation(ConfirmationResult.NOT_CONFIRMED, "It is not."))
    notify_run(spool, run.run_id, open_loader)
    assert len(inbox.messages) == 1


def test_a_person_may_ask_again_and_nobody_waits_for_that(
    night: Night, repository: ConfirmationRepository, inbox: Inbox, reader: Warehouse
) -> None:
    run = night(seconds=0.0)
    alert = next(row for row in reader.alerts.find() if row["case_id"] == FALLS.case_id)
    detail = {"change": -0.1}
    ids = [
        repository.request(
            alert["alert_id"], run.run_id, f"confirm-{k}", detail, within_s=None, by="ada"
        )
        for k in range(2)
    ]
    assert None not in ids
    assert repository.waiting(run.run_id) == []
    nobody = [
        repository.request(alert["alert_id"], run.run_id, f"confirm-n{k}", detail, within_s=60.0)
        for k in range(2)
    ]
    assert nobody[0] is not None
    assert nobody[1] is None
    assert len(inbox.messages) == 1


def test_a_run_on_demand_doubts_nothing(
    spool: Spool,
    warehouse: Database,
    connection: Connection,
    given: Given,
    repository: ConfirmationRepository,
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
    assert {r["confirmation_state"] for r in rows("select * from marts.fct_alert")} == {"wanted"}
    with closing(connect(warehouse.reader)) as connection:
        with pytest.raises(WarehouseRefused):
            Warehouse(connection).confirmations.give_up("demo-1", "no")
        with connection.cursor() as cursor, pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("update raw.confirmation set state = 'running'")


def test_ask_alone_is_idempotent_for_two_judges(
    night: Night, spool: Spool, warehouse: Database, repository: ConfirmationRepository
) -> None:
    run = night()
    plan = read_plan(spool.run(run.run_id))
    with closing(connect(warehouse.loader)) as other:
        request_confirmations(other, replace(plan))
    assert len(repository.find(run_id=run.run_id)) == 2
    assert len(repository.waiting(run.run_id)) == 2


def test_what_keeps_a_night_from_asking_keeps_no_message(
    night: Night, repository: ConfirmationRepository, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(*_: Any) -> float:
        raise PermissionError(13, "Permission denied", "/wheels")

    monkeypatch.setattr("nightbench.night.suspected_regressions.expected", torn)
    run = night()
    assert repository.find(run_id=run.run_id) == []
    assert len(inbox.messages) == 1


def test_a_night_is_read_once_however_many_suspects_it_has(
    night: Night,
    spool: Spool,
    warehouse: Database,
    repository: ConfirmationRepository,
    server: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = night()
    server.execute("delete from raw.confirmation", warehouse.name)
    read: list[str] = []
    measured = RunRepository.measured

    def counted(self: RunRepository, run_id: str) -> list[MeasuredCase]:
        read.append(run_id)
        return measured(self, run_id)

    monkeypatch.setattr(RunRepository, "measured", counted)
    with closing(connect(warehouse.loader)) as other:
        request_confirmations(other, read_plan(spool.run(run.run_id)))
    found = repository.find(run_id=run.run_id)
    assert len(found) == 2
    good = {row["detail"]["good_run_id"] for row in found}
    assert sorted(read) == sorted({run.run_id, *good})


def test_who_failed_to_measure_is_waited_for_no_longer_and_who_still_measures_is(
    night: Night,
    repository: ConfirmationRepository,
    spool: Spool,
    warehouse: Database,
    inbox: Inbox,
) -> None:
    run = night()
    falls, less = repository.waiting(run.run_id)
    by_hand = repository.request(
        falls["alert_id"], run.run_id, "confirm-ada", {"change": -0.1}, within_s=None, by="ada"
    )

    def open_loader() -> Connection:
        return connect(warehouse.loader)

    def give_up() -> int:
        given_up = confirm.give_up_rest(open_loader, spool, run.run_id)
        notify_run(spool, run.run_id, open_loader)
        return given_up

    assert confirm.begin_confirmation(open_loader, falls["confirmation_id"]) is not None
    with spool.comparison(less["comparison_id"]).steered():
        assert give_up() == 1
        assert inbox.messages == []
    assert give_up() == 1
    assert len(inbox.messages) == 1
    states = {row["confirmation_id"]: row["state"] for row in repository.find(run_id=run.run_id)}
    assert states == {
        falls["confirmation_id"]: "skipped",
        less["confirmation_id"]: "skipped",
        by_hand: "wanted",
    }


def test_only_what_was_given_up_is_said_to_have_been(
    night: Night, warehouse: Database, server: Any
) -> None:
    night(seconds=1.0)  # for no suspect at all: each is skipped, and none waited for
    # As where no channel took the message.
    server.execute("delete from raw.delivery", warehouse.name)
    assert confirm.give_up_overdue(lambda: connect(warehouse.loader)) == []


def test_an_alerts_confirmations_are_found_by_an_index(rows: Rows) -> None:
    found = rows("select indexdef from pg_indexes where tablename = 'confirmation'")
    assert any("(alert_id, confirmation_id)" in row["indexdef"] for row in found)
