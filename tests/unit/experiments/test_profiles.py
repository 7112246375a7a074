"""Two builds' profiles beside each other: means, differences, flame graphs, the page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nightbench.core.flames import flames
from nightbench.experiments.profiles import differences, mean_of
from nightbench.report.profile_page import profile_page


def rank(conv_s: float, steps: int = 2) -> dict[str, Any]:
    return {
        "profiler": "torch.profiler",
        "steps": steps,
        "wall_s": steps * (conv_s + 0.2),
        "operators": [["conv", 3 * steps, steps * conv_s], ["relu", steps, steps * 0.1]],
        "stacks": [["forward;conv", steps * conv_s], ["forward;relu", steps * 0.1]],
        "left_out": 0,
    }


def test_the_operator_that_became_slower_stands_first() -> None:
    a, b = mean_of([rank(0.2), rank(0.4)]), mean_of([rank(0.5, steps=1)])
    assert a.step_s == pytest.approx(0.5)
    first, second = differences(a, b)
    assert (first["name"], first["a_calls"], first["b_calls"]) == ("conv", 3, 3)
    assert first["difference_s"] == pytest.approx(0.5 - 0.3)
    assert second["difference_s"] == pytest.approx(0)


def test_what_only_one_build_calls_is_shown_with_zero() -> None:
    a = mean_of([{**rank(0.2), "operators": [["conv", 2, 0.4]]}])
    b = mean_of([{**rank(0.2), "operators": [["fused", 2, 0.2]]}])
    assert {(row["name"], row["a_s"], row["b_s"]) for row in differences(a, b)} == {
        ("conv", 0.2, 0.0),
        ("fused", 0.0, 0.1),
    }


def test_a_flame_graph_has_what_lies_within_below_its_outer() -> None:
    drawn = flames({"f;conv": 3.0, "f;relu": 1.0, "f": 1.0, "other": 5.0}, {"f;conv": 1.0})
    at = {(each.name, each.depth): (each.left, each.width, each.grown_s) for each in drawn}
    assert at["f", 0] == (0.0, 0.5, 4.0)
    assert at["conv", 1] == (0.0, 0.3, 2.0)
    assert at["relu", 1] == (0.3, 0.1, 1.0)
    assert at["other", 0] == (0.5, 0.5, 5.0)
    assert flames({}, {}) == []


def test_the_page_escapes_names_and_says_what_has_no_profile() -> None:
    a, b = mean_of([rank(0.2)]), mean_of([rank(0.4)])
    whole = {
        **{"case_id": "one", "why": None, "profiler": "torch.profiler", "ranks": 2, "steps": 2},
        **{"a_step_s": a.step_s, "b_step_s": b.step_s, "operators": differences(a, b)},
        **{"a_stacks": a.stacks, "b_stacks": {"f;<lambda>": 1.0, **b.stacks}},
    }
    without = {"case_id": "two", "why": "B has no profile: it fell", "operators": []}
    document = {
        **{"a": "pytorch 1", "b": "pytorch 2", "suite": "demo", "cluster": "local"},
        **{"of": "ab-1", "id": "profile-1", "cases": [whole, without]},
    }
    page = profile_page(document, datetime(2026, 11, 26, tzinfo=UTC))
    assert "&lt;lambda&gt;" in page
    assert "<lambda>" not in page
    assert "B has no profile: it fell" in page
    assert "+200.000" in page
