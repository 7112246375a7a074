"""Series whose nodes are modes, and what is left of them at tonight's."""

import re
from dataclasses import replace

import numpy as np
import pytest
from histories import nights

from nightbench.core.model import RegressionPolicy, Verdict, VerdictKind
from nightbench.detection import ChangeDetector
from nightbench.detection.node_modes import HOLD_NIGHTS, modes_of
from nightbench.detection.verdict_sentences import with_levels

STAYS = [("gpu02", 14), ("gpu01", 7), ("gpu02", 12), ("gpu01", 6), ("gpu02", 13), ("gpu01", 5)]
FAST, SLOW = 97.9, 94.1


def series(stays=STAYS, fall=0.0, since=1000, slow=SLOW):
    """Nights of stays on two nodes, and the nodes of each run."""
    rng = np.random.default_rng(5)
    places = [place for place, length in stays for _ in range(length)]
    levels = np.array([slow if place == "gpu01" else FAST for place in places])
    levels[since:] *= 1 - fall
    points = nights(*(levels * np.exp(0.004 * rng.standard_normal(len(levels)))))
    return points, {p.run_id: [place] for p, place in zip(points, places, strict=True)}


def judge(points, nodes=None):
    detector = ChangeDetector(with_smallest=False, nodes=nodes or {})
    return detector.judge(points[:-1], points[-1], RegressionPolicy())


def test_a_series_that_jumps_with_its_node_is_judged_by_node():
    points, nodes = series()
    found = modes_of(points, nodes)
    assert list(found.levels) == ["gpu01", "gpu02"]
    assert list(found.levels.values()) == pytest.approx([SLOW, FAST], rel=0.005)
    assert found.points[-1] == points[-1]
    assert found.points[0].value == pytest.approx(SLOW, rel=0.02)
    assert judge(found.points).kind is VerdictKind.OK
    verdict = Verdict("resnet50", "lab", "run", VerdictKind.OK, "It is steady.")
    assert with_levels(verdict, None) == verdict
    said = with_levels(verdict, replace(found, levels={"gpu01": 94.1234, "gpu02": 97.9})).sentence
    assert said == "It is steady. Levels by node: 94.12 on gpu01, 97.9 on gpu02."


def test_a_fall_of_the_level_is_seen_through_the_modes():
    points, nodes = series([*STAYS[:-1], ("gpu01", 9)], fall=0.04, since=53)
    found = modes_of(points, nodes)
    judged = judge(found.points)
    assert judged.kind is VerdictKind.REGRESSED
    assert judged.level_change == pytest.approx(-0.04, abs=0.01)


@pytest.mark.parametrize(
    "stays",
    [
        [("gpu02", 30), ("gpu01", 12)],  # it moved and stayed: nothing tells node from work
        [("gpu02", 57)],
    ],
)
def test_what_does_not_come_back_is_no_mode(stays):
    assert modes_of(*series(stays)) is None


def test_nodes_that_are_alike_are_no_modes():
    assert modes_of(*series(slow=FAST)) is None


def test_a_fall_on_the_night_of_a_move_makes_no_mode():
    assert modes_of(*series(STAYS[:4], fall=0.06, since=14, slow=FAST)) is None


def test_nights_whose_nodes_are_unknown_make_no_mode():
    points, nodes = series()
    del nodes[points[3].run_id]
    assert modes_of(points, nodes) is None


def test_what_begins_with_other_nodes_is_a_change_once_it_has_lasted():
    moved = [("gpu02", 40), ("gpu01", HOLD_NIGHTS - 1)]
    points, nodes = series(moved)
    assert judge(points).kind is VerdictKind.REGRESSED
    held = judge(points, nodes)
    assert held.kind is VerdictKind.WATCHED
    said = re.search(
        r" A change of (-\d\.\d)% started on 20\S+, when the series changed from gpu02 to gpu01\."
        r" The change is reported if it lasts for 14 nights on gpu01; tonight is night 13\.$",
        held.sentence,
    )
    assert float(said[1]) == pytest.approx(-3.9, abs=0.5)
    points, nodes = series([moved[0], ("gpu01", HOLD_NIGHTS)])
    lasted = judge(points, nodes)
    assert lasted.kind is VerdictKind.REGRESSED
    assert lasted.level_change == pytest.approx(-0.039, abs=0.005)


@pytest.mark.parametrize(
    ("stays", "since"),
    [
        ([("gpu02", 40), ("gpu01", 12)], 47),  # seven nights after the move
        ([("gpu02", 40), ("gpu01", 4)], 37),  # three nights before it
        ([("gpu02", 20), ("gpu01", 2)] * 4 + [("gpu02", 6)], 88),  # it has come and gone often
        ([("gpu02", 50)], 44),
    ],
)
def test_a_fall_that_does_not_begin_with_unknown_nodes_is_not_held(stays, since):
    points, nodes = series(stays, fall=0.05, since=since, slow=FAST)
    assert judge(points, nodes).kind is VerdictKind.REGRESSED


def test_a_rise_of_a_lower_better_figure_is_held_with_its_own_sign():
    points, nodes = series([("gpu01", 40), ("gpu02", 6)])
    policy = RegressionPolicy(metric="joules_per_unit")
    held = ChangeDetector(with_smallest=False, nodes=nodes).judge(points[:-1], points[-1], policy)
    assert held.kind is not VerdictKind.REGRESSED
    said = (
        r"A change of \+[34]\.\d% started on 20\S+, when the series changed from gpu01 to gpu02\."
    )
    assert re.search(said, held.sentence)
