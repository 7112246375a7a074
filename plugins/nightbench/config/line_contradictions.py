"""The contradictions in a line's file."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nightbench.core.complaints import Key, any_of, one_of
from nightbench.core.model import LINE_AXES, SEVERAL, FrameworkInfo, Strategy

ModelOf = Callable[[str, str], Path | None]
"""Finds the model file of a workload for an API."""


def contradictions(
    file: FrameworkInfo,
    folder: Path,
    kinds: Sequence[str],
    models: ModelOf,
    workloads: Collection[str],
) -> Iterator[tuple[Key, str]]:
    """Key and message of what in a line's file does not hold together."""
    if not kinds:
        yield ("devices",), "found no device kind with true; expected one that the line runs on"
        return
    yield from _wrong_axes(("axes",), file.axes, kinds)
    for name, variant in file.variants.items():
        yield from _wrong_axes(("variants", name, "axes"), variant.axes, [variant.device])
    strategies = file.axes.get("strategy", {})
    served = strategies.get("parameter_server", {})
    if (
        not all(isinstance(x, str) for x in served.values())
        and "parameter_server" not in file.roles
    ):
        said = "found true; expected also `roles.parameter_server`, which lists the processes"
        yield ("axes", "strategy", "parameter_server"), said
    answers = [each for x in strategies.values() for each in x.values()]
    if all(isinstance(answer, str) for answer in answers):
        key = ("axes", "strategy") if strategies else ("axes",)
        yield key, f"found no strategy with true; expected {any_of(sorted(Strategy))}"
    for strategy, roles in file.roles.items():
        if not any(role.measured for role in roles.values()):
            said = "found no role with measured: true; expected at least one that trains"
            yield ("roles", strategy), said
    for name, variant in file.variants.items():
        if variant.device not in kinds:
            said = f"found {variant.device}, which the line does not support; expected " + any_of(
                kinds
            )
            yield ("variants", name, "device"), said
    for kind, script in file.controls.items():
        if not (folder / script).is_file():
            said = f'found "{script}", which is not in this folder; expected a script'
            yield ("controls", kind), said
    for refused in file.refused_workloads:
        if models(refused, file.api) is None:
            said = f"found {refused}, which has no {file.api}.py; expected one with this file"
            yield ("refused_workloads", refused), said
    for number, combination in enumerate(file.refused_combinations):
        for name, values in combination.when.items():
            known = _known_values(file, name, workloads)
            for value in values:
                if known is not None and value not in known:
                    yield ("refused_combinations", number, "when", name), one_of(value, known)


def _wrong_axes(
    key: Key, written: Mapping[str, Mapping[str, Any]], kinds: Sequence[str]
) -> Iterator[tuple[Key, str]]:
    for axis, values in written.items():
        for value, support in values.items():
            if set(support) != set(kinds):
                found, expected = ", ".join(support), ", ".join(kinds)
                said = f"found an answer for {found}; expected one for each of {expected}"
                yield (*key, axis, value), said
    for name in written.get("strategy", {}):
        if name not in set(Strategy):
            yield (*key, "strategy", name), one_of(name, Strategy)


def _known_values(file: FrameworkInfo, key: str, workloads: Collection[str]) -> list[str] | None:
    """What a combination may name under a key; None if that is anything."""
    if key == "workload":
        return list(workloads)
    if key == "device":
        return list(file.devices)
    if key == "replicas":
        return [SEVERAL]
    if key not in LINE_AXES:
        return None
    default = LINE_AXES[key]
    return sorted({*file.axes.get(key, {}), *([str(default)] if default else [])})
