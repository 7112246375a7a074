"""A plain loop in turn with a trainer: in a process of its own, refused, or broken."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plain
import pytest
from extras import extra_of

LOOP = """
import os
import time

assert "MASTER_ADDR" not in os.environ


def build(given):
    given.only(optimizer=["sgd"], compiler=["none", "boom", "slow"])
    print("what a framework says")
    if given.case["compiler"] == "boom":
        raise RuntimeError("no boom here")
    done = []
    if given.case["compiler"] == "slow":
        time.sleep(1.0)
        return lambda: done or time.sleep(1.0) or done.append(1), lambda: 0.0
    return lambda: done.append(1), lambda: float(len(done))
"""
CASE = {
    **{"framework": "line", "workload": "w", "precision": "fp32", "compiler": "none"},
    **{"execution": "default", "layout": "default", "batch_size_per_device": 2},
}


TOLD: list[str | None] = []
"""Devices of the ranks that told that they go on."""


class Counted:
    """A trainer and its runtime."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> None:
        self.steps += 1

    def device_sync(self) -> None:
        """Nothing is queued."""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "frameworks" / "line"
    folder.mkdir(parents=True)
    (folder / "framework.json").write_text(json.dumps({"api": "of-line"}))
    (folder / "plain_loop.py").write_text(LOOP)
    return tmp_path


class Ending(Counted):
    """Ends the plain loop, between two of its questions."""

    def __init__(self, pid: Path) -> None:
        super().__init__()
        self.pid = pid

    def step(self) -> None:
        pid = int(self.pid.read_text())
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def told(code: Path, optimizer: str = "sgd", device: str | None = None, **case: str) -> Any:
    params = {"optimizer": optimizer}
    context = SimpleNamespace(case={**CASE, **case}, params=params, device=device)
    context.tell_progress = lambda: TOLD.append(device)
    both = Counted()
    return plain.beside(both, both, context, str(code), 3)


def test_both_loops_are_timed_in_each_round(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    found = told(code)
    assert plain.FEWEST <= found["steps"] <= plain.MOST
    assert len(found["rounds"]) == 3
    assert all(0 < seconds < math.inf for pair in found["rounds"] for seconds in pair)


def test_what_is_not_written_or_breaks_is_said(
    code: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    why = told(code, optimizer="adam")["why"]
    assert why == "the plain loop is not written for optimizer adam"
    assert "not written for layout last" in told(code, layout="last")["why"]
    for axis, value in [("recompute", "full"), ("tuning", "fast"), ("state_precision", "bf16")]:
        assert f"not written for {axis} {value}" in told(code, **{axis: value})["why"]
    assert "ended with code 1" in told(code, compiler="boom")["why"]
    assert "RuntimeError: no boom here" in capfd.readouterr().err
    (code / "frameworks/line/plain_loop.py").unlink()
    assert told(code) == {"why": "no plain loop is written for line"}


def test_on_a_gpu_a_loop_that_says_so_shares_the_process(
    code: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = code / "frameworks/line/plain_loop.py"
    script.write_text(f"SHARES_A_PROCESS = True\nimport os\nHERE = os.getpid()\n{LOOP}")
    monkeypatch.setattr(plain, "Loop", None)
    TOLD.clear()
    found = told(code, device="0")
    assert TOLD == ["0"], "a loop that compiles is not taken for a rank that hangs"
    assert len(found["rounds"]) == 3
    assert all(0 < seconds < math.inf for pair in found["rounds"] for seconds in pair)
    assert os.getpid() == sys.modules["plain_loop"].HERE
    assert told(code, device="0", layout="last")["why"].startswith("the plain loop is not written")
    assert (
        "the plain loop failed: RuntimeError('no boom here')"
        in (told(code, device="0", compiler="boom")["why"])
    )
    assert "Traceback" in capfd.readouterr().err


def test_a_loop_that_died_between_two_questions_loses_no_measurement(code: Path) -> None:
    script = code / "frameworks/line/plain_loop.py"
    script.write_text(f"{LOOP}\nopen(__file__ + '.pid', 'w').write(str(os.getpid()))\n")
    context = SimpleNamespace(case=CASE, params={"optimizer": "sgd"}, device=None)
    ending = Ending(script.with_name(script.name + ".pid"))
    assert "ended with code -9" in plain.beside(ending, ending, context, str(code), 3)["why"]


def test_a_loop_that_came_first_takes_the_turns(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = SimpleNamespace(case=CASE, params={"optimizer": "sgd"}, device=None)
    loop = plain.early(context, str(code))
    assert loop is not None
    assert loop.loss == plain.WARMUP, "its memory is that of its steps"
    monkeypatch.setattr(plain, "Loop", None)
    both = Counted()
    assert len(plain.beside(both, both, context, str(code), 3, loop)["rounds"]) == 3
    assert loop._process.returncode is not None


def test_what_could_not_come_first_is_said_by_the_turns(code: Path) -> None:
    context = SimpleNamespace(case=CASE, params={"optimizer": "adam"}, device=None)
    assert plain.early(context, str(code)) is None
    (code / "frameworks/line/plain_loop.py").unlink()
    assert plain.early(context, str(code)) is None


def test_a_loop_counts_its_own_steps(code: Path) -> None:
    script = plain.loop_of(str(code), "line")
    with plain.Loop(sys.executable, script, str(code), CASE, {"optimizer": "sgd"}, False) as loop:
        assert [loop.seconds_of(steps) > 0 for steps in (1, 3)] == [True, True]


def test_building_and_warming_up_share_one_limit(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Neither takes so long alone.
    monkeypatch.setattr(plain, "LIMIT_S", 1.5)
    assert told(code, compiler="slow") == {
        "why": "the plain loop and its turns took longer than 1.5 s"
    }


def test_only_an_acceptance_may_ask() -> None:
    job = {"env": {"NIGHTBENCH_PLAIN_ROUNDS": "9"}, "run_id": "acceptance-1"}
    assert extra_of(job, "acceptance") == 9
    assert extra_of({"env": {}, "run_id": "dlperf-1"}, "acceptance") == 0
    with pytest.raises(ValueError, match="for acceptances alone: dlperf-1"):
        extra_of({**job, "run_id": "dlperf-1"}, "acceptance")
