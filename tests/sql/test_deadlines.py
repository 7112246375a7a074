"""What a schedule promised and did not come is told once, and ends by itself when it comes late."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.sql.given import Given
from tests.sql.nights import Inbox
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import case, plan, spooled

from nightbench.core.errors import UserError
from nightbench.core.expected_nights import NightSchedule, NightState
from nightbench.core.model import (
    CaseStatus,
    Reason,
    ReasonCode,
    Route,
    Run,
    RunKind,
)
from nightbench.night.missing_nights import OTHER_AT_WORK, check_deadlines
from nightbench.night.scheduled_suites import ScheduledSuite
from nightbench.spool import Spool
from nightbench.spool.plans import mark_ended, store_plan
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.nights import NightRepository

ONE, OTHER = case(1), case(2)
NO_ROOM = Reason(ReasonCode.NIGHT_FULL, observed="about 2 h", expected="1 h")
DAY = timedelta(days=1)
TIMES = NightSchedule("0 22 * * *", ("22:00-06:00 UTC",), None, "07:00 UTC")
EVENING, DUE = datetime(2026, 3, 1, 22, tzinfo=UTC), datetime(2026, 3, 2, 7, tzinfo=UTC)
NOON = EVENING - timedelta(hours=10)


class Watch(Pipeline):
    """Checks deadlines as the DAG does."""

    @property
    def promise(self) -> ScheduledSuite:
        return ScheduledSuite(
            "seeded", "local", "benchmarks", TIMES, (self.inbox.url,), dag_id="nightly_seeded"
        )

    def __call__(self, now: datetime, *promises: ScheduledSuite, **changed: object) -> list[str]:
        """Check; titles of the messages that came."""
        before = len(self.inbox.messages)
        wanted = promises or (replace(self.promise, **changed),)
        until = time.monotonic() + 120
        while check_deadlines(wanted, self.spool, self.connect, now) == OTHER_AT_WORK:
            # PostgreSQL may need a moment to end the session, and the lock, of the last check.
            assert time.monotonic() < until
            time.sleep(0.05)
        return [message["title"] for message in self.inbox.messages[before:]]


@pytest.fixture
def watch(pipeline: Pipeline) -> Watch:
    return Watch(**vars(pipeline))


@pytest.fixture
def repository(connection: Connection) -> NightRepository:
    return Warehouse(connection).nights


Loaded = Callable[[Run], None]


@pytest.fixture
def loaded(connection: Connection) -> Loaded:
    """Says that a run was loaded an hour before its deadline, not now."""

    def at_its_time(run: Run) -> None:
        at = run.started_at + (DUE - EVENING) - timedelta(hours=1)
        connection.cursor().execute(
            "update raw.run set loaded_at = %s where run_id = %s", (at, run.run_id)
        )

    return at_its_time


@pytest.fixture
def night(pipeline: Pipeline, given: Given, loaded: Loaded) -> Callable[..., Run]:
    """A night's run, measured; loaded and judged where wanted."""

    def make(days: int = 0, *, load: bool = True, suite: str = "seeded", **more: object) -> Run:
        run = replace(
            given.run(days, suite=suite),
            started_at=EVENING + days * DAY,
            **more,
        )
        spooled(pipeline.spool, run, {ONE: 100.0, OTHER: 50.0})
        if load:
            pipeline.ingest(run)
            pipeline.judge(run)
            loaded(run)
        return run

    return make


@pytest.fixture
def sent_of(connection: Connection) -> Callable[[str], set[str]]:
    """The channels that took the missing night of a suite on a cluster."""

    def taken(subject: str) -> set[str]:
        key = ("night", subject, EVENING.isoformat())
        return Warehouse(connection).messages.deliveries([key]).get(key, set())

    return taken


def states(repository: NightRepository) -> list[str]:
    return [row["state"] for row in reversed(repository.nights())]


