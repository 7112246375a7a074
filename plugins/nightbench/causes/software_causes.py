"""Possible causes in the software: framework, variables, code of the benchmarks."""

from collections.abc import Callable, Iterator
from functools import partial

from nightbench.causes.facts import CauseFacts, NightFacts
from nightbench.causes.field_changes import variables
from nightbench.causes.possible_cause import (
    PossibleCause,
    count,
    other_frameworks,
    pair_of,
    shortened,
    weigh_controls,
    weigh_peers,
)
from nightbench.core.model import differ
from nightbench.core.model.alerts import CauseKind

_ChangeBetween = Callable[[CauseFacts, NightFacts, NightFacts], PossibleCause | None]


def _first_at_boundary(change: _ChangeBetween, facts: CauseFacts) -> Iterator[PossibleCause]:
    """Yield the cause at the first boundary that has one, with evidence against this boundary."""
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
        text = f"the version of {line} changed from {old} to {new}"
    elif differ(good.build, bad.build):
        pair = pair_of(good.build, bad.build)
        name, weight = f"{line} build {pair}", 3
        text = f"the build of {line} changed ({pair})"
    elif differ(earlier := good.libraries.get("python"), later := bad.libraries.get("python")):
        name, weight = f"{line} Python {earlier} -> {later}", 3
        text = f"the Python version of {line} changed from {earlier} to {later}"
    elif libraries:
        name, weight = f"{line}: {', '.join(libraries)}", 2
        text = f"libraries in the environment of {line} changed: {shortened(libraries)}"
    else:
        return None
    cause = PossibleCause(CauseKind.FRAMEWORK_VERSION, name, text)
    cause.add_for(weight, f"{text} with {bad.run_id}")
    if libraries and name.startswith(f"{line} "):
        cause.evidence_for.append(f"its environment also changed: {shortened(libraries)}")
    own = count(
        peer
        for peer in facts.peers
        if peer.framework == line and (not new or peer.framework_version in (None, new))
    )
    others = count(other_frameworks(facts))
    weigh_peers(cause, own, f"of {line}")
    if facts.shared is not None and facts.shared.kind == "line":
        cause.add_for(2, facts.shared.sentence)
    elif facts.shared is not None and facts.shared.kind in ("node", "network", "cluster"):
        cause.add_against(3, facts.shared.sentence)
    if others.mostly_steady:
        cause.add_for(2, f"other frameworks on the same nodes were steady ({others.steady} series)")
        cause.sentence += ", other frameworks on the same nodes were steady"
    elif others.mostly_dropped:
        dropped = f"other frameworks on the same nodes dropped too ({others.dropped} series)"
        cause.add_against(3, dropped)
    weigh_controls(facts, cause, 2)
    if differ(good.code_digest, bad.code_digest):
        cause.add_against(0, "the benchmarks' code changed in the same night")
    return cause


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
        _weigh_frameworks(facts, cause, "code")
    else:
        return None
    weigh_controls(facts, cause, 3)
    return cause


def _environment_change(
    facts: CauseFacts, good: NightFacts, bad: NightFacts
) -> PossibleCause | None:
    changed = [
        f"{name} {before} -> {since}" for name, before, since in variables(good.env, bad.env)
    ]
    if not changed:
        return None
    text = f"environment variables changed ({shortened(changed)})"
    cause = PossibleCause(CauseKind.ENVIRONMENT, ", ".join(changed), text)
    cause.add_for(3, f"{text} with {bad.run_id}")
    _weigh_frameworks(facts, cause, "variables")
    weigh_controls(facts, cause, 3)
    return cause


def _weigh_frameworks(facts: CauseFacts, cause: PossibleCause, what: str) -> None:
    """Weigh what concerns all series by those of the same framework and of others."""
    own = count(p for p in facts.peers if p.framework == facts.framework)
    others = count(other_frameworks(facts))
    if own.mostly_dropped:
        cause.add_for(1, f"{own.dropped} other series of {facts.framework} dropped too")
    if others.mostly_dropped:
        cause.add_for(2, f"other frameworks dropped too ({others.dropped} series)")
        cause.sentence += " and series of several frameworks dropped"
    elif others.mostly_steady:
        steady = f"other frameworks were steady with the same {what} ({others.steady} series)"
        cause.add_against(1, steady)


framework_versions = partial(_first_at_boundary, _framework_change)
"""Yields a change of the framework's version, build, Python or environment, if there is one."""

environments = partial(_first_at_boundary, _environment_change)
"""Yields a change of the environment variables of suite and cluster, if there is one."""

benchmark_code = partial(_first_at_boundary, _code_change)
"""Yields a change of the benchmarks' code or of the work's definition, if there is one."""
