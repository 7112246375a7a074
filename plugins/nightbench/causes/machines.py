"""Suspects among the nodes: slow by themselves, hot, changed, or not alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nightbench.causes.facts import Facts, NightFacts, PreflightFacts
from nightbench.causes.hardware import FieldChange, changes
from nightbench.causes.weighing import (
    PossibleCause,
    beside,
    controls_fell,
    count,
    fallen_controls,
    lost_by,
    may_explain,
    other_series,
    some,
    steady_controls,
)
from nightbench.core.model import ReasonCode
from nightbench.core.model.alerts import CauseKind
from nightbench.core.sentences import sentence

FOREIGN_WORK = frozenset({ReasonCode.FOREIGN_CPU, ReasonCode.FOREIGN_GPU})
DRIFTS = 0.05
"""So much slower steps become within a repeat where a device grows hot."""


def nodes(facts: Facts) -> Iterator[PossibleCause]:
    """A node that is slow by itself, or that the case did not run on before."""
    for make in (_faulty_node, _slow_node, _moved_case):
        suspect = make(facts)
        if suspect is not None:
            yield suspect


def _faulty_node(facts: Facts) -> PossibleCause | None:
    """A node that made the case fail."""
    if not facts.faults:
        return None
    names = sorted(facts.faults)
    told = [sentence(facts.faults[node]) for node in names]
    said = f"{_nodes(names)} made it fail"
    return PossibleCause(CauseKind.NODE, ", ".join(names), said, 5, [f"{said}: {some(told)}"], [])


def _slow_node(facts: Facts) -> PossibleCause | None:
    """A node that is slow by itself: by its controls, or by all that ran there and nowhere else."""
    fallen = fallen_controls(facts)
    alone = [node for node in sorted(facts.nodes) if _only_there(facts, node)]
    if fallen:
        by_itself = any(len(c.nodes) == 1 for c in fallen)
        # All slow nodes of the cluster, so that cases on one and on several are one group.
        slow = facts.controls if by_itself else fallen
        names = sorted({c.node for c in slow if c.fell and (len(c.nodes) == 1) == by_itself})
        verb = "is slow by itself" if len(names) == 1 else "are slow by themselves"
        said = f"{_nodes(names)} {verb}: control measurements fell too"
        suspect = PossibleCause(CauseKind.NODE, ", ".join(names), said, 0, [], [])
        suspect.speaks_for(4, controls_fell(fallen))
        if facts.change is not None and not may_explain(facts, fallen):
            suspect.speaks_against(
                2, f"they lost {lost_by(fallen):.0%} at most, the series {-facts.change:.0%}"
            )
    elif alone:
        names = alone
        said = f"only series that ran on {' and '.join(names)} fell"
        suspect = PossibleCause(CauseKind.NODE, ", ".join(names), said, 0, [], [])
        steady = steady_controls(facts)
        if steady:
            suspect.speaks_against(1, f"controls were steady: {some(c.says for c in steady)}")
    else:
        return None
    nodes = frozenset(node for name in names for node in name.split("+"))
    there = count(beside(facts, nodes))
    elsewhere = count(peer for peer in facts.peers if peer.nodes and not nodes & set(peer.nodes))
    if alone and set(alone) & nodes:
        told = (
            f"{other_series(there.fell)} there fell too, {elsewhere.steady} elsewhere were steady"
        )
        suspect.speaks_for(2, told)
    elif there.mostly_fell:
        suspect.speaks_for(1, f"{other_series(there.fell)} on the same nodes fell too")
    others = count(peer for peer in beside(facts, nodes) if peer.framework != facts.framework)
    if there.mostly_steady:
        suspect.speaks_against(2, f"{other_series(there.steady)} on the same nodes were steady")
    elif others.mostly_steady:
        # A slow node does not choose its frameworks.
        suspect.speaks_against(
            2, f"other frameworks on the same nodes were steady ({others.steady} series)"
        )
    return suspect


def _only_there(facts: Facts, node: str) -> bool:
    there = count(peer for peer in facts.peers if node in peer.nodes)
    elsewhere = count(peer for peer in facts.peers if peer.nodes and node not in peer.nodes)
    return there.mostly_fell and elsewhere.mostly_steady


def _moved_case(facts: Facts) -> PossibleCause | None:
    """The case ran on other nodes than before."""
    good, bad = facts.last_good, facts.first_bad
    if good is None or not good.nodes or not bad.nodes:
        return None
    new = sorted(set(bad.nodes) - {node for night in (good, *facts.good) for node in night.nodes})
    if not new:
        return None
    said = f"the case ran on {' and '.join(bad.nodes)}, before on {' and '.join(good.nodes)}"
    suspect = PossibleCause(CauseKind.NODE, ", ".join(new), said, 3, [said], [])
    there = count(beside(facts, frozenset(new)))
    if there.mostly_steady:
        suspect.speaks_against(1, f"{other_series(there.steady)} on the same nodes were steady")
    return suspect


def neighbours(facts: Facts) -> Iterator[PossibleCause]:
    """Others that worked on the case's nodes."""
    disturbed = [(n, r) for n in facts.bad for r in n.disturbed if r.code in FOREIGN_WORK]
    reasons = [f"{night.run_id}: {sentence(reason)}" for night, reason in disturbed]
    nodes = {reason.node for _, reason in disturbed if reason.node is not None}
    busy = [look for look in facts.looks_since if look.has_neighbours and look.node in facts.nodes]
    nodes |= {look.node for look in busy}
    if not nodes:
        return
    named = sorted(nodes)
    suspect = PossibleCause(
        CauseKind.NEIGHBOUR, ", ".join(named), f"others worked on {' and '.join(named)}", 0, [], []
    )
    if reasons:
        suspect.speaks_for(3, f"repeats were disturbed: {some(reasons)}")
        was, now = _foreign_share(facts.good), _foreign_share(facts.bad)
        if was and was * 2 >= now:
            suspect.speaks_against(
                2, f"they were before too: {was:.0%} of the repeats, {now:.0%} since"
            )
    if busy:
        who = some(
            f"{look.node}: {look.foreign_share:.0%} of the cores"
            + (f", {some(look.foreign)}" if look.foreign else "")
            for look in busy
        )
        suspect.speaks_for(2 if not reasons else 1, f"a preflight saw foreign work ({who})")
        before = {look.node for look in facts.looks_before if look.has_neighbours}
        if {look.node for look in busy} <= before:
            suspect.speaks_against(2, "the preflight before the change saw some too")
    if fallen_controls(facts):
        suspect.speaks_for(1, controls_fell(fallen_controls(facts)))
    there = count(beside(facts, frozenset(nodes)))
    if there.mostly_steady:
        suspect.speaks_against(1, f"{other_series(there.steady)} on the same nodes were steady")
    elif there.mostly_fell:
        suspect.speaks_for(1, f"{other_series(there.fell)} on the same nodes fell too")
    yield suspect


