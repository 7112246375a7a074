"""The plan of a suite's night where something cannot be measured."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

from tests.unit.config.test_catalog import LINE, SPEC, tree

from nightbench.config import load_catalog
from nightbench.core.budget import CaseHistory
from nightbench.core.model import (
    Case,
    Cluster,
    NightPolicy,
    Node,
    Protocol,
    RunKind,
    Strategy,
    Suite,
)
from nightbench.core.run_plan import make_plan
from nightbench.night.planning import plan_night

AT = datetime(2026, 11, 20, 22, tzinfo=UTC)
HOUR_S = 3600.0
CLUSTER = Cluster("c", (Node("n1", "n1", "ssh"),), device_kind="cpu", devices_per_node=1)


def test_a_case_that_is_unavailable_takes_no_room_of_the_night(tmp_path: Path) -> None:
    benchmarks = tree(tmp_path, LINE, SPEC)
    (benchmarks / "frameworks/other").mkdir()
    (benchmarks / "frameworks/other/framework.json").write_text("{")
    catalog = load_catalog(benchmarks)
    good = Case("net", "thing", Strategy.SINGLE, batch_size_per_device=2, scale="full")
    ill = dataclasses.replace(good, framework="other")
    past = dict.fromkeys((good.case_id, ill.case_id), CaseHistory(seconds=0.9 * HOUR_S))
    suite = Suite(
        "s",
        "me",
        "c",
        (ill, good),
        protocol=Protocol(repeats=1),
        night=NightPolicy(budget_s=HOUR_S),
    )

    night = plan_night(suite, CLUSTER, catalog, past, AT)

    first, second = night.entries
    assert (first.case_id, first.start, first.problem) == (good.case_id, AT, None)
    assert (second.case_id, second.start, second.seconds) == (ill.case_id, None, 0.0)
    assert "other/framework.json:1: not valid JSON" in (second.problem or "")
    assert night.left_out == {}
    made = make_plan(suite, CLUSTER, catalog, run_kind=RunKind.NIGHTLY, night=night)
    assert [job.case for job in made.jobs] == [good]
    assert list(made.unavailable) == [ill.case_id]
