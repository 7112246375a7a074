"""Compares two states of a node, as flat mappings, and two runs of a case. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.core.model import differ

_NOT_THE_NODE = frozenset(
    {"schema", "id", "host", "taken_at", "build", "python", "packages", "code_digest"}
)
"""Fields of a fingerprint that are names, or software of a framework's environment: its Python and
its packages are causes of their own (`software_causes.framework_versions`)."""
_NAMED_BY = ("index", "name", "device", "node")
"""Keys that identify the entries of a list."""
_OF_A_MOMENT = frozenset({"schema", "id", "taken_at", "build", "code_digest"})
"""Fields of a fingerprint that are irrelevant between two runs, or that the run itself names."""
_SHOWN = 60
"""Characters of a value that the difference of two runs shows."""
_CLOCK = re.compile(r"governor$|clock|power_limit")
_LESS_IS_WORSE = re.compile(r"clock|power_limit")
_WEAK = re.compile(
    r"boot$|^os$|memory_bytes$|topology|persistence|network\..*\.state$|uuid$"
    r"|network\.(veth|docker|br|virbr|tun|tap|wg|cni|cali|flannel)"
)
"""Fields that change on their own, or hardly affect speed."""


@dataclass(frozen=True)
class FieldChange:
    """A field of a node that differs before and since a change."""

    node: str
    field: str
    before: str
    since: str

    @property
    def is_clock(self) -> bool:
        """True for fields that limit clock rates."""
        return bool(_CLOCK.search(self.field))

    @property
    def is_weak(self) -> bool:
        """True if it hardly explains a drop."""
        if _LESS_IS_WORSE.search(self.field):
            return not _lower(self.since, self.before)
        return bool(_WEAK.search(self.field))

    @property
    def label(self) -> str:
        """`gpus.0.driver 550.1 -> 560.2`; without the node, since many may share it."""
        return f"{self.field} {self.before} -> {self.since}"


def flat(document: Mapping[str, Any]) -> dict[str, str]:
    """Return a fingerprint as fields and values; unknown values are left out."""
    return {
        ".".join(path): f"{value:g}" if isinstance(value, float) else _text(value)
        for path, value in _leaves(document, _NAMED_BY)
        if path[0] not in _NOT_THE_NODE and value is not None and value != []
    }


def changes(
    before: Mapping[str, Mapping[str, str]], since: Mapping[str, Mapping[str, str]]
) -> tuple[FieldChange, ...]:
    """Return fields that differ in both states of a node, and entries that lists gained or lost.

    Entries of a list (GPUs, network cards) are matched by name; a list that only one state has is
    not compared.
    """
    found = []
    for node in sorted(before.keys() & since.keys()):
        old, new = before[node], since[node]
        for name in sorted(old.keys() | new.keys()):
            if name in old and name in new:
                if old[name] != new[name]:
                    found.append(FieldChange(node, name, old[name], new[name]))
            elif name.endswith(".model") and _knows_list(name, old) and _knows_list(name, new):
                found.append(FieldChange(node, name, old.get(name, "none"), new.get(name, "none")))
    return tuple(found)


def _knows_list(name: str, state: Mapping[str, str]) -> bool:
    first = name.split(".")[0] + "."
    return any(other.startswith(first) for other in state)


def _leaves(
    value: Any, named_by: Sequence[str], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield path and value of all leaves; a list of plain values is one value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, named_by, (*path, str(key)))
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for place, each in enumerate(value):
            names = map(each.get, named_by) if isinstance(each, Mapping) else ()
            name = next((name for name in names if name not in (None, "")), place)
            if isinstance(each, Mapping) and "port" in each:
                name = f"{name}:{each['port']}"  # a network card has an entry for each port
            yield from _leaves(each, named_by, (*path, str(name)))
    else:
        yield path, value


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _lower(one: str, other: str) -> bool:
    try:
        return float(one) < float(other)
    except ValueError:
        return True


# --- two runs of a case ---------------------------------------------------------------------

State = Mapping[str, Any]
"""A row of `case_states`: build, code, variables, definition, and the nodes' fingerprints."""


@dataclass(frozen=True)
class RunDifference:
    """A difference between two runs of a case; as a text, a line for people."""

    field: str
    """The framework line, `build`, `benchmark code`, a variable, or a path in a fingerprint."""
    before: str
    since: str
    nodes: tuple[str, ...] = ()
    """Nodes whose field it is; empty for what belongs to the run."""

    def __str__(self) -> str:
        on = f" (on {', '.join(self.nodes)})" if self.nodes else ""
        return f"{self.field}: {self.before} -> {self.since}{on}"


def differences(good: State, bad: State) -> tuple[RunDifference, ...]:
    """Return the differences between two runs: software first, then nodes."""
    return tuple([*_of_runs(good, bad), *_of_nodes(good.get("nodes"), bad.get("nodes"))])


def _of_runs(good: State, bad: State) -> Iterator[RunDifference]:
    for key, name, shown in (
        ("framework_version", bad.get("line") or "framework", None),
        ("build_id", "build", None),
        ("definition_digest", "definition of the case (workload or protocol)", 12),
        ("code_digest", "benchmark code", 12),
    ):
        if differ(good.get(key), bad.get(key)):
            yield RunDifference(name, good[key][:shown], bad[key][:shown])
    for name, before, since in variables(good.get("env"), bad.get("env")):
        yield RunDifference(f"environment variable {name}", before, since)


def variables(
    before: Mapping[str, str] | None, since: Mapping[str, str] | None
) -> Iterator[tuple[str, str, str]]:
    """Yield name and values of environment variables that differ; none if one side is unknown."""
    if before is not None and since is not None:
        for name in sorted({*before, *since}):
            old, new = (env.get(name, "(not set)") for env in (before, since))
            if old != new:
                yield name, old, new


def _of_nodes(good: Any, bad: Any) -> Iterator[RunDifference]:
    if not isinstance(good, dict) or not isinstance(bad, dict):
        return
    if set(good) != set(bad):
        yield RunDifference("nodes", ", ".join(sorted(good)), ", ".join(sorted(bad)))
    found: dict[tuple[str, str, str], list[str]] = {}
    for node in sorted(set(good) & set(bad)):
        old, new = _of_node(good[node]), _of_node(bad[node])
        for key in dict.fromkeys([*old, *new]):
            if old.get(key) != new.get(key):
                change = (key, _value(old, key), _value(new, key))
                found.setdefault(change, []).append(node)
    for (field, before, since), nodes in found.items():
        yield RunDifference(field, before, since, tuple(nodes))


def _of_node(document: Any) -> dict[str, Any]:
    return {
        " ".join(path): value
        for path, value in _leaves(document, ("name", "uuid"))
        if path and path[0] not in _OF_A_MOMENT
    }


def _value(leaves: Mapping[str, Any], key: str) -> str:
    if leaves.get(key) is None:
        return "nothing"
    text = _text(leaves[key])
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
