"""The measured loop, held against tasks of plain Python that know what was done to them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import recorder
from base_runtime import Base
from measure import MARGIN, loss_summary, measure
from recorder import Recorder


class Task:
    """Counts its steps; a step sleeps `step_s` and moves a clock of its own by 1."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.step_s = step_s
        self.steps = 0
        self.clock = 0.0
        self.kept_after: list[int] = []

    def keep_weights(self) -> None:
        self.kept_after.append(self.steps)

    def step(self) -> None:
        time.sleep(self.step_s)
        self.steps += 1
        self.clock += 1.0


class Runtime(Base):
    """Writes down in which order the loop called it."""

    def __init__(self, task: Task) -> None:
        super().__init__(SimpleNamespace(device=None, grouped=False))
        self.task = task
        self.calls: list[tuple[str, int]] = []

    def barrier(self) -> None:
        self.calls.append(("barrier", self.task.steps))

    def device_sync(self) -> None:
        self.calls.append(("sync", self.task.steps))


class OwnClock(Runtime):
    """Times by the task's clock instead of the machine's, as a device with its own would."""

    def mark(self) -> float:
        return self.task.clock


def protocol(warmup: int = 3, steps: int = 5, min_seconds: float = 0.0) -> dict[str, Any]:
    return {"warmup_steps": warmup, "measured_steps": steps, "min_seconds": min_seconds}


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def run(task: Task, tmp_path: Path, asked: dict[str, Any], runtime: Any = None, **more: Any) -> Any:
    told = Recorder(tmp_path / "steps.jsonl")
    measured = measure(task, runtime or Runtime(task), asked, told, **more)
    told.close()
    return measured


def test_the_step_at_which_a_rank_failed_is_told(tmp_path: Path) -> None:
    """Later steps of a phase are buffered: an exception must not take them along."""
    failing = (
        "import os, sys\n"
        "from recorder import Recorder\n"
        f"recorder = Recorder({str(tmp_path / 'steps.jsonl')!r}, interval_s=600.0)\n"
        "for step in range(1, 41):\n"
        "    recorder.step('window', step)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "raise ValueError\n"
    )
    words = [sys.executable, "-c", failing]
    folder = Path(recorder.__file__).parent
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError\n")
    steps = [record["step"] for record in records(tmp_path / "steps.jsonl")]
    assert steps == list(range(1, 41))


def test_warm_up_is_run_and_kept_out_of_the_window(tmp_path: Path) -> None:
    class Warming(Task):
        def step(self) -> None:
            super().step()
            self.clock += 100.0 if self.steps <= 3 else 0.0

    task = Warming()
    measured = run(task, tmp_path, protocol(warmup=3, steps=5), OwnClock(task))
    assert task.steps == 8
    assert measured.step_seconds == [1.0] * 5
    assert len(measured.step_end_s) == 8


def test_ends_of_steps_stand_on_the_machine_s_clock(tmp_path: Path) -> None:
    before_s = time.monotonic()
    measured = run(Task(), tmp_path, protocol(warmup=3, steps=5))
    ends = measured.step_end_s
    assert ends == sorted(ends)
    assert before_s <= measured.first_step_end_s <= measured.open_s
    assert ends[2] <= measured.open_s <= ends[3]
    assert ends[7] <= measured.close_s <= time.monotonic()


def test_the_window_has_a_clock_of_its_own(tmp_path: Path) -> None:
    """Step times that lie do not move the window: a check can hold one against the other."""
    task = Task()
    measured = run(task, tmp_path, protocol(steps=100), OwnClock(task))
    assert sum(measured.step_seconds) == 100.0
    assert measured.wall_s == measured.close_s - measured.open_s < 100.0


def test_weights_are_kept_once_and_outside_the_window(tmp_path: Path) -> None:
    class Copying(Task):
        def keep_weights(self) -> None:
            super().keep_weights()
            self.clock += 100.0

    task = Copying()
    measured = run(task, tmp_path, protocol(warmup=3, steps=5), OwnClock(task))
    assert task.kept_after == [3]
    assert measured.step_seconds == [1.0] * 5


def test_ranks_meet_and_devices_are_idle_at_both_ends_of_the_window(tmp_path: Path) -> None:
    task = Task()
    runtime = Runtime(task)
    run(task, tmp_path, protocol(warmup=3, steps=5), runtime)
    before = [name for name, steps in runtime.calls if steps == 3]
    assert before[-2:] == ["sync", "barrier"]
    assert runtime.calls[-1] == ("sync", 8)
    assert not [call for call in runtime.calls if 3 < call[1] < 8], "the window was stalled"


def test_steps_are_recorded_by_phase_and_number(tmp_path: Path) -> None:
    run(Task(), tmp_path, protocol(warmup=3, steps=4))
    seen = records(tmp_path / "steps.jsonl")
    assert [r["phase"] for r in seen if r["kind"] == "phase"] == ["warmup", "window"]
    steps = [(r["phase"], r["step"]) for r in seen if r["kind"] == "step"]
    assert steps == [("warmup", i) for i in (1, 2, 3)] + [("window", i) for i in (1, 2, 3, 4)]
    assert [r["t_s"] for r in seen] == sorted(r["t_s"] for r in seen)


def test_a_window_without_warm_up(tmp_path: Path) -> None:
    measured = run(Task(), tmp_path, protocol(warmup=0, steps=2))
    assert len(measured.step_end_s) == 2
    assert measured.first_step_end_s == measured.step_end_s[0]


