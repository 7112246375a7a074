"""`nightbench table` on a warehouse: what it prints, and what it says of mistakes."""

from __future__ import annotations

import csv
import io
import json

import pytest
from typer.testing import CliRunner

from nightbench.cli.main import app
from nightbench.core.errors import UserError
from nightbench.core.model import Case, Strategy


@pytest.fixture
def table(warehouse, monkeypatch):
    """What the command prints, as a reader of the warehouse."""
    monkeypatch.setenv("NIGHTBENCH_WAREHOUSE", warehouse.reader)

    def call(*words: str) -> str:
        done = CliRunner().invoke(app, ["table", *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return call


@pytest.fixture
def measured(loader, given) -> Case:
    """A case of dgc-bandwidth that was measured at scale smoke."""
    case = Case(
        "resnet50_v1.5",
        "pytorch",
        Strategy.COLLECTIVE,
        2,
        trainers=2,
        batch_size_per_device=2,
        scale="smoke",
    )
    run = given.run()
    loader.runs.load(given.batch(run, given.came_back(run, case, (10.0, 11.0, 12.0))))
    return case


def test_every_cell_has_a_value_or_a_reason(table, measured):
    cells = json.loads(table("dgc-bandwidth", "--scale", "smoke", "--format", "json"))
    assert all((cell["value"] is None) == (cell["reason"] is not None) for cell in cells)
    (found,) = [cell for cell in cells if cell["value"] is not None]
    assert (found["case_id"], found["value"], found["n"]) == (measured.case_id, 11.0, 3)
    assert found["row"] == {"framework": "pytorch", "compression": "none"}
    assert found["column"] == {"link_bandwidth": "full"}
    lines = list(
        csv.DictReader(io.StringIO(table("dgc-bandwidth", "-f", "csv", "--scale", "smoke")))
    )
    assert [line["value"] for line in lines if line["value"]] == ["11.0"]


def test_published_figures_stand_beside_the_full_scale_alone(table, measured):
    full = table("fleetx-ps", "--scale", "full", "--format", "md")
    assert "published 33,685 words/s" in full
    assert "published" not in table("fleetx-ps", "--scale", "smoke", "--format", "md")


def test_figures_are_drawn_where_there_is_a_value(table, measured, tmp_path):
    table("dgc-bandwidth", "--scale", "smoke", "--figures", str(tmp_path / "new"))
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "bandwidth.svg",
        "bandwidth.png",
    }
    taken = tmp_path / "file"
    taken.write_text("x")
    with pytest.raises(UserError, match=r"figures: .*file cannot be written"):
        table("dgc-bandwidth", "--scale", "smoke", "--figures", str(taken))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gone",), 'suite: found "gone"'),
        (("demo",), "found no `tables:`"),
        (("dgc-bandwidth", "--table", "x"), 'table: found "x"; expected bandwidth'),
        (("dgc-bandwidth", "--scale", "huge"), 'scale: found "huge"'),
        (("dgc-bandwidth", "--cluster", "moon"), 'cluster: found "moon"'),
    ],
)
def test_mistakes_are_named(table, words, said):
    with pytest.raises(UserError, match=said):
        table(*words)
