"""The detector's grade on a real PostgreSQL: from a history, bounded, told once."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import pytest
from psycopg2.extras import execute_values
from tests.sql.conftest import Database, Rows
from tests.sql.given import Given
from tests.sql.nights import Inbox
from tests.sql.spooled import DIGEST, FAKE, case, plan, spooled

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
from nightbench.detection.grading import FALSE_ALARMS, WATCHED
from nightbench.night.detector_grade import DetectorGrades, grade
from nightbench.night.ingest import ingest_run
from nightbench.night.judge import JudgeResult, judge_run
from nightbench.spool import Spool
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.grades import Counts

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
            figures = tuple(level * x for x in (0.995, 1.0, 1.005))
            came.append(
                given.came_back(
                    run,
                    each,
                    figures,
                    build=FAKE,
                    definition_digest=DIGEST,
                    fingerprint_id="",
                    unit="samples",
                )
            )
        loader.runs.load(given.bundle(run, *came))
    return run


@pytest.fixture(autouse=True)
def grading_budget_s() -> None:
    """Nights have their usual time: the grade is the subject here."""


@pytest.fixture
def as_loader(warehouse: Database) -> Connect:
    return lambda: connect(warehouse.loader)


@pytest.fixture
def tonight(loader: Warehouse, given: Given) -> Run:
    return store_nights(loader, given, range(NIGHTS))


def graded(connect_as: Connect, run: Run, **more: object) -> DetectorGrades:
    return grade(connect_as, plan(run, CASES), **more)


def test_a_suite_with_a_history_has_a_grade_after_its_first_night(
    as_loader: Connect, warehouse: Database, tonight: Run, rows: Rows
) -> None:
    found = graded(as_loader, tonight)
    assert found.waiting == 0
    by_name = {each.measure: each for each in found.grades}
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


def test_a_slowdown_counts_once_it_has_had_its_nights(
    as_loader: Connect, tonight: Run, rows: Rows
) -> None:
    """Those that are caught are decided at once: counting them first would flatter the detector."""
    by_name = {each.measure: each for each in graded(as_loader, tonight).grades}
    planted = rows(
        "select shadow, min(at) as at, max(outcome) as outcome from raw.shadow_verdict"
        " where size is not null group by series_key, month, shadow"
    )
    had_all = tonight.started_at - timedelta(days=WATCHED - 1)
    assert any(row["outcome"] == "caught" and row["at"] > had_all for row in planted)
    for name in ("3%", "10%", "over 4 noise"):
        counted = [row for row in planted if row["shadow"] == name and row["at"] <= had_all]
        assert by_name[name].trials + by_name[name].spoiled == len(counted) > 0


def two_years(connection: Connection, run: Run) -> list[tuple[Any, ...]]:
    """Rows of shadows of three series, whose suite was away for weeks, and once for months."""
    rng = random.Random(7)
    away = [(95, 120), (200, 245), (300, 301), (390, 520)]
    nights = [
        run.started_at + timedelta(days=day)
        for day in range(730)
        if not any(first <= day < last for first, last in away)
    ]
    rows: list[tuple[Any, ...]] = []
    for month in sorted({at.date().replace(day=1) for at in nights}):
        begins = run.started_at.replace(year=month.year, month=month.month, day=1, hour=0)
        ends = (begins + timedelta(days=31)).replace(day=1)
        quiet = [at for at in nights if begins <= at < ends]
        for case_id in ("a", "b", "c"):
            head = ("seeded", case_id, "local", month)
            for night, at in enumerate(quiet):
                outcome = rng.choice(["alarm", *[None] * 9])
                rows.append((*head, "quiet-1", night, run.run_id, at, None, "ok", outcome))
            for size in ("3%", "10%"):
                when = begins + (ends - begins) * rng.random()
                first = next((i for i, at in enumerate(nights) if at >= when), None)
                if first is None or nights[first] >= ends + timedelta(days=28):
                    continue
                for night, at in enumerate(nights[first : first + WATCHED]):
                    outcome = "caught" if rng.random() < 0.08 else None
                    if night == WATCHED - 1:
                        outcome = rng.choice(["missed", "spoiled"])
                    rows.append((*head, size, night, run.run_id, at, 0.1, "ok", outcome))
                    if outcome:
                        break
    store_shadows(connection, rows)
    return rows


def store_shadows(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Rows (suite, case_id, cluster, month, shadow, night, run_id, at, size, kind, outcome)."""
    others = (
        "workload, framework, strategy, nodes, devices_per_node, trainers, pservers, precision,"
        " compiler, execution, layout, compression, link_bandwidth, data, scale, axes"
    )
    with connection, connection.cursor() as cursor:
        for case_id, cluster in sorted({(row[1], row[2]) for row in rows}):
            cursor.execute(
                f"insert into raw.case (case_id, {others}) select %s, {others} from raw.case"
                " order by case_key limit 1 on conflict do nothing",
                (case_id,),
            )
            cursor.execute(
                "insert into raw.series (case_key, case_id, cluster)"
                " select case_key, case_id, %s from raw.case where case_id = %s",
                (cluster, case_id),
            )
        execute_values(
            cursor,
            "insert into raw.shadow_verdict"
            " (suite, series_key, month, shadow, night, run_key, at, size, kind, outcome)"
            " select v.suite, s.series_key, v.month::date, v.shadow, v.night, r.run_key,"
            " v.at::timestamptz, v.size::float, v.kind, v.outcome from (values %s) as v (suite,"
            " case_id, cluster, month, shadow, night, run_id, at, size, kind, outcome)"
            " inner join raw.series as s on s.case_id = v.case_id and s.cluster = v.cluster"
            " inner join raw.run as r on r.run_id = v.run_id",
            rows,
        )


