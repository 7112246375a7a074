"""Which cases of a night are measured beside a reference build, and in which order."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

from tests.unit.config.test_catalog import LINE, SPEC, tree

from nightbench.config import load_catalog
from nightbench.core.budget import CaseHistory, NightPlan
from nightbench.core.model import (
    Build,
    Case,
    Cluster,
    MeasuredPair,
    NightPolicy,
    Node,
    Pair,
    PlannedPair,
    Protocol,
    RunKind,
    Strategy,
    Suite,
)
from nightbench.core.run_plan import make_plan
from nightbench.night.planning import plan_night
from nightbench.night.reference_plan import measured_pairs, save_pairs
from nightbench.spool import Spool
from nightbench.spool.plans import read_plan, store_plan

AT = datetime(2026, 11, 20, 22, tzinfo=UTC)
CLUSTER = Cluster("c", (Node("n1", "n1", "ssh"),), device_kind="cpu", devices_per_node=1)
CASES = [
    Case("net", "thing", Strategy.SINGLE, batch_size_per_device=n, scale="full") for n in (1, 2, 4)
]
PINNED, BEFORE = (Build("thing", "cpu", "index", version) for version in ("1.1", "1.0"))
REPEAT_S = 100.0
NOISE = dict(zip((case.case_id for case in CASES), (0.01, 0.03, None), strict=True))


def planned(
    tmp_path: Path, budget_s: float | None, reference: Build | None = None
) -> tuple[Suite, NightPlan, CaseHistory]:
    suite = Suite(
        "s",
        "me",
        "c",
        tuple(CASES),
        protocol=Protocol(repeats=3),
        night=NightPolicy(budget_s=budget_s),
        reference={"thing": dataclasses.replace(PINNED, variant="")},
    )
    known = CaseHistory(seconds=3 * REPEAT_S, repeat_s=REPEAT_S, reference=reference)
    past = {name: dataclasses.replace(known, noise=noise) for name, noise in NOISE.items()}
    catalog = load_catalog(tree(tmp_path, LINE, SPEC))
    return suite, plan_night(suite, CLUSTER, catalog, past, AT), known


def test_the_noisiest_series_come_first_and_the_window_leaves_the_others_out(
    tmp_path: Path,
) -> None:
    # Three cases take 3 x 330 s, and each beside its reference 630 s.
    _, night, _ = planned(tmp_path, budget_s=3 * 330 + 2 * 630 + 100)
    one, two, three = night.pairs
    assert [pair.case_id for pair in night.pairs] == [
        CASES[1].case_id,
        CASES[0].case_id,
        CASES[2].case_id,
    ]
    assert (one.reference, one.rounds, one.seconds) == (PINNED, 3, 630.0)
    assert one.left_out is None
    assert two.left_out is None
    assert three.left_out is not None
    assert "about 10 min" in three.left_out.observed
    assert three.left_out.expected.startswith("1 min 40 s until 2026-11-20 22:39 UTC")


def test_a_night_without_an_end_measures_all_and_one_without_a_reference_none(
    tmp_path: Path,
) -> None:
    suite, night, _ = planned(tmp_path, budget_s=None)
    assert [pair.left_out for pair in night.pairs] == [None] * 3
    catalog = load_catalog(tmp_path / "benchmarks")
    plain = dataclasses.replace(suite, reference={})
    assert plan_night(plain, CLUSTER, catalog, {}, AT).pairs == ()


def test_another_reference_than_the_last_time_is_measured_beside_the_one_before(
    tmp_path: Path,
) -> None:
    _, night, _ = planned(tmp_path, budget_s=3 * 330 + 2 * 630, reference=BEFORE)
    assert [(pair.reference, pair.is_bridge) for pair in night.pairs[:2]] == [
        (PINNED, False),
        (BEFORE, True),
    ]
    # Both or none: one alone converts nothing.
    assert [pair.left_out is None for pair in night.pairs] == [True, True, *[False] * 4]
    _, same, _ = planned(tmp_path / "same", budget_s=None, reference=PINNED)
    assert not any(pair.is_bridge for pair in same.pairs)


def test_the_plan_and_what_was_measured_survive_the_spool(tmp_path: Path) -> None:
    suite, night, _ = planned(tmp_path, budget_s=None)
    catalog = load_catalog(tmp_path / "benchmarks")
    plan = make_plan(suite, CLUSTER, catalog, run_kind=RunKind.NIGHTLY, night=night)
    folder = store_plan(plan, Spool(tmp_path / "spool"))
    assert read_plan(folder).pairs == plan.pairs == night.pairs
    assert all(isinstance(pair, PlannedPair) for pair in read_plan(folder).pairs)
    assert measured_pairs(folder) == ()
    measured = MeasuredPair(
        CASES[0].case_id, PINNED, pairs=(Pair(98.0, 100.0, "AB"), Pair(50.0, 50.0, "BA"))
    )
    save_pairs(folder, [measured])
    (back,) = measured_pairs(folder)
    assert back == measured
    assert back.medians == (74.0, 75.0)
    assert round(back.ratio or 0, 4) == 0.9899
