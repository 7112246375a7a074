"""Possible causes in the software: the framework, its environment, and the benchmarks' code."""

from collections.abc import Callable, Iterator

from nightbench.causes.facts import CauseFacts, NightFacts
from nightbench.causes.possible_cause import (
    PossibleCause,
    count,
    differ,
    other_frameworks,
    other_series,
    pair_of,
    shortened,
    weigh_controls,
    weigh_peers,
)
from nightbench.core.model.alerts import CauseKind

_ChangeBetween = Callable[[CauseFacts, NightFacts, NightFacts], PossibleCause | None]


def framework_versions(facts: CauseFacts) -> Iterator[PossibleCause]:
    """Yield a change of the framework's version, build or environment, where there is one."""
    yield from _first_at_boundary(facts, _framework_change)


def _first_at_boundary(facts: CauseFacts, change: _ChangeBetween) -> Iterator[PossibleCause]:
    """Yield the cause at the first boundary that has one, with what speaks against the boundary."""
    for good, bad, objection in facts.boundaries:
        cause = change(facts, good, bad)
        if cause is not None:
            if objection:
                cause.add_against(1, objection)
            yield cause
            return


def _framework_change(facts: CauseFacts, good: NightFacts, bad: NightFacts) -> PossibleCause | None:
    line = facts.framework
    old, new = good.framework_version, bad.framework_version
    libraries = [
        f"{name} {good.libraries[name]} -> {bad.libraries[name]}"
        for name in sorted(good.libraries.keys() & bad.libraries.keys())
        if name != line and good.libraries[name] != bad.libraries[name]
    ]
    if differ(old, new):
        name, weight = f"{line} {old} -> {new}", 3
        text = f"the framework {line} went from {old} to {new}"
    elif differ(good.build, bad.build):
        pair = pair_of(good.build, bad.build)
        name, weight = f"{line} build {pair}", 3
        text = f"the framework {line} came from another build ({pair})"
    elif libraries:
        name, weight = f"{line}: {', '.join(libraries)}", 2
        text = f"the framework {line} stayed, but its environment changed: {shortened(libraries)}"
    else:
        return None
    cause = PossibleCause(CauseKind.FRAMEWORK_VERSION, name, text)
    cause.add_for(weight, f"{text} with {bad.run_id}")
    if libraries and name.startswith(f"{line} "):
        cause.evidence_for.append(f"in its environment also: {shortened(libraries)}")
    own = count(
        peer
        for peer in facts.peers
        if peer.framework == line and (not new or peer.framework_version in (None, new))
    )
    others = count(other_frameworks(facts))
    weigh_peers(cause, own, f"of {line}")
    if others.mostly_steady:
        cause.add_for(2, f"other frameworks on the same nodes were steady ({others.steady} series)")
        cause.sentence += ", other frameworks on the same nodes were steady"
    elif others.mostly_fell:
        cause.add_against(3, f"other frameworks on the same nodes fell too ({others.fell} series)")
    weigh_controls(facts, cause, 2)
    if differ(good.code_digest, bad.code_digest):
        cause.add_against(0, "the benchmarks' code changed with the same night")
    return cause


def benchmark_code(facts: CauseFacts) -> Iterator[PossibleCause]:
    """Yield a change of the benchmarks' code or of the work's definition, where there is one."""
    yield from _first_at_boundary(facts, _code_change)


def _code_change(facts: CauseFacts, good: NightFacts, bad: NightFacts) -> PossibleCause | None:
    if differ(good.definition_digest, bad.definition_digest):
        pair = pair_of(good.definition_digest, bad.definition_digest)
        text = "the definition of the work changed"
        cause = PossibleCause(CauseKind.BENCHMARK_CODE, f"definition {pair}", text)
        cause.add_for(4, f"{text} ({pair})")
    elif differ(good.code_digest, bad.code_digest):
        pair = pair_of(good.code_digest, bad.code_digest)
        text = "the benchmarks' code changed"
        cause = PossibleCause(CauseKind.BENCHMARK_CODE, f"code {pair}", text)
        cause.add_for(2, f"{text} ({pair}) with {bad.run_id}")
        own = count(p for p in facts.peers if p.framework == facts.framework)
        others = count(other_frameworks(facts))
        if own.mostly_fell:
            cause.add_for(1, f"{other_series(own.fell)} of {facts.framework} fell too")
        if others.mostly_fell:
            cause.add_for(2, f"other frameworks fell too ({others.fell} series)")
            cause.sentence += " and series of several frameworks fell"
        elif others.mostly_steady:
            cause.add_against(
                1, f"other frameworks were steady with the same code ({others.steady} series)"
            )
    else:
        return None
    weigh_controls(facts, cause, 3)
    return cause
