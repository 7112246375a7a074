"""Where a step's time goes: what the line's profiler says, made into operators and stacks."""

from __future__ import annotations

import time
from types import SimpleNamespace

import profiling
import pytest
from base_runtime import Base
from extras import extra_of


class Task:
    """Steps that sleep in a function of their own."""

    def step(self) -> None:
        self.rest()

    def rest(self) -> None:
        time.sleep(0.01)


def test_a_line_without_a_profiler_has_the_functions_that_python_calls() -> None:
    found = profiling.profile(Task(), Base(SimpleNamespace(device=None, grouped=False)), 3)
    assert (found["profiler"], found["steps"], found["left_out"]) == ("functions of Python", 3, 0)
    name, calls, seconds = found["operators"][0]
    assert (name, calls) == ("time.sleep", 3)
    assert 0.03 <= seconds <= found["wall_s"]
    (stack, _), *_ = found["stacks"]
    assert stack.endswith("Task.step;test_profiling.py:Task.rest;time.sleep") or stack.endswith(
        "step;test_profiling.py:rest;time.sleep"
    )


def test_the_seconds_of_what_lies_within_are_not_counted_twice() -> None:
    events = [
        ("a", "forward", 0.0, 10.0),
        ("a", "conv", 1.0, 4.0),
        ("a", "kernel", 2.0, 1.0),
        ("a", "conv", 6.0, 2.0),
        ("a", "late", 9.5, 1.0),  # clocks round: it ends after forward does
        ("b", "reader", 1.0, 3.0),
    ]
    spans = {(path, seconds) for path, _, seconds in profiling.nested(events)}
    assert spans == {
        (("forward",), 4.0),
        (("forward", "conv"), 3.0),
        (("forward", "conv", "kernel"), 1.0),
        (("forward", "conv"), 2.0),
        (("late",), 1.0),
        (("reader",), 3.0),
    }
    found = profiling.summary("a profiler", profiling.nested(events), 1, 11.0)
    assert found["operators"][:2] == [["conv", 2, 5.0], ["forward", 1, 4.0]]
    assert found["stacks"][0] == ["forward;conv", 5.0]


def test_only_a_profile_can_ask_for_it() -> None:
    job = {"run_id": "nightly-1", "env": {"NIGHTBENCH_PROFILE_STEPS": "3"}}
    with pytest.raises(ValueError, match="for profiles alone: nightly-1"):
        extra_of(job, "profile")
    assert extra_of({**job, "run_id": "profile-1"}, "profile") == 3
    assert extra_of({"run_id": "nightly-1", "env": {}}, "profile") == 0