def test_a_minimum_time_lengthens_the_window(tmp_path: Path) -> None:
    # So long that two steps do not last it where the machine is busy.
    measured = run(Task(step_s=0.005), tmp_path, protocol(steps=2, min_seconds=1.0))
    # Beyond it, so that ranks whose windows are a little shorter than rank 0's reach it too.
    assert measured.wall_s >= MARGIN > 1.0
    assert len(measured.step_seconds) > 2


def test_a_window_is_extended_when_the_warm_up_was_slower_than_the_window(tmp_path: Path) -> None:
    class Settling(Task):
        def step(self) -> None:
            self.step_s = 0.05 if self.steps < 3 else 0.002
            super().step()

    measured = run(Settling(), tmp_path, protocol(steps=2, min_seconds=0.1))
    assert measured.wall_s >= 0.1


def test_all_ranks_take_the_steps_that_rank_0_asks_for(tmp_path: Path) -> None:
    """Two ranks, one four times as fast: each alone would take another number of steps."""
    meeting = threading.Barrier(2)
    told: list[float] = []

    class Ranked(Runtime):
        def __init__(self, task: Task, rank: int) -> None:
            super().__init__(task)
            self.rank = rank

        def agree(self, value: float) -> float:
            if self.rank == 0:
                told.append(value)
            meeting.wait()
            agreed = told[-1]
            meeting.wait()
            return agreed

    counts = {}

    def rank(number: int, step_s: float) -> None:
        task = Task(step_s=step_s)
        folder = tmp_path / str(number)
        folder.mkdir()
        asked = protocol(steps=2, min_seconds=1.0)
        measured = run(task, folder, asked, Ranked(task, number))
        counts[number] = len(measured.step_seconds)

    threads = [threading.Thread(target=rank, args=a) for a in ((0, 0.008), (1, 0.002))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert counts[0] == counts[1] > 2


def test_an_asynchronous_trainer_steps_on_until_it_is_told(tmp_path: Path) -> None:
    told = tmp_path / "drain"

    class Told(Task):
        def step(self) -> None:
            super().step()
            if self.steps == 12:
                told.touch()

    task = Told(step_s=0.001)
    measured = run(task, tmp_path, protocol(warmup=2, steps=4), drain_file=str(told))
    assert task.steps == 12
    assert measured.drain_steps == 6
    assert len(measured.step_seconds) == 4
    assert len(measured.step_end_s) == 12
    assert measured.step_end_s[5] <= measured.close_s < measured.step_end_s[6]
    phases = [r["phase"] for r in records(tmp_path / "steps.jsonl") if r["kind"] == "step"]
    assert phases.count("drain") == 6


def test_draining_ends_when_nobody_ever_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("measure.DRAIN_LIMIT_S", 0.5)
    measured = run(Task(step_s=0.001), tmp_path, protocol(), drain_file=str(tmp_path / "never"))
    assert measured.drain_steps > 0


def test_a_loss_that_is_no_number_becomes_null_and_is_told(tmp_path: Path) -> None:
    measured = run(Task(), tmp_path, protocol(warmup=1, steps=2))
    summary, finite = loss_summary([7.0, 6.0, 5.0, math.inf], measured, again=False)
    early = [7.0, 6.0, 5.0]
    assert summary == {"first": 7.0, "early": early, "window": [6.0, 5.0], "last": 5.0}
    assert not finite
    summary, finite = loss_summary([7.0, math.nan, 5.0], measured, again=False)
    early = [7.0, None, 5.0]
    assert summary == {"first": 7.0, "early": early, "window": [None, 5.0], "last": 5.0}
    assert not finite
    assert loss_summary([7.0, 6.0, 5.0], measured, again=False)[1]


@pytest.mark.parametrize("losses", [[], [None, None, None, None], [7.0, 5.0], [7.0, 6.0, 5.0]])
def test_a_step_without_a_loss_ends_the_repeat_with_a_sentence(
    losses: list[float], tmp_path: Path
) -> None:
    """Found on 2026-11-30: a trainer that kept every second loss was compared by other steps'."""
    measured = run(Task(), tmp_path, protocol(warmup=1, steps=2))
    found = sum(loss is not None for loss in losses)
    with pytest.raises(ValueError, match=rf"returned {found} numbers; expected .* each of 4 steps"):
        loss_summary(losses, measured, again=True)


def test_losses_of_other_types_of_numbers_are_floats(tmp_path: Path) -> None:
    measured = run(Task(), tmp_path, protocol(warmup=0, steps=2))
    summary, finite = loss_summary(numpy.array([7, 6], "float32"), measured, again=False)
    assert (json.dumps(summary), finite) == (
        '{"first": 7.0, "early": [7.0, 6.0], "window": [7.0, 6.0], "last": 6.0}',
        True,
    )


def test_the_loss_of_the_first_batch_is_taken_again(tmp_path: Path) -> None:
    measured = run(Task(), tmp_path, protocol(warmup=1, steps=2))
    summary, _ = loss_summary([7.0, 6.0, 5.0, 4.0], measured, again=True)
    early = [7.0, 6.0, 5.0]
    assert summary == {
        **{"first": 7.0, "early": early, "window": [6.0, 5.0]},
        **{"last": 5.0, "again": 4.0},
    }


def test_the_losses_of_the_first_six_steps_are_stored_though_they_are_warmup(
    tmp_path: Path,
) -> None:
    measured = run(Task(), tmp_path, protocol(warmup=8, steps=2))
    losses = [float(loss) for loss in range(11, 0, -1)]
    summary, _ = loss_summary(losses, measured, again=True)
    assert summary["early"] == [11.0, 10.0, 9.0, 8.0, 7.0, 6.0]
    assert (summary["window"], summary["again"]) == ([3.0, 2.0], 1.0)
