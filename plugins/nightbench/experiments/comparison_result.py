"""What a comparison of two builds says: the document of its result.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from nightbench.core.model import Build, RunKind
from nightbench.experiments import paired, rounds
from nightbench.experiments.comparisons import ComparisonPlan, halves
from nightbench.experiments.paired import Estimate, Outcome
from nightbench.experiments.rounds import Side
from nightbench.spool import RunSpool, read_json, utc_now, write_json

SCHEMA = "nightbench.comparison-result/1"


def answer(plan: ComparisonPlan, folder: RunSpool, stopped: str | None = None) -> dict[str, Any]:
    """Judge what has been measured; the document of result.json.

    Args:
        plan: the comparison.
        folder: its files.
        stopped: why it ended early, as far as that does not follow from the launches.
    """
    level = paired.family_level(len(plan.cases))
    rows: list[dict[str, Any]] = []
    estimates: list[Estimate] = []
    for case in plan.cases:
        done = rounds.progress(case.schedule, halves(folder, case.case_id))
        found = paired.estimate(
            [pair.ratio for pair in done.pairs], plan.min_effect, level, plan.seed
        )
        estimates.append(found)
        rows.append(
            {
                "case_id": case.case_id,
                "unit": case.unit,
                "nodes": [node.name for node in case.jobs[Side.A].nodes],
                **_figures(found),
                "order": [_order(pair.order) for pair in done.pairs],
                "rounds": [
                    {
                        "round": pair.round,
                        "order": _order(pair.order),
                        "a": pair.a,
                        "b": pair.b,
                        "ratio": pair.ratio,
                    }
                    for pair in done.pairs
                ],
                "dropped": [dataclasses.asdict(half) for half in done.dropped],
                "complete": len(done.pairs) >= plan.rounds,
                "stopped": done.stopped or (stopped if done.next is not None else None),
            }
        )
    combined = paired.combine(estimates, plan.min_effect)
    asked = folder.run() or {}
    return {
        "schema": SCHEMA,
        "id": plan.comparison_id,
        "verdict": str(paired.overall([each.outcome for each in estimates])),
        "a": _build(plan.builds[Side.A]),
        "b": _build(plan.builds[Side.B]),
        "suite": plan.suite.name,
        "cluster": plan.cluster.name,
        "shared": plan.cluster.shared,
        "run_kind": str(RunKind.CONFIRM),
        "rounds": plan.rounds,
        "min_effect": plan.min_effect,
        "seed": plan.seed,
        "started_at": asked.get("started_at"),
        "ended_at": utc_now(),
        "complete": all(row["complete"] or row["stopped"] for row in rows) and stopped is None,
        "cases": rows,
        "combined": _figures(combined.estimate) if combined.estimate else None,
        "not_combined": combined.why_not,
    }


def _figures(found: Estimate) -> dict[str, Any]:
    return {
        "verdict": str(found.outcome),
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "level": found.level,
        "n": found.n,
        "p_value": found.p_value,
        "sentence": found.sentence,
    }


def _order(sides: Sequence[Side]) -> str:
    return "".join(side.upper() for side in sides)


def _build(build: Build) -> dict[str, Any]:
    return {**dataclasses.asdict(build), "build_id": build.build_id}


def save_answer(folder: RunSpool, document: Mapping[str, Any]) -> None:
    """Keep the answer."""
    write_json(folder.folder / "result.json", document)


def saved_answer(folder: RunSpool) -> dict[str, Any] | None:
    """The answer; None while there is none."""
    found: dict[str, Any] | None = read_json(folder.folder / "result.json")
    return found


def outcome_of(document: Mapping[str, Any]) -> Outcome:
    """The verdict of an answer."""
    return Outcome(document["verdict"])
