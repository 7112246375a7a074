"""Finding the first bad version of a framework line, each tested as `nightbench ab` tests a build.

Which version comes next follows from the tests that have ended (`bisection`), and a test that was
cut goes on where its comparison stands: another process can take up either at any point. What is
stored is said in `bisects`; the warehouse gets a copy after every test.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from nightbench.core.budget import CaseHistory
from nightbench.core.errors import UserError
from nightbench.core.model import Build, Catalog, Cluster, Suite
from nightbench.core.plan import build_of
from nightbench.experiments import compare, comparison_result, comparisons
from nightbench.experiments.bisect_store import (
    Asked,
    Document,
    between,
    document_of,
    known_of,
    save_step,
    state_of,
    steps_of,
)
from nightbench.experiments.bisection import Kind, Result, State, Trial
from nightbench.experiments.compare import Listener
from nightbench.experiments.comparisons import ComparisonPlan
from nightbench.gang import EnvironmentUnavailable, Shipment, SshTarget
from nightbench.gang.provisioning import installable_versions
from nightbench.night import cluster_preflight, node_placement
from nightbench.nodes import NodeState
from nightbench.spool import RunSpool, Spool, utc_now


class OutOfBudget(UserError):
    """Time or tests are used up; what was found so far stands."""


@dataclass(frozen=True)
class Ground:
    """Where and with what is measured; made anew by every process that goes on."""

    suite: Suite
    """With the one case."""
    cluster: Cluster
    catalog: Catalog
    targets: Mapping[str, SshTarget]
    shipment: Shipment
    past: Mapping[str, CaseHistory] = dataclasses.field(default_factory=dict)
    end: datetime | None = None
    """When the cluster's hours end."""


class Hears(Protocol):
    """Who hears how a bisect goes."""

    def begins(self, number: int, test: Trial, plan: ComparisonPlan, folder: RunSpool) -> Listener:
        """A test begins or goes on; what hears its launches."""

    def ended(self, document: Document, state: State) -> None:
        """A test has ended; its step's document, and how the search stands now."""


# --- measuring ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidates:
    """What can be tested, and where."""

    versions: tuple[str, ...]
    """Ascending: the good one first, the bad one last."""
    left_out: Mapping[str, str]
    """Node -> why it takes no part."""
    problems: tuple[str, ...] = ()
    """Sources of versions that did not answer."""


async def candidates(
    ground: Ground,
    good: str,
    bad: str,
    named: Sequence[str] = (),
    states: Mapping[str, NodeState] | None = None,
) -> Candidates:
    """Look at the nodes, and find the versions between good and bad that they could install.

    Args:
        ground: with the one case whose framework line it is.
        good: the good version.
        bad: the bad one.
        named: only these between; all that a node's sources hold when empty.
        states: nodes in quarantine, where somebody knows.

    Raises:
        UserError: bad is not newer than good, no node is left, or it cannot be asked.
    """
    cluster, (case,) = ground.cluster, ground.suite.cases
    between(named, good, bad)  # what makes no sense is said before a node is looked at
    line = ground.catalog.frameworks[case.framework]
    found = await cluster_preflight.examine(
        cluster, ground.targets, ground.shipment, [line], sweep=True
    )
    left_out = node_placement.out_tonight(found, states or {})
    if named:
        return Candidates(between(named, good, bad), left_out)
    nodes = [node for node in cluster.nodes if node.name not in left_out]
    if not nodes:
        raise UserError(f"cluster {cluster.name}: no node is left to ask for versions")
    variant = build_of(case.framework, ground.suite, cluster, ground.catalog).variant
    offered = await installable_versions(
        cluster, nodes[0], ground.targets, ground.shipment, case.framework, variant
    )
    return Candidates(between(offered.versions, good, bad), left_out, offered.problems)


