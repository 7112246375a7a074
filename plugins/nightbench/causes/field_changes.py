"""Field changes of a node: compares two of its states, which are flat mappings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_NOT_THE_NODE = frozenset(
    {"schema", "id", "host", "taken_at", "build", "python", "packages", "code_digest"}
)
"""Fields of a fingerprint that are names, or software of a framework's environment."""
_NAMED_BY = ("index", "name", "device", "node")
"""Keys that identify the entries of a list."""
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
        """True where it hardly explains a fall."""
        if _LESS_IS_WORSE.search(self.field):
            return not _lower(self.since, self.before)
        return bool(_WEAK.search(self.field))

    @property
    def label(self) -> str:
        """`gpus.0.driver 550.1 -> 560.2`; without the node, since many may share it."""
        return f"{self.field} {self.before} -> {self.since}"


def flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return a fingerprint as fields and values; unknown values are left out."""
    return {
        name: value
        for name, value in _fields(document, prefix)
        if name.split(".")[0] not in _NOT_THE_NODE
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


def _fields(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _fields(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        if all(isinstance(each, Mapping) for each in value):
            for place, each in enumerate(value):
                key = next((str(each[k]) for k in _NAMED_BY if k in each), str(place))
                yield from _fields(each, f"{name}.{key}")
        else:
            yield name, ", ".join(map(str, value))
    elif value is not None:
        yield name, f"{value:g}" if isinstance(value, float) else str(value)


def _lower(one: str, other: str) -> bool:
    try:
        return float(one) < float(other)
    except ValueError:
        return True
