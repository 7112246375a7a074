"""Status of a repeat from the results of all nodes, and the last output of its processes. Pure."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.core.model import (
    ClockOffset,
    Reason,
    ReasonCode,
    reasons_from_json,
    reasons_to_json,
)
from nightbench.core.sentences import STACK

Results = Mapping[str, Mapping[str, Any]]
"""Node -> its result.json."""

LEFT = "another rank has left the gang"
"""Text of a rank that ended because another one did (benchmarks/rendezvous.py)."""

STACK_HEAD = 5
"""Lines of a stack that locate a process: its source, the thread, the innermost calls."""

SHOWN = 3
"""Nodes whose failures are the reasons of a repeat; what the others say stays in their results."""


@dataclass(frozen=True)
class RepeatEnd:
    """How a repeat ended."""

    status: str
    """ok, disturbed, aborted or failed."""
    reasons: tuple[Reason, ...]
    deaths: tuple[Reason, ...]
    """Reasons of agents and nodes: faults of their nodes if the repeat failed."""
    log_tail: str | None
    """Stacks of hung processes and the log's end, of the first failed node that has some; and of
    other nodes' hung processes."""
    error: str | None
    """The error of the process that failed first, the last line of others', and who ended well."""

    def record(
        self,
        repeat: int,
        nodes: Iterable[str],
        results: Results,
        *,
        epoch: int,
        faults: Iterable[Reason],
        **known: Any,
    ) -> dict[str, Any]:
        """Return controller.json; `known` are `started_at`, `ended_at` and `clocks`."""
        return {
            "repeat": repeat,
            "status": self.status,
            "reasons": reasons_to_json(self.reasons),
            "log_tail": self.log_tail,
            "error": self.error,
            "epoch": epoch,
            "missing": [node for node in nodes if node not in results],
            "faults": reasons_to_json(faults),
            **known,
        }


def repeat_end(
    nodes: Sequence[str],
    results: Results,
    reasons: tuple[Reason, ...],
    *,
    clocks: Mapping[str, ClockOffset],
    rebooted: Collection[str],
    died: Collection[str],
    abort_was_sent: bool,
    counts_disturbance: bool,
) -> RepeatEnd:
    """Return how a repeat ended.

    Args:
        nodes: of the gang, lead first.
        results: of the nodes that gave one; an agent that was started again says that one died.
        reasons: why the controller ended the repeat; empty if it did not.
        clocks: offsets of the nodes' clocks, which show whose process failed first.
        rebooted: nodes that were seen to have rebooted.
        died: nodes whose agent was seen to have died.
        abort_was_sent: an aborted result is the controller's own doing.
        counts_disturbance: foreign work disturbs a repeat; otherwise it is only recorded.
    """
    missing = [node for node in nodes if node not in results]
    bad = {n: results[n] for n in nodes if n in results and results[n].get("status") != "ok"}
    deaths = tuple(_agent_deaths(nodes, results, rebooted, died))
    if not bad and not missing and not reasons:
        disturbed = _disturbed(results) if counts_disturbance else ()
        return RepeatEnd("disturbed" if disturbed else "ok", disturbed, deaths, None, None)
    ordered = _first_death_first(bad, reasons, clocks)
    failed = [node for node in ordered if bad[node].get("status") == "failed"]
    said = {node: reasons_from_json(bad[node].get("reasons")) for node in ordered}
    if {*reasons} <= {reason for node in failed for reason in said[node]}:
        # The first failure that the controller noticed may not be the first that happened.
        causes = [node for node in failed if not _has_left_gang(said[node])]
        shown = (causes or failed or ordered[:1])[:SHOWN]
        reasons = tuple(reason for node in shown for reason in said[node]) or reasons
    if not reasons:
        reasons = tuple(Reason(ReasonCode.NO_RESULT, node) for node in missing)
    # They come first: processes of other nodes failed because of them.
    reasons = tuple(dict.fromkeys((*reversed(deaths), *_unfinished_ranks(results), *reasons)))
    aborted = not failed and not missing and bool(bad) and not abort_was_sent
    status = "aborted" if aborted else "failed"
    in_order = {node: results[node] for node in (*ordered, *(n for n in results if n not in bad))}
    return RepeatEnd(status, reasons, deaths, _log_tail(in_order), _error(in_order))


