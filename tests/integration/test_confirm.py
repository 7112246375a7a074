"""Suspects measured again over real SSH: the last good build and the night's in turn."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.integration.openssh import SshNodes, local_nodes
from tests.recording import Unrecorded
from tests.shipped import shipped

from nightbench.config import load_catalog
from nightbench.core.documents import from_document
from nightbench.core.errors import UserError
from nightbench.core.model import (
    Build,
    Case,
    Cluster,
    PlannedCase,
    Process,
    Protocol,
    RegressionPolicy,
    Run,
    RunKind,
    Strategy,
    Suite,
)
from nightbench.core.model.alerts import Confirmation, ConfirmationResult
from nightbench.core.model.experiments import Experiment
from nightbench.core.run_plan import CasePlan, RunPlan, definition_digest
from nightbench.experiments import confirm
from nightbench.experiments.comparison import ComparedCase, ComparisonPlan, ended_launches
from nightbench.experiments.confirm import ELSEWHERE, MORE, measure_confirmation
from nightbench.experiments.engine import ExperimentContext, Turn, run_comparison
from nightbench.experiments.reporting import ComparisonReporter
from nightbench.experiments.rounds import Launch
from nightbench.gang import Shipment
from nightbench.night.suspected_regressions import (
    PAIRS,
    PAIRS_ELSEWHERE,
    SuspectedRegression,
    confirmation_of,
)
from nightbench.spool import Spool
from nightbench.spool.plans import store_plan

CASE = Case("sleep", "fake", Strategy.SINGLE, batch_size_per_device=2, scale="smoke")
PROTOCOL = Protocol(warmup_steps=1, measured_steps=12, repeats=3)
NIGHT = "trial-20261101T010000-0a1b"
STEP_S = 0.1
"""Long, so that what a busy machine adds to a sleep is small beside it."""
LEVEL = CASE.batch_size_per_device / STEP_S
"""Samples a second, less what a step costs."""


def prefix(folder: Path, step_s: float) -> Build:
    """A build of the line fake: a prefix whose python sets the length of a step."""
    python = folder / "bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nFAKE_STEP_S={step_s} exec python3 "$@"\n')
    python.chmod(0o755)
    return Build("fake", "cpu", "path", None, str(folder))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshNodes]:
    with local_nodes(tmp_path_factory.mktemp("confirm")) as found:
        yield found


@pytest.fixture(scope="module")
def context(nodes: SshNodes, tmp_path_factory: pytest.TempPathFactory) -> ExperimentContext:
    copy = shipped(tmp_path_factory.mktemp("shipped"))
    cluster = Cluster("local", nodes.nodes, shared=True, environments=nodes.environments)
    return ExperimentContext(
        Suite("trial", "tests", "local", (CASE,)),
        cluster,
        load_catalog(copy),
        targets=nodes.targets,
        shipment=Shipment(copy),
    )


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


Doubt = Callable[..., tuple[Experiment, RunPlan]]


@pytest.fixture
def doubt(context: ExperimentContext, spool: Spool) -> Doubt:
    """A night that lost so much on n1, and what is request for because of it."""

    def make(good: Build, bad: Build, lost: float = 0.1) -> tuple[Experiment, RunPlan]:
        digest = definition_digest(CASE, context.catalog.workloads["sleep"], PROTOCOL)
        at = datetime(2026, 11, 1, 1, tzinfo=UTC)
        run = Run(NIGHT, "trial", "local", RunKind.NIGHTLY, at)
        planned = PlannedCase(CASE, bad, digest, "samples")
        plan = RunPlan(
            run=run,
            owner="tests",
            protocol=PROTOCOL,
            policy=RegressionPolicy(min_change=lost / 3),
            channels=(),
            cluster=context.cluster,
            cases=(
                CasePlan(
                    planned,
                    processes=(Process("trainer-0", "trainer", 0, "n1", 0),),
                    units_per_trainer_step=CASE.batch_size_per_device,
                ),
            ),
        )
        store_plan(plan, spool)
        suspect = SuspectedRegression(
            1, NIGHT, CASE.case_id, (1 - lost) * LEVEL, LEVEL, bad, "1.0", good, "1.0", None,
            ("n1",), digest,
        )  # fmt: skip
        return confirmation_of(suspect, plan, "nightbench"), plan

    return make


def on_one_node(context: ExperimentContext) -> ExperimentContext:
    """Where the cluster has no other nodes."""
    return replace(context, cluster=replace(context.cluster, nodes=context.cluster.nodes[:1]))


class Observer(ComparisonReporter):
    """Keeps the job ids of the launches that have ended."""

    def __init__(self) -> None:
        super().__init__(print)
        self.ended: list[str] = []

    def launch_ended(self, case: ComparedCase, number: int, launch: Launch) -> None:
        self.ended.append(case.launch(launch.arm, number).job_id)


async def again(
    asked: Experiment, spool: Spool, context: ExperimentContext, observer: ComparisonReporter
) -> tuple[Confirmation, dict[str, Any]]:
    """Measure a suspect, or go on with that; returns the outcome, and what is stored with it."""
    ended = await measure_confirmation(Turn(Unrecorded(asked), spool, context, observer))
    result = dict(ended.result or {})
    return from_document(Confirmation, result), result


def measure(asked: Experiment, spool: Spool, context: ExperimentContext) -> Confirmation:
    return asyncio.run(again(asked, spool, context, ComparisonReporter(print)))[0]


@pytest.mark.slow
def test_a_build_that_is_slower_is_confirmed_on_both_nodes(
    doubt: Doubt, spool: Spool, context: ExperimentContext, tmp_path: Path
) -> None:
    # A fall that a busy machine does not hide.
    good, bad = prefix(tmp_path / "good", STEP_S), prefix(tmp_path / "bad", STEP_S / 0.75)
    request, _ = doubt(good, bad, lost=0.25)

    found, detail = asyncio.run(again(request, spool, context, ComparisonReporter(print)))

    assert found.outcome is ConfirmationResult.CONFIRMED, found.sentence
    assert found.ratio == pytest.approx(0.75, abs=0.05)
    assert found.rounds == PAIRS
    here, there = detail["here"]["cases"][0], detail["there"]["cases"][0]
    assert (here["nodes"], there["nodes"]) == (["n1"], ["n2"])
    assert (here["n"], there["n"]) == (PAIRS, PAIRS_ELSEWHERE)
    assert {*here["order"]} == {"AB", "BA"}
    assert "interleaved: on n1 -" in found.sentence
    assert "on n2 -" in found.sentence
    # No night, no history: the launches are a comparison's.
    assert [run.run_id for run in spool.runs()] == [NIGHT]


@pytest.mark.slow
def test_builds_that_are_alike_do_not_confirm_and_a_killed_measurement_goes_on(
    doubt: Doubt, spool: Spool, context: ExperimentContext, tmp_path: Path
) -> None:
    good, bad = prefix(tmp_path / "good", STEP_S), prefix(tmp_path / "bad", STEP_S)
    # Much, so that what other work adds on a busy machine does not matter.
    request, _ = doubt(good, bad, 0.3)
    alone = on_one_node(context)
    before = Observer()

    async def interrupted() -> None:
        task = asyncio.create_task(again(request, spool, alone, before))
        while len(before.ended) < 3:
            await asyncio.sleep(0.05)
            assert not task.done()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    after = Observer()
    found, _ = asyncio.run(again(request, spool, alone, after))

    assert found.outcome is ConfirmationResult.NOT_CONFIRMED, found.sentence
    assert "the drop is not confirmed" in found.sentence
    launches = ended_launches(spool.comparison(request.name), CASE.case_id)
    assert [launch.status for launch in launches].count("ok") >= 2 * PAIRS
    ended = [*before.ended, *after.ended]
    assert len(ended) == len({*ended})  # nothing was launched twice
    # What is complete is only read again.
    last = Observer()
    same, _ = asyncio.run(again(request, spool, alone, last))
    assert (same, last.ended) == (found, [])


@pytest.mark.parametrize(
    ("step_s", "outcome", "words"),
    [
        (2.5 * STEP_S, ConfirmationResult.CONFIRMED, "the case is still slower"),
        (STEP_S, ConfirmationResult.NOT_CONFIRMED, "the level has recovered"),
    ],
)
@pytest.mark.large
def test_one_build_is_held_against_the_level_before(
    doubt: Doubt,
    spool: Spool,
    context: ExperimentContext,
    tmp_path: Path,
    step_s: float,
    outcome: ConfirmationResult,
    words: str,
) -> None:
    build = prefix(tmp_path / "build", step_s)
    # The level is that of an idle machine: much, so that what a busy one adds does not matter.
    request, _ = doubt(build, build, 0.6)

    found = measure(request, spool, on_one_node(context))

    assert not spool.comparison(request.name + ELSEWHERE).case_ids()
    assert found.outcome is outcome, found.sentence
    assert "The framework has not changed" in found.sentence
    assert words in found.sentence


def test_a_prefix_that_is_gone_is_inconclusive_and_nothing_is_launched(
    doubt: Doubt, spool: Spool, context: ExperimentContext, tmp_path: Path
) -> None:
    good, bad = prefix(tmp_path / "good", STEP_S), prefix(tmp_path / "bad", STEP_S)
    request, _ = doubt(good, bad)
    shutil.rmtree(tmp_path / "good")

    found = measure(request, spool, context)

    assert found.outcome is ConfirmationResult.INCONCLUSIVE
    assert "is no longer available" in found.sentence
    assert "bin/python is not there" in found.sentence
    assert spool.comparison(request.name).case_ids() == []


@pytest.mark.large
def test_what_the_first_rounds_leave_open_gets_more_where_there_is_time(
    doubt: Doubt,
    spool: Spool,
    context: ExperimentContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confirm, "MOST_MORE", 3)
    good, bad = prefix(tmp_path / "good", STEP_S), prefix(tmp_path / "bad", STEP_S)
    # Every second of its launches takes half as long again: no few rounds can tell what it is.
    uneven = """#!/bin/sh
