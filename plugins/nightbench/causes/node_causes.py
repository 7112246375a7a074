"""Possible causes in the nodes: slow, hot or changed ones, and foreign work on them."""

from collections.abc import Iterator, Sequence

from nightbench.causes.facts import CauseFacts, NightFacts, PreflightFacts
from nightbench.causes.field_changes import FieldChange, changes
from nightbench.causes.possible_cause import (
    PossibleCause,
    controls_text,
    count,
    dropped_controls,
    explain_loss,
    largest_loss,
    peers_by_place,
    peers_on,
    shortened,
    steady_controls,
    weigh_peers,
)
from nightbench.core.model import ReasonCode
from nightbench.core.model.alerts import CauseKind
from nightbench.core.sentences import sentence

SAME_NODES = "on the same nodes"
FOREIGN_WORK = frozenset({ReasonCode.FOREIGN_CPU, ReasonCode.FOREIGN_GPU})
HEAT_DRIFT = 0.05
"""Relative slowdown of steps within a repeat that hints at a device that heats up."""


def slow_nodes(facts: CauseFacts) -> Iterator[PossibleCause]:
    """Yield nodes that failed, nodes that are slow, and nodes that are new to the case."""
    yield from filter(None, (make(facts) for make in (_faulty_node, _slow_node, _moved_case)))


def _faulty_node(facts: CauseFacts) -> PossibleCause | None:
    if not facts.faults:
        return None
    names = sorted(facts.faults)
    faults = shortened(sentence(facts.faults[node]) for node in names)
    text = f"{_nodes(names)} caused the failure"
    return PossibleCause(CauseKind.NODE, ", ".join(names), text, 5, [f"{text}: {faults}"])


def _slow_node(facts: CauseFacts) -> PossibleCause | None:
    """Return slow nodes: their controls dropped, or series dropped only there; None if none."""
    dropped = dropped_controls(facts)
    alone = [node for node in sorted(facts.nodes) if _dropped_only_there(facts, node)]
    if dropped:
        by_itself = any(len(c.nodes) == 1 for c in dropped)
        # All slow nodes of the cluster, so that cases on one and on several are one group.
        slow = facts.controls if by_itself else dropped
        names = sorted({c.node for c in slow if c.dropped and (len(c.nodes) == 1) == by_itself})
        verb = "is slow by itself" if len(names) == 1 else "are slow by themselves"
        text = f"{_nodes(names)} {verb}: control measurements dropped too"
        cause = PossibleCause(CauseKind.NODE, ", ".join(names), text)
        cause.add_for(4, controls_text(dropped))
        if facts.change is not None and not explain_loss(facts, dropped):
            loss = f"control measurements dropped by at most {largest_loss(dropped):.0%}"
            cause.add_against(2, f"{loss}, the series by {-facts.change:.0%}")
    elif alone or _shared_by(facts, "node"):
        names = alone or [_shared_by(facts, "node")]
        text = (
            f"only series that ran on {' and '.join(alone)} dropped"
            if alone
            else f"the series that ran on {names[0]} dropped together"
        )
        cause = PossibleCause(CauseKind.NODE, ", ".join(names), text)
        steady = steady_controls(facts)
        if steady:
            cause.add_against(
                1, f"control measurements did not drop: {shortened(c.label for c in steady)}"
            )
    else:
        return None
    nodes = frozenset(node for name in names for node in name.split("+"))
    if facts.shared is not None and _shared_by(facts, "node") in nodes:
        cause.add_for(2, facts.shared.sentence)
    there, elsewhere = peers_by_place(facts, nodes)
    if alone and set(alone) & nodes:
        text = f"{there.dropped} other series dropped there; {elsewhere.steady} elsewhere did not"
        cause.add_for(2, text)
    elif there.mostly_dropped:
        cause.add_for(1, f"{there.dropped} other series on the same nodes dropped too")
    others = count(peer for peer in peers_on(facts, nodes) if peer.framework != facts.framework)
    if there.mostly_steady:
        cause.add_against(2, f"{there.steady} other series on the same nodes were steady")
    elif others.mostly_steady:
        # A slow node slows all frameworks.
        cause.add_against(
            2, f"other frameworks on the same nodes were steady ({others.steady} series)"
        )
    return cause


def _shared_by(facts: CauseFacts, kind: str) -> str:
    """Return what the series that changed together have in common; empty for another kind."""
    return facts.shared.name if facts.shared is not None and facts.shared.kind == kind else ""


