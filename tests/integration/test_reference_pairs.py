"""A case of a night beside a reference build, over real SSH, and what its ingest finds of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.test_confirm import (
    CASE,
    Doubt,
    Observer,
    context,
    doubt,
    nodes,
    prefix,
    spool,
)

from nightbench.core.model import CaseStatus, PlannedPair, Reason, ReasonCode
from nightbench.experiments.engine import ExperimentContext
from nightbench.experiments.reference_pairs import measure_pairs
from nightbench.night.reference_pairs import measured_pairs
from nightbench.spool import Spool

__all__ = ["context", "doubt", "nodes", "spool"]

pytestmark = pytest.mark.slow


def test_both_builds_are_launched_in_turn_on_the_nodes_of_the_night(
    doubt: Doubt, spool: Spool, context: ExperimentContext, tmp_path: Path
) -> None:
    reference, tonight = prefix(tmp_path / "old", 0.1), prefix(tmp_path / "new", 0.15)
    _, plan = doubt(reference, tonight)
    full = Reason(ReasonCode.NIGHT_FULL, observed="about 5 min", expected="nothing")
    planned = PlannedPair(CASE.case_id, reference, rounds=3, seconds=60.0)
    left_out = replace(planned, reference=tonight, left_out=full)
    plan = replace(plan, pairs=(planned, left_out))
    run = spool.run(plan.run.run_id)

    def measure(observer: Observer) -> None:
        asyncio.run(measure_pairs(plan, spool, context, observer))

    # The case has no good result that night: there is nothing to hold against the reference.
    measure(Observer())
    assert [pair.why for pair in measured_pairs(run)] == [
        "the case itself was not measured: never ended",
        "takes about 5 min; what comes before it leaves nothing",
    ]
    store = run.case(CASE.case_id)
    store.save_job({"nodes": [{"name": "n2"}]})
    store.end(CaseStatus.OK, [])

    first = Observer()
    measure(first)
    found, _ = measured_pairs(run)
    assert (len(found.pairs), found.why) == (3, "")
    assert found.ratio == pytest.approx(0.1 / 0.15, abs=0.08)
    assert {pair.order for pair in found.pairs} == {"AB", "BA"}
    assert all(pair.night < pair.reference for pair in found.pairs)
    request = spool.comparison(f"{run.run_id}-ref1").run() or {}
    assert request["identity"]["cases"][CASE.case_id]["nodes"] == ["n2"]
    # A task that is tried again launches nothing that has ended.
    again = Observer()
    measure(again)
    assert again.ended == []
    assert len(first.ended) >= 6
    assert measured_pairs(run)[0] == found
    assert [each.run_id for each in spool.runs()] == [run.run_id]
