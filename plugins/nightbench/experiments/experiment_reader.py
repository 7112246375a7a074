"""Reads experiments from the spool for the pages, those that are being measured too."""

import dataclasses
import shlex
from typing import Any

from nightbench.core.model import Build
from nightbench.core.model.experiments import ExperimentKind
from nightbench.experiments import paired_statistics, rounds
from nightbench.experiments.bisect_request import bisect_document, read_steps
from nightbench.experiments.comparison import ended_launches, saved_result
from nightbench.experiments.confirm import ELSEWHERE, MORE
from nightbench.experiments.experiment_spool import Document, schema_of
from nightbench.experiments.measuring import resume_command
from nightbench.experiments.rounds import LaunchOrder
from nightbench.spool import RunSpool, Spool, SpoolError

_KINDS = {schema_of(kind): kind for kind in ExperimentKind}


def read_experiment(spool: Spool, name: str) -> dict[str, Any] | None:
    """Return one experiment with its comparisons; None if the spool does not have it.

    Its parts have the fields of the models of `nightbench.web`.
    """
    try:
        folder = spool.comparison(name)
    except SpoolError:
        return None
    document = folder.run() or {}
    kind = _KINDS.get(document.get("schema", ""))
    if kind is None:
        return None
    steps = read_steps(folder) if kind is ExperimentKind.BISECT else []
    names = [name, name + ELSEWHERE, name + MORE, *(step["comparison_id"] for step in steps)]
    found = (spool.comparison(each) for each in names)
    compared = [each for each in found if "builds" in ((each.run() or {}).get("identity") or {})]
    results = [saved_result(each) for each in compared]
    is_complete = all(result and result["complete"] for result in results)
    # A bisect's test also has this schema.
    is_bisect = kind is ExperimentKind.BISECT and "builds" not in (document["identity"] or {})
    bisect = bisect_document(folder) if is_bisect else None
    if bisect is not None:
        is_complete = bisect["outcome"] is not None
    controlled = [each.is_controlled() for each in (folder, *compared)]
    return {
        "kind": kind,
        **{key: document[key] for key in ("suite", "cluster", "requested_by", "started_at")},
        "request": document["request"],
        "is_complete": is_complete,
        # Only its own machine knows the process that measures it.
        "is_measured": True if any(controlled) else controlled[0],
        "again": _command(document["request"]) if kind is ExperimentKind.COMPARE else None,
        "resume": None if is_complete else resume_command(kind, name, document["request"]),
        "comparisons": [_comparison(each) for each in compared],
        "result": bisect or next(iter(results), None),
    }


def _comparison(folder: RunSpool) -> dict[str, Any]:
    result = saved_result(folder)
    ended = {row["case_id"]: row for row in (result or {}).get("cases", ())}
    identity = (folder.run() or {})["identity"]
    combined = (result or {}).get("combined")
    return {
        "comparison_id": folder.run_id,
        **{arm: Build(**identity["builds"][arm]).build_id for arm in ("a", "b")},
        "verdict": result and result["verdict"],
        "rounds": identity["rounds"],
        "min_effect": identity["min_effect"],
        "combined": combined and combined["sentence"],
        "not_combined": (result or {}).get("not_combined"),
        "cases": [
            _case(folder, case_id, identity, ended.get(case_id))
            for case_id in sorted(identity["cases"])
        ],
    }


def _case(
    folder: RunSpool, case_id: str, identity: Document, ended: Document | None
) -> dict[str, Any]:
    order = LaunchOrder.seeded(identity["rounds"], identity["seed"], case_id)
    done = rounds.progress(order, ended_launches(folder, case_id))
    level = paired_statistics.family_level(len(identity["cases"]))
    ratios = [each.ratio for each in done.rounds]
    # Estimates after each round show whether the ratio has settled.
    running = [
        paired_statistics.estimate(ratios[:n], identity["min_effect"], level, identity["seed"])
        for n in range(1, len(ratios) + 1)
    ]
    last = running[-1] if running else None
    return {
        "case_id": case_id,
        "unit": ended and ended["unit"],
        "nodes": identity["cases"][case_id]["nodes"],
        "level": level,
        "verdict": last and str(last.verdict),
        "sentence": last and last.sentence,
        "training": (ended or {}).get("training"),
        "ratio": last and last.ratio,
        "low": last and last.low,
        "high": last and last.high,
        "stopped": (ended and ended["stopped"]) or done.stopped,
        "rounds": [
            {
                "round": each.round,
                "order": "".join(arm.upper() for arm in each.order),
                "a": each.a,
                "b": each.b,
                "ratio": each.ratio,
                "running_ratio": estimate.ratio,
                "running_low": estimate.low,
                "running_high": estimate.high,
            }
            for each, estimate in zip(done.rounds, running, strict=True)
        ],
        "dropped": [
            {**dataclasses.asdict(launch), "arm": launch.arm.upper(), "why": launch.why}
            for launch in done.dropped
        ],
    }


def _command(request: Document) -> str:
    words = ["nightbench", "compare", request["a"], request["b"], "--suite", request["suite"]]
    for case_id in request.get("cases") or ():
        words += ["--case", case_id]
    if request.get("cluster"):
        words += ["--cluster", request["cluster"]]
    return shlex.join(words)