def networks(facts: CauseFacts) -> Iterator[PossibleCause]:
    """Yield the cluster's network if the series of several nodes dropped together."""
    if facts.shared is None or not _shared_by(facts, "network"):
        return
    name = facts.shared.name
    cause = PossibleCause(
        CauseKind.NETWORK,
        name,
        f"the network of {name} is slow: the series that need several nodes dropped together",
    )
    cause.add_for(4, facts.shared.sentence)
    between = [each for each in facts.controls if len(each.nodes) > 1 and each.dropped]
    if between:
        cause.add_for(2, controls_text(between))
    yield cause


def _dropped_only_there(facts: CauseFacts, node: str) -> bool:
    there, elsewhere = peers_by_place(facts, frozenset({node}))
    return there.mostly_dropped and elsewhere.mostly_steady


def _moved_case(facts: CauseFacts) -> PossibleCause | None:
    """Return nodes that the case ran on for the first time; None if there are none."""
    good, bad = facts.last_good, facts.first_bad
    if good is None or not good.nodes or not bad.nodes:
        return None
    new = sorted(set(bad.nodes) - {node for night in (good, *facts.good) for node in night.nodes})
    if not new:
        return None
    text = f"the case ran on {' and '.join(bad.nodes)}; before, on {' and '.join(good.nodes)}"
    cause = PossibleCause(CauseKind.NODE, ", ".join(new), text, 3, [text])
    weigh_peers(cause, count(peers_on(facts, frozenset(new))), SAME_NODES, dropped=None)
    return cause


def neighbours(facts: CauseFacts) -> Iterator[PossibleCause]:
    """Yield foreign work on the case's nodes, if there is any."""
    disturbed = [(n, r) for n in facts.bad for r in n.disturbed if r.code in FOREIGN_WORK]
    reasons = [f"{night.run_id}: {sentence(reason)}" for night, reason in disturbed]
    nodes = {reason.node for _, reason in disturbed if reason.node is not None}
    busy = [
        preflight
        for preflight in facts.preflights_since
        if preflight.has_neighbours and preflight.node in facts.nodes
    ]
    nodes |= {preflight.node for preflight in busy}
    if not nodes:
        return
    named = sorted(nodes)
    text = f"other processes ran on {' and '.join(named)}"
    cause = PossibleCause(CauseKind.NEIGHBOUR, ", ".join(named), text)
    if reasons:
        cause.add_for(3, f"repeats were disturbed: {shortened(reasons)}")
        was, now = _foreign_share(facts.good), _foreign_share(facts.bad)
        if was and was * 2 >= now:
            cause.add_against(2, f"disturbed repeats: {was:.0%} before, {now:.0%} after")
    if busy:
        who = shortened(
            f"{preflight.node}: {preflight.foreign_share:.0%} of the cores"
            + (f", {shortened(preflight.foreign)}" if preflight.foreign else "")
            for preflight in busy
        )
        cause.add_for(2 if not reasons else 1, f"a preflight found other processes ({who})")
        before = {
            preflight.node for preflight in facts.preflights_before if preflight.has_neighbours
        }
        if {preflight.node for preflight in busy} <= before:
            cause.add_against(2, "the preflight before the change also found other processes")
    if dropped_controls(facts):
        cause.add_for(1, controls_text(dropped_controls(facts)))
    weigh_peers(cause, count(peers_on(facts, frozenset(nodes))), SAME_NODES)
    yield cause


