"""What is left of each series of a night, and what the members of a movement show together."""

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nightbench.alerts.shared_alerts import LiveSharedChange
from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection import ChangeDetector
from nightbench.detection.case_verdicts import verdict_of
from nightbench.detection.factors import Factor, FactorKind, NightRow
from nightbench.night.shared_verdicts import find_shared, residual_parts

FIRST = datetime(2026, 1, 1, 1, tzinfo=UTC)
LINE = Factor(FactorKind.LINE, "paddle3")
BEFORE, SINCE = 60, 4
POLICY = RegressionPolicy()


def row(name, fall=0.0, noise=0.005):
    """A series whose line has a new version on its last nights."""
    rng = random.Random(name)
    points = [
        HistoryPoint(
            FIRST + timedelta(days=night),
            100 * (1 - (fall if night >= BEFORE else 0)) * math.exp(rng.gauss(0, noise)),
            f"night-{night}",
            framework_version="3.4" if night >= BEFORE else "3.3",
        )
        for night in range(BEFORE + SINCE)
    ]
    return NightRow(name, points, frozenset({LINE}))


def judged(rows):
    """Judge each by itself, then all as one night."""
    cases = []
    for each in rows:
        *history, tonight = each.points
        found = ChangeDetector(with_smallest=False).judge(history, tonight, POLICY)
        cases.append(verdict_of(each.name, "lab", tonight, found))
    shared = find_shared({each.name: each for each in rows}, [], cases, POLICY)
    return [cases[0], shared.verdicts[0]]


WEAK = row("weak", 0.0145)
"""A fall that is reported with the new version, and not without it."""


def test_a_weak_fall_is_not_the_new_versions_where_no_other_series_moved():
    alone, shared = judged([WEAK, *(row(f"still{k}") for k in range(5))])
    assert (alone.kind, shared.kind) == (VerdictKind.REGRESSED, VerdictKind.OK)
    assert shared.since is None
    assert (
        "0 of 5 other series of paddle3 changed with the new version of 2026-03-02"
        in shared.sentence
    )


def test_a_series_without_others_keeps_it():
    assert [each.kind for each in judged([WEAK, row("still")])] == [VerdictKind.REGRESSED] * 2


def test_a_clear_fall_needs_no_new_version():
    clear = row("clear", 0.08)
    kinds = [each.kind for each in judged([clear, *(row(f"still{k}") for k in range(5))])]
    assert kinds == [VerdictKind.REGRESSED] * 2


@pytest.mark.parametrize(("back", "part"), [(0, 1.0), (1, 0.0)])
def test_the_members_show_how_much_of_a_movement_is_left_although_one_is_lucky(back, part):
    rows = {name: row(name, 0.05, 0.001) for name in "abcd"}
    if back:
        rows = {n: replace(r, points=[*r.points[:-1], r.points[0]]) for n, r in rows.items()}
    lucky = replace(rows["a"].points[-1], value=130.0)
    rows["a"] = replace(rows["a"], points=[*rows["a"].points[:-1], lucky])
    since = (FIRST + timedelta(days=BEFORE)).date()
    standing = LiveSharedChange(7, "a", LINE, since, dict.fromkeys("abcd", -0.05))
    assert residual_parts([standing], rows)[7] == pytest.approx(part, abs=0.1)
    few = replace(standing, members={"a": -0.05, "b": -0.05})
    assert residual_parts([few], rows) == {}
