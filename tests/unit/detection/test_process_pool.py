"""Many histories and nights on several processes: the same answers, in order, no process left."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from histories import nights

from nightbench.core.errors import UserError
from nightbench.core.model import HistoryPoint, RegressionPolicy
from nightbench.detection import ChangeDetector, Judgement, process_pool
from nightbench.detection.change_detector import judge_nights
from nightbench.detection.history import History, judge_histories, judge_history

FIRST = datetime(1970, 1, 1, tzinfo=UTC)


def histories(number: int, nights: int = 60) -> list[History]:
    rng = random.Random(3)
    return [
        (
            f"series {k}",
            [
                HistoryPoint(
                    FIRST + timedelta(days=i),
                    (90 if k % 2 and i > 45 else 100) * (1 + rng.gauss(0, 0.005)),
                )
                for i in range(nights)
            ],
        )
        for k in range(number)
    ]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two processes from the first item on; their folders in /proc, there while they run."""
    known = list[Path]()

    class Recorded(process_pool._Process):
        def __init__(self) -> None:
            super().__init__()
            known.append(Path("/proc", str(self.pid)))

    monkeypatch.setattr(process_pool, "ALONE_S", 0.0)
    monkeypatch.setattr(process_pool, "processors", lambda: 2)
    monkeypatch.setattr(process_pool, "_Process", Recorded)
    return known


def test_processes_answer_as_one_does_in_order(started: list[Path]) -> None:
    given = histories(8)
    found = list(judge_histories(given, lower_is_better=True, min_change=0.02))
    assert found == [judge_history(name, nights, True, 0.02) for name, nights in given]
    assert {report.status for report in found} == {"improved", "ok"}
    assert [each.exists() for each in started] == [False, False]


def judged_nights() -> list[Judgement]:
    """Verdicts on falls, young series, new versions, new hardware, drifts and excursions."""
    steady, fallen = nights(*[100.0] * 60), nights(*[100.0] * 55, *[92.0] * 5)
    given = [
        steady,
        fallen,
        nights(*[100.0] * 6),
        nights(*[100.0] * 20),
        [replace(p, framework_version="2" if k > 54 else "1") for k, p in enumerate(fallen)],
        [replace(p, fingerprint_id="2" if k > 54 else "1") for k, p in enumerate(fallen)],
        nights(*[100.0 - 0.03 * k for k in range(150)], noise=0.003),
        nights(*([100.0] * 12 + [94.0] * 3) * 8, noise=0.01),
    ]
    detector = ChangeDetector(controls={p.run_id: 7.0 for p in steady})
    jobs = [(detector, points[:-1], points[-1]) for points in given]
    return list(judge_nights(jobs, len(jobs), RegressionPolicy()))


def test_a_night_is_judged_in_processes_as_in_one(
    started: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_processes = judged_nights()
    assert len(started) == 2
    monkeypatch.setattr(process_pool, "ALONE_S", math.inf)
    alone = judged_nights()
    assert len(started) == 2
    assert in_processes == alone
    assert [str(each.kind) for each in alone] == [
        "ok",
        "regressed",
        "insufficient_data",
        "ok",
        "regressed",
        "regressed",
        "ok",
        "watched",
    ]
    assert alone[1].control
    assert alone[6].drift


@pytest.mark.usefixtures("started")
def test_a_daemonic_process_as_under_celery_has_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(multiprocessing.current_process())["_config"], "daemon", True)
    with pytest.raises(AssertionError, match="daemonic processes are not allowed"):
        multiprocessing.Process().start()
    assert list(process_pool.spread(abs, [-1, 2], [1, 1])) == [1, 2]


def test_what_is_raised_there_reaches_the_caller(started: list[Path]) -> None:
    with pytest.raises(ValueError, match=r"math domain error|nonnegative input") as raised:
        list(process_pool.spread(math.sqrt, [4.0, -1.0], [1, 1]))
    assert "call(item) for item in items" in raised.value.__notes__[0]
    assert [each.exists() for each in started] == [False, False]


class Unsendable(Exception):
    """Is made of other arguments than it is sent by."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


def raise_unsendable(one: str) -> None:
    raise Unsendable(one, "lock")


@pytest.mark.usefixtures("started")
def test_what_cannot_be_sent_is_raised_by_its_name() -> None:
    with pytest.raises(RuntimeError, match=re.escape("Unsendable('a lock')")):
        list(process_pool.spread(raise_unsendable, ["a"], [1]))


def test_a_small_file_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pool, "_Process", None)
    # To whoever is busy, or judges for the first time, a small file is not small.
    clock = itertools.count(0.0, process_pool.ALONE_S / 10)
    monkeypatch.setattr(process_pool, "time", SimpleNamespace(monotonic=lambda: next(clock)))
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
    assert process_pool.processors(tmp_path / "cpu.max") == expected


def test_who_stops_listening_leaves_no_process(started: list[Path]) -> None:
    reports = judge_histories(histories(40))
    next(reports)
    assert [each.exists() for each in started] == [True, True]
    reports.close()  # type: ignore[attr-defined] # a generator
    assert [each.exists() for each in started] == [False, False]


def test_a_process_that_is_killed_is_said(started: list[Path]) -> None:
    reports = judge_histories(histories(40))
    next(reports)
    os.kill(int(started[0].name), signal.SIGKILL)
    with pytest.raises(UserError, match="was ended from outside"):
        list(reports)


AT_ONCE = (
    "from nightbench.detection import process_pool; process_pool.ALONE_S = 0.0; "
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
    rows = [f"series {k},{86400 * i},1\n" for k in range(2000) for i in range(10)]
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
