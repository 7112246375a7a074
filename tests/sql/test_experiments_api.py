"""What the page Experiments reads: bisects of PostgreSQL, and comparisons of a spool."""

from __future__ import annotations

from datetime import UTC, datetime
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.sql.conftest import Database
from tests.sql.page_client import page_client
from tests.sql.spooled import COMPARED_CASE as CASE
from tests.sql.spooled import compared

from nightbench.experiments import comparison
from nightbench.spool import Spool
from nightbench.warehouse import Warehouse

BISECT = "bisect-20261121T010203-9f3a"
VERSIONS = ["1.0", "1.1", "1.2", "1.3", "1.4"]
T_QUANTILE_2 = 4.302652729911275
"""Of the t distribution with two degrees of freedom, 97.5 %."""


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path)


@pytest.fixture
def app(warehouse: Database, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    return page_client(warehouse, spool, monkeypatch)


def bisect(**changed: Any) -> dict[str, Any]:
    return {
        "bisect_id": BISECT,
        "alert_id": None,
        "case_id": CASE,
        "cluster": "local",
        "suite": "demo",
        "line": "fake",
        "good": VERSIONS[0],
        "bad": VERSIONS[-1],
        "versions": VERSIONS,
        "state": "running",
        "outcome": None,
        "last_good": "1.1",
        "first_bad": "1.4",
        "suspects": ["1.2", "1.3", "1.4"],
        "sentence": "1.1 is good",
        "notes": [],
        "ratio": 0.9,
        "budget_s": 3600.0,
        "spent_s": 60.0,
        "requested_by": "ada",
        "started_at": datetime.now(UTC),
        "ended_at": None,
    } | changed


def step(number: int, version: str, result: str | None, comparison_id: str) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "number": number,
        "kind": "search",
        "version": version,
        "against": "1.0",
        "comparison_id": comparison_id,
        "status": "ended" if result else "running",
        "result": result,
        "why": "",
        **dict.fromkeys(("ratio", "low", "high")),
        "rounds": 3,
        "wanted_rounds": 5,
        "min_effect": 0.01,
        "started_at": now,
        "ended_at": now if result else None,
        "spent_s": 30.0,
    }


def test_a_comparison_has_its_rounds_and_the_estimate_after_each(
    app: TestClient, spool: Spool
) -> None:
    ratios = [0.90, 0.92, 0.91]
    compared(spool, "ab-20261121T010203-0001", ratios)
    found = app.get("/api/experiments/ab/ab-20261121T010203-0001").json()
    assert (found["a"], found["b"]) == ("fake-cpu-index-1.0", "fake-cpu-index-1.1")
    # Three of five rounds: it is still being measured, and has no result.
    assert (found["state"], found["verdict"], found["rounds"]) == ("running", None, 5)
    (case,) = found["cases"]
    assert [(each["a"], round(each["ratio"], 9)) for each in case["rounds"]] == [
        (100.0, ratio) for ratio in ratios
    ]
    assert {each["order"] for each in case["rounds"]} == {"AB", "BA"}
    first, second, third = case["rounds"]
    assert (first["running_ratio"], first["running_low"]) == (pytest.approx(0.9), None)
    assert second["running_ratio"] == pytest.approx(sqrt(0.90 * 0.92))
    logs = [log(ratio) for ratio in ratios]
    half = T_QUANTILE_2 * stdev(logs) / sqrt(3)
    assert third["running_low"] == pytest.approx(exp(fmean(logs) - half))
    assert third["running_high"] == pytest.approx(exp(fmean(logs) + half))
    assert (case["ratio"], case["verdict"]) == (third["running_ratio"], "slower")
    (dropped,) = case["dropped"]
    assert (dropped["round"], dropped["status"]) == (1, "disturbed")
    assert "31 %" in dropped["why"]
    assert found["command"] == f"nightbench ab fake=1.0 fake=1.1 --suite demo --case {CASE}"


def test_an_ended_comparison_has_its_result(app: TestClient, spool: Spool) -> None:
    folder = compared(spool, "ab-1", [0.9] * 5)
    row = {"case_id": CASE, "unit": "samples", "stopped": None}
    comparison.save_result(
        folder,
        {
            "verdict": "slower",
            "complete": True,
            "ended_at": "2026-11-21T02:00:00+00:00",
            "cases": [row],
            "combined": None,
            "not_combined": None,
        },
    )
    found = app.get("/api/experiments/ab/ab-1").json()
    assert (found["state"], found["verdict"], found["cases"][0]["unit"]) == (
        "ended", "slower", "samples",
    )  # fmt: skip
    with compared(spool, "ab-2", []).steered():
        assert app.get("/api/experiments/ab/ab-2").json()["state"] == "running"
    # Its process has died.
    left = app.get("/api/experiments/ab/ab-2").json()
    assert (left["state"], left["cases"][0]["rounds"]) == ("interrupted", [])


@pytest.mark.parametrize("name", ["nope", "a b", "<script>"])
def test_a_comparison_that_is_not_there(app: TestClient, name: str) -> None:
    assert app.get(f"/api/experiments/ab/{name}").status_code == 404
    assert app.get(f"/api/experiments/bisects/{name}").status_code == 404


def test_experiments_are_listed_without_the_tests_of_bisects(
    app: TestClient, loader: Warehouse, spool: Spool
) -> None:
    loader.bisects.store(bisect(), [step(1, "1.1", "good", "ab-of-bisect")])
    compared(spool, "ab-of-bisect", [1.0], by=BISECT)
    compared(spool, "ab-by-hand", [1.0])
    found = app.get("/api/experiments").json()
    assert [each["comparison_id"] for each in found["comparisons"]] == ["ab-by-hand"]
    assert [(each["bisect_id"], each["steps"]) for each in found["bisects"]] == [(BISECT, 1)]
    # The test has its rounds all the same.
    assert app.get("/api/experiments/ab/ab-of-bisect").json()["requested_by"] == BISECT


def test_a_bisect_says_where_each_version_stands(app: TestClient, loader: Warehouse) -> None:
    tests = [step(1, "1.4", "bad", "ab-1"), step(2, "1.2", "good", "ab-2")]
    loader.bisects.store(bisect(suspects=["1.3", "1.4"]), [*tests, step(3, "1.3", None, "ab-3")])
    found = app.get(f"/api/experiments/bisects/{BISECT}").json()
    assert [
        (each["version"], each["standing"], each["is_inferred"]) for each in found["searched"]
    ] == [
        ("1.0", "good", False),
        ("1.1", "good", True),
        ("1.2", "good", False),
        ("1.3", "suspect", True),
        ("1.4", "bad", False),
    ]
    assert [(each["comparison_id"], each["wanted_rounds"]) for each in found["tests"]] == [
        ("ab-1", 5), ("ab-2", 5), ("ab-3", 5),
    ]  # fmt: skip
    loader.bisects.store(
        bisect(state="ended", outcome="found", first_bad="1.3", ended_at=datetime.now(UTC)),
        [step(3, "1.3", "bad", "ab-3")],
    )
    after = app.get(f"/api/experiments/bisects/{BISECT}").json()
    assert [each["standing"] for each in after["searched"]][3:] == ["first_bad", "bad"]