def test_a_night_that_left_nothing_is_told_once(
    watch: Watch, repository: NightRepository, inbox: Inbox
) -> None:
    assert watch(NOON) == []
    # New, and its first night is still to come: nothing is expected.
    assert states(repository) == []
    assert watch(EVENING) == watch(DUE - timedelta(minutes=1)) == []
    assert states(repository) == ["waiting"]
    title = "Nightbench seeded on local: no result by 2026-03-02 07:00 UTC"
    assert watch(DUE) == [title]
    body = inbox.messages[-1]["message"]
    assert body.startswith(
        "seeded, run of 2026-03-01 22:00 UTC, due by 2026-03-02 07:00 UTC (07:00 UTC): no run was"
    )
    assert "the scheduler was down" in body
    assert "owner benchmarks, DAG nightly_seeded" in body
    for minutes in (15, 30, 600):
        assert watch(DUE + timedelta(minutes=minutes)) == []
    (row,) = repository.nights(states=["missing"])
    assert row["missing_at"] == DUE
    # The next night is another one.
    assert watch(DUE + DAY) == [title.replace("03-02", "03-03")]
    assert states(repository) == ["missing", "missing"]


def test_a_night_that_came_in_time_says_nothing(
    watch: Watch, repository: NightRepository, night: Callable[..., Run]
) -> None:
    watch(NOON)
    run = night()
    assert watch(DUE) == []
    (row,) = repository.nights()
    assert (row["state"], row["run_id"]) == ("met", run.run_id)


def test_what_comes_late_ends_by_itself_and_that_is_told_once(
    watch: Watch, repository: NightRepository, night: Callable[..., Run]
) -> None:
    watch(NOON)
    assert len(watch(DUE)) == 1
    night()
    later = DUE + timedelta(hours=2)
    assert watch(later) == ["Nightbench seeded on local: arrived late"]
    assert watch(later + timedelta(minutes=15)) == []
    (row,) = repository.nights()
    assert (row["state"], row["ended_at"]) == ("late", later)


def test_cases_without_a_result_are_named(
    watch: Watch, repository: NightRepository, spool: Spool, given: Given, inbox: Inbox
) -> None:
    """A run that goes on, as its files in the spool say: one case has ended, one has not."""
    watch(NOON)
    run = replace(given.run(suite="seeded"), started_at=EVENING)
    folder = store_plan(plan(run, [ONE, OTHER]), spool)
    by_ada = Reason(ReasonCode.CANCELLED, observed="by ada")
    folder.case(ONE.case_id).end(CaseStatus.CANCELLED, [by_ada])
    assert watch(DUE) == [
        "Nightbench seeded on local: 1 cases without a result by 2026-03-02 07:00 UTC"
    ]
    body = inbox.messages[-1]["message"]
    assert f"1 of 2 cases of {run.run_id} have no result\n- {OTHER.case_id}\n" in body
    assert ONE.case_id not in body
    (row,) = repository.nights()
    assert (row["without"], row["is_empty"]) == ([OTHER.case_id], False)


def test_a_run_that_waits_in_the_spool_is_missing_and_one_that_was_left_out_is_not(
    watch: Watch, repository: NightRepository, spool: Spool, night: Callable[..., Run], inbox: Inbox
) -> None:
    watch(NOON)
    night(load=False)
    assert watch(DUE) == ["Nightbench seeded on local: not finished by 2026-03-02 07:00 UTC"]
    assert "the run waits in the spool" in inbox.messages[-1]["message"]


@pytest.mark.parametrize("damaged", ["planned.json", f"cases/{ONE.case_id}/g0/outcome.json"])
def test_a_damaged_file_of_a_run_silences_nobody(
    watch: Watch, night: Callable[..., Run], spool: Spool, inbox: Inbox, damaged: str
) -> None:
    both = (watch.promise, replace(watch.promise, suite="other", dag_id="nightly_other"))
    watch(NOON, *both)
    run = night(load=False)
    (spool.run(run.run_id).folder / damaged).write_text("[{")
    assert watch(DUE, *both) == [
        "Nightbench seeded on local: not finished by 2026-03-02 07:00 UTC",
        "Nightbench other on local: no result by 2026-03-02 07:00 UTC",
    ]
    body = inbox.messages[-2]["message"]
    assert f"{run.run_id} cannot be read: " in body
    assert f"{damaged}: not a JSON document" in body


