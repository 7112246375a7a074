"""Decisions of an exported case's lead from the states and results of its nodes. Pure."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from nodeside.reasons import AGENT_DIED, Reason, reason


def next_command(states: Sequence[Mapping[str, Any]], trainers: Sequence[str]) -> str | None:
    """Return what a repeat waits for: go, drain or finish; None where for nothing.

    Args:
        states: state.json of each node; empty where it has none.
        trainers: names of the measured processes, on all nodes.
    """
    names = {state.get("state") for state in states}
    if names == {"ready"}:
        return "go"
    if not names <= {"running", "draining", "done"}:
        return None
    processes = {k: v for state in states for k, v in (state.get("processes") or {}).items()}
    seen = [processes.get(name) or {} for name in trainers]
    if all(process.get("exit_code") == 0 for process in seen):
        return "finish"
    ended = [p.get("exit_code") is not None or p.get("phase") == "drain" for p in seen]
    return "drain" if all(ended) else None


def progress(states: Iterable[Mapping[str, Any]], trainers: Sequence[str]) -> str:
    """Return phase and step of the first trainer."""
    first = next(iter(states), {})
    process = (first.get("processes") or {}).get(trainers[0]) or {}
    if process.get("phase") in ("warmup", "window"):
        return "{} step {}".format(process["phase"], process["step"])
    return str(process.get("phase") or first.get("state") or "preparing")


def failure_of(results: Mapping[str, Mapping[str, Any] | None]) -> list[Reason]:
    """Return the reasons of the first node whose repeat has failed by itself."""
    for result in results.values():
        if result is not None and result["status"] == "failed":
            return list(result.get("reasons") or [])
    return []


def why_to_abort(
    states: Mapping[str, Mapping[str, Any]],
    results: Mapping[str, Mapping[str, Any] | None],
    lost: Iterable[str],
) -> list[Reason]:
    """Return why a repeat cannot continue; empty if it can."""
    found = [reason(AGENT_DIED, node) for node in sorted(lost)]
    for node, state in states.items():
        if state.get("state") in ("failed", "aborted"):
            found += list((results[node] or state).get("reasons") or [])
    return found
