"""The life of an alert on a real PostgreSQL: moves, rights, history, two judges at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import psycopg2
import pytest
from tests.sql.conftest import Database, Rows
from tests.sql.given import Given
from tests.sql.nights import FALLS, NIGHTS, STEADY, Inbox, history
from tests.sql.pipeline import Pipeline

from nightbench.core.errors import WarehouseRefused
from nightbench.core.model import Case, Run, VerdictKind
from nightbench.warehouse import Triage, Warehouse, connect

SOON = datetime.now(UTC) + timedelta(days=3)


def test_who_did_what_and_why_is_kept(triage: Triage, reader: Warehouse, alert_id: int) -> None:
    triage.move(alert_id, "acknowledged", "looking")
    triage.assign(alert_id, "grace")
    triage.snooze(alert_id, SOON, "after the release")
    triage.move(alert_id, "dismissed", "wanted", "intended")
    triage.move(alert_id, "open", "not so")
    (alert,) = reader.alerts.find()
    assert (alert["state"], alert["owner"], alert["dismissed_as"]) == ("open", "grace", None)
    assert [
        (e["what"], e["from_state"], e["to_state"], e["by_whom"], e["db_role"])
        for e in reader.alerts.read("alert_events", alert_id=alert_id)
    ] == [
        ("opened", None, "open", "nightbench", "nightbench_loader"),
        ("moved", "open", "acknowledged", "ada", "nightbench_triage"),
        ("assigned", "acknowledged", "acknowledged", "ada", "nightbench_triage"),
        ("snoozed", "acknowledged", "acknowledged", "ada", "nightbench_triage"),
        ("moved", "acknowledged", "dismissed", "ada", "nightbench_triage"),
        ("moved", "dismissed", "open", "ada", "nightbench_triage"),
    ]
    assert reader.alerts.read("alert_events", alert_id=alert_id)[4]["why"] == "intended: wanted"


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        ([("open", None)], "is open and cannot become open"),
        ([("resolved", None), ("acknowledged", None)], "is resolved and cannot become"),
        ([("dismissed", None)], "found nothing"),
        ([("dismissed", "bored")], "found bored"),
        ([("acknowledged", "intended")], "only a dismissed alert has a reason"),
        ([("gone", None)], "cannot become gone"),
        ([(None, None)], "becomes acknowledged, resolved, dismissed or open, found nothing"),
    ],
)
def test_moves_that_are_not_allowed(
    triage: Triage, reader: Warehouse, alert_id: int, moves: list[Any], said: str
) -> None:
    for to, reason in moves[:-1]:
        triage.move(alert_id, to, "", reason)
    before = reader.alerts.read("alert_events", alert_id=alert_id)
    with pytest.raises(WarehouseRefused, match=said):
        triage.move(alert_id, moves[-1][0], "", moves[-1][1])
    assert reader.alerts.read("alert_events", alert_id=alert_id) == before


def test_nobody_is_nightbench_and_no_snooze_is_in_the_past(
    warehouse: Database, triage: Triage, alert_id: int
) -> None:
    with closing(connect(warehouse.triage)) as connection:
        for name in ("nightbench", " ", ""):
            with pytest.raises(WarehouseRefused, match="a name of their own"):
                Triage(connection, name).move(alert_id, "resolved")
    with pytest.raises(WarehouseRefused, match="a time to come"):
        triage.snooze(alert_id, datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(WarehouseRefused, match="there is no alert 999"):
        triage.move(999, "resolved")


def test_a_snooze_ends_within_a_year(
    warehouse: Database, triage: Triage, reader: Warehouse, alert_id: int
) -> None:
    triage.snooze(alert_id, datetime.now(UTC) + timedelta(days=365))
    with closing(psycopg2.connect(warehouse.triage)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        # Python reads no year beyond 9999: whoever read this alert, a night too, failed.
        too_far = "select triage.snooze_alert(%s, '12026-12-01', 'ada')"
        with pytest.raises(psycopg2.errors.RaiseException, match="a year ahead at most"):
            cursor.execute(too_far, (alert_id,))
    assert reader.alerts.find()[0]["state"] == "open"


@pytest.mark.parametrize(
    "statement",
    [
        "select * from raw.alert",
        "update raw.alert set state = 'resolved'",
        "select triage.apply_move(1, 'open', 'nightbench', '', null, null)",
        "select triage.resolve_by_run(1, 'x', '')",
        "insert into raw.alert_event (alert_id, what, to_state, by_whom)"
        " values (1, 'moved', 'open', 'ada')",
        "create table triage.mine (id int)",
    ],
)
def test_triage_calls_its_functions_and_reads_marts_only(
    warehouse: Database, alert_id: int, statement: str
) -> None:
    with closing(psycopg2.connect(warehouse.triage)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("select count(*) from marts.fct_alert_event")
        assert cursor.fetchone() == (1,)
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute(statement)


@pytest.mark.parametrize(
    "statement", ["update raw.alert_event set why = 'x'", "delete from raw.alert_event"]
)
def test_the_history_is_only_added_to(warehouse: Database, alert_id: int, statement: str) -> None:
    with (
        closing(psycopg2.connect(warehouse.owner)) as owner,
        pytest.raises(psycopg2.errors.RaiseException, match="only ever added to"),
    ):
        owner.cursor().execute(statement)
    with (
        closing(psycopg2.connect(warehouse.loader)) as loader,
        pytest.raises(psycopg2.errors.InsufficientPrivilege),
    ):
        loader.cursor().execute("update raw.alert set state = 'resolved'")


def test_two_who_judge_at_once_make_one_alert_and_one_message(
    pipeline: Pipeline, given: Given, inbox: Inbox, rows: Rows
) -> None:
    history(pipeline.loader, given, (FALLS,))
    run = pipeline.measure(given.run(NIGHTS, suite="seeded"), {FALLS: 90.0})
    together = Barrier(2)

    def judge(_: int) -> int:
        together.wait()
        return len(pipeline.judge(run).deliveries)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(judge, range(2))) == [0, 1]
    assert len(inbox.messages) == 1
    assert len(rows("select * from raw.alert")) == 1
    whats = [e["what"] for e in rows("select what from raw.alert_event order by event_id")]
    assert whats == ["opened", "assigned"]


@dataclass
class Nights:
    """Nights of one case, one after the other."""

    pipeline: Pipeline
    case: Case = FALLS
    night: int = NIGHTS

    def __call__(self, *throughputs: float) -> int:
        """Measure and judge; how many messages came."""
        first = self.night
        for throughput in throughputs:
            self.load(throughput)
        return self.judge(*range(first, self.night))

    def load(self, throughput: float) -> int:
        """Measure and judge nothing; which night it was."""
        self.pipeline.measure(self.run(self.night), {self.case: throughput})
        self.night += 1
        return self.night - 1

    def run(self, number: int) -> Run:
        """A night's run."""
        return self.pipeline.given.run(number, suite="seeded")

    def judge(self, *numbers: int) -> int:
        """Judge nights, or judge them again; how many messages came."""
        messages = self.pipeline.inbox.messages
        before = len(messages)
        for number in numbers:
            self.pipeline.judge(self.run(number))
        return len(messages) - before


