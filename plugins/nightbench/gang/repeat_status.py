"""What the results of all nodes make of a repeat, and what its processes wrote last. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nightbench.core.model import Reason, ReasonCode, reasons_from_json

Results = Mapping[str, Mapping[str, Any]]
"""Node -> its result.json."""

LEFT = "another rank has left the gang"
"""What a rank says that ended because another one did (benchmarks/rendezvous.py)."""


def repeat_status(
    nodes: Sequence[str],
    results: Results,
    reasons: tuple[Reason, ...],
    deaths: Sequence[Reason],
    *,
    abort_was_sent: bool,
    counts_disturbance: bool,
) -> tuple[str, tuple[Reason, ...]]:
    """Return status and reasons of a repeat: ok, disturbed, aborted or failed.

    Args:
        nodes: of the gang, lead first.
        results: of the nodes that gave one.
        reasons: why the controller ended the repeat; empty where it did not.
        deaths: see `agent_deaths`.
        abort_was_sent: an aborted result is the controller's own doing.
        counts_disturbance: foreign work disturbs a repeat; otherwise it is only recorded.
    """
    bad = {node: results[node] for node in nodes if node in results}
    bad = {node: result for node, result in bad.items() if result.get("status") != "ok"}
    missing = [node for node in nodes if node not in results]
    if not bad and not missing and not reasons:
        disturbed = _disturbed(results) if counts_disturbance else ()
        return ("disturbed" if disturbed else "ok"), disturbed
    failed = [node for node, result in bad.items() if result.get("status") == "failed"]
    if not reasons and bad:
        reasons = reasons_from_json(bad[(failed or list(bad))[0]]["reasons"])
    if _followed(reasons):
        # Its node was heard first, as the rank that it followed was slower to end.
        found = (reasons_from_json(bad[node]["reasons"]) for node in failed)
        reasons = next((each for each in found if each and not _followed(each)), reasons)
    if not reasons:
        reasons = tuple(Reason(ReasonCode.NO_RESULT, node) for node in missing)
    # They come first: processes of other nodes failed because of them.
    reasons = tuple(dict.fromkeys((*reversed(deaths), *reasons)))
    aborted = not failed and not missing and bool(bad) and not abort_was_sent
    return ("aborted" if aborted else "failed"), reasons


def agent_deaths(
    nodes: Sequence[str], results: Results, rebooted: Collection[str], died: Collection[str]
) -> list[Reason]:
    """Return a reason for each node that has rebooted or whose agent has died.

    Args:
        nodes: of the gang, lead first.
        results: of the nodes that gave one; an agent that was started again says that one died.
        rebooted: nodes that were seen to have rebooted.
        died: nodes whose agent was seen to have died.
    """
    found = []
    for node in nodes:
        death = Reason(ReasonCode.AGENT_DIED, node)
        if node in rebooted:
            found.append(Reason(ReasonCode.NODE_REBOOTED, node))
        elif node in died or death in reasons_from_json(results.get(node, {}).get("reasons")):
            found.append(death)
    return found


def _disturbed(results: Results) -> tuple[Reason, ...]:
    return tuple(
        reason
        for _, document in sorted(results.items())
        for reason in reasons_from_json((document.get("disturbed") or {}).get("reasons"))
    )


def _followed(reasons: Sequence[Reason]) -> bool:
    """Return whether a rank ended because another one had."""
    return any(each.code is ReasonCode.EXCEPTION and LEFT in each.observed for each in reasons)


# --- what the processes of a failed repeat wrote last --------------------------------------


def log_tail(results: Results) -> str | None:
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


def process_error(results: Results) -> str | None:
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


def _worst_first(results: Results) -> list[tuple[str, Mapping[str, Any]]]:
    order = {"failed": 0, "aborted": 1}
    return sorted(results.items(), key=lambda pair: order.get(str(pair[1].get("status")), 2))
