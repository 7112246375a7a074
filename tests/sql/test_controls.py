"""What the controls of a case's own nodes did is said of its change, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest
from tests.sql.nights import STEADY
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import case as sleeping
from tests.sql.spooled import near

from nightbench.core.model import Case, Verdict
from nightbench.nodes import Control

NIGHTS, FELL = 24, 21
"""Nights in all, and the first slow one, from 0."""
OTHER = sleeping(2)

Of = Callable[[int], Mapping[tuple[str, str], float]]
"""The controls of a night: (node, metric) -> figure."""


class Lab(Pipeline):
    """Nights of one case that falls by a fifth, with controls of its nodes."""

    def judged(
        self, controls: Of, on: Mapping[Case, tuple[str, ...]] | None = None, since: float = 80.0
    ) -> dict[str, Verdict]:
        """Load the nights and judge the last one: its verdicts by case."""
        nodes = on or {STEADY: ("n1",)}
        for night in range(NIGHTS):
            run = self.given.run(night, suite="seeded")
            level = (since if night >= FELL else 100.0) * (1 + 0.002 * (night % 3 - 1))
            came = [
                near(self.given, run, case, level, nodes=where) for case, where in nodes.items()
            ]
            self.loader.runs.load(self.given.batch(run, *came))
            measured = [
                Control(node, metric, "cpu", "python-3.11", "GB/s", (value * (1 + 0.001 * night),))
                for (node, metric), value in controls(night).items()
            ]
            at = run.started_at + timedelta(minutes=5)
            self.loader.nodes.store_preflight("local", run.run_id, [], measured, at)
        done = self.judge(self.planned(run, list(nodes)))
        return {verdict.case_id: verdict for verdict in done.verdicts}


@pytest.fixture
def lab(pipeline: Pipeline) -> Lab:
    return Lab(**vars(pipeline))


def fallen(night: int) -> float:
    return 8.0 if night >= FELL else 10.0


def test_controls_that_fell_too_are_said_of_a_fall(lab: Lab) -> None:
    verdict = lab.judged(lambda night: {("n1", "memory_copy"): fallen(night)})[STEADY.case_id]
    assert verdict.kind == "regressed"
    assert "Control measurements of the same nights changed by -" in verdict.sentence
    assert "suspect the node first" in verdict.sentence


def test_steady_controls_did_not_move(lab: Lab) -> None:
    both = {("n1", "memory_copy"): 10.0, ("n1", "matrix_product"): 3.0}
    verdict = lab.judged(lambda _: both)[STEADY.case_id]
    assert verdict.kind == "regressed"
    assert "which does not explain the change" in verdict.sentence
    assert 0 < (verdict.smallest_slowdown or 0) < 0.1


def test_without_controls_nothing_is_said_and_the_verdict_is_the_same(lab: Lab) -> None:
    verdict = lab.judged(lambda _: {})[STEADY.case_id]
    assert verdict.kind == "regressed"
    assert "ontrol" not in verdict.sentence


def test_each_case_has_the_controls_of_its_own_nodes(lab: Lab) -> None:
    """And one on several nodes goes as the slowest of them does."""
    both = sleeping(4)
    verdicts = lab.judged(
        lambda night: {("n1", "memory_copy"): 10.0, ("n2", "memory_copy"): fallen(night)},
        {STEADY: ("n1",), OTHER: ("n2",), both: ("n1", "n2")},
    )
    assert "does not explain the change" in verdicts[STEADY.case_id].sentence
    for case in (OTHER, both):
        assert "suspect the node first" in verdicts[case.case_id].sentence
        assert "does not" not in verdicts[case.case_id].sentence


def test_a_case_that_does_not_change_is_told_without_controls(lab: Lab) -> None:
    verdict = lab.judged(lambda n: {("n1", "memory_copy"): fallen(n)}, since=100.0)[STEADY.case_id]
    assert verdict.kind == "ok"
    assert "ontrol" not in verdict.sentence


COPY, PRODUCT = ("n1", "memory_copy"), ("n1", "matrix_product")


def with_slow_product(night: int) -> dict[tuple[str, str], float]:
    """The slower of the two controls, missing on a night before the fall and on one since."""
    found = {COPY: 10.0, PRODUCT: 0.8 * 2.0 if night >= FELL else 2.0}
    return {COPY: 10.0} if night in (10, FELL) else found


SETS: dict[str, tuple[Of, tuple[str, ...]]] = {
    "missing on two nights": (with_slow_product, ("changed by -9.5%", "explains a part")),
    "none since the fall": (
        lambda night: {COPY: 10.0} | ({} if night >= FELL else {PRODUCT: 50.0}),
        (),
    ),
    "new with the fall": (
        lambda night: {COPY: 10.0} | ({PRODUCT: 2.0} if night >= FELL else {}),
        ("changed by +1.", "does not explain the change"),
    ),
    "others since the fall": (lambda night: {COPY: 10.0} if night < FELL else {PRODUCT: 5.0}, ()),
}


@pytest.mark.parametrize("name", SETS)
def test_a_set_of_controls_that_changes_is_no_change(lab: Lab, name: str) -> None:
    controls, expected = SETS[name]
    verdict = lab.judged(controls)[STEADY.case_id]
    assert verdict.kind == "regressed"
    assert all(each in verdict.sentence for each in expected)
    if not expected:
        assert "ontrol" not in verdict.sentence