async def measure_bisect(
    folder: RunSpool,
    ground: Ground,
    spool: Spool,
    hears: Hears,
    store: Callable[[Document], None],
) -> Document:
    """Trial versions until the first bad one is found, or there is no budget for another test.

    Args:
        folder: its files, as `begin` has made them.
        ground: where it is measured.
        spool: where the comparisons go.
        hears: hears how it goes.
        store: keeps the document as it stands, after every test; may store it again.

    Returns:
        The document as it stands at the end.

    Raises:
        UserError: the good version cannot be measured any more, so nothing says anything of the
            others; it can be taken up when that is mended.
        asyncio.CancelledError: after the gang has been ended on the nodes.
    """
    document, asked = known_of(folder)
    document |= {"suite": ground.suite.name, "cluster": ground.cluster.name}
    folder.save_run({**document, "state": "running", "stopped": None, "ended_at": None})
    store(document_of(folder))
    why: str | None = "it was interrupted"
    try:
        while (state := state_of(folder)).next is not None:
            _within(asked, steps_of(folder))
            await _test(folder, state.next, asked, ground, spool, hears)
            hears.ended(steps_of(folder)[-1], state_of(folder))
            store(document_of(folder))
        why = None
    except (OutOfBudget, compare.Stopped) as error:
        why = str(error)
    except UserError as error:
        why = str(error)
        raise
    finally:
        ended = {"state": "stopped", "stopped": why}
        if why is None:
            ended = {"state": "ended", "stopped": None, "ended_at": utc_now()}
        folder.save_run({**(folder.run() or {}), **ended})
        store(document_of(folder))
    return document_of(folder)


def _within(asked: Asked, steps: Sequence[Document]) -> None:
    """Refuse a test for which there is no room.

    Raises:
        OutOfBudget: there is none.
    """
    if steps and steps[-1]["status"] == "running":
        return
    ended = [step for step in steps if step["status"] == "ended"]
    if len(ended) >= asked.most_tests:
        raise OutOfBudget(f"{len(ended)} tests were made, and no more were allowed")
    spent = math.fsum(step["spent_s"] for step in steps)
    usual = max((step["spent_s"] for step in ended if step["rounds"]), default=0.0)
    left = asked.budget_s - spent
    if left < usual or left <= 0:
        raise OutOfBudget(
            f"{_span(spent)} of {_span(asked.budget_s)} are used up, and a test takes up to "
            f"{_span(usual)}"
        )