def heat(facts: CauseFacts) -> Iterator[PossibleCause]:
    """Yield throttled or hot devices, and lower clock limits."""
    slowed = [
        (reason.node or "", f"{night.run_id}: {sentence(reason)}")
        for night in facts.bad
        for reason in night.disturbed
        if reason.code is ReasonCode.DEVICE_THROTTLED
    ]
    preflights = [
        preflight for preflight in facts.preflights_since if preflight.node in facts.nodes
    ]
    throttled = [(x.node, f"{x.node}: {w}") for x in preflights for w in x.throttled]
    hot = [(x.node, f"{x.node}: {w}") for x in preflights for w in x.hot]
    by_heat = "slowed down by heat or power while the case was measured"
    kinds = (
        (slowed, 4, "throttled in repeats", by_heat),
        (throttled, 3, "throttled before the night", "throttled before a benchmark ran"),
        (hot, 2, "hot before the night", "hot before a benchmark ran"),
    )
    found = [kind for kind in kinds if kind[0]]
    if found:
        named = sorted({node for devices, *_ in found for node, _ in devices})
        text = f"devices of {' and '.join(named)} were {found[0][3]}"
        cause = PossibleCause(CauseKind.THERMAL, ", ".join(named), text)
        for devices, weight, words, _ in found:
            cause.add_for(weight, f"{words}: {shortened(said for _, said in devices)}")
        before = {reason.code for night in facts.good for reason in night.disturbed}
        if slowed and ReasonCode.DEVICE_THROTTLED in before:
            cause.add_against(2, "devices were also slowed down on nights before the change")
        seen = {x.node for x in facts.preflights_before if x.throttled or x.hot}
        if (throttled or hot) and not slowed and set(named) <= seen:
            cause.add_against(2, "earlier preflights also found such devices")
        _weigh_heat(facts, cause)
        yield cause
    clocks = [c for c in changed_fields(facts) if c.is_clock]
    if clocks:
        yield _field_cause(facts, clocks, CauseKind.THERMAL, 4)


def _weigh_heat(facts: CauseFacts, cause: PossibleCause) -> None:
    if dropped_controls(facts):
        cause.add_for(1, controls_text(dropped_controls(facts)))
    was, now = _median_drift(facts.good), _median_drift(facts.bad)
    if was is not None and now is not None and now - was > HEAT_DRIFT:
        cause.add_for(
            1, f"steps slow down within a repeat, as with heat ({now:+.1%}, before {was:+.1%})"
        )
    there = count(peers_on(facts, frozenset(cause.name.split(", "))))
    weigh_peers(cause, there, SAME_NODES, dropped=None)


def drivers(facts: CauseFacts) -> Iterator[PossibleCause]:
    """Yield changes of hardware, firmware, drivers, kernel or links, as one possible cause."""
    fields = [c for c in changed_fields(facts) if not c.is_clock]
    if fields:
        yield _field_cause(facts, fields, CauseKind.DRIVER, 3)


def changed_fields(facts: CauseFacts) -> list[FieldChange]:
    """Return fields of the case's nodes that changed, by fingerprints and preflights."""
    steps = [changes(good.hardware, bad.hardware) for good, bad, _ in facts.boundaries]
    found = list(next((step for step in steps if step), ()))
    first: dict[str, PreflightFacts] = {}
    for preflight in sorted(facts.preflights_since, key=lambda each: each.at):
        first.setdefault(preflight.node, preflight)
    seen = changes(
        {x.node: x.hardware for x in facts.preflights_before if x.node in facts.nodes},
        {node: x.hardware for node, x in first.items()},
    )
    known = {(c.node, c.field) for c in found}
    return found + [c for c in seen if (c.node, c.field) not in known]


def _field_cause(
    facts: CauseFacts, fields: Sequence[FieldChange], kind: CauseKind, strong: int
) -> PossibleCause:
    shown = [c for c in fields if not c.is_weak] or list(fields)
    labels = sorted({c.label for c in shown})
    nodes = frozenset(c.node for c in shown)
    is_strong = any(not c.is_weak for c in fields)
    weight = strong if is_strong else 1
    where = _nodes(sorted(nodes))
    cause = PossibleCause(kind, "; ".join(labels), f"{where} changed: {shortened(labels)}")
    cause.add_for(
        weight, f"changed between the last good night and the first bad: {shortened(labels)}"
    )
    dropped = [c for c in dropped_controls(facts) if c.nodes & nodes]
    if dropped:
        cause.add_for(1, controls_text(dropped))
    # A change that hardly explains a drop is no cause because others dropped as well.
    weight = 2 if is_strong else 0
    weigh_peers(cause, count(peers_on(facts, nodes)), SAME_NODES, weight, steady=2)
    return cause


# --- text and figures ---------------------------------------------------------------------


def _nodes(names: Sequence[str]) -> str:
    return f"{'node' if len(names) == 1 else 'nodes'} {' and '.join(names)}"


def _foreign_share(nights: Sequence[NightFacts]) -> float:
    repeats = sum(night.repeats for night in nights)
    return sum(night.disturbed_repeats for night in nights) / repeats if repeats else 0.0


def _median_drift(nights: Sequence[NightFacts]) -> float | None:
    drifts = sorted(night.drift for night in nights if night.drift is not None)
    return drifts[len(drifts) // 2] if drifts else None
