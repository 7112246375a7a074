"""The detector's grade on a real PostgreSQL: from a history, once a week, reported once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest
from tests.sql.conftest import Database, Rows
from tests.sql.given import Given
from tests.sql.nights import Inbox
from tests.sql.spooled import case, near, plan, spooled

from nightbench.core.model import (
    Case,
    HistoryPoint,
    Reason,
    ReasonCode,
    RegressionPolicy,
    Run,
    RunKind,
    VerdictKind,
)
from nightbench.detection import Judgement
from nightbench.detection.grading import FALSE_ALARMS, Grade
from nightbench.night import detector_grade
from nightbench.night.detector_grade import grade, grades_sentence
from nightbench.night.ingest import ingest_run
from nightbench.night.judge import JudgeResult, judge_run
from nightbench.spool import Spool
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.connection import Connection

CASES = tuple(case(batch) for batch in (1, 2, 4))
NIGHTS = 80
BROKEN = Reason(ReasonCode.AGENT_ERROR, "n1", observed="it broke")
Connect = Callable[[], Connection]


class Says:
    """A detector that says the same of every night."""

    def __init__(self, kind: VerdictKind) -> None:
        self.kind = kind

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        return Judgement(self.kind, "", since=tonight.at)


def store_nights(loader: Warehouse, given: Given, nights: range) -> Run:
    """Nights of three steady series from the first of March on; the last one's run."""
    for night in nights:
        run = given.run(night, suite="seeded")
        rng = random.Random(night)
        came = []
        for each in CASES:
            level = 100 * (1 + rng.gauss(0, 0.01))
            came.append(near(given, run, each, level))
        loader.runs.load(given.batch(run, *came))
    return run


@pytest.fixture(autouse=True)
def without_grading() -> None:
    """Nights are graded: the grade is the subject here."""


@pytest.fixture
def as_loader(warehouse: Database) -> Connect:
    return lambda: connect(warehouse.loader)


@pytest.fixture
def tonight(loader: Warehouse, given: Given) -> Run:
    return store_nights(loader, given, range(NIGHTS))


