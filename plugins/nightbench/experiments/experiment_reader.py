"""Reads comparisons from the spool for the pages, those that are being measured too."""

import dataclasses
import shlex
from typing import Any

from nightbench.core.model import Build
from nightbench.experiments import paired_statistics, rounds
from nightbench.experiments.comparison import ended_launches, saved_result
from nightbench.experiments.experiment_spool import COMPARISON, Document
from nightbench.experiments.rounds import LaunchOrder
from nightbench.spool import RunSpool, Spool, SpoolError


class ExperimentReader:
    """Comparisons of two builds, as `nightbench.web.ComparisonFiles` describes them."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """What was compared, newest first; without what nights measure beside a reference."""
        found: list[dict[str, Any]] = []
        for folder in reversed(self._spool.comparisons()):
            request = folder.run() or {}
            if request.get("schema") == COMPARISON.schema and "run_id" not in request["request"]:
                found.append(_head(folder, request, saved_result(folder)))
            if len(found) == limit:
                break
        return found

    def get(self, comparison_id: str) -> dict[str, Any] | None:
        """One comparison with the rounds of its cases; None where the spool does not have it."""
        try:
            folder = self._spool.comparison(comparison_id)
        except SpoolError:
            return None
        request = folder.run() or {}
        if request.get("schema") != COMPARISON.schema:
            return None
        result = saved_result(folder)
        ended = {row["case_id"]: row for row in (result or {}).get("cases", ())}
        identity = request["identity"]
        combined = (result or {}).get("combined")
        return {
            **_head(folder, request, result),
            "rounds": identity["rounds"],
            "min_effect": identity["min_effect"],
            "combined": combined and combined["sentence"],
            "not_combined": (result or {}).get("not_combined"),
            "command": _command(request["request"]),
            "cases": [
                _case(folder, case_id, identity, ended.get(case_id))
                for case_id in sorted(identity["cases"])
            ],
        }


def _head(folder: RunSpool, request: Document, result: Document | None) -> dict[str, Any]:
    builds = request["identity"]["builds"]
    return {
        "comparison_id": folder.run_id,
        **{key: request[key] for key in ("suite", "cluster", "requested_by", "started_at")},
        **{arm: Build(**builds[arm]).build_id for arm in ("a", "b")},
        "state": _state(folder, result),
        "verdict": result and result["verdict"],
        "case_ids": sorted(request["identity"]["cases"]),
        "ended_at": result and result["ended_at"],
    }


def _state(folder: RunSpool, result: Document | None) -> str:
    if result is not None:
        return "ended" if result["complete"] else "stopped"
    # Who steers it is known on its own machine only.
    return "interrupted" if folder.is_steered() is False else "running"


def _case(
    folder: RunSpool, case_id: str, identity: Document, ended: Document | None
) -> dict[str, Any]:
    order = LaunchOrder.seeded(identity["rounds"], identity["seed"], case_id)
    done = rounds.progress(order, ended_launches(folder, case_id))
    level = paired_statistics.family_level(len(identity["cases"]))
    ratios = [each.ratio for each in done.rounds]
    # The estimate after each round, from which one sees whether it has settled.
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


def _command(request: Document) -> str | None:
    """Return the command that compares the same again; None where no person named the builds."""
    if not {"a", "b", "suite"} <= request.keys():
        return None
    words = ["nightbench", "ab", request["a"], request["b"], "--suite", request["suite"]]
    for case_id in request.get("cases") or ():
        words += ["--case", case_id]
    if request.get("cluster"):
        words += ["--cluster", request["cluster"]]
    return shlex.join(words)