def heat(facts: Facts) -> Iterator[PossibleCause]:
    """Devices that were throttled or hot, and clocks that may go less fast than before."""
    slowed = [
        (reason.node or "", f"{night.run_id}: {sentence(reason)}")
        for night in facts.bad
        for reason in night.disturbed
        if reason.code is ReasonCode.DEVICE_THROTTLED
    ]
    looks = [look for look in facts.looks_since if look.node in facts.nodes]
    throttled = [(x.node, f"{x.node}: {w}") for x in looks for w in x.throttled]
    hot = [(x.node, f"{x.node}: {w}") for x in looks for w in x.hot]
    if slowed or throttled or hot:
        named = sorted({node for node, _ in (*slowed, *throttled, *hot)})
        suspect = PossibleCause(
            CauseKind.THERMAL, ", ".join(named), f"devices of {' and '.join(named)} ", 0, [], []
        )
        if slowed:
            suspect.speaks_for(4, f"throttled while measured: {some(s for _, s in slowed)}")
            suspect.sentence += "were slowed down by heat or power while the case was measured"
            before = {reason.code for night in facts.good for reason in night.disturbed}
            if ReasonCode.DEVICE_THROTTLED in before:
                suspect.speaks_against(2, "they were on nights before the change too")
        if throttled:
            suspect.speaks_for(3, f"throttled before the night: {some(s for _, s in throttled)}")
            if not slowed:
                suspect.sentence += "were throttled before anything ran"
        if hot:
            suspect.speaks_for(2, f"hot before the night: {some(s for _, s in hot)}")
            if not slowed and not throttled:
                suspect.sentence += "were hot before anything ran"
        seen = {x.node for x in facts.looks_before if x.throttled or x.hot}
        if (throttled or hot) and not slowed and set(named) <= seen:
            suspect.speaks_against(2, "the preflight before the change saw the same")
        _weigh_heat(facts, suspect)
        yield suspect
    clocks = [c for c in changed(facts) if c.is_clock]
    if clocks:
        yield _changed_fields(facts, clocks, CauseKind.THERMAL, 4)