@pytest.fixture
def enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slowdowns of three series are enough for a limit; the copies without a change are few."""
    monkeypatch.setattr(detector_grade, "INJECTED", range(8))
    monkeypatch.setattr(detector_grade, "COPIES", range(1))


def graded(connect_as: Connect, run: Run, says: VerdictKind | None = None) -> list[Grade]:
    found = grade(connect_as, plan(run, CASES), detector=Says(says) if says else None)
    assert found is not None
    return found


def test_a_suite_with_a_history_has_a_grade_after_its_first_night(
    as_loader: Connect, warehouse: Database, tonight: Run, rows: Rows
) -> None:
    found = graded(as_loader, tonight)
    by_name = {each.measure: each for each in found}
    assert set(by_name) == {"3%", "5%", "10%", "2-4 noise", "over 4 noise", FALSE_ALARMS}
    large, quiet = by_name["10%"], by_name[FALSE_ALARMS]
    assert large.hits == large.trials > 0
    assert large.median_delay is not None
    assert 1 <= large.median_delay <= 4
    # Five copies of three series; the first twenty nights are too few to copy.
    assert quiet.trials == 5 * 3 * (NIGHTS - 20)
    with closing(connect(warehouse.reader)) as connection:
        stored = {
            row["measure"]: row for row in Warehouse(connection).grades.latest("seeded", "local")
        }
    assert {row["run_id"] for row in stored.values()} == {tonight.run_id}
    assert stored["10%"]["rate"] == large.rate
    assert stored[FALSE_ALARMS]["high"] == pytest.approx(quiet.high)
    # Nothing of it is a measurement, a verdict or an alert.
    for table in ("raw.verdict", "raw.alert", "marts.fct_verdict", "marts.fct_alert"):
        assert rows(f"select count(*) as n from {table}") == [{"n": 0}]
    assert rows("select count(*) as n from raw.measurement") == [{"n": NIGHTS * len(CASES)}]


def test_a_suite_is_graded_once_a_week_and_a_night_that_is_judged_again_the_same(
    as_loader: Connect, loader: Warehouse, given: Given, tonight: Run, rows: Rows
) -> None:
    every = "select * from raw.detector_grade order by run_id, measure"
    first = graded(as_loader, tonight, VerdictKind.OK)
    stored = rows(every)
    assert graded(as_loader, tonight, VerdictKind.OK) == first
    assert rows(every) == stored
    for night in range(NIGHTS, NIGHTS + 6):
        next_run = store_nights(loader, given, range(night, night + 1))
        assert grade(as_loader, plan(next_run, CASES)) is None
    assert rows(every) == stored
    week_later = store_nights(loader, given, range(NIGHTS + 6, NIGHTS + 7))
    assert graded(as_loader, week_later, VerdictKind.OK)
    assert {row["run_id"] for row in rows(every)} == {tonight.run_id, week_later.run_id}


def test_of_many_series_a_grade_copies_some(
    as_loader: Connect, tonight: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detector_grade, "SERIES", 2)
    quiet = graded(as_loader, tonight, VerdictKind.OK)[-1]
    assert (quiet.measure, quiet.trials) == (FALSE_ALARMS, 5 * 2 * (NIGHTS - 20))


def test_a_detector_that_never_alarms_has_no_power(as_loader: Connect, tonight: Run) -> None:
    found = graded(as_loader, tonight, VerdictKind.OK)
    falls = [each for each in found if each.measure != FALSE_ALARMS]
    assert [each.hits for each in falls] == [0] * 5
    assert min(each.trials for each in falls) >= 3


def test_a_detector_that_always_alarms_detects_nothing_that_counts(
    as_loader: Connect, tonight: Run
) -> None:
    """It says so of the real series too: every injected slowdown is spoiled."""
    found = graded(as_loader, tonight, VerdictKind.REGRESSED)
    falls = [each for each in found if each.measure != FALSE_ALARMS]
    assert {(each.trials, each.hits) for each in falls} == {(0, 0)}
    assert min(each.spoiled for each in falls) >= 3


@pytest.mark.usefixtures("enough")
def test_a_grade_that_falls_is_news_of_that_night_and_of_no_other(
    as_loader: Connect, loader: Warehouse, given: Given, tonight: Run, connection: Connection
) -> None:
    graded(as_loader, tonight, VerdictKind.OK)
    week_later = store_nights(loader, given, range(NIGHTS + 7, NIGHTS + 8))
    later = graded(as_loader, week_later, VerdictKind.OK)
    below = [each.measure for each in later if each.below]
    assert below == ["2-4 noise", "over 4 noise"]
    reader = Warehouse(connection)
    untold = unnotified(reader, "seeded", week_later)
    assert {(row["kind"], row["news"], row["subject"]) for row in untold} == {
        ("grade", tonight.run_id, measure) for measure in below
    }
    assert unnotified(reader, "other", week_later) == []


@pytest.mark.usefixtures("enough")
def test_a_power_is_compared_with_the_one_before_the_window(
    as_loader: Connect, loader: Warehouse, given: Given, connection: Connection
) -> None:
    before = store_nights(loader, given, range(NIGHTS))
    good = graded(as_loader, before)[2]
    assert (good.measure, good.below) == ("10%", "")
    month_later, later = (
        store_nights(loader, given, range(NIGHTS + day, NIGHTS + day + 40)) for day in (0, 60)
    )
    assert not graded(as_loader, month_later, VerdictKind.OK)[2].below
    poor = graded(as_loader, later, VerdictKind.OK)[2]
    assert f"; before, {good.hits} of {good.trials} were." in poor.below


def unnotified(reader: Warehouse, suite: str, until: Run) -> list[dict[str, Any]]:
    until_at = until.started_at
    return reader.messages.read("unnotified_notes", suite=suite, cluster="local", until=until_at)


def judged(
    spool: Spool, connect_as: Connect, run: Run, inbox: Inbox, **came: float | Reason
) -> JudgeResult:
    throughputs: dict[Case, float | Reason | None] = dict.fromkeys(CASES, 100.0)
    throughputs.update({CASES[int(place[1:])]: value for place, value in came.items()})
    spooled(spool, run, throughputs, [inbox.url])
    ingest_run(spool, run.run_id, connect_as)
    return judge_run(spool, run.run_id, connect_as)


@pytest.mark.usefixtures("enough")
def test_a_grade_that_fell_is_told_once_even_where_nothing_else_is_news(
    spool: Spool,
    as_loader: Connect,
    given: Given,
    tonight: Run,
    inbox: Inbox,
) -> None:
    graded(as_loader, tonight, VerdictKind.OK)
    judged(spool, as_loader, given.run(NIGHTS, suite="seeded"), inbox)
    (alone,) = inbox.messages
    assert alone["title"] == "Nightbench seeded on local: its detector became worse"
    assert "injected slowdowns (over 4 noise) were detected" in alone["message"]
    judged(spool, as_loader, given.run(NIGHTS + 1, suite="seeded"), inbox, c1=BROKEN)
    assert len(inbox.messages) == 2
    assert "detector" not in inbox.messages[1]["message"]


@pytest.mark.usefixtures("enough")
def test_a_grade_that_fell_comes_with_the_night_s_news(
    spool: Spool,
    as_loader: Connect,
    given: Given,
    tonight: Run,
    connection: Connection,
    inbox: Inbox,
) -> None:
    graded(as_loader, tonight, VerdictKind.OK)
    judged(spool, as_loader, given.run(NIGHTS, suite="seeded"), inbox, c1=BROKEN)
    (said,) = inbox.messages
    assert CASES[1].case_id in said["title"]
    assert "The detector became worse:\n- " in said["message"]
    assert unnotified(Warehouse(connection), "seeded", tonight) == []


def test_a_night_that_was_judged_is_graded(
    spool: Spool, as_loader: Connect, loader: Warehouse, given: Given
) -> None:
    store_nights(loader, given, range(NIGHTS))
    run = given.run(NIGHTS, suite="seeded")
    spooled(spool, run, dict.fromkeys(CASES, 100.0))
    ingest_run(spool, run.run_id, as_loader)
    result = judge_run(spool, run.run_id, as_loader)
    assert (result.graded or "").startswith("The detector: detected share")


def test_what_goes_wrong_in_grading_keeps_no_alert_back(
    spool: Spool,
    as_loader: Connect,
    loader: Warehouse,
    given: Given,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store_nights(loader, given, range(NIGHTS))
    run = given.run(NIGHTS, suite="seeded")
    spooled(spool, run, {CASES[0]: 100.0, CASES[1]: BROKEN, CASES[2]: 100.0})
    ingest_run(spool, run.run_id, as_loader)
    monkeypatch.setattr(detector_grade, "SERIES", "many")
    result = judge_run(spool, run.run_id, as_loader)
    assert [verdict.case_id for verdict in result.opened] == [CASES[1].case_id]
    assert "was not graded: " in (result.graded or "")


def test_only_nights_are_graded(
    spool: Spool, as_loader: Connect, loader: Warehouse, given: Given
) -> None:
    run = given.run(0, suite="seeded", run_kind=RunKind.ON_DEMAND)
    spooled(spool, run, dict.fromkeys(CASES, 100.0))
    ingest_run(spool, run.run_id, as_loader)
    assert judge_run(spool, run.run_id, as_loader).graded is None


def test_a_grade_in_a_line(as_loader: Connect, tonight: Run) -> None:
    said = grades_sentence(graded(as_loader, tonight))
    assert said.startswith("The detector: detected share of injected slowdowns: 3% ")
    assert "10% 100% of" in said
    assert f"in 1,000 of {5 * 3 * (NIGHTS - 20)} nights" in said
    assert "none yet" in grades_sentence([])
