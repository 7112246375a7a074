"""Training loops in processes of their own, which `tests.performance lines` compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.performance.lines import FEWEST, MOST, Loop, in_turn, loop_of

from nightbench.testkit.gangs import job_of

LOOP = """
import os

assert "MASTER_ADDR" not in os.environ


def build(given):
    given.only(optimizer=["sgd"], compiler=["none", "boom", "killed"])
    print("what a framework prints")
    if given.case["compiler"] == "boom":
        raise RuntimeError("no boom here")
    done = []

    def step():
        done.append(1)
        if given.case["compiler"] == "killed":
            os.kill(os.getpid(), 9)

    return step, lambda: float(len(done))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "line_loop.py"
    path.write_text(LOOP)
    return path


def job(optimizer: str = "sgd", **axes: str) -> Any:
    made = job_of("fake", "sleep", trainers=1, strategy="single", **axes)
    made["workload"]["params"]["optimizer"] = optimizer
    return made


def test_both_loops_are_timed_in_each_turn(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with Loop(sys.executable, script, job()) as own, Loop(sys.executable, script, job()) as loop:
        turns = in_turn(own, loop, 3)
        assert len(turns) == 3
        assert all(0 < seconds < 1 for turn in turns for seconds in turn)
        assert own.loss is not None
        steps = (own.loss - 5) / 3  # after the warm-up
        assert FEWEST <= steps <= MOST
        assert loop.loss == 3 * steps


def test_the_reason_why_there_is_no_result_is_reported(
    script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for wrong, why in (
        (job(optimizer="adam"), "optimizer adam"),
        (job(layout="channels_last"), "layout channels_last"),
        (job(recompute="full"), "recompute full"),
    ):
        with pytest.raises(LookupError, match=f"the loop does not support {why}"):
            Loop(sys.executable, script, wrong)
    with pytest.raises(LookupError, match="its process ended"):
        Loop(sys.executable, script, job(compiler="boom"))
    assert "RuntimeError: no boom here" in capfd.readouterr().err
    with (
        Loop(sys.executable, script, job(compiler="killed")) as loop,
        pytest.raises(LookupError, match="its process ended"),
    ):
        loop.seconds_of(1)


def test_lines_with_one_api_share_a_loop() -> None:
    assert [path and path.name for path in map(loop_of, ("paddle3", "oneflow", "fake"))] == [
        "paddle_loop.py",
        "oneflow_loop.py",
        None,
    ]
