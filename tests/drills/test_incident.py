"""One incident from its first slow night to its end: found, doubted, told, bisected, over.

All parts are real: the scheduler of a live Airflow starts the nights, gangs run over SSH, wheels
are installed on the nodes, the warehouse is PostgreSQL, messages go to a webhook. Only time is not:
the nights before come from a CSV file (`nightbench import`), the real ones follow one another
within minutes, and before the recovery the suite's clock is moved on to the next night.

pytest tests/drills/test_incident.py -s
"""

from __future__ import annotations

import contextlib
import json
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.drills.incidents import (
    BAD,
    BATCH,
    FAKE,
    FIRST_BAD,
    FIXED,
    GOOD,
    LAST_GOOD,
    MIN_CHANGE,
    NIGHTLY,
    NIGHTS_BEFORE,
    RELEASES,
    STEP_S,
    SUITE,
    TOY,
    history,
    suite,
    watched,
)
from tests.integration.live_airflow import Live, wait_for_dag, write_suite
from tests.integration.terminal import Terminal
from tests.sql.nights import Inbox

from nightbench.alerts.notify import night_of
from nightbench.spool import RunSpool
from nightbench.warehouse import Warehouse, connect

pytestmark = [pytest.mark.live, pytest.mark.timeout(2400)]


@dataclass
class Incident:
    """The system under watch, and what it is told to measure each night."""

    live: Live
    inbox: Inbox
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    nights: int = 0

    @property
    def shell(self) -> Terminal:
        """A person's terminal beside the running system."""
        return Terminal(
            self.live.place, {"NIGHTBENCH_BENCHMARKS": str(self.live.place / "benchmarks")}
        )

    def night(self, version: str, zone: str) -> tuple[RunSpool, dict[str, dict[str, Any]]]:
        """Let the scheduler start the suite's next night; its run and its rows by case."""
        known = {run.run_id for run in self.live.spool.runs()}
        changes = suite(self.inbox, version, zone, self.began + timedelta(minutes=self.nights))
        write_suite(self.live.place / "dags", SUITE, changes)
        self.nights += 1
        if self.nights == 1:
            wait_for_dag(self.live.api, NIGHTLY)

        def begun() -> RunSpool | None:
            new = [run for run in self.live.spool.runs() if run.run_id not in known]
            return next((run for run in new if run.planned() and run.run()), None)

        run: RunSpool = self.live.until(begun, f"night {self.nights} to begin")
        document = run.run() or {}
        assert document["dag_id"] == NIGHTLY
        assert document["run_kind"] == "nightly"
        assert self.live.ended(document["dag_run_id"], NIGHTLY) == "success"
        rows = {row["case_id"]: row for row in self.live.judged(run.run_id)}
        toy, fake = rows[TOY.case_id], rows[FAKE.case_id]
        assert toy["framework_version"] == version
        slept = ((toy, RELEASES[version]), (fake, STEP_S))
        lost = max(1 - row["throughput"] * step_s / BATCH for row, step_s in slept)
        # With more the verdicts would be those of the other work.
        assert lost < MIN_CHANGE, f"other work on this machine took {lost:.1%} of the night"
        assert fake["verdict"] == "ok", fake
        say(f"night {self.nights}, {version}: {toy['verdict']}, {toy['throughput']:.4g} samples/s")
        say(f"  {toy['verdict_sentence']}")
        return run, rows

    def alerts(self) -> list[dict[str, Any]]:
        """All alerts of any state."""
        with contextlib.closing(connect(self.live.stack.dsn("nightbench_reader"))) as connection:
            return [dict(row) for row in Warehouse(connection).alerts.find(states=None)]

    def runs_of(self, dag_id: str) -> list[dict[str, Any]]:
        """The runs of a DAG, as Airflow lists them."""
        answer = self.live.api._send("GET", f"/api/v2/dags/{dag_id}/dagRuns")
        return list(answer.json()["dag_runs"])

    def get(self, address: str) -> Any:
        """What the API server answers to somebody who may read."""
        return self.live.api._send("GET", address)


def two_clocks() -> tuple[str, str]:
    """Two time zones in which it is one night and the next, for two hours at least."""
    now = datetime.now(UTC)
    nights = {}
    for offset in range(-12, 15):
        name = f"Etc/GMT{-offset:+d}"
        if night_of(now, name) == night_of(now + timedelta(hours=2), name):
            nights[night_of(now, name)] = name
    return nights[min(nights)], nights[max(nights)]


