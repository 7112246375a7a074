"""What is told of a night, to whom, when, and never twice: on a real PostgreSQL and a webhook."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from PIL import Image
from psycopg2.extras import Json
from tests.sql.conftest import Rows
from tests.sql.given import Given
from tests.sql.nights import BREAKS, FALLS, NIGHTS, STEADY, Inbox, history, receiving
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import EXITED, LOST, plan, spooled

from nightbench.alerts import Delivery
from nightbench.alerts.notify import notify_leftovers, notify_run
from nightbench.core.documents import to_document
from nightbench.core.errors import UserError
from nightbench.core.model import Case, RegressionPolicy, Route, Run
from nightbench.core.model.alerts import CauseEvidence
from nightbench.core.run_plan import RunPlan
from nightbench.spool.plans import read_plan, store_plan
from nightbench.warehouse import Triage, Warehouse

Came = Mapping[Case, float | str | None]


class Place(Pipeline):
    """A suite that is measured, loaded and judged."""

    def measured(self, run: Run, came: Came, channels: Sequence[str] = (), **changed: Any) -> None:
        """Measure and load; `changed` says what is different in the plan."""
        spooled(self.spool, run, came, channels)
        if changed:
            store_plan(replace(plan(run, list(came), channels), **changed), self.spool)
        self.ingest(run)

    def sent(self, run: Run, base_url: str | None = None) -> int:
        """How many deliveries came of judging it."""
        return len(self.judge(run, base_url=base_url).deliveries)

    def tell(self, run: Run) -> int:
        return len(notify_run(self.spool, run.run_id, self.connect))

    def notify_leftovers(self, now: datetime) -> tuple[list[Delivery], list[str]]:
        return notify_leftovers(self.spool, self.connect, now=now)


@pytest.fixture
def place(pipeline: Pipeline, given: Given) -> Place:
    history(pipeline.loader, given, (FALLS, STEADY, BREAKS))
    return Place(**vars(pipeline))


CALM = {FALLS: 100.0, STEADY: 100.0, BREAKS: 100.0}
FELL = CALM | {FALLS: 90.0}
BROKE = CALM | {BREAKS: EXITED}


def test_a_message_holds_what_how_much_since_when_why_and_the_plot(
    place: Place, given: Given, inbox: Inbox, reader: Warehouse
) -> None:
    run = given.run(NIGHTS, suite="seeded", dag_id="nightbench__seeded", dag_run_id="scheduled__1")
    place.measured(run, FELL, [inbox.url])
    good, bad = given.run(16, suite="seeded"), given.run(17, suite="seeded")
    place.sql(
        "update raw.run set code_digest = case when started_at < %s then 'aaaa1' else 'bbbb2' end",
        bad.started_at,
    )
    place.sql("update raw.planned_case set untried = 'nobody had such a GPU'")
    fingerprints = (("f-old", "550.1", good), ("f-new", "560.2", bad))
    for fingerprint_id, driver, of in fingerprints:
        gpu = {"uuid": "GPU-1", "driver": driver}
        place.sql(
            "insert into raw.fingerprint values (%s, %s)",
            fingerprint_id,
            Json({"schema": "x", "taken_at": fingerprint_id, "kernel": "6.1", "gpus": [gpu]}),
        )
        place.sql(
            "update raw.measurement_node set fingerprint_id = %s where run_at = %s",
            fingerprint_id,
            of.started_at,
        )
    assert place.sent(run, "http://airflow.example") == 1

    ((alert,), (said,)) = reader.alerts.find(), inbox.messages
    assert (alert["last_good_run_id"], alert["first_bad_run_id"]) == (good.run_id, bad.run_id)
    assert alert["since"] == bad.started_at
    assert alert["change_low"] < alert["level_change"] < alert["change_high"]
    assert said["title"] == f"Nightbench seeded on local: {FALLS.case_id} regressed by 10.0%"
    lines = said["message"].splitlines()
    assert "- tonight: 90 samples/s" in lines
    assert any(line.startswith("- level change: -1") and "90% interval" in line for line in lines)
    assert f"- since: {bad.started_at:%Y-%m-%d %H:%M} UTC" in lines
    assert (
        "- untried configuration, never run on this kind of device: nobody had such a GPU" in lines
    )
    assert f"- last good: 100 samples/s on 2026-03-17, run {good.run_id}" in lines
    assert f"- first bad: 90.18 samples/s on 2026-03-18, run {bad.run_id}" in lines
    changed = lines[lines.index("- changed between these runs:") + 1 :][:2]
    assert changed == [
        "  - benchmark code: aaaa1 -> bbbb2",
        "  - gpus GPU-1 driver: 550.1 -> 560.2 (on n1)",
    ]
    assert f"- reproduce: nightbench run seeded --case {FALLS.case_id} --build fake=2.13.0" in lines
    assert f"- alert: http://airflow.example/plugin/benchmarks/alerts/{alert['alert_id']}" in lines
    assert "Airflow: http://airflow.example/dags/nightbench__seeded/runs/scheduled__1" in lines
    ((picture,)) = said["attachments"]
    assert picture["filename"] == f"{FALLS.case_id}-on-local.png"
    image = Image.open(io.BytesIO(base64.b64decode(picture["base64"])))
    assert (image.format, image.size) == ("PNG", (880, 340))


def test_one_message_a_night_and_the_second_run_s_news_go_with_the_next(
    place: Place, given: Given, inbox: Inbox, rows: Rows
) -> None:
    evening = given.run(NIGHTS, suite="seeded")
    later = replace(
        evening, run_id="seeded-later", started_at=evening.started_at + timedelta(hours=2)
    )
    place.measured(evening, FELL, [inbox.url])
    assert place.sent(evening) == 1
    place.measured(later, BROKE | {FALLS: 90.0}, [inbox.url])
    assert place.sent(later) == 0
    assert place.sent(evening) == 0
    assert place.tell(later) == 0
    # It is still the same night, and then one that brings news of its own.
    assert place.notify_leftovers(later.started_at + timedelta(hours=6)) == ([], [])
    tomorrow = given.run(NIGHTS + 1, suite="seeded")
    place.measured(tomorrow, BROKE | {FALLS: 90.0}, [inbox.url])
    assert place.sent(tomorrow) == 1
    assert len(inbox.messages) == 2
    assert FALLS.case_id not in inbox.messages[1]["message"]
    assert "trainer-0 exited with code 1" in inbox.messages[1]["message"]
    assert [row["kind"] for row in rows("select kind from raw.message")] == ["night", "night"]


def test_what_no_night_told_is_told_when_the_next_one_is_over(
    place: Place, given: Given, inbox: Inbox
) -> None:
    evening = given.run(NIGHTS, suite="seeded")
    later = replace(
        evening, run_id="seeded-later", started_at=evening.started_at + timedelta(hours=2)
    )
    place.measured(evening, FELL, [inbox.url])
    place.sent(evening)
    place.measured(later, BROKE | {FALLS: 90.0}, [inbox.url])
    place.sent(later)
    noon = evening.started_at.replace(hour=12, minute=30)
    assert place.notify_leftovers(noon) == ([], [])
    deliveries, problems = place.notify_leftovers(noon + timedelta(days=1))
    assert ([d.sent for d in deliveries], problems) == ([True], [])
    assert place.notify_leftovers(noon + timedelta(days=2)) == ([], [])
    assert len(inbox.messages) == 2


def test_a_process_that_died_between_storing_and_sending_leaves_nothing_untold(
    place: Place, given: Given, inbox: Inbox, reader: Warehouse
) -> None:
    run = given.run(NIGHTS, suite="seeded")
    place.measured(run, FELL, ["json://127.0.0.1:1"])
    with pytest.raises(UserError, match="no channel of suite seeded accepted the message"):
        place.sent(run)
    noon = run.started_at.replace(hour=12, minute=30)
    assert "no channel of suite seeded" in place.notify_leftovers(noon)[1][0]
    place.measured(run, FELL, [inbox.url])
    deliveries, problems = place.notify_leftovers(noon)
    assert ([d.sent for d in deliveries], problems) == ([True], [])
    assert place.sent(run) == 0
    assert len(inbox.messages) == 1
    assert reader.alerts.find()[0]["notified_at"] is not None


def test_a_recovery_is_told_though_the_process_died(
    place: Place, given: Given, inbox: Inbox
) -> None:
    for night, came in enumerate((FELL, CALM, CALM)):
        run = given.run(NIGHTS + night, suite="seeded")
        place.measured(run, came, [inbox.url] if night < 2 else ["json://127.0.0.1:1"])
        if night < 2:
            place.sent(run)
    with pytest.raises(UserError, match="no channel of suite seeded"):
        place.sent(run)
    place.measured(run, CALM, [inbox.url])
    assert place.sent(run) == 1
    assert place.sent(run) == 0
    (told,) = inbox.messages[1:]
    assert told["title"].endswith(f": {FALLS.case_id} resolved")
    # What the night that ended it measured, not the one that opened it.
    assert f"Resolved:\n- {FALLS.case_id}: 100 is " in told["message"]


def test_an_urgent_fall_is_told_at_once_and_the_rest_waits_for_what_is_measured_again(
    place: Place, given: Given, inbox: Inbox, reader: Warehouse, rows: Rows
) -> None:
    run = given.run(NIGHTS, suite="seeded")
    # Of two falls one is large enough to be urgent.
    came = FELL | {BREAKS: EXITED}
    place.measured(run, came, [inbox.url], policy=RegressionPolicy(urgent=0.08))
    place.measured(run, came, ["json://127.0.0.1:1"], policy=RegressionPolicy(urgent=0.08))
    with pytest.raises(UserError, match="urgent"):
        place.sent(run)  # Stored, not told: there is an alert that can be asked for.
    alerts = {alert["case_id"]: alert["alert_id"] for alert in reader.alerts.find()}
    confirmation = (
        "insert into raw.experiment (alert_id, run_id, kind, state, requested_by, name, until,"
        " request, suite, cluster) values (%s, %s, 'confirm', 'queued', 'nightbench', %s,"
        " now() + interval '1 h', '{}', 'seeded', 'local')"
    )
    for number, alert_id in enumerate(alerts.values()):
        place.sql(confirmation, alert_id, run.run_id, f"c{number}")
    place.measured(run, came, [inbox.url], policy=RegressionPolicy(urgent=0.08))
    assert place.sent(run) == 1
    (urgent,) = inbox.messages
    assert f"on local, urgent: {FALLS.case_id} regressed" in urgent["title"]
    assert "- status: the case is being measured again" in urgent["message"]
    assert place.sent(run) == 0
    place.sql(
        "update raw.experiment set state = 'done', ended_at = now(), result = %s",
        Json(
            {"outcome": "confirmed", "sentence": "Fails again.", "ratio": 0.9}
            | {"low": 0.89, "high": 0.91, "rounds": 7}
        ),
    )
    assert place.tell(run) == 1
    assert place.tell(run) == 0
    assert BREAKS.case_id in inbox.messages[1]["title"]
    assert (
        "- confirmed: Fails again. (ratio 0.9000, 95% interval 0.8900 to 0.9100, n = 7)"
        in (inbox.messages[1]["message"])
    )
    assert FALLS.case_id not in inbox.messages[1]["message"]
    kinds = [row["kind"] for row in rows("select kind from raw.message order by message_id")]
    assert kinds == ["urgent", "night"]


def test_a_confirmation_that_never_ends_keeps_nobody_waiting_for_ever(
    place: Place, given: Given, inbox: Inbox, reader: Warehouse
) -> None:
    run = given.run(NIGHTS, suite="seeded")
    place.measured(run, FELL, ["json://127.0.0.1:1"])
    with pytest.raises(UserError):
        place.sent(run)
    place.sql(
        "insert into raw.experiment (alert_id, run_id, kind, state, requested_by, name, until,"
        " request, suite, cluster) values (%s, %s, 'confirm', 'running', 'nightbench', 'c',"
        " now() + interval '1 h', '{}', 'seeded', 'local')",
        reader.alerts.find()[0]["alert_id"],
        run.run_id,
    )
    place.measured(run, FELL, [inbox.url])
    noon = run.started_at.replace(hour=12, minute=30)
    assert place.notify_leftovers(noon) == ([], [])
    place.sql("update raw.experiment set until = now() - interval '1 s'")
    assert len(place.notify_leftovers(noon)[0]) == 1
    assert len(inbox.messages) == 1


def test_one_cause_is_one_item(place: Place, given: Given, inbox: Inbox, reader: Warehouse) -> None:
    run = given.run(NIGHTS, suite="seeded")
    came = {FALLS: 90.0, STEADY: LOST, BREAKS: LOST}
    place.measured(run, came, ["json://127.0.0.1:1"])
    with pytest.raises(UserError):
        place.sent(run)
    for alert in reader.alerts.find():
        place.sql(
            "insert into raw.alert_cause (alert_id, run_id, kind, sentence, evidence, group_key,"
            " night, at) values (%s, %s, 'node', 'n1 is slow.', %s, 'n1', '2026-03-17',"
            " clock_timestamp() + interval '1 min')"
            " on conflict (alert_id, run_id) do update set kind = excluded.kind, sentence ="
            " excluded.sentence, evidence = excluded.evidence, group_key = excluded.group_key,"
            " suspect = excluded.suspect",
            alert["alert_id"],
            run.run_id,
            Json([to_document(CauseEvidence("its control fell too"))]),
        )
    place.measured(run, came, [inbox.url])
    assert place.tell(run) == 1
    (said,) = inbox.messages
    assert said["title"].endswith("1 regressed, 2 failed, one cause: node")
    assert said["message"].count("n1 is slow.") == 1
    assert said["message"].count("  - Its control fell too.") == 1
    assert all(f"  - {case.case_id}: " in said["message"] for case in came)


def test_routes_say_whose_an_alert_is_and_where_it_is_told(
    place: Place, given: Given, inbox: Inbox, reader: Warehouse
) -> None:
    run = given.run(NIGHTS, suite="seeded")
    came = FELL | {BREAKS: LOST}
    with receiving() as other:
        routes = (
            Route(frameworks=("pytorch",), owner="nobody", alerts=()),
            Route(verdicts=("failed",), owner="ops", alerts=(other.url, inbox.url)),
        )
        place.measured(run, came, [inbox.url], routes=routes)
        assert place.sent(run) == 2
        assert place.sent(run) == 0
        # Whoever hears of both hears of them in one message.
        (all_of_it,), (failures,) = inbox.messages, other.messages
    assert (FALLS.case_id in all_of_it["message"], BREAKS.case_id in all_of_it["message"]) == (
        True,
        True,
    )
    assert FALLS.case_id not in failures["message"]
    assert "owner benchmarks, ops" in all_of_it["message"]
    assert "owner ops" in failures["message"]
    owners = {alert["case_id"]: alert["owner"] for alert in reader.alerts.find()}
    assert owners == {FALLS.case_id: "benchmarks", BREAKS.case_id: "ops"}


def test_a_channel_of_two_routes_is_one_whatever_there_is_to_tell(
    place: Place, given: Given, inbox: Inbox, rows: Rows
) -> None:
    evening = given.run(NIGHTS, suite="seeded")
    later = replace(
        evening, run_id="seeded-later", started_at=evening.started_at + timedelta(hours=2)
    )
    routes = (
        Route(verdicts=("failed",), alerts=(inbox.url,)),
        Route(verdicts=("regressed",), alerts=(inbox.url,)),
    )
    # First by the second route alone; then there is something for the first one.
    place.measured(evening, FELL, routes=routes)
    assert place.sent(evening) == 1
    place.measured(later, BROKE | {FALLS: 90.0}, routes=routes)
    assert place.sent(later) == 0
    assert len(inbox.messages) == 1
    assert [m["channel"] for m in rows("select channel from raw.message")] == [
        "routes[0].alerts[0] json"
    ]


def turned_noisy(place: Place, run: Run) -> None:
    place.sql(
        "insert into raw.noise_event (case_id, cluster, run_id, at, what, spread, max_spread,"
        " sentence) values (%s, %s, %s, %s, 'noisy', 0.2, 0.05, 'It varies by 20 %%')",
        STEADY.case_id,
        run.cluster,
        run.run_id,
        run.started_at,
    )


def test_what_concerns_the_suite_is_told_on_its_own_channels(
    place: Place, given: Given, inbox: Inbox, reader: Warehouse
) -> None:
    run = given.run(NIGHTS, suite="seeded")
    with receiving() as other:
        routes = (Route(frameworks=("fake",), alerts=(other.url,)),)
        place.measured(run, FELL, ["json://127.0.0.1:1"], routes=routes)
        turned_noisy(place, run)
        # That a route's channel took the news of the night does not count.
        with pytest.raises(UserError, match="no channel of suite seeded"):
            place.sent(run)
        noisy = ("noise", STEADY.case_id, run.run_id)
        assert reader.messages.deliveries([noisy]) == {}
        place.measured(run, FELL, [inbox.url], routes=routes)
        assert place.sent(run) == 1
        assert place.sent(run) == 0
        assert len(other.messages) == 1
    assert "It varies by 20 %" in inbox.messages[0]["message"]
    assert FALLS.case_id not in inbox.messages[0]["message"]
    assert reader.messages.deliveries([noisy]) == {noisy: {"", "alerts[0] json"}}


def test_each_cluster_of_a_suite_has_its_message(
    place: Place, given: Given, inbox: Inbox, rows: Rows
) -> None:
    run = given.run(NIGHTS, suite="seeded")
    elsewhere = given.run(NIGHTS, suite="seeded", cluster="elsewhere", tail="0b2c")
    for each in (run, elsewhere):
        place.measured(each, BROKE, [inbox.url])
        assert place.sent(each) == 1
        assert place.sent(each) == 0
    assert [" on local: " in m["title"] for m in inbox.messages] == [True, False]
    kept = rows("select distinct cluster from raw.message order by cluster")
    assert [row["cluster"] for row in kept] == ["elsewhere", "local"]


def test_a_route_does_not_take_an_alert_from_whom_people_gave_it_to(
    place: Place, given: Given, inbox: Inbox, reader: Warehouse, triage: Triage
) -> None:
    night = given.run(NIGHTS, suite="seeded")
    place.measured(night, FELL, [inbox.url])
    place.sent(night)
    (alert,) = reader.alerts.find()
    triage.assign(alert["alert_id"], "")
    triage.move(alert["alert_id"], "dismissed", "no", "wont_fix")
    triage.move(alert["alert_id"], "open")
    place.sql("delete from raw.delivery where channel = ''")
    assert place.tell(night) == 0  # This night's message was sent.
    assert reader.alerts.find()[0]["owner"] is None


def test_a_channel_that_failed_alone_is_said_and_the_other_one_hears_it_once(
    place: Place, given: Given, inbox: Inbox
) -> None:
    run = given.run(NIGHTS, suite="seeded")
    place.measured(run, FELL, ["json://127.0.0.1:1", inbox.url])
    result = place.judge(run)
    assert [(d.channel, d.sent) for d in result.deliveries] == [
        ("alerts[0] json", False),
        ("alerts[1] json", True),
    ]
    assert place.sent(run) == 0
    assert len(inbox.messages) == 1


def test_two_who_tell_at_once_tell_once(place: Place, given: Given, inbox: Inbox) -> None:
    run = given.run(NIGHTS, suite="seeded")
    place.measured(run, FELL, ["json://127.0.0.1:1"])
    with pytest.raises(UserError):
        place.sent(run)
    place.measured(run, FELL, [inbox.url])
    together = Barrier(3)

    def act(number: int) -> int:
        together.wait()
        return place.sent(run) if number == 0 else place.tell(run)

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(act, range(3))) == [0, 0, 1]
    assert len(inbox.messages) == 1


def test_a_plan_keeps_its_routes_and_its_clock(place: Place, given: Given) -> None:
    run = given.run(NIGHTS, suite="seeded")
    place.measured(run, CALM, routes=(Route(workloads=("sleep",)),), zone="Europe/Berlin")
    folder = place.spool.run(run.run_id)
    kept: RunPlan = read_plan(folder)
    assert (kept.routes, kept.zone) == ((Route(workloads=("sleep",)),), "Europe/Berlin")


def test_a_night_begins_at_noon_by_the_suite_s_clock() -> None:
    from nightbench.alerts.notify import night_of

    at = datetime(2026, 3, 2, 11, 30, tzinfo=UTC)
    assert str(night_of(at, "UTC")) == "2026-03-01"
    assert str(night_of(at, "Europe/Berlin")) == "2026-03-02"
    assert str(night_of(at, "America/Los_Angeles")) == "2026-03-01"