def _weigh_heat(facts: Facts, suspect: PossibleCause) -> None:
    if fallen_controls(facts):
        suspect.speaks_for(1, controls_fell(fallen_controls(facts)))
    was, now = _median_drift(facts.good), _median_drift(facts.bad)
    if was is not None and now is not None and now - was > DRIFTS:
        suspect.speaks_for(
            1, f"steps became slower within a repeat ({now:+.1%}, before {was:+.1%}), as heat does"
        )
    there = count(beside(facts, frozenset(suspect.name.split(", "))))
    if there.mostly_steady:
        suspect.speaks_against(1, f"{other_series(there.steady)} on the same nodes were steady")


def drivers(facts: Facts) -> Iterator[PossibleCause]:
    """Hardware, firmware, drivers, kernel or links that changed."""
    fields = [c for c in changed(facts) if not c.is_clock]
    if fields:
        yield _changed_fields(facts, fields, CauseKind.DRIVER, 3)


def changed(facts: Facts) -> list[FieldChange]:
    """Fields of the case's nodes that changed, by fingerprints and by preflights."""
    steps = [changes(good.hardware, bad.hardware) for good, bad, _ in facts.turns]
    found = list(next((step for step in steps if step), ()))
    first: dict[str, PreflightFacts] = {}
    for look in sorted(facts.looks_since, key=lambda each: each.at):
        first.setdefault(look.node, look)
    seen = changes(
        {x.node: x.hardware for x in facts.looks_before if x.node in facts.nodes},
        {node: x.hardware for node, x in first.items()},
    )
    known = {(c.node, c.field) for c in found}
    return found + [c for c in seen if (c.node, c.field) not in known]


def _changed_fields(
    facts: Facts, fields: Sequence[FieldChange], kind: CauseKind, strong: int
) -> PossibleCause:
    told = [c for c in fields if not c.is_weak] or list(fields)
    says = sorted({c.says for c in told})
    nodes = frozenset(c.node for c in told)
    is_strong = any(not c.is_weak for c in fields)
    weight = strong if is_strong else 1
    where = " and ".join(sorted(nodes))
    suspect = PossibleCause(
        kind, "; ".join(says), f"on {where} changed: {some(says)}", weight, [], []
    )
    suspect.pro.append(f"changed between the last good night and the first bad: {some(says)}")
    fallen = [c for c in fallen_controls(facts) if c.nodes & nodes]
    if fallen:
        suspect.speaks_for(1, controls_fell(fallen))
    there = count(beside(facts, nodes))
    if there.mostly_fell:
        # What hardly explains a fall is no cause because others fell as well.
        fell = f"{other_series(there.fell)} on the same nodes fell too"
        suspect.speaks_for(2 if is_strong else 0, fell)
    elif there.mostly_steady:
        suspect.speaks_against(2, f"{other_series(there.steady)} on the same nodes were steady")
    return suspect


# --- words and reasons ---------------------------------------------------------------------


def _nodes(names: Sequence[str]) -> str:
    return f"{'node' if len(names) == 1 else 'nodes'} {' and '.join(names)}"


def _foreign_share(nights: Sequence[NightFacts]) -> float:
    repeats = sum(night.repeats for night in nights)
    return sum(night.disturbed_repeats for night in nights) / repeats if repeats else 0.0


def _median_drift(nights: Sequence[NightFacts]) -> float | None:
    drifts = sorted(night.drift for night in nights if night.drift is not None)
    return drifts[len(drifts) // 2] if drifts else None
