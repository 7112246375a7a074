"""The benchmark of the warehouse, on a history of three series: no figure is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.performance import warehouse as benchmark
from tests.performance.warehouse import history, reads

from nightbench.warehouse.statements import SQL


def test_every_query_and_a_night_have_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--series", "3", "--nights", "12"]) == 0

    figures = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(set(each) == {"name", "milliseconds", "rows", "whole"} for each in figures)
    by_name = {each["name"]: each for each in figures}
    assert len(by_name) == len(figures)
    analysts = {f"analysts/{path.stem}" for path in (SQL / "queries/analysts").glob("*.sql")}
    assert analysts <= by_name.keys()
    assert by_name["latest_medians"]["whole"]
    assert by_name["latest_medians"]["rows"] == 3
    assert by_name["histories_unpartitioned"]["rows"] == by_name["histories"]["rows"] > 20
    # Each median with its plan, seven repeats and their ranks.
    assert by_name["load_night"]["rows"] > 3 * (2 + 7 + 7)
    assert by_name["judge_night"]["rows"] == 3
    assert {"load_night_row_by_row", "judge_night_with_alerts"} <= by_name.keys()


def test_a_statement_without_parameters_here_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "WRITES", reads.WRITES - {"route_alert"})

    assert benchmark.main(["--series", "3", "--nights", "12"]) == 1

    assert "statement route_alert: no value for owner" in capsys.readouterr().err


def test_a_disk_that_is_too_small_is_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "BYTES_OF_MEDIAN", 10**12)
    folder = tmp_path / "home"

    assert benchmark.main(["--series", "3", "--nights", "5", "--keep", str(folder)]) == 1

    said = capsys.readouterr().err
    assert "GB free, expected 15,0" in said
    assert not folder.exists()