def test_a_night_that_had_no_room_for_any_case_is_met(
    watch: Watch,
    repository: NightRepository,
    spool: Spool,
    given: Given,
    loaded: Loaded,
) -> None:
    watch(NOON)
    run = replace(given.run(suite="seeded"), started_at=EVENING)
    whole = plan(run, [ONE])
    none = tuple(
        replace(each, planned=replace(each.planned, left_out=NO_ROOM)) for each in whole.cases
    )
    mark_ended(store_plan(replace(whole, cases=none), spool))
    watch.ingest(run)
    watch.judge(run)
    loaded(run)
    assert watch(DUE) == []
    assert states(repository) == ["met"]


def test_a_paused_suite_is_not_expected_and_that_is_said(
    watch: Watch, repository: NightRepository
) -> None:
    watch(NOON)
    # Seen paused at some time of the night: switched on again in the morning it did not miss it.
    watch(EVENING + timedelta(hours=1), is_paused=True)
    assert watch(DUE) == []
    (row,) = repository.nights()
    assert (row["state"], row["sentence"]) == (
        "paused",
        "its DAG was paused, so no run was expected",
    )
    assert len(watch(DUE + DAY)) == 1


def test_runs_by_hand_are_no_nights(watch: Watch, night: Callable[..., Run]) -> None:
    watch(NOON)
    night(run_kind=RunKind.ON_DEMAND)
    assert len(watch(DUE)) == 1


def test_after_an_outage_all_that_was_missed_is_one_message(
    watch: Watch, repository: NightRepository, inbox: Inbox
) -> None:
    """The scheduler was down, and with it the check."""
    watch(NOON)
    assert watch(DUE + 2 * DAY) == ["Nightbench seeded on local: 3 nights are missing"]
    assert inbox.messages[-1]["message"].count("due by") == 3
    assert states(repository) == ["missing"] * 3


def test_another_schedule_begins_anew(watch: Watch, repository: NightRepository) -> None:
    watch(NOON)
    changed = replace(TIMES, schedule="0 1 * * *", hours=())
    # At noon it is written that the run comes at 01:00: last night's was not promised.
    assert watch(NOON + timedelta(minutes=15), timetable=changed) == []
    assert watch(DUE, timetable=changed) == [
        "Nightbench seeded on local: no result by 2026-03-02 07:00 UTC"
    ]
    # Gone for a while, and back: what would have been meanwhile was not promised.
    watch(DUE + DAY / 2, replace(watch.promise, suite="another"))
    assert watch(DUE + 3 * DAY, timetable=changed) == []


def test_a_broken_file_keeps_its_promises(
    watch: Watch, spool: Spool, given: Given, inbox: Inbox
) -> None:
    """Schedule and channels are known from before: from the last check, and from the last run."""
    watch(NOON)
    run = given.run(-3, suite="seeded")
    store_plan(plan(run, [ONE], [inbox.url]), spool)
    said = watch(DUE, timetable=None, channels=None, problem="suites/seeded.yaml cannot be read")
    assert said == ["Nightbench seeded on local: no result by 2026-03-02 07:00 UTC"]
    assert "suites/seeded.yaml cannot be read" in inbox.messages[-1]["message"]
    # Another suite whose name only begins so.
    store_plan(plan(given.run(-2, suite="seeded-large"), [ONE], ["json://127.0.0.1:1"]), spool)
    title = "Nightbench seeded on local: no result by 2026-03-03 07:00 UTC"
    assert watch(DUE + DAY, timetable=None, channels=None) == [title]
    # Never seen whole: nobody knows what it promises.
    assert watch(DUE, ScheduledSuite("unknown", "local", "ada", None)) == []


