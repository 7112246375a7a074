"""`nightbench plan --night`, and what `nightbench run` says of hours: each in its own process."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.cli.test_command import CLUSTER, SUITE, nightbench

NIGHT = """\
night: {window: "22:00-06:00 Europe/Berlin", budget: 45m}
timeouts: {repeat: 20m}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    suite = SUITE.replace("matrix:", f"{NIGHT}matrix:").replace("repeats: 2", "repeats: 20")
    for name, text in (("clusters/pair.yaml", CLUSTER), ("suites/trial.yaml", suite)):
        path = tmp_path / "dags" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path


def test_a_night_is_shown_beforehand(place: Path) -> None:
    done = nightbench(place, "plan", "trial", "--night", "--at", "2026-11-21T12:00")
    assert done.returncode == 0, done.stderr
    assert "begins (Europe/Berlin)" in done.stdout
    assert "2026-11-21 22:00" in done.stdout
    assert "20 min (guessed)" in done.stdout
    assert "left out" not in done.stdout
    assert (
        "the night begins at 2026-11-21 22:00; 2 of 2 cases end by 2026-11-21 22:41; it ends at "
        "2026-11-21 22:45 (the budget of 45 min)"
    ) in done.stdout


def test_what_is_left_out_is_listed_with_its_reason(place: Path) -> None:
    # Half an hour before the window ends.
    at = "2026-11-22T05:30:00+01:00"
    done = nightbench(place, "plan", "trial", "--night", "--at", at, "--json")
    first, second = json.loads(done.stdout)
    assert first["start"] == "2026-11-22T04:30:00+00:00"
    assert (first["nodes"], first["guessed"], first["left_out"]) == (["127.0.0.2"], True, None)
    assert second["start"] is None
    assert second["left_out"]["code"] == "night_full"
    assert "until 2026-11-22 05:00 UTC" in second["left_out"]["expected"]
    assert "the hours 22:00-06:00 Europe/Berlin" in second["left_out"]["expected"]


def test_what_cannot_be_asked_is_said(place: Path) -> None:
    done = nightbench(place, "plan", "trial", "--night", "--at", "tonight")
    assert done.returncode != 0
    assert 'at: found "tonight"; expected a date or a time' in done.stderr
    both = nightbench(place, "run", "trial", "--direct", "--night", "--outside-hours")
    assert "choose one" in both.stderr


def test_nobody_measures_outside_the_hours_by_accident(place: Path) -> None:
    now = datetime.now(UTC)
    later = [f"{now + timedelta(hours=hours):%H:%M}" for hours in (3, 5)]
    cluster = CLUSTER.replace("nodes:", f'limits: {{hours: "{"-".join(later)} UTC"}}\nnodes:', 1)
    (place / "dags/clusters/pair.yaml").write_text(cluster)
    (place / "dags/suites/trial.yaml").write_text(SUITE)
    done = nightbench(place, "run", "trial", "--direct")
    assert done.returncode == 1
    assert f"cluster pair allows measuring only at {later[0]}-{later[1]} UTC" in done.stderr
    # Asked for all the same it goes on to its nodes, which nobody has a Connection for.
    forced = nightbench(place, "run", "trial", "--direct", "--outside-hours")
    assert "allows measuring" not in forced.stderr
    assert "nowhere" in forced.stderr


def test_a_schedule_says_when_the_night_begins_where_no_hours_do(place: Path) -> None:
    path = place / "dags" / "suites" / "trial.yaml"
    path.write_text(SUITE + 'schedule: "30 3 * * *"\n')
    done = nightbench(place, "plan", "trial", "--night")
    assert re.search(r"the night begins at \d{4}-\d\d-\d\d 03:30; ", done.stdout), done
    assert "no time limit (by its schedule, 30 3 * * *)" in done.stdout


def test_a_plan_of_one_case(place: Path) -> None:
    (place / "dags" / "suites" / "trial.yaml").write_text(SUITE)
    (first, _) = json.loads(nightbench(place, "plan", "trial", "--json").stdout)
    done = nightbench(place, "plan", "trial", "--case", first["case_id"], "--json")
    assert [row["case_id"] for row in json.loads(done.stdout)] == [first["case_id"]]
    assert 'case_id: found "x"' in nightbench(place, "plan", "trial", "--case", "x").stderr
