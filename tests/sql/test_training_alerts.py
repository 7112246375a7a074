"""What follows from a change of training: cause, confirmation, message, and the series' page."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.sql.conftest import Database, Rows
from tests.sql.nights import STEADY, Inbox
from tests.sql.page_client import page_client
from tests.sql.test_training import AS_EVER, HALF_A_BATCH, judge

from nightbench.core.documents import from_document
from nightbench.core.model.experiments import ExperimentKind
from nightbench.night.suspected_regressions import SuspectedRegression
from nightbench.spool import Spool
from nightbench.warehouse import Triage, Warehouse
from nightbench.warehouse.connection import Connection

__all__ = ["judge"]


@pytest.fixture
def changed(judge) -> None:
    """Five good nights, and one with another version that trains on half of each batch."""
    for night in range(5):
        judge(night, AS_EVER, version="2.13.0")
    judge(5, HALF_A_BATCH, version="2.14.0", throughput=182.0, confirms=True)


def test_the_alert_says_what_changed_since_when_and_why(changed, reader: Warehouse) -> None:
    (alert,) = [each for each in reader.alerts.find() if each["metric"] == "training"]
    assert alert["sentence"].startswith(
        "Training changed: sleep on fake, first loss 2 -> 2.1 since 2.14.0; throughput +82.0%. "
        "5 nights since "
    )
    assert (alert["cause"], alert["cause_suspect"]) == (
        "framework_version",
        "fake 2.13.0 -> 2.14.0",
    )
    nights = reader.runs.find()
    assert [alert["first_bad_run_id"], alert["last_good_run_id"]] == [
        each["run_id"] for each in nights[:2]
    ]


def test_a_changed_environment_variable_is_the_cause(judge, reader: Warehouse) -> None:
    for night in range(5):
        judge(night, AS_EVER, env={"OMP_NUM_THREADS": "1"})
    judge(5, HALF_A_BATCH, env={"OMP_NUM_THREADS": "1", "NCCL_ALGO": "Ring"})
    (alert,) = reader.alerts.find()
    assert (alert["cause"], alert["cause_suspect"]) == (
        "environment",
        "NCCL_ALGO (not set) -> Ring",
    )


def test_many_changed_variables_are_one_cause(judge, reader: Warehouse) -> None:
    """Their names and values are longer than what an index of PostgreSQL can hold."""
    chance = random.Random(1)
    env = {f"NCCL_V{number}": f"{chance.getrandbits(480):x}" for number in range(30)}
    for number in range(5):
        judge(number, AS_EVER, env={})
    judge(5, HALF_A_BATCH, env=env)
    (alert,) = reader.alerts.find()
    assert alert["cause"] == "environment"
    assert len(alert["cause_suspect"]) < 300


def test_it_is_measured_again_before_the_message(
    changed, reader: Warehouse, inbox: Inbox, rows: Rows
) -> None:
    (asked,) = reader.experiments.find(kinds=[ExperimentKind.CONFIRM])
    assert asked["state"] == "queued"
    suspect = from_document(SuspectedRegression, asked["request"])
    assert suspect.trained is not None
    assert [night["first"] for night in suspect.trained.nights] == [(2.0, 2.0)] * 5
    assert (suspect.good_version, suspect.bad_version) == ("2.13.0", "2.14.0")
    assert inbox.messages == []


def test_the_message_names_version_and_cause(judge, inbox: Inbox) -> None:
    for night in range(5):
        judge(night, AS_EVER, version="2.13.0")
    judge(5, HALF_A_BATCH, version="2.14.0")
    (message,) = inbox.messages
    assert "Training changed: sleep on fake, first loss 2 -> 2.1 since 2.14.0" in message["message"]
    assert (
        "- cause: framework version: The version of fake changed from 2.13.0" in message["message"]
    )


def test_the_page_has_tonight_over_the_last_good_night(
    changed, judge, warehouse: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(6, HALF_A_BATCH, version="2.14.0")
    app = page_client(warehouse, Spool(tmp_path), monkeypatch)
    found = app.get(f"/api/losses/local/{STEADY.case_id}").json()
    tonight, good = found["curves"]
    assert (tonight["role"], good["role"]) == ("tonight", "good")
    assert (tonight["framework_version"], good["framework_version"]) == ("2.14.0", "2.13.0")
    assert (tonight["losses"], good["losses"]) == (HALF_A_BATCH, AS_EVER)
    assert tonight["training"] == "changed"
    (case,) = app.get(f"/api/runs/{tonight['run_id']}").json()["cases"]
    assert case["training"] == "changed"
    assert len(found["steps"]) == len(AS_EVER)
    assert found["steps"][0] == 1


def test_a_series_without_losses_has_no_curve(
    warehouse: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = page_client(warehouse, Spool(tmp_path), monkeypatch)
    assert app.get("/api/losses/local/none").json() == {"steps": [], "curves": []}


def test_what_trains_differently_is_in_no_table_before_a_user_accepts_it(
    changed, reader: Warehouse, warehouse: Database, connection: Connection
) -> None:
    compared = {"by": "framework", "one": "fake", "other": "fake", "search": None, "shown": None}

    def newest() -> list[float]:
        rules = json.dumps([{"suite": "seeded", "frameworks": [], "workloads": [], "nodes": True}])
        keys = [row["series_key"] for row in reader.series.read("site_series", rules=rules)]
        (site,) = reader.series.read("site_points", series_keys=keys, rules=rules)
        (pair,) = (
            row
            for row in reader.series.read("ui_compare", **compared, max_rows=9, skipped=0)
            if row["one_case_id"]
        )
        (export,) = reader.series.read("export_metrics", suite=None, cluster=None, case_id=None)
        return [
            round(each)
            for each in (site["median"][-1], pair["one_throughput"], export["throughput"])
        ]

    assert newest() == [100, 100, 100]
    (alert,) = [each for each in reader.alerts.find() if each["metric"] == "training"]
    Triage(connection, "ada").move(alert["alert_id"], "dismissed", "new sampler", "intended")
    assert newest() == [182, 182, 182]


def test_the_list_of_series_has_the_verdict_before_the_change(
    changed, reader: Warehouse, connection: Connection
) -> None:
    """Found on 2026-11-30: +139 % beside the median before the change."""
    unset = dict.fromkeys(("cluster", "suite", "state", "search", "sort", "together"))

    def shown() -> tuple[int, str]:
        (row,) = reader.series.read("ui_series", **unset, axes="{}", max_rows=9, skipped=0)
        return round(row["throughput"]), row["verdict_sentence"][:33]

    assert shown() == (100, "No verdict yet: 4 comparable earl")
    points = reader.series.read(
        "ui_series_points", case_id=STEADY.case_id, cluster="local", since=None, until=None
    )
    assert points[-1]["sentence"].startswith("Training changed: first loss 2 -> 2.1 since 2.14.0.")
    assert points[-1]["sentence"].endswith("at least 10 are needed.")
    (alert,) = [each for each in reader.alerts.find() if each["metric"] == "training"]
    Triage(connection, "ada").move(alert["alert_id"], "dismissed", "new sampler", "intended")
    assert shown() == (182, "No verdict yet: 5 comparable earl")
