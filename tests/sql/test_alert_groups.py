"""`nightbench alert` on alerts of one cause: a line for each, and what is done to all of it."""

from __future__ import annotations

import getpass
import json

import pytest
from tests.sql.conftest import Rows
from tests.sql.given import NIGHT, Given
from typer.testing import CliRunner

from nightbench.alerts.ranking import store_ranks
from nightbench.cli.main import app
from nightbench.core.errors import UserError
from nightbench.core.model import Verdict, VerdictKind
from nightbench.core.model.alerts import CauseEvidence
from nightbench.warehouse import Triage, Warehouse
from nightbench.warehouse.connection import Connection

KEY = "local/node/n1/2026-03-01"


@pytest.fixture
def ids(loader: Warehouse, connection: Connection, reader: Warehouse, given: Given) -> list[int]:
    """Four alerts: three of one cause, the second of them the worst, and one of none."""
    run = given.run()
    cases = [given.case(batch_size_per_device=2**k) for k in range(4)]
    loader.runs.load(given.batch(run, *(given.came_back(run, case) for case in cases)))
    for case, value in zip(cases, (9.0, 7.0, 8.0, 9.0), strict=True):
        kind, change = VerdictKind.REGRESSED, value / 10 - 1
        loader.alerts.open(
            Verdict(case.case_id, "local", run.run_id, kind, "slower", value, 10.0, change)
        )
    found = sorted(row["alert_id"] for row in reader.alerts.find())
    cause = {
        "run_id": run.run_id,
        "kind": "node",
        "suspect": "n1",
        "sentence": "N1 is slow by itself.",
        "evidence": (CauseEvidence("controls fell"), CauseEvidence("nothing", is_against=True)),
        "group_key": KEY,
        "first_bad_run_id": run.run_id,
        "last_good_run_id": None,
        "night": NIGHT.date(),
    }
    warehouse = Warehouse(connection)
    warehouse.causes.store([{**cause, "alert_id": alert_id} for alert_id in found[:3]])
    store_ranks(warehouse, "local")
    return found


def said(*words: object) -> str:
    result = CliRunner().invoke(app, ["alert", *map(str, words)], env={"COLUMNS": "400"})
    if result.exception:
        raise result.exception
    return result.stdout


def states(reader: Warehouse) -> dict[int, str]:
    return {row["alert_id"]: row["state"] for row in reader.alerts.find(states=None)}


def test_one_line_for_one_cause(roles: None, ids: list[int]) -> None:
    _header, _rule, *lines = said("list").splitlines()
    assert len(lines) == 2
    # The group of three comes first: its series lose more together.
    (line,) = [line for line in lines if "node: n1" in line]
    assert lines[0] == line
    assert line.split()[:3] == [str(ids[1]), "3", "open"]
    assert "regressed by 30.0% at worst" in line
    assert "and 2 more" in line
    assert len(json.loads(said("list", "--json"))) == 4


def test_an_alert_shows_its_cause_and_the_others_of_it(roles: None, ids: list[int]) -> None:
    shown = said("show", ids[0])
    assert "cause: node: N1 is slow by itself.\n  - Controls fell.\n  - Against this cause" in shown
    assert "2 other series with the same cause" in shown
    others = [line.split()[0] for line in shown.splitlines() if line.startswith("  ")]
    assert str(ids[1]) in others
    assert str(ids[3]) not in others
    document = json.loads(said("show", ids[0], "--json"))
    assert [row["alert_id"] for row in document["same_cause"]] == [ids[1], ids[2]]
    assert (document["cause"], document["group_key"]) == ("node", KEY)
    assert "same cause" not in said("show", ids[3])


def test_all_of_a_group_at_once(roles: None, ids: list[int], reader: Warehouse, rows: Rows) -> None:
    shown = said("ack", ids[0], "--group", "--why", "looking")
    assert "3 of 3 alerts of the same cause were changed" in shown
    assert list(states(reader).values()).count("acknowledged") == 3
    assert states(reader)[ids[3]] == "open"
    moved = rows("select alert_id, by_whom, why from raw.alert_event where what = 'moved'")
    assert [(row["by_whom"], row["why"]) for row in moved] == [(getpass.getuser(), "looking")] * 3
    assert sorted(row["alert_id"] for row in moved) == ids[:3]

    said("assign", ids[1], "--owner", "grace", "--group")
    assert [row["owner"] for row in reader.alerts.find(group=KEY)] == ["grace"] * 3
    said("snooze", ids[1], "--until", "3d", "--group")
    said("dismiss", ids[2], "--reason", "intended", "--group")
    assert states(reader) == dict.fromkeys(ids[:3], "dismissed") | {ids[3]: "open"}


def test_what_cannot_be_moved_is_left(
    roles: None, ids: list[int], reader: Warehouse, triage: Triage
) -> None:
    triage.move(ids[1], "resolved")
    said("resolve", ids[0], "--group")
    assert states(reader)[ids[2]] == "resolved"
    with pytest.raises(UserError, match="no alert of the group is open or acknowledged"):
        said("resolve", ids[0], "--group")


def test_a_group_of_one(roles: None, ids: list[int], reader: Warehouse) -> None:
    assert "1 of 1 alerts" in said("ack", ids[3], "--group")
    assert list(states(reader).values()).count("acknowledged") == 1
