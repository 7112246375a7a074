"""`nightbench alert` against a real PostgreSQL, role by role."""

from __future__ import annotations

import getpass
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.sql.given import Given
from typer.testing import CliRunner

from nightbench.cli.main import app
from nightbench.core.errors import UserError, WarehouseRefused
from nightbench.core.hours import moment
from nightbench.core.model import Verdict, VerdictKind
from nightbench.warehouse import Warehouse


def said(*words: object) -> str:
    result = CliRunner().invoke(app, ["alert", *map(str, words)])
    if result.exception:
        raise result.exception
    return result.stdout


def test_an_alert_from_the_list_to_its_end(roles: None, alert_id: int) -> None:
    assert [row["state"] for row in json.loads(said("list", "--json"))] == ["open"]
    said("ack", alert_id, "--why", "looking [at] it")
    said("assign", alert_id, "--owner", "grace")
    assert "snoozed until" in said("snooze", alert_id, "--until", "3d")
    said("dismiss", alert_id, "--reason", "wont-fix")
    assert said("list").startswith("No open alerts")
    assert "dismissed" in said("list", "--all")
    shown = said("show", alert_id)
    assert f"{getpass.getuser()} open -> acknowledged: looking [at] it" in shown
    again = json.loads(said("reopen", alert_id, "--json"))
    assert again["state"] == "open"
    assert len(again["events"]) == 6
    said("resolve", alert_id)
    with pytest.raises(WarehouseRefused, match="is resolved and cannot become acknowledged"):
        said("ack", alert_id)
    with pytest.raises(UserError, match="There is no alert 999"):
        said("show", 999)


def test_an_alert_says_that_its_suite_has_no_such_case_now(
    roles: None, alert_id: int, loader: Warehouse, given: Given
) -> None:
    for night in (1, 2):
        run, other = given.run(night), given.case(2)
        assert "has not planned" not in said("show", alert_id) or night == 2
        loader.runs.load(given.batch(run, given.came_back(run, other)))
    line = "Suite demo has not planned its case since "
    assert f"alert {alert_id} stays open: {line}" in said("list")
    assert line in said("show", alert_id)
    again = given.run(3)
    loader.runs.load(given.batch(again, given.came_back(again, given.case())))
    assert "stays open" not in said("list")


def test_an_alert_names_the_nights_that_it_is_about(
    roles: None, alert_id: int, loader: Warehouse, given: Given
) -> None:
    run, case_id = given.run(), given.case().case_id
    assert "last good" not in said("show", alert_id)
    verdict = Verdict(case_id, "local", run.run_id, VerdictKind.REGRESSED, "slower", 9.0, 10.0)
    loader.series.store_verdicts([replace(verdict, last_good_run_id="n-1", first_bad_run_id="n-2")])
    shown = said("show", alert_id).splitlines()
    assert "last good run n-1, first bad run n-2" in shown
    assert f"opened by run {run.run_id}, latest {run.run_id}" in shown
    loader.series.store_verdicts(
        [replace(verdict, kind=VerdictKind.FAILED, last_good_run_id="n-1")]
    )
    assert "last good run n-1" in said("show", alert_id).splitlines()


def test_what_is_no_alert_or_no_text_is_refused_in_words(roles: None, alert_id: int) -> None:
    """A number beyond any alert's read as if migrations were missing."""
    for number in (999, 10**20):
        with pytest.raises(UserError, match=f"There is no alert {number}"):
            said("resolve", number)
    before = said("show", alert_id)
    for words in (("assign", alert_id, "--owner"), ("ack", alert_id, "--why")):
        with pytest.raises(UserError) as error:
            said(*words, "\x1b[31mada")
        field = words[2].removeprefix("--")
        assert str(error.value) == f"{field}: found a control character; expected a text"
    assert said("show", alert_id) == before
    assert "one\ntwo" in said("ack", alert_id, "--why", "one\ntwo")


NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("12h", NOW + timedelta(hours=12)),
        ("2w", NOW + timedelta(days=14)),
        ("2026-12-01", datetime(2026, 12, 1, tzinfo=UTC)),
        ("2026-12-01T06:00+02:00", datetime(2026, 12, 1, 4, tzinfo=UTC)),
    ],
)
def test_times_to_come(text: str, at: datetime) -> None:
    assert moment(text, NOW) == at


def test_what_is_no_time() -> None:
    with pytest.raises(UserError, match="12h, 3d, 2w"):
        moment("soon", NOW)