def counted(rows: Sequence[tuple[Any, ...]], since: datetime, until: datetime) -> dict[str, Counts]:
    """What `GradeRepository.counts` says, from all rows that there are."""
    known = [row for row in rows if row[7] <= until]
    nights = sorted({row[7] for row in known}, reverse=True)
    planted = defaultdict(list)
    for row in known:
        planted[row[1:5]].append(row[7])
    found = defaultdict(list)
    for row in known:
        name, at, is_quiet = row[4], row[7], row[8] is None
        first = min(planted[row[1:5]])
        had_all = len(nights) >= WATCHED and first <= nights[WATCHED - 1]
        if at > since and (is_quiet or (first > since and had_all)):
            found["quiet" if is_quiet else name].append((row[5], row[10]))
    told = {
        name: [night for night, outcome in came if outcome == "caught"]
        for name, came in found.items()
    }
    return {
        name: Counts(
            len(came),
            *(sum(o == each for _, o in came) for each in ("caught", "missed", "spoiled", "alarm")),
            median(told[name]) if told[name] else None,
        )
        for name, came in found.items()
    }


def test_what_is_counted_does_not_rest_on_older_months(
    loader: Warehouse, given: Given, connection: Connection
) -> None:
    """Counting leaves months unread: to the figures that is nothing, also after long breaks."""
    first = store_nights(loader, given, range(1))
    rows, repository = two_years(connection, first), Warehouse(connection).grades
    for day in range(5, 760, 8):
        until = first.started_at + timedelta(days=day)
        for window in (20, 90, 180):
            since = until - timedelta(days=window)
            assert repository.counts("seeded", "local", since, until) == counted(rows, since, until)


