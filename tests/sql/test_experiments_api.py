"""What the page Experiments reads: experiments of PostgreSQL, and their rounds in a spool."""

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


def bisect(*steps: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """A bisect as its process stores it."""
    result = {
        "bisect_id": BISECT,
        "line": "fake",
        "versions": VERSIONS,
        "outcome": None,
        "last_good": "1.1",
        "first_bad": "1.4",
        "suspects": ["1.2", "1.3", "1.4"],
        "sentence": "1.1 is good",
        "notes": [],
        "ratio": 0.9,
        "steps": list(steps),
        **changed,
    }
    return {
        "name": BISECT,
        "kind": "bisect",
        "state": "done" if result["outcome"] else "running",
        "request": {"case_id": CASE, "good": VERSIONS[0], "bad": VERSIONS[-1]},
        "suite": "demo",
        "cluster": "local",
        "budget_s": 3600.0,
        "spent_s": 60.0,
        "requested_by": "ada",
        "started_at": datetime.now(UTC),
        "ended_at": datetime.now(UTC) if result["outcome"] else None,
        "result": result,
    }


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
        "started_at": now.isoformat(),
        "ended_at": now.isoformat() if result else None,
        "spent_s": 30.0,
    }


def test_a_comparison_has_its_rounds_and_the_estimate_after_each(
    app: TestClient, spool: Spool
) -> None:
    ratios = [0.90, 0.92, 0.91]
    compared(spool, "ab-20261121T010203-0001", ratios)
    whole = app.get("/api/experiments/ab-20261121T010203-0001").json()
    (found,) = whole["comparisons"]
    assert (found["a"], found["b"]) == ("fake-cpu-index-1.0", "fake-cpu-index-1.1")
    # Three of five rounds, and no result.
    assert (found["verdict"], found["rounds"]) == (None, 5)
    assert whole["again"].startswith("nightbench compare fake=1.0 fake=1.1 --suite demo --case")
    assert whole["resume"] == "nightbench compare --resume ab-20261121T010203-0001"
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
    assert whole["again"] == f"nightbench compare fake=1.0 fake=1.1 --suite demo --case {CASE}"


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
    found = app.get("/api/experiments/ab-1").json()
    assert (found["state"], found["resume"], found["comparisons"][0]["cases"][0]["unit"]) == (
        "done", None, "samples",
    )  # fmt: skip
    with compared(spool, "ab-2", []).controlled():
        measured = app.get("/api/experiments/ab-2").json()
        assert (measured["state"], measured["is_measured"]) == ("running", True)
    # Its process has died.
    left = app.get("/api/experiments/ab-2").json()
    assert (left["state"], left["is_measured"]) == ("cancelled", False)
    assert left["comparisons"][0]["cases"][0]["rounds"] == []


@pytest.mark.parametrize("name", ["nope", "a b", "<script>"])
def test_an_experiment_that_is_not_there(app: TestClient, name: str) -> None:
    assert app.get(f"/api/experiments/{name}").status_code == 404


def test_a_former_route_names_the_one_of_today(app: TestClient) -> None:
    for path in ("ab/compare-1", "bisects/compare-1"):
        gone = app.get(f"/api/experiments/{path}")
        assert (gone.status_code, "/nightbench/api/experiments/compare-1" in gone.text) == (
            410,
            True,
        )


def test_experiments_of_all_kinds_are_one_list(app: TestClient, loader: Warehouse) -> None:
    loader.experiments.store(bisect())
    asked = {"a": "fake=1", "b": "fake=2", "cases": [CASE], "rounds": 3, "min_effect": 0.01}
    for kind, request in (("compare", asked), ("profile", {"of": "ab-1"})):
        loader.experiments.store({**bisect(), "name": kind, "kind": kind, "request": request})
    found = app.get("/api/experiments").json()["items"]
    assert [(each["kind"], each["title"]) for each in found] == [
        ("profile", "profile of ab-1"),
        ("compare", "fake=1 and fake=2"),
        ("bisect", "fake: 1.0 to 1.4"),
    ]
    chosen = app.get("/api/experiments?kind=bisect&state=running").json()["items"]
    assert [each["name"] for each in chosen] == [BISECT]
    assert app.get("/api/experiments?kind=drill").status_code == 422


def test_a_bisect_says_where_each_version_stands(app: TestClient, loader: Warehouse) -> None:
    tests = [step(1, "1.4", "bad", "ab-1"), step(2, "1.2", "good", "ab-2")]
    loader.experiments.store(bisect(*tests, step(3, "1.3", None, "ab-3"), suspects=["1.3", "1.4"]))
    found = app.get(f"/api/experiments/{BISECT}").json()
    assert [
        (each["version"], each["standing"], each["is_inferred"]) for each in found["searched"]
    ] == [
        ("1.0", "good", False),
        ("1.1", "good", True),
        ("1.2", "good", False),
        ("1.3", "suspect", True),
        ("1.4", "bad", False),
    ]
    said = [(each["comparison_id"], each["wanted_rounds"]) for each in found["bisect"]["tests"]]
    assert said == [("ab-1", 5), ("ab-2", 5), ("ab-3", 5)]
    loader.experiments.store(
        bisect(*tests, step(3, "1.3", "bad", "ab-3"), outcome="found", first_bad="1.3")
    )
    after = app.get(f"/api/experiments/{BISECT}").json()
    assert [each["standing"] for each in after["searched"]][3:] == ["first_bad", "bad"]
