"""What the results of all nodes make of a repeat."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nightbench.core.model import ClockOffset, Reason, ReasonCode
from nightbench.core.sentences import sentences
from nightbench.gang.repeat_status import LEFT, RepeatEnd, repeat_end

CRASHED = Reason(ReasonCode.PROCESS_KILLED, "n2", "trainer-1", "SIGSEGV", "code 0")
FOLLOWED = Reason(ReasonCode.EXCEPTION, "n2", "trainer-1", f"RuntimeError: {LEFT} (rendezvous.py)")
EXITED = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1", "code 0")
RAISED = Reason(ReasonCode.EXCEPTION, "n1", "trainer-0", "DataError: line 6")
WENT_ON = Reason(
    ReasonCode.STEPS_DIFFER,
    "n2",
    "trainer-1",
    "12 steps, as many as trainer-0, which ended properly",
)
LOST = Reason(ReasonCode.NODE_UNREACHABLE, "n3")


def failed(own: tuple[Reason, ...], **process: Any) -> dict[str, Any]:
    processes = [{"name": own[0].subject, **process}] if process else []
    reasons = [each.to_json() for each in own]
    return {"status": "failed", "reasons": reasons, "processes": processes}


def end(
    results: Mapping[str, Any],
    heard: tuple[Reason, ...] = (),
    clocks: Mapping[str, ClockOffset] | None = None,
) -> RepeatEnd:
    return repeat_end(
        ("n1", "n2"),
        results,
        heard,
        clocks=clocks or {},
        rebooted=(),
        died=(),
        abort_was_sent=True,
        counts_disturbance=False,
    )


@pytest.mark.parametrize(
    ("heard", "own", "told"),
    [
        ((CRASHED, FOLLOWED), (EXITED, RAISED), (EXITED, RAISED)),
        ((), (EXITED, RAISED), (EXITED, RAISED, CRASHED)),
        ((CRASHED, FOLLOWED), (), (CRASHED, FOLLOWED)),
        ((CRASHED,), (EXITED, RAISED), (CRASHED, EXITED, RAISED)),
    ],
    ids=["the cause", "nobody was heard", "the other says nothing", "a crash of its own"],
)
def test_a_rank_that_ended_as_another_left_is_not_the_reason(
    heard: tuple[Reason, ...], own: tuple[Reason, ...], told: tuple[Reason, ...]
) -> None:
    found = end({"n1": failed(own), "n2": failed(heard or (CRASHED,))}, heard)
    assert (found.status, found.reasons) == ("failed", told)


def test_the_first_death_comes_first_by_the_controllers_clock() -> None:
    """n2's clock runs 1,000 s ahead: its trainer died before n1's, which was heard first."""
    results = {
        "n1": failed((EXITED, RAISED), failed_s=51.25, error="Traceback\nOSError: reset"),
        "n2": failed((CRASHED,), failed_s=1051.125, error="Segmentation fault"),
    }
    clocks = {"n1": ClockOffset(0.0, 0.001), "n2": ClockOffset(1000.0, 0.001)}
    found = end(results, (EXITED, RAISED), clocks)
    assert found.reasons == (CRASHED, EXITED, RAISED)
    assert found.error == (
        "[n2 trainer-1]\nSegmentation fault\nafter it [n1 trainer-0] OSError: reset"
    )
    late = {"n1": ClockOffset(0.0, 0.001), "n2": ClockOffset(999.0, 0.001)}
    assert end(results, (CRASHED,), late).reasons == (EXITED, RAISED, CRASHED)


def test_what_the_controller_ended_a_repeat_for_stays_its_reason() -> None:
    found = end({"n1": failed((EXITED, RAISED), failed_s=1.0)}, (LOST,))
    assert found.reasons == (LOST,)


def test_results_of_an_agent_without_times_keep_the_order_in_which_they_were_heard() -> None:
    results = {"n1": failed((EXITED, RAISED), error="a"), "n2": failed((CRASHED,), error="b")}
    clocks = dict.fromkeys(("n1", "n2"), ClockOffset(0.0, 0.001))
    assert end(results, (CRASHED,), clocks).reasons == (CRASHED, EXITED, RAISED)


@pytest.mark.parametrize(
    ("phase", "step", "told"),
    [
        ("window", 12, (WENT_ON, CRASHED)),
        ("window", 13, (WENT_ON, CRASHED)),
        ("window", 11, (CRASHED,)),
        ("finish", 12, (CRASHED,)),
    ],
)
def test_ranks_that_ran_different_numbers_of_steps_say_so(
    phase: str, step: int, told: tuple[Reason, ...]
) -> None:
    """trainer-0 ended well after 12 steps; trainer-1 lost its connection in a further one."""
    well = {"name": "trainer-0", "exit_code": 0, "summary": {"window": {"steps": 12}}}
    results = {
        "n1": {"status": "ok", "reasons": [], "processes": [well]},
        "n2": failed((CRASHED,), exit_code=1, phase=phase, step=step, error="reset"),
    }
    found = end(results, (CRASHED,))
    assert found.reasons == told
    assert found.error == "[n2 trainer-1]\nreset\n[n1 trainer-0] ended properly after 12 steps"
    assert sentences([WENT_ON]) == (
        "n2: trainer-1 was still in its window after 12 steps, as many as trainer-0, which ended "
        "properly: check that all ranks run the same number of steps"
    )


def test_where_hung_processes_of_all_nodes_stood_is_kept() -> None:
    stacks = {n: "\n".join([f"py-spy of {n}", *map(str, range(9))]) for n in ("n1", "n2")}
    hung = {n: {**failed((LOST,), stack=text), "log_tail": n} for n, text in stacks.items()}
    assert end(hung).log_tail == (
        f"[n1 None: stack]\n{stacks['n1']}\nn1\n[n2 None: stack]\npy-spy of n2\n0\n1\n2\n3"
    )


def test_the_words_are_those_of_the_rendezvous() -> None:
    benchmarks = Path(__file__).parents[3] / "benchmarks"
    assert f'"{LEFT}"' in (benchmarks / "rendezvous.py").read_text()
