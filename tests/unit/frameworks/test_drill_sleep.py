"""The sleep of a drill: in each step, seen by every device, and refused anywhere else."""

from __future__ import annotations

import time
from typing import Any

import pytest
from extras import extra_of
from pydantic import TypeAdapter
from wrappers import Slowed

from nightbench.core.model.values import EnvName
from nightbench.experiments.drill import SLEEP_VARIABLE


def job(run_id: str, **variables: str) -> dict[str, Any]:
    return {"run_id": run_id, "env": variables}


def test_a_drill_says_how_long_its_steps_sleep() -> None:
    slept = job("drill-20261121T010203-9f3a-n11", **{SLEEP_VARIABLE: "0.0025"})
    assert extra_of(slept, "drill") == 0.0025
    assert extra_of(job("drill-20261121T010203-9f3a-n01"), "drill") == 0
    assert extra_of(job("nightly-20261121T010203-9f3a"), "drill") == 0


def test_it_is_refused_in_a_run_that_is_no_drill() -> None:
    with pytest.raises(ValueError, match="for drills alone"):
        extra_of(job("nightly-20261121T010203-9f3a", **{SLEEP_VARIABLE: "0.0025"}), "drill")


def test_the_environment_of_a_node_slows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SLEEP_VARIABLE, "1")
    assert extra_of(job("nightly-20261121T010203-9f3a"), "drill") == 0


def test_no_file_may_set_it() -> None:
    with pytest.raises(ValueError, match="belongs to the launcher"):
        TypeAdapter(EnvName).validate_python(SLEEP_VARIABLE)


def test_a_step_ends_on_the_device_before_it_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(time, "sleep", seen.append)

    class Both:
        def step(self) -> None:
            seen.append("step")

        def device_sync(self) -> None:
            seen.append("sync")

    both = Both()
    Slowed(both, both, 0.25).step()
    assert seen == ["step", "sync", 0.25]