def test_grading_again_changes_nothing_and_the_next_night_continues(
    as_loader: Connect, loader: Warehouse, given: Given, tonight: Run, rows: Rows
) -> None:
    every = "select * from raw.shadow_verdict order by series_key, month, shadow, night"
    first = graded(as_loader, tonight)
    before, grades = rows(every), rows("select * from raw.detector_grade order by measure")
    again = graded(as_loader, tonight)
    assert (again.judged, again.grades) == (0, first.grades)
    assert rows(every) == before
    assert rows("select * from raw.detector_grade order by measure") == grades
    assert len(before) == first.judged
    next_run = store_nights(loader, given, range(NIGHTS, NIGHTS + 1))
    assert 0 < graded(as_loader, next_run).judged <= len(CASES) * (5 + 5)


def test_judged_night_by_night_or_all_at_once_the_shadows_say_the_same(
    as_loader: Connect, warehouse: Database, loader: Warehouse, given: Given, rows: Rows
) -> None:
    every = "select * from raw.shadow_verdict order by series_key, month, shadow, night"
    store_nights(loader, given, range(55))
    for night in range(55, 64):  # The first of May is night 61.
        last = store_nights(loader, given, range(night, night + 1))
        graded(as_loader, last)
    by_night = rows(every)
    assert len({row["month"] for row in by_night}) >= 2
    warehouse.server.execute("truncate raw.shadow_verdict", warehouse.name)
    graded(as_loader, last)
    assert rows(every) == by_night


def test_the_budget_bounds_a_night_and_the_next_one_goes_on(
    as_loader: Connect, tonight: Run
) -> None:
    none = graded(as_loader, tonight, budget_s=-1.0)
    assert none.judged == 0
    assert none.waiting > 0
    assert {each.trials for each in none.grades} == {0}
    later = graded(as_loader, tonight)
    assert later.waiting == 0
    assert later.judged > 0


def test_a_detector_that_never_alarms_has_no_power(as_loader: Connect, tonight: Run) -> None:
    found = graded(as_loader, tonight, detector=Says(VerdictKind.OK))
    falls = [each for each in found.grades if each.measure != FALSE_ALARMS]
    assert [each.hits for each in falls] == [0] * 5
    assert min(each.trials for each in falls) >= 3


def test_a_detector_that_always_alarms_catches_nothing_that_counts(
    as_loader: Connect, tonight: Run
) -> None:
    """It says so of the real series too: every planted slowdown is spoiled."""
    found = graded(as_loader, tonight, detector=Says(VerdictKind.REGRESSED))
    falls = [each for each in found.grades if each.measure != FALSE_ALARMS]
    assert {(each.trials, each.hits) for each in falls} == {(0, 0)}
    assert min(each.spoiled for each in falls) >= 3


def forty_missed(connection: Connection, night: Run) -> None:
    """Planted slowdowns of a night that nobody told of."""
    at = night.started_at - timedelta(20)
    month = at.date().replace(month=5, day=1)
    store_shadows(
        connection,
        [
            (
                *("seeded", f"case-{k}", "local", month, "over 4 noise", 13),
                *(night.run_id, at, 0.1, "ok", "missed"),
            )
            for k in range(40)
        ],
    )


def test_a_grade_that_falls_is_news_of_that_night_and_of_no_other(
    as_loader: Connect, loader: Warehouse, given: Given, tonight: Run, connection: Connection
) -> None:
    graded(as_loader, tonight)
    forty_missed(connection, tonight)
    again = graded(as_loader, tonight)
    assert len(again.news) == 1
    assert "(over 4 noise) were detected within two weeks" in again.news[0]
    next_run = store_nights(loader, given, range(NIGHTS, NIGHTS + 1))
    later = graded(as_loader, next_run)
    assert [each.measure for each in later.grades if each.below] == ["over 4 noise"]
    assert later.news == ()
    reader = Warehouse(connection)
    (untold,) = unnotified(reader, "seeded", next_run)
    assert (untold["kind"], untold["news"], untold["subject"]) == (
        "grade",
        tonight.run_id,
        "over 4 noise",
    )
    assert unnotified(reader, "other", next_run) == []


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