def say(text: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {text}", flush=True)


@pytest.fixture
def incident(tmp_path: Path) -> Iterator[Incident]:
    began = datetime.now(UTC) - timedelta(minutes=30)
    with watched(tmp_path, began, GOOD) as (live, inbox):
        yield Incident(live, inbox, began)


def test_an_incident_is_followed_to_its_end(incident: Incident, tmp_path: Path) -> None:
    live, inbox, shell = incident.live, incident.inbox, incident.shell
    tonight, tomorrow = two_clocks()
    say(f"the stack runs; nights by {tonight}, the recovery by {tomorrow}")
    done = shell.run("import", str(history(tmp_path / "history.csv")))
    assert done.returncode == 0, done.stderr
    assert f"{2 * NIGHTS_BEFORE} medians" in done.stdout
    assert "No suite" not in done.stderr

    # Found: the first slow night is watched, the second one with the new version is told.
    good_run, rows = incident.night(GOOD, tonight)
    assert rows[TOY.case_id]["verdict"] == "ok"
    bad_run, rows = incident.night(BAD, tonight)
    assert rows[TOY.case_id]["verdict"] == "watched"
    assert incident.alerts() == []
    second_run, rows = incident.night(BAD, tonight)
    assert rows[TOY.case_id]["verdict"] == "regressed"

    # Doubted before it is told, explained, told once.
    live.until(lambda: inbox.messages, "the night's message", wait_s=1800)
    say("the message has come")
    (alert,) = incident.alerts()
    assert (alert["case_id"], alert["state"]) == (TOY.case_id, "open")
    assert alert["opened_run_id"] == second_run.run_id
    assert alert["confirmation"] == "confirmed", alert["confirmation_sentence"]
    assert alert["confirmation_high"] < 1
    assert alert["cause"] == "framework_version"
    evidence = json.dumps(alert["evidence"])
    assert f"changed from {GOOD} to {BAD} with {bad_run.run_id}" in evidence
    assert "other frameworks on the same nodes were steady (1 series)" in evidence
    measured = live.until(
        lambda: [run for run in incident.runs_of("nightbench_experiments") if run["end_date"]],
        "nightbench_experiments to end",
    )
    assert {run["state"] for run in measured} == {"success"}
    (message,) = inbox.messages
    command = assert_says_all(message, alert, good_run, bad_run)

    # Its command shows the same to whoever pastes it.
    again = shell.run(*shlex.split(command)[1:])
    assert again.returncode == 1, again.stdout + again.stderr
    assert "slower" in again.stdout
    say(f"$ {command}\n{again.stdout[-900:]}")

    # Bisected: the version is found, and stands on the alert wherever that is looked at.
    found_on(incident, alert["alert_id"])
    assert len(inbox.messages) == 1

    # Over: two nights with a mended version, told once, however often they are judged.
    _, rows = incident.night(FIXED, tomorrow)
    assert rows[TOY.case_id]["verdict"] == "ok"
    assert [each["state"] for each in incident.alerts()] == ["open"]
    last_run, rows = incident.night(FIXED, tomorrow)
    assert rows[TOY.case_id]["verdict"] == "ok"
    live.until(lambda: len(inbox.messages) > 1, "word of the recovery")
    assert [each["state"] for each in incident.alerts()] == ["resolved"]
    judged = live.api.trigger("nightbench_verdicts", {"run_ids": [last_run.run_id]})
    assert live.ended(judged, "nightbench_verdicts") == "success"
    assert len(inbox.messages) == 2
    said = inbox.messages[1]
    say(f"{said['title']}\n{said['message']}")
    assert said["title"].endswith(f": {TOY.case_id} resolved")
    assert f"Resolved:\n- {TOY.case_id}: {rows[TOY.case_id]['verdict_sentence']}" in said["message"]
    assert f"/plugin/benchmarks/alerts/{alert['alert_id']}" in said["message"]
    assert len(incident.alerts()) == 1
    say("over")


def assert_says_all(
    message: Mapping[str, Any], alert: Mapping[str, Any], good_run: RunSpool, bad_run: RunSpool
) -> str:
    """The night's message holds all that somebody needs; returns its command."""
    text = message["message"]
    say(f"{message['title']}\n{text}")
    assert f"{TOY.case_id} regressed by" in message["title"]
    assert message["title"].endswith(", confirmed")
    assert FAKE.case_id not in text
    lines = [line.strip().removeprefix("- ") for line in text.splitlines()]
    by_name = {name: rest for name, _, rest in (line.partition(": ") for line in lines)}
    assert "90% interval" in by_name["level change"]
    assert by_name["last good"].endswith(f"run {good_run.run_id}")
    assert by_name["first bad"].endswith(f"run {bad_run.run_id}")
    assert by_name["toy"] == f"{GOOD} -> {BAD}"
    assert by_name["cause"].startswith(f"framework version: The framework toy went from {GOOD}")
    assert by_name["confirmed"].startswith(alert["confirmation_sentence"])
    assert by_name["alert"].endswith(f"/plugin/benchmarks/alerts/{alert['alert_id']}")
    assert len(message["attachments"]) == 1
    builds = f"toy={GOOD} toy={BAD}"
    command: str = by_name["reproduce"]
    assert command == f"nightbench compare {builds} --suite {SUITE} --case {TOY.case_id}"
    return command


def found_on(incident: Incident, alert_id: int) -> None:
    """Bisect an alert by the DAG, and look at it as people and programs do."""
    live = incident.live
    dag_run = live.api.trigger("nightbench_experiments", {"alert_id": alert_id, "rounds": 3})
    assert live.ended(dag_run, "nightbench_experiments", wait_s=1200) == "success"
    program = incident.get(f"/nightbench/api/alerts/{alert_id}").json()
    (bisect,) = program["bisects"]
    assert (bisect["outcome"], bisect["first_bad"]) == ("found", FIRST_BAD)
    assert bisect["last_good"] == LAST_GOOD
    assert bisect["versions"] == list(RELEASES)[:-1]
    for test in bisect["tests"]:
        say(f"{test['kind']} {test['version']} beside {test['against']}: {test['why']}")
    sentence = f"{FIRST_BAD} is the first bad version; {LAST_GOOD} before it is good"
    shown = incident.shell.run("alert", "show", str(alert_id))
    assert shown.returncode == 0, shown.stderr
    assert sentence in shown.stdout
    say(f"nightbench alert show {alert_id}\n{shown.stdout}")
    document = json.loads(incident.shell.run("alert", "show", str(alert_id), "--json").stdout)
    assert [each["first_bad"] for each in document["bisects"]] == [FIRST_BAD]
    assert sentence in bisect["sentence"]
