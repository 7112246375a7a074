"""A run by hand that lies clearly below its nights: exit status, and what would settle it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.sql.spooled import case, plan

from nightbench.cli.results import is_good, settling_lines
from nightbench.core.model import Run, RunKind
from nightbench.core.run_plan import RunPlan
from nightbench.spool import Spool
from nightbench.spool.plans import store_plan


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    monkeypatch.setenv("NIGHTBENCH_SPOOL", str(tmp_path / "spool"))
    run = Run("demo-1", "demo", "local", RunKind.ON_DEMAND, datetime(2026, 11, 21, tzinfo=UTC))
    made = plan(run, [case(2)])
    store_plan(made, Spool(tmp_path / "spool"))
    return made


def row(given: RunPlan, **changes: Any) -> dict[str, Any]:
    case = given.cases[0].planned
    return {
        "case_id": case.case_id,
        "status": "ok",
        "quarantined": False,
        "verdict": "watched",
        "change": -0.2,
        "metric": "throughput",
        "framework_version": "2.0+cpu",
        "nightly_version": "1.0+cpu",
    } | changes


def test_only_a_result_below_is_bad(given: RunPlan) -> None:
    assert not is_good(row(given))
    assert is_good(row(given, change=0.2))
    assert is_good(row(given, verdict="ok"))


def test_another_version_is_settled_by_a_comparison(given: RunPlan) -> None:
    (line,) = settling_lines(given.run.run_id, [row(given)])
    case_id = given.cases[0].planned.case_id
    assert line == (
        f"{case_id} is clearly below its earlier nights. To check this case: nightbench compare "
        "fake=1.0 "
        f"fake=2.0 --case {case_id}"
    )


def test_the_same_version_sends_to_the_nodes(given: RunPlan) -> None:
    (line,) = settling_lines(given.run.run_id, [row(given, nightly_version="2.0+cpu")])
    assert f"nightbench doctor {given.cluster.name} (the build has not changed)" in line
    assert settling_lines(given.run.run_id, [row(given, change=0.2)]) == []
