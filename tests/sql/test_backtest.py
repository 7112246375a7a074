"""`nightbench grade`, with `--policy` too, against a real PostgreSQL, as a reader."""

from __future__ import annotations

import json
import random
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.sql.conftest import Database
from tests.sql.given import NIGHT, Given
from tests.sql.spooled import case, near, plan
from typer.testing import CliRunner

from nightbench.cli import common
from nightbench.cli.main import app
from nightbench.core.errors import UserError
from nightbench.core.history_file import HistoryFile
from nightbench.core.model import Verdict, VerdictKind
from nightbench.night.detector_grade import grade
from nightbench.warehouse import Triage, Warehouse, connect
from nightbench.warehouse.history_import import read_history

FALLS, STEADY = case(1), case(2)
NIGHTS, FELL = 60, 45


@pytest.fixture
def reading(warehouse: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command asks for the reader's role, and gets no other."""
    by_role = {"nightbench_reader": warehouse.reader}
    monkeypatch.setattr(common, "has_warehouse", lambda: True)
    monkeypatch.setattr(common, "warehouse_dsn", by_role.__getitem__)


@pytest.fixture
def stored(loader: Warehouse, given: Given) -> None:
    """Two series: one falls by 10 % on night 45."""
    rng = random.Random(4)
    for night in range(NIGHTS):
        run = given.run(night, suite="seeded")
        came = []
        for each in (FALLS, STEADY):
            level = 90.0 if each is FALLS and night >= FELL else 100.0
            level *= 1 + rng.gauss(0, 0.005)
            came.append(near(given, run, each, level))
        loader.runs.load(given.batch(run, *came))


def label(
    loader: Warehouse, triage: Triage, given: Given, case_id: str, night: int, *how: Any
) -> int:
    run = given.run(night, suite="seeded")
    kind = VerdictKind.REGRESSED
    loader.alerts.open(Verdict(case_id, "local", run.run_id, kind, "slower", 90.0, 100.0, -0.1))
    with triage._connection.cursor() as cursor:
        cursor.execute("select max(alert_id) from marts.fct_alert")
        alert_id = int(cursor.fetchone()[0])
    triage.move(alert_id, *how)
    return alert_id


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    if result.exception:
        raise result.exception
    return result.stdout


def asked(*words: str, policy: str = "current") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(invoke("grade", "--policy", policy, "--json", *words))
    return found


def test_labels_of_people_grade_two_policies(
    reading: None, stored: None, loader: Warehouse, triage: Triage, given: Given
) -> None:
    right = label(loader, triage, given, FALLS.case_id, FELL + 2, "acknowledged", "seen")
    label(loader, triage, given, STEADY.case_id, 20, "dismissed", "noise", "false_alarm")
    found = asked(policy="min_change=20%")
    assert (found["series"], found["nights"], found["labelled"]) == (2, 2 * NIGHTS, 2)
    (alert,) = found["current"]["raised"]
    assert (alert["case_id"], alert["label"]) == (FALLS.case_id, True)
    assert found["current"]["precision"] == found["current"]["recall"] == 1.0
    assert len(found["current"]["silenced"]) == 1
    assert found["proposed"]["raised"] == []
    assert [known["alert_id"] for known in found["proposed"]["missed"]] == [right]
    assert found["proposed"]["recall"] == 0.0
    said = invoke("grade", "--policy", "min_change=20%")
    assert f"missed, proposed: min_change=20%: alert {right}" in said
    assert "Only with the current policy:" in said


def test_what_nobody_labelled_is_counted_as_that(
    reading: None, stored: None, loader: Warehouse, given: Given
) -> None:
    found = asked()
    assert found["proposed"] is None
    assert (found["current"]["unlabelled"], found["current"]["precision"]) == (1, None)
    assert "No alert of these series has a label" in invoke("grade", "--policy", "current")


def test_series_suites_and_dates_are_chosen(reading: None, stored: None) -> None:
    assert asked("--series", STEADY.case_id)["current"]["raised"] == []
    assert asked("seeded", "--series", "*bs1*")["series"] == 1
    later = (NIGHT + timedelta(days=FELL + 8)).date().isoformat()
    found = asked("--since", later)
    assert found["nights"] == 2 * (NIGHTS - FELL - 8)
    assert found["current"]["raised"] == []
    for words in (["other"], ["--cluster", "other"], ["--series", "nothing"]):
        with pytest.raises(UserError, match="series: found none"):
            asked(*words)
    with pytest.raises(UserError, match="--since"):
        asked("--since", "yesterday")
    with pytest.raises(UserError, match="--series requires --policy"):
        invoke("grade", "--series", STEADY.case_id)


def history_file(folder: Path) -> Path:
    rng = random.Random(2)
    rows = ["at,cluster,workload,framework,strategy,throughput,unit"]
    for night in range(NIGHTS):
        at = (NIGHT + timedelta(days=night)).isoformat()
        level = (80 if night >= FELL else 100) * (1 + rng.gauss(0, 0.005))
        rows.append(f"{at},old,sleep,fake,single,{level:.4f},samples")
    path = folder / "old.csv"
    path.write_text("\n".join(rows))
    return path


def test_an_imported_history_is_replayed(
    reading: None, warehouse: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = history_file(tmp_path)
    with closing(connect(warehouse.loader)) as connection:
        Warehouse(connection).runs.store_history(read_history(HistoryFile(path)))
    (alert,) = asked("--cluster", "old")["current"]["raised"]
    assert alert["since"].startswith((NIGHT + timedelta(days=FELL)).date().isoformat())


def test_the_grade_is_shown(reading: None, warehouse: Database, stored: None, given: Given) -> None:
    assert "No grade of suite seeded yet" in invoke("grade", "seeded")
    run = given.run(NIGHTS - 1, suite="seeded")
    grade(lambda: connect(warehouse.loader), plan(run, (FALLS, STEADY)))
    said = invoke("grade")
    assert f"seeded on local, up to {run.run_id}" in said
    rows = json.loads(invoke("grade", "seeded", "--json"))
    assert len(rows) == 6
    quiet = next(row for row in rows if row["measure"] == "false alarms")
    assert f"{quiet['trials']:,} nights" in said
    with pytest.raises(UserError, match='cluster: found "other"; expected one of compose, local'):
        invoke("grade", "--cluster", "other", "--json")
    with pytest.raises(UserError, match='suite: found "sedeed"; expected one of cpu'):
        invoke("grade", "sedeed")
