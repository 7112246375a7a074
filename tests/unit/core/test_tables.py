"""Tables of suites: which cells there are, and what stands in them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from nightbench.core.model import Case, Strategy, SuiteTable
from nightbench.core.model.suites import PublishedFigures
from nightbench.core.tables import NOT_RUN, Cell, CellResult, Published, fill


def case(framework: str, nodes: int, **axes: Any) -> Case:
    return Case("net", framework, Strategy.COLLECTIVE, nodes, trainers=nodes, **axes)


def figure(framework: str, nodes: int | None, value: float | None, **other: Any) -> Published:
    axes = {"framework": framework, "nodes": nodes, "devices_per_node": 1}
    return Published(axes, framework, value, "images/s", **other)


def table(*cases: Case, **fields: Any) -> SuiteTable:
    return SuiteTable(
        name="t", title="T", rows=("framework",), columns=("devices",), cases=cases, **fields
    )


def only(cells: list[Cell], row: str, column: str) -> Cell:
    (found,) = [c for c in cells if (c.row, c.column) == ((row,), (column,))]
    return found


def test_a_median_stands_beside_the_published_figure() -> None:
    one, two = case("a", 1), case("a", 2)
    measured = {one.case_id: CellResult(10.0, 5.0, 1.0, 1.0, "images", 7, 0.1, "run")}
    cells = fill(table(one, two), {}, measured, [figure("a", 1, 9.0, version="1.2", device="X")])
    assert only(cells, "a", "1x1") == Cell(
        row=("a",),
        column=("1x1",),
        case_id=one.case_id,
        value=10.0,
        unit="images/s",
        published=9.0,
        published_unit="images/s",
        reason=None,
        n=7,
        spread=0.1,
        speedup=1.0,
        efficiency=1.0,
        run_id="run",
        note="a 1.2, X",
    )
    assert only(cells, "a", "2x1").reason == NOT_RUN


def test_a_cell_says_where_trainers_share_a_node() -> None:
    alone = Case("net", "a", Strategy.PARAMETER_SERVER, 4, trainers=4, pservers=1)
    shared = dataclasses.replace(alone, framework="b", nodes=2, devices_per_node=2)
    cells = fill(table(alone, shared, case("c", 4)), {}, {})
    assert [each.placed for each in cells] == [None, "2x2", None]


def test_a_cell_without_a_figure_says_why() -> None:
    one, two, three = case("a", 1), case("a", 2), case("b", 1)
    results = {one.case_id: CellResult(unit="images", reason="failed: no")}
    shown = table(
        one,
        two,
        three,
        published=PublishedFigures(document="paper", figures=("one",), only={"old": "gone"}),
    )
    cells = fill(
        shown, {two.case_id: "too large"}, results, [figure("old", 1, 3.0), figure("c", 1, 2.0)]
    )
    said = {(c.row[0], c.column[0]): c.reason for c in cells}
    assert said == {
        ("a", "1x1"): "failed: no",
        ("a", "2x1"): "unsupported here: too large",
        ("b", "1x1"): NOT_RUN,
        ("old", "1x1"): "gone",
        ("c", "1x1"): "the suite has no such case",
    }
    assert only(cells, "old", "1x1").published == 3.0


def test_implementations_of_one_framework_are_rows_of_their_own() -> None:
    one = case("a", 1)
    results = {one.case_id: CellResult(10.0, unit="images")}
    given = [figure("a", 1, 9.0), figure("a", 1, 8.0, variant="fast")]
    cells = fill(table(one), {}, results, given)
    assert [(c.row, c.value, c.published) for c in cells] == [
        (("a",), 10.0, 9.0),
        (("a (fast)",), 10.0, 8.0),
    ]


def test_an_efficiency_is_shown_in_percent_and_only_with_a_baseline() -> None:
    one, two = case("a", 1), case("a", 2)
    results = {one.case_id: CellResult(10.0), two.case_id: CellResult(18.0, efficiency=0.9)}
    cells = fill(table(one, two, metric="efficiency"), {}, results)
    assert only(cells, "a", "2x1").value == 90.0
    assert only(cells, "a", "2x1").unit == "%"
    assert only(cells, "a", "1x1").reason == "the baseline was not measured in the same run"


@pytest.mark.parametrize(
    ("metric", "shown", "reason"),
    [
        ("tokens_per_device", 512.0, "the case counts no tokens"),
        ("mfu", 40.0, "the FLOPs of the case or the peak of its devices are unknown"),
        ("tflops", 395.6, "the FLOPs of the case or the peak of its devices are unknown"),
    ],
)
def test_tokens_and_flops_are_those_of_a_device(metric: Any, shown: float, reason: str) -> None:
    one, two = case("a", 1), case("a", 2)
    stated = CellResult(10.0, tokens_per_device=512.0, mfu=0.4, tflops=395.6)
    cells = fill(
        table(one, two, metric=metric), {}, {one.case_id: stated, two.case_id: CellResult(18.0)}
    )
    assert [(cell.value, cell.reason) for cell in cells] == [(shown, None), (None, reason)]


def test_a_cell_of_several_cases_shows_the_one_that_can_run() -> None:
    together, alone = case("a", 1), Case("net", "a", Strategy.SINGLE)
    skipped = {together.case_id: "no collective"}
    (cell,) = fill(table(together, alone), skipped, {alone.case_id: CellResult(3.0, unit="images")})
    assert (cell.case_id, cell.value) == (alone.case_id, 3.0)