def _span(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min"


async def _test(
    folder: RunSpool, test: Trial, asked: Asked, ground: Ground, spool: Spool, hears: Hears
) -> None:
    """One test, from its first launch, or from where it was cut, to its result."""
    steps = steps_of(folder)
    if steps and steps[-1]["status"] == "running":
        step = steps[-1]
    else:
        step = _new_step(len(steps) + 1, test, _margin(asked, steps), asked.rounds)
        save_step(folder, step)
    began, before_s = time.monotonic(), step["spent_s"]

    def note() -> None:
        # Written at every launch's end: what a killed process has used is used.
        step["spent_s"] = before_s + time.monotonic() - began
        save_step(folder, step)

    plan = _plan(step, asked, ground, folder)
    place = comparisons.store_comparison(plan, spool, _as_comparison(step, asked), folder.run_id)
    listener = hears.begins(step["number"], test, plan, place)

    def on_end(ended: compare.Ended) -> None:
        note()
        listener.on_end(ended)

    listening = dataclasses.replace(listener, on_end=on_end)
    unavailable: EnvironmentUnavailable | None = None
    try:
        with place.steered():
            await compare.measure_comparison(
                plan, place, ground.targets, ground.shipment, listening
            )
    except EnvironmentUnavailable as error:
        unavailable = error
    finally:
        note()
    if unavailable is not None:
        if test.kind is Kind.CHECK:
            save_step(folder, {**step, "status": "void", "why": str(unavailable)})
            raise unavailable
        _end(folder, step, Result.SKIPPED, f"it cannot be installed: {unavailable}")
        return
    document = comparison_result.answer(plan, place)
    comparison_result.save_answer(place, document)
    (row,) = document["cases"]
    figures = {name: row[name] for name in ("ratio", "low", "high")} | {"rounds": row["n"]}
    step |= figures
    if not row["complete"] and any(_is_goods(half) for half in row["dropped"]):
        why = f"{test.against} could not be measured: {row['stopped']}"
        save_step(folder, {**step, "status": "void", "why": why})
        raise UserError(
            f"{folder.run_id}: {why}. It was measured before, so the nodes are to blame, not a "
            f"version. Mend that, then go on: nightbench bisect --resume {folder.run_id}"
        )
    _end(folder, step, *judged(row, step["min_effect"]))


def _is_goods(half: Mapping[str, Any]) -> bool:
    return bool(half["side"] == "a" and half["status"] == "failed")


def judged(row: Mapping[str, Any], margin: float) -> tuple[Result, str]:
    """What a comparison says of the version, and why.

    Args:
        row: its case, as `answers.answer` gives it: verdict, ratio, low, high, n, stopped.
        margin: half of the fall that is looked for; bad is what lies below it with its whole
            interval, good what lies above it.
    """
    if row["low"] is None:
        return Result.SKIPPED, f"it could not be measured: {row['stopped'] or row['sentence']}"
    said = (
        f"{row['ratio']:.4f} of its throughput ({row['low']:.4f} to {row['high']:.4f}, "
        f"{row['n']} rounds)"
    )
    limit = math.exp(-math.log1p(margin))
    if row["verdict"] == "slower":
        return Result.BAD, said
    if row["low"] > limit:
        return Result.GOOD, said
    return Result.UNSURE, f"{said}: that holds both answers, the limit is {limit:.4f}"


def _margin(asked: Asked, steps: Sequence[Document]) -> float:
    """The effect that decides: half of the fall from the good version to the bad one, in logs."""
    ratios = [s["ratio"] for s in steps if s["kind"] == Kind.CHECK and s["status"] == "ended"]
    if not ratios or ratios[-1] is None:
        return asked.min_effect
    fall: float = float(ratios[-1]) ** -0.5 - 1
    return max(fall, asked.min_effect / 2)


def _new_step(number: int, test: Trial, margin: float, rounds: int) -> Document:
    return {
        "number": number,
        "kind": str(test.kind),
        "version": test.version,
        "against": test.against,
        "comparison_id": comparisons.new_comparison_id(datetime.now(UTC)),
        "status": "running",
        "result": None,
        "why": "",
        "ratio": None,
        "low": None,
        "high": None,
        "rounds": 0,
        "wanted_rounds": rounds * 2 if test.again else rounds,
        "min_effect": margin,
        "started_at": utc_now(),
        "ended_at": None,
        "spent_s": 0.0,
    }


def _end(folder: RunSpool, step: Mapping[str, Any], result: Result, why: str) -> None:
    said = {"status": "ended", "result": str(result), "why": why, "ended_at": utc_now()}
    save_step(folder, {**step, **said})


def _plan(step: Document, asked: Asked, ground: Ground, folder: RunSpool) -> ComparisonPlan:
    steps = steps_of(folder)
    usual = max((s["spent_s"] / s["rounds"] / 2 for s in steps if s["rounds"]), default=None)
    ends = [ground.end] if ground.end else []
    if usual is not None:
        # Before the first test nobody knows what a launch takes: its time limit says nothing.
        left = asked.budget_s - math.fsum(each["spent_s"] for each in steps)
        ends.append(datetime.now(UTC) + timedelta(seconds=max(left, 0.0)))
    plan = comparisons.plan_comparison(
        ground.suite,
        ground.cluster,
        ground.catalog,
        (build(asked.line, step["against"]), build(asked.line, step["version"])),
        comparison_id=step["comparison_id"],
        rounds=step["wanted_rounds"],
        min_effect=step["min_effect"],
        seed=asked.seed,
        deadline=min(ends, default=None),
        left_out=asked.left_out,
        past=ground.past,
    )
    return plan if usual is None else _expecting(plan, usual)


def _expecting(plan: ComparisonPlan, usual_s: float) -> ComparisonPlan:
    """The plan whose launches are expected to take what those of earlier tests took."""
    cases = tuple(
        dataclasses.replace(
            case,
            jobs={
                side: dataclasses.replace(job, expected_repeat_s=usual_s)
                for side, job in case.jobs.items()
            },
        )
        for case in plan.cases
    )
    return dataclasses.replace(plan, cases=cases)


def build(line: str, version: str) -> Build:
    """The build of a version, from wherever the nodes install."""
    return Build(line, "", "index", version)


def _as_comparison(step: Document, asked: Asked) -> Document:
    """What `nightbench ab --resume` and `cancel` need to make the same plan again."""
    return {
        "a": f"{asked.line}={step['against']}",
        "b": f"{asked.line}={step['version']}",
        "suite": asked.suite,
        "cases": [asked.case_id],
        "cluster": asked.cluster,
        "frameworks": "",
        "workloads": "",
        "strategies": "",
        "scale": None,
        "rounds": step["wanted_rounds"],
        "min_effect": step["min_effect"],
        "seed": asked.seed,
        "outside_hours": asked.outside_hours,
    }
