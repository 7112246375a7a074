"""Suspects among the software: the framework and its environment, and the benchmarks' own code."""

from __future__ import annotations

from collections.abc import Iterator

from nightbench.causes.facts import Facts, NightFacts
from nightbench.causes.weighing import (
    PossibleCause,
    count,
    differ,
    held_against_controls,
    other_frameworks,
    other_series,
    pair_of,
    some,
)
from nightbench.core.model.alerts import CauseKind


def framework_versions(facts: Facts) -> Iterator[PossibleCause]:
    """Another version, build or environment of the framework since the change."""
    for good, bad, but in facts.turns:
        suspect = _another_framework(facts, good, bad)
        if suspect is not None:
            if but:
                suspect.speaks_against(1, but)
            yield suspect
            return


def _another_framework(facts: Facts, good: NightFacts, bad: NightFacts) -> PossibleCause | None:
    line = facts.framework
    old, new = good.framework_version, bad.framework_version
    libraries = [
        f"{name} {good.libraries[name]} -> {bad.libraries[name]}"
        for name in sorted(good.libraries.keys() & bad.libraries.keys())
        if name != line and good.libraries[name] != bad.libraries[name]
    ]
    if old and new and old != new:
        name, weight = f"{line} {old} -> {new}", 3
        said = f"the framework {line} went from {old} to {new}"
    elif good.build and bad.build and good.build != bad.build:
        pair = pair_of(good.build, bad.build)
        name, weight = f"{line} build {pair}", 3
        said = f"the framework {line} came from another build ({pair})"
    elif libraries:
        name, weight = f"{line}: {', '.join(libraries)}", 2
        said = f"the framework {line} stayed, but its environment changed: {some(libraries)}"
    else:
        return None
    suspect = PossibleCause(
        CauseKind.FRAMEWORK_VERSION, name, said, weight, [f"{said} with {bad.run_id}"], []
    )
    if libraries and name.startswith(f"{line} "):
        suspect.pro.append(f"in its environment also: {some(libraries)}")
    own = count(
        peer
        for peer in facts.peers
        if peer.framework == line and (not new or peer.framework_version in (None, new))
    )
    others = count(other_frameworks(facts))
    if own.mostly_fell:
        suspect.speaks_for(1, f"{other_series(own.fell)} of {line} fell too")
    elif own.mostly_steady:
        suspect.speaks_against(1, f"{other_series(own.steady)} of {line} were steady")
    if others.mostly_steady:
        suspect.speaks_for(
            2, f"other frameworks on the same nodes were steady ({others.steady} series)"
        )
        suspect.sentence += ", other frameworks on the same nodes were steady"
    elif others.mostly_fell:
        suspect.speaks_against(
            3, f"other frameworks on the same nodes fell too ({others.fell} series)"
        )
    held_against_controls(facts, suspect, 2)
    if good.code_digest and bad.code_digest and good.code_digest != bad.code_digest:
        suspect.speaks_against(0, "the benchmarks' code changed with the same night")
    return suspect


def benchmark_code(facts: Facts) -> Iterator[PossibleCause]:
    """Other code of ours, or another definition of the work, since the change."""
    for good, bad, but in facts.turns:
        suspect = _other_code(facts, good, bad)
        if suspect is not None:
            if but:
                suspect.speaks_against(1, but)
            yield suspect
            return


def _other_code(facts: Facts, good: NightFacts, bad: NightFacts) -> PossibleCause | None:
    if differ(good.definition_digest, bad.definition_digest):
        pair = pair_of(good.definition_digest, bad.definition_digest)
        said = "the definition of the work changed"
        suspect = PossibleCause(CauseKind.BENCHMARK_CODE, f"definition {pair}", said, 4, [], [])
        suspect.pro.append(f"{said} ({pair})")
    elif differ(good.code_digest, bad.code_digest):
        pair = pair_of(good.code_digest, bad.code_digest)
        said = "the benchmarks' code changed"
        suspect = PossibleCause(CauseKind.BENCHMARK_CODE, f"code {pair}", said, 2, [], [])
        suspect.pro.append(f"{said} ({pair}) with {bad.run_id}")
        own = count(p for p in facts.peers if p.framework == facts.framework)
        others = count(other_frameworks(facts))
        if own.mostly_fell:
            suspect.speaks_for(1, f"{other_series(own.fell)} of {facts.framework} fell too")
        if others.mostly_fell:
            suspect.speaks_for(2, f"other frameworks fell too ({others.fell} series)")
            suspect.sentence += " and series of several frameworks fell"
        elif others.mostly_steady:
            suspect.speaks_against(
                1, f"other frameworks were steady with the same code ({others.steady} series)"
            )
    else:
        return None
    held_against_controls(facts, suspect, 3)
    return suspect