def _agent_deaths(
    nodes: Sequence[str], results: Results, rebooted: Collection[str], died: Collection[str]
) -> list[Reason]:
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


def _unfinished_ranks(results: Results) -> list[Reason]:
    """Return a reason for a rank that was still in its window: alone it hangs or fails."""
    ended = {
        p["name"]: int(p["summary"]["window"]["steps"])
        for result in results.values()
        for p in _processes(result)
        if p.get("summary") and p["exit_code"] == 0
    }
    if not ended:
        return []
    first = min(ended, key=ended.__getitem__)
    after = f"{ended[first]} steps, as many as {first}, which ended properly"
    return [
        Reason(ReasonCode.STEPS_DIFFER, node, p["name"], after)
        for node, result in results.items()
        for p in _processes(result)
        if p.get("exit_code") != 0 and p.get("phase") == "window" and p["step"] >= ended[first]
    ][:1]


def _has_left_gang(reasons: Sequence[Reason]) -> bool:
    return any(each.code is ReasonCode.EXCEPTION and LEFT in each.observed for each in reasons)


# --- who failed first, and what it wrote last ------------------------------------------------


def _first_death_first(
    bad: Results, heard: Sequence[Reason], clocks: Mapping[str, ClockOffset]
) -> list[str]:
    """Return the nodes whose repeat is not ok: failed ones by the time of their first death.

    The times are on the controller's clock. Without them the node comes first that the controller
    heard of; one whose rank followed another comes after the others.
    """

    def key(node: str) -> tuple[bool, bool, float, bool]:
        result, clock = bad[node], clocks.get(node)
        said = reasons_from_json(result.get("reasons"))
        times = [p["failed_s"] for p in _processes(result) if p.get("failed_s") is not None]
        first_s = min(times) - clock.offset_s if times and clock is not None else math.inf
        unheard = not {*heard} & {*said}
        return result.get("status") != "failed", _has_left_gang(said), first_s, unheard

    return sorted(bad, key=key)


def _processes(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return result.get("processes") or ()


def _log_tail(results: Results) -> str | None:
    parts: list[str] = []
    others: list[str] = []
    for node, result in results.items():
        stacks = {p["name"]: str(p["stack"]) for p in _processes(result) if p.get("stack")}
        if parts:
            # The first rank may only wait for another rank: show some lines of each.
            heads = {name: text.splitlines()[:STACK_HEAD] for name, text in stacks.items()}
            others += ["\n".join([f"[{node} {x}{STACK}", *lines]) for x, lines in heads.items()]
        else:
            parts = [f"[{node} {name}{STACK}\n{text}" for name, text in stacks.items()]
            parts += [result["log_tail"]] if result.get("log_tail") else []
    return "\n".join([*parts, *others[:SHOWN]]) or None


def _error(results: Results) -> str | None:
    """Return the error of each process that its node blames; of all but the first a line."""
    found: list[str] = []
    well: list[str] = []
    for node, result in results.items():
        errors = {p.get("name"): p["error"] for p in _processes(result) if p.get("error")}
        well += [
            f"[{node} {p['name']}] ended properly after {p['summary']['window']['steps']} steps"
            for p in _processes(result)
            if p.get("summary") and p["exit_code"] == 0
        ]
        blamed = [reason.get("subject") for reason in result.get("reasons") or ()]
        name = next((name for name in (*blamed, *errors) if name in errors), None)
        if name is not None and not found:
            found.append(f"[{node} {name}]\n{errors[name]}")
        elif name is not None:
            found.append(f"after it [{node} {name}] {errors[name].splitlines()[-1]}")
    return "\n".join([*found[:SHOWN], *well[:SHOWN]]) if found else None