def test_a_grade_that_fell_is_told_once_even_where_nothing_else_is_news(
    spool: Spool,
    as_loader: Connect,
    given: Given,
    tonight: Run,
    connection: Connection,
    inbox: Inbox,
) -> None:
    forty_missed(connection, tonight)
    assert graded(as_loader, tonight).news
    judged(spool, as_loader, given.run(NIGHTS, suite="seeded"), inbox)
    (alone,) = inbox.messages
    assert alone["title"] == "Nightbench seeded on local: its detector became worse"
    assert "planted slowdowns (over 4 noise) were detected" in alone["message"]
    judged(spool, as_loader, given.run(NIGHTS + 1, suite="seeded"), inbox, c1=BROKEN)
    assert len(inbox.messages) == 2
    assert "detector" not in inbox.messages[1]["message"]


def test_a_grade_that_fell_comes_with_the_night_s_news(
    spool: Spool,
    as_loader: Connect,
    given: Given,
    tonight: Run,
    connection: Connection,
    inbox: Inbox,
) -> None:
    forty_missed(connection, tonight)
    assert graded(as_loader, tonight).news
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
    assert result.graded is not None
    assert result.graded.problem is None
    assert result.graded.judged > 0


def test_histories_that_the_judge_has_read_give_the_same_grades(
    as_loader: Connect, loader: Warehouse, tonight: Run, rows: Rows, warehouse: Database
) -> None:
    every = "select * from raw.shadow_verdict order by series_key, month, shadow, night"
    case_ids = [each.case_id for each in CASES]
    # One of them the judge did not read: it was left out.
    known = loader.series.histories(case_ids[1:], "local", before=tonight.started_at)
    with_known = grade(as_loader, plan(tonight, CASES), known)
    stored = rows(every)
    assert {tonight.started_at} <= {row["at"] for row in stored}
    with closing(connect(warehouse.owner)) as connection, connection.cursor() as cursor:
        cursor.execute("delete from raw.shadow_verdict")
    assert graded(as_loader, tonight) == with_known
    assert rows(every) == stored


@pytest.mark.usefixtures("own_warehouse")  # the table is dropped
def test_what_goes_wrong_in_grading_keeps_no_alert_back(
    spool: Spool, as_loader: Connect, loader: Warehouse, given: Given, warehouse: Database
) -> None:
    store_nights(loader, given, range(NIGHTS))
    run = given.run(NIGHTS, suite="seeded")
    spooled(spool, run, {CASES[0]: 100.0, CASES[1]: BROKEN, CASES[2]: 100.0})
    ingest_run(spool, run.run_id, as_loader)
    warehouse.server.execute("drop table raw.shadow_verdict", warehouse.name)
    result = judge_run(spool, run.run_id, as_loader)
    assert [verdict.case_id for verdict in result.opened] == [CASES[1].case_id]
    assert result.graded is not None
    assert "was not graded: Cannot read from the warehouse (shadow_progress)" in (
        result.graded.problem or ""
    )


def test_only_nights_are_graded(
    spool: Spool, as_loader: Connect, loader: Warehouse, given: Given
) -> None:
    run = given.run(0, suite="seeded", run_kind=RunKind.ON_DEMAND)
    spooled(spool, run, dict.fromkeys(CASES, 100.0))
    ingest_run(spool, run.run_id, as_loader)
    assert judge_run(spool, run.run_id, as_loader).graded is None


def test_a_grade_in_a_line(as_loader: Connect, tonight: Run) -> None:
    said = graded(as_loader, tonight).sentence()
    assert said.startswith("The detector: detected injected slowdowns: 3% ")
    assert "10% 100% of" in said
    assert f"in 1,000 of {5 * 3 * (NIGHTS - 20)} nights" in said
    assert "wait" not in said
    assert "; 7 synthetic series wait" in DetectorGrades(waiting=7).sentence()
    assert "slowdowns: none yet" in DetectorGrades().sentence()
    assert DetectorGrades(problem="It was away.").sentence() == "It was away."
