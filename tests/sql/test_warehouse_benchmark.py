"""The benchmark of the warehouse, on a history of three series: no figure is judged."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from psycopg2.extras import RealDictCursor
from tests.performance import warehouse as benchmark
from tests.performance.warehouse import history, reads

from nightbench.warehouse.statements import SQL

CLOSED = ("resolved", "dismissed")


def test_every_query_and_a_night_have_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--series", "3", "--nights", "12"]) == 0

    figures = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(set(each) == {"name", "milliseconds", "rows", "whole"} for each in figures)
    by_name = {each["name"]: each for each in figures}
    assert len(by_name) == len(figures)
    analysts = {f"analysts/{path.stem}" for path in (SQL / "queries/analysts").glob("*.sql")}
    assert analysts <= by_name.keys()
    assert by_name["analysts/latest_medians"]["whole"]
    assert by_name["analysts/latest_medians"]["rows"] == 3
    assert by_name["histories_unpartitioned"]["rows"] == by_name["histories"]["rows"] > 20
    # Each median with its plan, seven repeats and their ranks.
    assert by_name["load_night"]["rows"] > 3 * (2 + 7 + 7)
    assert by_name["judge_night"]["rows"] == 3
    assert by_name["publish"]["rows"] > 2 * 3
    assert by_name["publish_again"]["rows"] == 0
    assert {"load_night_row_by_row", "judge_night_with_alerts"} <= by_name.keys()


def test_a_statement_without_parameters_here_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "WRITES", reads.WRITES - {"spend_experiment"})

    assert benchmark.main(["--series", "3", "--nights", "12", "--only", "spend_experiment"]) == 1

    assert "statement spend_experiment: no value for name" in capsys.readouterr().err


def test_a_disk_that_is_too_small_is_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "BYTES_OF_MEDIAN", 10**12)
    folder = tmp_path / "home"

    assert benchmark.main(["--series", "3", "--nights", "5", "--keep", str(folder)]) == 1

    said = capsys.readouterr().err
    assert "GB free, expected 15,0" in said
    assert not folder.exists()


@pytest.mark.large  # alerts of all kinds need some hundred series and nights: minutes when busy
def test_what_is_shown_of_it_does_not_contradict_itself() -> None:
    with history.opened(300, 150, 5, None) as made, closing(made.connect()) as connection:
        shown = connection.cursor(cursor_factory=RealDictCursor)
        shown.execute(
            "select a.state, a.change, a.level_change, a.change_low, a.change_high, a.cause, "
            "v.unit, m.unit as newest_unit "
            "from marts.fct_alert as a "
            "join marts.fct_verdict as v on v.run_id = a.last_run_id and v.case_id = a.case_id "
            "join marts.latest_median as m on m.case_id = a.case_id and m.cluster = a.cluster "
            "where a.verdict = 'regressed'"
        )
        alerts = shown.fetchall()
    assert {"framework_version", "node"} <= {each["cause"] for each in alerts}
    assert {each["state"] for each in alerts} > {"open"}
    for each in alerts:
        assert each["change"] < 0 > each["change_high"]
        assert each["unit"] == each["newest_unit"]
        # A live one is judged: the change is of its last night, the interval of the level.
        of_interval = each["change"] if each["state"] in CLOSED else each["level_change"]
        assert each["change_low"] <= of_interval <= each["change_high"]