@pytest.fixture
def nights(pipeline: Pipeline, given: Given) -> Nights:
    history(pipeline.loader, given, (FALLS,))
    return Nights(pipeline)


def test_what_was_dismissed_stays_so_until_it_falls_further(
    nights: Nights, triage: Triage, reader: Warehouse
) -> None:
    assert nights(90.0) == 1
    (alert,) = reader.alerts.find()
    triage.move(alert["alert_id"], "dismissed", "the price of the fix", "intended")
    assert nights(90.0, 90.1, 89.9) == 0
    assert nights(80.0, 90.0) == 0  # One worse night is nobody's news.
    assert reader.alerts.find() == []
    assert nights(80.0, 80.1) == 1
    (again,) = reader.alerts.find()
    assert (again["alert_id"], again["state"]) == (alert["alert_id"], "open")
    moved = [
        e["to_state"]
        for e in reader.alerts.read("alert_events", alert_id=alert["alert_id"])
        if e["what"] == "moved"
    ]
    assert moved == ["dismissed", "open"]


def test_two_good_nights_resolve_and_one_does_not(nights: Nights, reader: Warehouse) -> None:
    nights(90.0, 100.0)
    assert [alert["state"] for alert in reader.alerts.find()] == ["open"]
    nights(90.0, 100.0)
    assert [alert["state"] for alert in reader.alerts.find()] == ["open"]
    assert nights(100.1) == 1
    (alert,) = reader.alerts.find(states=None)
    assert alert["state"] == "resolved"
    assert (
        reader.alerts.read("alert_events", alert_id=alert["alert_id"])[-1]["by_whom"]
        == "nightbench"
    )


