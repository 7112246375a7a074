"""What the processes of a failed repeat wrote last, taken from their nodes' results. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def log_tail(results: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return stacks of hung processes and the log's end, of the first failed node that has some."""
    for node, result in _worst_first(results):
        stacks = [
            f"[{node} {process.get('name')}: stack]\n{process['stack']}"
            for process in result.get("processes") or ()
            if process.get("stack")
        ]
        parts = [*stacks, *([result["log_tail"]] if result.get("log_tail") else [])]
        if parts:
            return "\n".join(parts)
    return None


def process_error(results: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the error of the process that its node reports as the cause of the failure."""
    for node, result in _worst_first(results):
        errors = {
            process.get("name"): process["error"]
            for process in result.get("processes") or ()
            if process.get("error")
        }
        blamed = [reason.get("subject") for reason in result.get("reasons") or ()]
        for name in (*blamed, *errors):
            if name in errors:
                return f"[{node} {name}]\n{errors[name]}"
    return None


def _worst_first(
    results: Mapping[str, Mapping[str, Any]],
) -> list[tuple[str, Mapping[str, Any]]]:
    order = {"failed": 0, "aborted": 1}
    return sorted(results.items(), key=lambda pair: order.get(str(pair[1].get("status")), 2))
