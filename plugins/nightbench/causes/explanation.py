"""Finds the likeliest cause of a change, with evidence; groups changes of one cause. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from nightbench.causes import node_causes, software_causes
from nightbench.causes.facts import CauseFacts
from nightbench.causes.possible_cause import ENOUGH, PossibleCause, dropped_controls
from nightbench.core.model import Reason, ReasonCode
from nightbench.core.model.alerts import CauseEvidence, CauseKind
from nightbench.core.model.reasons import EXPLAINED_BY_THE_NEXT
from nightbench.core.sentences import CAUSE_LABELS, sentences

_ORDER = (
    CauseKind.THERMAL,
    CauseKind.DRIVER,
    CauseKind.NEIGHBOUR,
    CauseKind.NETWORK,
    CauseKind.NODE,
    CauseKind.FRAMEWORK_VERSION,
    CauseKind.ENVIRONMENT,
    CauseKind.BENCHMARK_CODE,
)
"""Order of causes of equal weight, the more specific first: heat explains a slow node."""

_OF_CHANGES = (
    node_causes.drivers,
    software_causes.framework_versions,
    software_causes.benchmark_code,
    software_causes.environments,
)

_OF_SPEED = (node_causes.heat, node_causes.neighbours, node_causes.slow_nodes, node_causes.networks)
"""Causes that change the speed, and no loss."""

PREFIX = 120
"""Leading characters of an error text that make two errors the same."""
_GENERIC_CODES = frozenset(
    {
        ReasonCode.AGENT_ERROR,
        ReasonCode.CODE_BROKEN,
        ReasonCode.CONTROLLER_ERROR,
        ReasonCode.ENVIRONMENT_UNAVAILABLE,
        ReasonCode.EXCEPTION,
        ReasonCode.NODE_ERROR,
        ReasonCode.REMOTE_FAILURE,
    }
)
"""Codes that cover many errors, which only their texts distinguish."""


@dataclass(frozen=True)
class Explanation:
    """The cause of a change."""

    kind: CauseKind
    sentence: str
    evidence: tuple[CauseEvidence, ...]
    suspect: str = ""
    """Key by which alerts are grouped: a node, a pair of versions, changed fields; the
    `failure_name` of an unexplained failure; empty: unknown."""


def explain(facts: CauseFacts) -> Explanation:
    """Return the likeliest cause of a change; `unexplained` if no cause weighs enough."""
    makers = _OF_CHANGES if facts.is_training else (*_OF_CHANGES, *_OF_SPEED)
    found = [cause for make in makers for cause in make(facts)]
    found.sort(key=lambda cause: (-cause.weight, _ORDER.index(cause.kind), cause.name))
    evidence = _evidence(facts, found)
    if not found or found[0].weight < ENOUGH:
        if facts.failure:
            failure = CauseEvidence(f"the case failed: {sentences(facts.failure).rstrip('.')}")
            evidence = (failure, *evidence)
        name = failure_name(facts.failure)
        return Explanation(CauseKind.UNEXPLAINED, _no_cause_text(found), evidence, name)
    first = found[0]
    sentence = first.sentence
    rivals = [s for s in found[1:] if s.kind is not first.kind and s.weight >= first.weight - 1]
    rivals = [s for s in rivals if s.weight >= ENOUGH]
    if rivals:
        sentence += f"; {CAUSE_LABELS[rivals[0].kind]} ({rivals[0].name}) is nearly as likely"
    sentence = f"{sentence[0].upper()}{sentence[1:]}."
    return Explanation(first.kind, sentence, evidence, first.name)


def failure_name(reasons: Sequence[Reason]) -> str:
    """Return a text that is equal for all cases with the same failure: codes, checks, errors."""
    names = []
    for reason in reasons:
        if reason.code is ReasonCode.CHECK_FAILED:
            names.append(f"{reason.code} {reason.subject}")
        elif reason.code in _GENERIC_CODES:
            text = re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "#", reason.observed)[:PREFIX]
            names.append(f"{reason.code} {text}")
        elif reason.code not in EXPLAINED_BY_THE_NEXT:
            names.append(str(reason.code))
    return ", ".join(dict.fromkeys(names))


def _evidence(facts: CauseFacts, found: list[PossibleCause]) -> tuple[CauseEvidence, ...]:
    evidence: list[CauseEvidence] = []
    for place, cause in enumerate(found):
        rival = None if place == 0 and cause.weight >= ENOUGH else cause.kind
        evidence += [CauseEvidence(text, False, rival) for text in cause.evidence_for]
        evidence += [CauseEvidence(text, True, rival) for text in cause.evidence_against]
    evidence += map(CauseEvidence, _unchanged(facts))
    return tuple(dict.fromkeys(evidence))


def _unchanged(facts: CauseFacts) -> list[str]:
    """Return which facts are the same on both sides of the change, and which are unknown."""
    good, bad = facts.last_good, facts.first_bad
    same, unknown = [], []
    pairs = {
        "the framework's version": (good and good.framework_version, bad.framework_version),
        "the benchmarks' code": (good and good.code_digest, bad.code_digest),
        "the definition of the work": (good and good.definition_digest, bad.definition_digest),
        "environment variables": (good and good.env, bad.env),
    }
    for name, (old, new) in pairs.items():
        if old in (None, "") or new in (None, ""):
            unknown.append(name)
        elif old == new:
            same.append(name)
    in_both = good.hardware.keys() & bad.hardware.keys() if good is not None else frozenset()
    if not in_both:
        unknown.append("hardware and drivers of the nodes")
    elif not node_causes.changed_fields(facts):
        same.append("hardware and drivers of the nodes")
    known = [c for c in facts.controls if c.nodes <= facts.nodes and c.dropped is not None]
    if facts.is_training:
        pass  # Control measurements show nothing about losses.
    elif not known:
        unknown.append("control measurements of the nodes")
    elif not dropped_controls(facts):
        same.append("control measurements of the nodes")
    texts = []
    if same:
        texts.append(f"unchanged: {', '.join(same)}")
    if unknown:
        texts.append(f"unknown: {', '.join(unknown)}")
    return texts


def _no_cause_text(found: list[PossibleCause]) -> str:
    if not found:
        return "No examined cause changed at that time."
    names = ", ".join(dict.fromkeys(f"{CAUSE_LABELS[s.kind]} ({s.name})" for s in found[:3]))
    return f"There is not enough evidence for {names}."


# --- groups: the same suspect on neighbouring nights of a cluster -------------------------------

APART = 1
"""Nights by which the changes of one cause may differ: series do not all notice at once."""


@dataclass(frozen=True)
class Member:
    """A change with its cause; `group` is empty until it is grouped."""

    alert_id: int
    cluster: str
    kind: CauseKind
    suspect: str
    night: date
    """The first bad one."""
    group: str = ""


def grouped(members: Iterable[Member], known: Iterable[Member] = ()) -> dict[int, str]:
    """Return the group of each change by alert_id; empty if it has no suspect.

    Args:
        members: changes without a group, in any order.
        known: grouped changes of earlier runs, whose groups are continued.
    """
    anchors: dict[tuple[str, CauseKind, str], dict[date, str]] = defaultdict(dict)
    for one in sorted(known, key=lambda m: (m.night, m.group)):
        if one.group:
            anchors[one.cluster, one.kind, one.suspect].setdefault(one.night, one.group)
    found: dict[int, str] = {}
    for one in sorted(members, key=lambda m: (m.night, m.alert_id)):
        if not one.suspect:
            found[one.alert_id] = ""
            continue
        nights = anchors[one.cluster, one.kind, one.suspect]
        near = [night for night in nights if abs((night - one.night).days) <= APART]
        if near:
            key = nights[min(near, key=lambda night: (abs((night - one.night).days), night))]
        else:
            key = f"{one.cluster}/{one.kind}/{one.suspect}/{one.night.isoformat()}"
            nights[one.night] = key
        found[one.alert_id] = key
    return found
