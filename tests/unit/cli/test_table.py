"""`nightbench table` before there is a warehouse."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from nightbench.cli.main import app


@pytest.fixture(autouse=True)
def new_home(tmp_path, monkeypatch):
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NIGHTBENCH_WAREHOUSE", raising=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo"], "found no `tables:`"),
        (["dgc-bandwidth", "--table", "nowhere"], 'found "nowhere"'),
        (["dgc-bandwidth"], "There is no warehouse yet"),
        (["dgc-bandwidth", "--format", "csv"], "There is no warehouse yet"),
    ],
)
def test_what_cannot_be_shown_is_said(words, said):
    done = CliRunner().invoke(app, ["table", *words])
    assert done.exit_code == 1
    assert said in str(done.exception)