def test_a_snoozed_alert_wakes_by_itself(nights: Nights, triage: Triage, reader: Warehouse) -> None:
    assert nights(90.0) == 1
    (alert,) = reader.alerts.find()
    triage.snooze(alert["alert_id"], SOON)
    assert nights(90.1) == 0
    nights.pipeline.sql("update raw.alert set snoozed_until = now() - interval '1 s'")
    assert nights(90.0) == 1
    assert nights(90.1) == 0
    whats = [
        event["what"] for event in reader.alerts.read("alert_events", alert_id=alert["alert_id"])
    ]
    assert whats.count("woke") == 1


FALLEN = (85.0, 85.1, 84.9)


@pytest.fixture
def steady(pipeline: Pipeline, given: Given) -> Nights:
    history(pipeline.loader, given, (STEADY,))
    return Nights(pipeline, STEADY)


def test_judging_good_nights_again_resolves_no_alert_of_later_ones(
    steady: Nights, reader: Warehouse
) -> None:
    steady(100.0, 100.1, *FALLEN)
    (alert,) = reader.alerts.find()
    assert steady.judge(NIGHTS, NIGHTS + 1) == 0
    assert steady(85.0) == 0
    assert [each["alert_id"] for each in reader.alerts.find()] == [alert["alert_id"]]


@pytest.mark.parametrize("dismissed", [False, True], ids=["over", "dismissed"])
def test_judging_the_nights_of_an_event_again_tells_nobody_of_it(
    steady: Nights, reader: Warehouse, triage: Triage, dismissed: bool
) -> None:
    steady(100.0, 100.1, *FALLEN)
    (alert,) = reader.alerts.find()
    if dismissed:
        triage.move(alert["alert_id"], "dismissed", "the price of the fix", "intended")
    steady(*([85.0] if dismissed else [100.0, 100.1]))
    known = reader.alerts.find(states=None)
    assert steady.judge(*range(NIGHTS, NIGHTS + 2 + len(FALLEN))) == 0
    assert reader.alerts.find(states=None) == known


def test_a_night_that_is_judged_late_moves_nothing(steady: Nights, reader: Warehouse) -> None:
    loaded = [steady.load(value) for value in (*FALLEN, 100.0, 100.1)]
    known = reader.alerts.find(states=None)
    steady.judge(*reversed(loaded))
    assert reader.alerts.find(states=None) == known
    verdicts = reader.series.verdicts(steady.run(loaded[len(FALLEN) - 1]).run_id)
    assert [each.kind for each in verdicts] == [VerdictKind.REGRESSED]


def test_a_fall_that_grows_is_sent_again_once(
    steady: Nights, reader: Warehouse, inbox: Inbox
) -> None:
    assert steady(95.0, 95.1, 94.9, 95.0) == 1
    assert steady(89.0, 95.1) == 0  # One slow night is nobody's news.
    assert steady(89.0) == 0
    assert steady(89.1) == 1

    said = inbox.messages[-1]
    assert said["title"].endswith("regressed: the change grew from 5.1% to 10.9%")
    assert "- tonight: 89.1 samples/s" in said["message"]
    assert "level change: " not in said["message"]  # That of six nights is still 5 %.
    assert steady(88.9, 89.0, 89.1, 88.9, 89.0, 89.1, 88.9) == 0
    (alert,) = reader.alerts.find()
    grew = [
        event
        for event in reader.alerts.read("alert_events", alert_id=alert["alert_id"])
        if event["what"] == "grew"
    ]
    assert [event["why"] for event in grew] == ["from -5.1 % to -10.9 %"]


def test_a_growth_waits_for_the_end_of_a_snooze(
    steady: Nights, reader: Warehouse, triage: Triage
) -> None:
    steady(95.0, 95.1, 95.0)
    (alert,) = reader.alerts.find()
    triage.snooze(alert["alert_id"], SOON)

    assert steady(89.0, 89.1, 89.0) == 0

    (alert,) = reader.alerts.find()
    assert alert["notified_change"] is None
