"""Many histories on several processes: the same answers, in order, and no process left."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nightbench.core.errors import UserError
from nightbench.detection import history_pool
from nightbench.detection.history import judge_history
from nightbench.detection.history_pool import History, judge_histories
from nightbench.detection.observations import Observation

DAY = 86400


def histories(number: int, nights: int = 60) -> list[History]:
    rng = random.Random(3)
    return [
        (
            f"series {k}",
            [
                Observation(DAY * i, (90 if k % 2 and i > 45 else 100) * (1 + rng.gauss(0, 0.005)))
                for i in range(nights)
            ],
        )
        for k in range(number)
    ]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes from the first history on."""
    monkeypatch.setattr(history_pool, "ALONE_S", 0.0)
    monkeypatch.setattr(history_pool, "TASK_NIGHTS", 150)
    monkeypatch.setattr(history_pool, "_processors", lambda: 2)


@pytest.mark.usefixtures("at_once")
def test_processes_answer_as_one_does_in_order() -> None:
    given = histories(8)
    found = list(judge_histories(given, lower_is_better=True, min_change=0.02))
    assert found == [judge_history(name, nights, True, 0.02) for name, nights in given]
    assert {report.status for report in found} == {"improved", "ok"}
    assert multiprocessing.active_children() == []


def test_a_small_file_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_pool, "ProcessPoolExecutor", None)
    assert len(list(judge_histories(histories(3)))) == 3


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", 8), ("150000 100000", 2), ("50000 100000", 1), (None, 8)]
)
def test_a_container_has_as_many_processors_as_it_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    if text is not None:
        (tmp_path / "cpu.max").write_text(f"{text}\n")
    assert history_pool._processors(tmp_path / "cpu.max") == expected


@pytest.mark.usefixtures("at_once")
def test_who_stops_listening_leaves_no_process() -> None:
    reports = judge_histories(histories(40))
    next(reports)
    children = [Path("/proc", str(child.pid)) for child in multiprocessing.active_children()]
    assert [child.exists() for child in children] == [True, True]
    reports.close()  # type: ignore[attr-defined] # a generator
    limit = time.monotonic() + 300
    while any(child.exists() for child in children):
        assert time.monotonic() < limit
        time.sleep(0.05)


@pytest.mark.usefixtures("at_once")
def test_a_process_that_is_killed_is_said() -> None:
    reports = judge_histories(histories(40))
    next(reports)
    os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
    with pytest.raises(UserError, match="was ended from outside"):
        list(reports)


AT_ONCE = (
    "from nightbench.detection import history_pool; history_pool.ALONE_S = 0.0; "
    "from nightbench.cli.entry import main; main()"
)


@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_an_end_in_the_middle_ends_all_processes(
    tmp_path: Path, sent: signal.Signals, status: int
) -> None:
    # More answers than a pipe holds, so that it cannot end by itself.
    path = tmp_path / "many.csv"
    rows = [f"series {k},{DAY * i},1\n" for k in range(2000) for i in range(10)]
    path.write_text("".join(["series,t,value\n", *rows]))
    command = [sys.executable, "-c", AT_ONCE, "detect", str(path), "--json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    # The first answer is there while the rest is judged.
    assert process.stdout.readline() == "[ {\n"
    assert process.poll() is None
    # As a terminal does, to the whole group; a kill meets the parent alone.
    (os.killpg if sent == signal.SIGINT else os.kill)(process.pid, sent)
    _, said = process.communicate(timeout=300)
    assert process.returncode == status
    assert "Traceback" not in said
    if sent == signal.SIGINT:
        assert said == ""
    limit = time.monotonic() + 300
    while _alive(process.pid):
        assert time.monotonic() < limit
        time.sleep(0.05)


def _alive(group: int) -> list[str]:
    """Process ids of a group, without those that only wait to be collected."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, pgrp = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(pgrp) == group and state != "Z":
            found.append(folder.name)
    return found
