"""A case of a night beside a reference build, over real SSH, and what its ingest finds of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.terminal import terminal
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
from tests.recording import away

from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, PlannedPair, Reason, ReasonCode
from nightbench.core.model.experiments import ExperimentKind
from nightbench.experiments.engine import ExperimentContext
from nightbench.experiments.experiment_reader import read_experiment
from nightbench.experiments.experiment_spool import read_request
from nightbench.experiments.reference_measuring import measure_references
from nightbench.night.reference_plan import measured_pairs
from nightbench.spool import Spool

__all__ = ["context", "doubt", "nodes", "spool"]

pytestmark = pytest.mark.slow

ONE = "sleep-fake-single-1x1-bs2-smoke"
NIGHT = """\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {warmup_steps: 1, measured_steps: 5, repeats: 2}
reference: {fake: {path: PREFIX}}
matrix:
  - workload: sleep
    frameworks: fake
    strategy: single
    batch_size_per_device: 2
"""


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
        asyncio.run(measure_references(plan, spool, context, observer, away))

    # The case has no good result that night: there is nothing to hold against the reference.
    measure(Observer())
    assert [pair.why for pair in measured_pairs(run)] == [
        "the case itself was not measured: never ended",
        "the case takes about 5 min; left after the earlier cases: nothing",
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
    # No person requested it: no command compares the same, and its night goes on with it.
    read = read_experiment(spool, f"{run.run_id}-ref1")
    assert read is not None
    assert (read["kind"], read["again"], read["resume"]) == ("reference", None, None)
    with pytest.raises(UserError, match="of the kind reference"):
        read_request(spool.comparison(f"{run.run_id}-ref1"), ExperimentKind.COMPARE)
    # A task that is tried again launches nothing that has ended.
    again = Observer()
    measure(again)
    assert again.ended == []
    assert len(first.ended) >= 6
    assert measured_pairs(run)[0] == found
    assert [each.run_id for each in spool.runs()] == [run.run_id]


def test_a_night_at_the_terminal_measures_its_case_and_then_the_reference(tmp_path: Path) -> None:
    reference = prefix(tmp_path / "reference", 0.2)
    suite = NIGHT.replace("PREFIX", str(reference.location))
    with terminal(tmp_path / "place", suite) as here:
        planned = here.run("plan", "trial", "--night")
        assert f"reference: {ONE} compared with fake-cpu-path-" in planned.stdout, planned.stderr
        assert "then compared with a reference build: 1 of 1 cases, about" in planned.stdout

        done = here.run("run", "trial", "--direct", "--night")

        run = here.newest()
        (pair,) = measured_pairs(run)
        assert (len(pair.pairs), pair.why) == (2, ""), done.stdout + done.stderr
        assert (pair.ratio or 0) > 1
        assert len(json.loads(here.run("results", "--json").stdout)) == 1
        without = here.run("run", "trial", "--direct")
        assert without.returncode == 0, without.stderr
        assert measured_pairs(here.newest()) == ()
