"""The live view, from the files that a controlled gang writes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nightbench.core.model import CaseStatus, Reason, ReasonCode
from nightbench.report.live_view import LiveView
from nightbench.spool import RunSpool, Spool

PLANNED = [{"case_id": "one", "unit": "images"}, {"case_id": "two", "unit": "samples"}]
STEP: dict[str, Any] = {
    "state": "running",
    "repeat": 2,
    "repeats": 3,
    "phase": "window",
    "step": 12,
    "steps": 35,
    "throughput": 14.2,
    "eta_s": 90.0,
    "message": "",
}


@pytest.fixture
def run(tmp_path: Path) -> RunSpool:
    run = Spool(tmp_path).run("demo-1")
    run.save_planned(PLANNED)
    return run


def view(run: RunSpool, history: dict[str, float], terminal: bool = False) -> tuple[LiveView, Any]:
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=terminal, color_system=None)
    return LiveView(run, console, history), stream


def test_a_running_case_shows_repeat_step_throughput_and_time_left(run: RunSpool) -> None:
    run.case("one").save_progress(STEP)
    shown, stream = view(run, {"two": 60.0})
    shown.refresh()
    assert stream.getvalue() == (
        "[case 1 of 2 · about 2 min 30 s left] one · repeat 2 of 3 · window step 12 of 35 · "
        "14.20 images/s · 1 min 30 s left\n"
    )


def test_nothing_is_said_twice_and_ends_are_said(run: RunSpool) -> None:
    store = run.case("one")
    store.save_progress(STEP)
    shown, stream = view(run, {})
    shown.refresh()
    store.save_progress({**STEP, "step": 13})
    shown.refresh()
    assert stream.getvalue().count("\n") == 1
    silent = Reason(ReasonCode.AGENT_ERROR, observed="n2 fell silent\nmore")
    store.end(CaseStatus.FAILED, [silent])
    shown.refresh("ingest running")
    lines = stream.getvalue().splitlines()
    assert lines[1] == "one: failed: n2 fell silent"
    assert "case 2 of 2" in lines[2]
    assert "ingest running" in lines[2]


def test_the_log_of_a_case_that_failed_is_shown_at_the_end(run: RunSpool) -> None:
    store = run.case("one")
    log = "\n".join(["[n1 trainer-0]", *map(str, range(20)), "ValueError: no such layer"])
    store.save_repeat(1, {"status": "failed", "reasons": [], "faults": [], "log_tail": log})
    store.end(CaseStatus.FAILED, [Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1")])
    run.case("two").end(CaseStatus.FAILED, [Reason(ReasonCode.TOO_FEW_NODES)])
    shown, stream = view(run, {})
    with shown:
        pass
    lines = stream.getvalue().splitlines()
    assert lines[-2] == "  ValueError: no such layer"
    assert lines[-1] == "  its log: nightbench logs --run demo-1 --case one"
    assert lines[-17] == "  5"
    assert lines[-18] == "one: how repeat 1 failed:"


def test_of_stacks_the_innermost_calls_of_each_are_shown(run: RunSpool) -> None:
    store = run.case("one")
    calls = "\n".join(map(str, range(20)))
    log = f"[n1 trainer-0: stack]\n{calls}\n[n2 trainer-1: stack]\npy-spy\nstep (trainer.py:30)"
    store.save_repeat(1, {"status": "failed", "reasons": [], "faults": [], "log_tail": log})
    store.end(CaseStatus.FAILED, [Reason(ReasonCode.NO_PROGRESS, "n1", "trainer-0")])
    shown, stream = view(run, {})
    with shown:
        pass
    lines = stream.getvalue().splitlines()
    assert lines[-12:-4] == ["  [n1 trainer-0: stack]", *(f"  {call}" for call in range(7))]
    assert lines[-4:-1] == ["  [n2 trainer-1: stack]", "  py-spy", "  step (trainer.py:30)"]


def test_what_was_measured_is_not_called_good_before_its_checks(run: RunSpool) -> None:
    run.case("one").end(CaseStatus.OK, [])
    shown, stream = view(run, {})
    shown.refresh()
    assert stream.getvalue().splitlines()[0] == "one: measured; not checked yet"


def test_time_left_is_not_guessed_from_nothing(run: RunSpool) -> None:
    shown, _ = view(run, {"one": 60.0})
    assert shown.seconds_left(shown.states()) is None
    known, _ = view(run, {"one": 60.0, "two": 30.0})
    assert known.seconds_left(known.states()) == 90.0


def test_a_log_gets_the_lines_of_one_case(run: RunSpool) -> None:
    for case_id in ("one", "two"):
        run.case(case_id).save_progress(STEP)
    lines: list[str] = []
    LiveView(run, lines.append, cases=["two"]).refresh()
    (line,) = lines
    assert line.startswith("[case 1 of 1 · about 1 min 30 s left] two · repeat 2 of 3")


def test_a_terminal_shows_all_cases_at_once(run: RunSpool) -> None:
    run.case("one").end(CaseStatus.OK, [])
    run.case("two").save_progress({**STEP, "state": "provisioning", "message": "building paddle1"})
    shown, stream = view(run, {}, terminal=True)
    with shown:
        shown.refresh()
    text = stream.getvalue()
    assert "✓ one" in text
    assert "building paddle1" in text
