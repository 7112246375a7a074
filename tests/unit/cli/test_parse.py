"""The command `parse` shows what a log states, and leaves the reading to the shipped tree."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from nightbench.cli.main import app

LOG = "".join(
    f"Epoch: [0][{step:4d}/100]\tTime  0.{100 + step} ( 0.140)\tLoss 7.0 (7.0)\n"
    for step in (1, 11, 21, 31, 41)
)


def test_parse_shows_the_median_behind_the_warm_up(tmp_path):
    file = tmp_path / "train.log"
    file.write_text(LOG + "Epoch: [0][  51/1")
    done = CliRunner().invoke(app, ["parse", "pytorch_examples", str(file), "--json"])
    found = json.loads(done.stdout)
    assert found["step_s"] == {"median": 0.131, "minimum": 0.121, "maximum": 0.141, "n": 3}
    assert found["warmup_lines"] == 2
    assert found["left_out"] == {"last line cut off": 1}


def test_parse_names_a_warning_and_an_error(tmp_path):
    file = tmp_path / "train.log"
    file.write_text(LOG + "Epoch: [0][  51/1")
    done = CliRunner().invoke(app, ["parse", "pytorch_examples", str(file)])
    assert "step time: median 0.131 s (0.121 to 0.141, 3 lines)" in done.stdout
    assert "1 line left out: last line cut off" in done.stderr
    wrong = CliRunner().invoke(app, ["parse", "gluon", str(file)])
    assert wrong.exit_code == 1
    assert "no line of it states a step" in str(wrong.exception)
