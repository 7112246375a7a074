"""From facts to one cause, with all evidence: what speaks for it, against it, and what else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nightbench.causes import machines, software
from nightbench.causes.facts import Facts
from nightbench.causes.weighing import ENOUGH, PossibleCause, fallen_controls
from nightbench.core.model import Reason, ReasonCode
from nightbench.core.model.alerts import CauseKind
from nightbench.core.model.reasons import EXPLAINED_BY_THE_NEXT
from nightbench.core.sentences import sentences

_ORDER = (
    CauseKind.THERMAL,
    CauseKind.DRIVER,
    CauseKind.NEIGHBOUR,
    CauseKind.NODE,
    CauseKind.FRAMEWORK_VERSION,
    CauseKind.BENCHMARK_CODE,
)
"""Of two that weigh the same the one that says more comes first: heat explains a slow node."""

WORDS = 120
"""Characters of an error's words that have to be the same."""
_IN_WORDS = frozenset(
    {
        ReasonCode.AGENT_ERROR,
        ReasonCode.CONTROLLER_ERROR,
        ReasonCode.ENVIRONMENT_UNAVAILABLE,
        ReasonCode.NODE_ERROR,
        ReasonCode.PROSE,
        ReasonCode.REMOTE_FAILURE,
    }
)
"""Codes of many errors, which their words tell apart."""

_WORDS = {
    CauseKind.THERMAL: "heat or clocks",
    CauseKind.DRIVER: "driver, firmware or hardware",
    CauseKind.NEIGHBOUR: "a neighbour",
    CauseKind.NODE: "a slow node",
    CauseKind.FRAMEWORK_VERSION: "the framework's version",
    CauseKind.BENCHMARK_CODE: "the benchmarks' code",
}


@dataclass(frozen=True)
class Explanation:
    """What a change is put down to."""

    kind: CauseKind
    sentence: str
    evidence: tuple[str, ...]
    suspect: str = ""
    """Who or what it was: a node, a pair of versions, changed fields, of an unexplained failure
    its `failure_name`; empty: nobody."""


def suspects(facts: Facts) -> list[PossibleCause]:
    """All that may be the cause, the likeliest first."""
    found = [
        suspect
        for make in (
            machines.heat,
            machines.drivers,
            machines.neighbours,
            machines.nodes,
            software.framework_versions,
            software.benchmark_code,
        )
        for suspect in make(facts)
    ]
    return sorted(found, key=lambda s: (-s.weight, _ORDER.index(s.kind), s.name))


def explain(facts: Facts) -> Explanation:
    """Put a change down to the likeliest suspect; `unexplained` where nothing weighs enough."""
    found = suspects(facts)
    if facts.failure and (not found or found[0].weight < ENOUGH):
        told = (f"It failed: {sentences(facts.failure).rstrip('.')}.", *_evidence(facts, found))
        name = failure_name(facts.failure)
        return Explanation(CauseKind.UNEXPLAINED, _nothing(found), told, name)
    if not found or found[0].weight < ENOUGH:
        return Explanation(CauseKind.UNEXPLAINED, _nothing(found), _evidence(facts, found))
    first = found[0]
    sentence = first.sentence
    rivals = [s for s in found[1:] if s.kind is not first.kind and s.weight >= first.weight - 1]
    rivals = [s for s in rivals if s.weight >= ENOUGH]
    if rivals:
        sentence += f"; {_WORDS[rivals[0].kind]} ({rivals[0].name}) is nearly as likely"
    return Explanation(
        first.kind,
        f"{sentence[0].upper()}{sentence[1:]}.",
        _evidence(facts, found),
        first.name,
    )


def failure_name(reasons: Sequence[Reason]) -> str:
    """What is the same for every case that failed of the same: codes, checks, an error's words."""
    told = []
    for reason in reasons:
        if reason.code is ReasonCode.CHECK_FAILED:
            told.append(f"{reason.code} {reason.subject}")
        elif reason.code in _IN_WORDS:
            words = re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "#", reason.observed)[:WORDS]
            told.append(f"{reason.code} {words}")
        elif reason.code not in EXPLAINED_BY_THE_NEXT:
            told.append(str(reason.code))
    return ", ".join(dict.fromkeys(told))


def _evidence(facts: Facts, found: list[PossibleCause]) -> tuple[str, ...]:
    told: list[str] = []
    for place, suspect in enumerate(found):
        word = "" if place == 0 and suspect.weight >= ENOUGH else f"{_WORDS[suspect.kind]}: "
        told += [f"{word}{said}" for said in suspect.pro]
        told += [f"{word}against it: {said}" for said in suspect.con]
    told += _unchanged(facts)
    return tuple(f"{said[0].upper()}{said[1:]}." for said in dict.fromkeys(told) if said)


def _unchanged(facts: Facts) -> list[str]:
    """What was looked at and is as it was, or is not known: it excludes, or leaves open."""
    good, bad = facts.last_good, facts.first_bad
    same, unknown = [], []
    pairs = {
        "the framework's version": (
            good and good.framework_version,
            bad.framework_version,
        ),
        "the benchmarks' code": (good and good.code_digest, bad.code_digest),
        "the definition of the work": (good and good.definition_digest, bad.definition_digest),
    }
    for name, (old, new) in pairs.items():
        if not old or not new:
            unknown.append(name)
        elif old == new:
            same.append(name)
    of_both = good.hardware.keys() & bad.hardware.keys() if good is not None else frozenset()
    if not of_both:
        unknown.append("hardware and drivers of the nodes")
    elif not machines.changed(facts):
        same.append("hardware and drivers of the nodes")
    known = [c for c in facts.controls if c.nodes <= facts.nodes and c.fell is not None]
    if not known:
        unknown.append("control measurements of the nodes")
    elif not fallen_controls(facts):
        same.append("control measurements of the nodes")
    told = []
    if same:
        told.append(f"as before: {', '.join(same)}")
    if unknown:
        told.append(f"not known: {', '.join(unknown)}")
    return told


def _nothing(found: list[PossibleCause]) -> str:
    if not found:
        return "Nothing that was looked at changed with it."
    names = ", ".join(dict.fromkeys(f"{_WORDS[s.kind]} ({s.name})" for s in found[:3]))
    return f"Too little speaks for {names}."
