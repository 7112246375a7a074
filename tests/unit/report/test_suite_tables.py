"""Tables as text, Markdown, CSV, JSON and pictures."""

from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from nightbench.core.model import SuiteTable
from nightbench.core.tables import Cell
from nightbench.report import suite_tables

TABLE = SuiteTable(name="sizes", title="By devices", rows=("framework",), columns=("devices",))
CELLS = [
    Cell(("a",), ("1x1",), "x", 10.0, "images/s", 9.0, "images/s", None, 7, 0.1, 1.0, 1.0),
    Cell(("a",), ("2x1",), "y", None, "/s", None, None, "not run [yet] | x"),
    Cell(("b",), ("1x1",), "z", None, "/s", 3.0, "images/s", "not run [yet] | x"),
]


def test_text_numbers_its_reasons() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(suite_tables.to_rich(TABLE, CELLS))
    text = console.export_text()
    for words in ("10.00 images/s", "n 7, spread 10.0 %", "S 1.00, E 100 %", "[1]"):
        assert words in text
    assert "published 9.000" in text
    assert "MB a step" not in text
    assert suite_tables.footnotes(CELLS) == ["[1] not run [yet] | x"]


def test_a_cell_says_what_its_trainers_send_and_where_they_share_nodes() -> None:
    cell = dataclasses.replace(CELLS[0], sent_bytes_per_step=204_720, placed="4x5")
    text = suite_tables.to_markdown(TABLE, [cell])
    assert "sends 0.205 MB a step" in text
    assert "trainers on 4x5" in text


def test_markdown_keeps_its_columns() -> None:
    lines = suite_tables.to_markdown(TABLE, CELLS).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 4
    assert {line.replace("\\|", "").count("|") for line in rows} == {4}


def test_a_title_that_names_a_size_says_where_a_smoke_run_was_smaller() -> None:
    small = dataclasses.replace(CELLS[0], case_id="resnet50_v1.5-a-collective-1x1-bs2-smoke")
    assert "### By devices (measured at smoke scale)" in suite_tables.to_markdown(TABLE, [small])
    assert "### By devices\n" in suite_tables.to_markdown(TABLE, CELLS)


def test_csv_and_json_have_every_cell() -> None:
    rows = list(csv.DictReader(io.StringIO(suite_tables.to_csv([(TABLE, CELLS)]))))
    assert [row["reason"] for row in rows] == ["", *["not run [yet] | x"] * 2]
    documents = suite_tables.to_documents(TABLE, CELLS)
    assert documents[0]["row"] == {"framework": "a"}
    assert documents[0]["column"] == {"devices": "1x1"}
    assert [each["value"] for each in documents] == [10.0, None, None]


@pytest.mark.parametrize("chart", ["bars", "lines"])
def test_charts_are_drawn_where_there_is_a_value(chart: str, tmp_path: Path) -> None:
    table = SuiteTable(
        name="sizes", title="By devices", rows=("framework",), columns=("devices",), chart=chart
    )
    paths = suite_tables.write_charts(table, CELLS, tmp_path / "figures")
    assert [path.name for path in paths] == ["sizes.svg", "sizes.png"]
    first = paths[0].read_bytes()
    suite_tables.write_charts(table, CELLS, tmp_path / "figures")
    assert paths[0].read_bytes() == first, "the same values make the same file"
    assert suite_tables.write_charts(table, CELLS[1:2], tmp_path / "none") == []