case "$*" in *rank.py*) echo >>"$0.launches" ;; esac
step=0.1
[ $(($(cat "$0.launches" 2>/dev/null | wc -l) % 2)) = 0 ] && step=0.15
FAKE_STEP_S=$step exec python3 "$@"
"""
    (tmp_path / "bad/bin/python").write_text(uneven)
    request, _ = doubt(good, bad)

    def with_spare(spare_s: float) -> tuple[Confirmation, dict[str, Any]]:
        monkeypatch.setattr(confirm, "spare_seconds", lambda *_: spare_s)
        reporter = ComparisonReporter(print)
        return asyncio.run(again(request, spool, on_one_node(context), reporter))

    found, detail = with_spare(0.0)
    assert (found.outcome, found.rounds) == (ConfirmationResult.INCONCLUSIVE, PAIRS)
    with monkeypatch.context() as patch:

        async def broken(plan: ComparisonPlan, *rest: Any) -> dict[str, Any]:
            if plan.comparison_id.endswith(MORE):
                raise UserError("n1 does not answer")
            return await run_comparison(plan, *rest)

        patch.setattr(confirm, "run_comparison", broken)
        assert with_spare(3600.0)[0] == found
    found, detail = with_spare(3600.0)
    assert found.rounds == PAIRS + 3
    assert detail["here"]["cases"][0]["nodes"] == ["n1"]
    assert "3 of these rounds were added: the first were unclear" in found.sentence
    # Another process that goes on with it measures nothing more, however much time there is.
    assert with_spare(3600.0)[0] == found