def test_a_silent_cluster_is_told_as_one(
    watch: Watch, repository: NightRepository, night: Callable[..., Run], inbox: Inbox
) -> None:
    both = (watch.promise, replace(watch.promise, suite="other", dag_id="nightly_other"))
    watch(NOON, *both)
    assert watch(DUE, *both) == ["Nightbench: cluster local has sent no result of other, seeded"]
    assert [row["is_silence"] for row in repository.nights()] == [True, True]
    assert watch(DUE + timedelta(minutes=15), *both) == []
    # The next night one of them comes: the cluster is not silent.
    night(1, suite="other")
    assert watch(DUE + DAY, *both) == [
        "Nightbench seeded on local: no result by 2026-03-03 07:00 UTC"
    ]


def test_of_a_silent_cluster_each_suite_hears_by_its_own_channels(
    watch: Watch, sent_of: Callable[[str], set[str]]
) -> None:
    other = replace(watch.promise, suite="other", dag_id="nightly_other")
    watch(NOON, watch.promise, other)
    with pytest.raises(
        UserError, match=r"has sent no result of other, seeded\": alerts\[0\] json: "
    ):
        watch(DUE, watch.promise, replace(other, channels=("json://127.0.0.1:1",)))
    assert sent_of("seeded on local") == {"", "alerts[0] json"}
    assert sent_of("other on local") == set()
    said = ["Nightbench: cluster local has sent no result of other"]
    assert watch(DUE + timedelta(minutes=15), watch.promise, other) == said
    assert watch(DUE + timedelta(minutes=30), watch.promise, other) == []


def test_a_cluster_is_not_silent_while_others_measure_on_it(
    watch: Watch, night: Callable[..., Run]
) -> None:
    both = (watch.promise, replace(watch.promise, suite="other", dag_id="nightly_other"))
    watch(NOON, *both)
    night(0, suite="by_hand", run_kind=RunKind.ON_DEMAND)
    assert len(watch(DUE, *both)) == 2


def test_a_message_that_no_channel_took_is_sent_again(
    watch: Watch, repository: NightRepository, inbox: Inbox
) -> None:
    watch(NOON)
    with pytest.raises(UserError, match=r'^No channel accepted the message ".*: no result by'):
        watch(DUE, channels=("json://127.0.0.1:1",))
    assert states(repository) == ["missing"]
    assert len(watch(DUE + timedelta(minutes=15))) == 1
    assert watch(DUE + timedelta(minutes=30), channels=()) == []


def test_a_check_that_was_killed_after_a_channel_took_it_is_not_repeated_there(
    watch: Watch, sent_of: Callable[[str], set[str]]
) -> None:
    watch(NOON)
    assert len(watch(DUE)) == 1
    # As after a kill between the record of the channel and that of the night.
    watch.sql("delete from raw.delivery where channel = ''")
    assert sent_of("seeded on local") == {"alerts[0] json"}
    assert watch(DUE + timedelta(minutes=15)) == []
    assert sent_of("seeded on local") == {"", "alerts[0] json"}


def test_a_route_for_missing_results_gets_missing_nights(watch: Watch, inbox: Inbox) -> None:
    watch(NOON)
    routes = (
        Route(frameworks=("fake",), owner="compilers"),
        Route(verdicts=("missing",), owner="operators", alerts=(inbox.url,)),
    )
    assert len(watch(DUE, channels=(), routes=routes)) == 1
    assert "owner operators" in inbox.messages[-1]["message"]


def test_one_check_at_a_time_and_when_it_was_is_kept(
    watch: Watch, repository: NightRepository
) -> None:
    assert repository.first("deadline_check") is None
    watch(NOON)
    assert repository.first("deadline_check") == {"checked_at": NOON, "suites": 1, "missing": 0}
    # The session of the check has been closed; PostgreSQL may take a moment to end it.
    until = time.monotonic() + 120
    while not repository.lock():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert check_deadlines([watch.promise], watch.spool, watch.connect, DUE) == OTHER_AT_WORK
    assert states(repository) == []


def test_states_of_the_table_are_those_of_the_code(connection: Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "select pg_get_constraintdef(oid) from pg_constraint"
            " where conrelid = 'raw.night'::regclass and contype = 'c'"
        )
        checks = " ".join(row[0] for row in cursor.fetchall())
    assert all(f"'{state}'" in checks for state in NightState)
