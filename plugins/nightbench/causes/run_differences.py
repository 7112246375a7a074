"""Lists the differences between two runs of a case. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

State = Mapping[str, Any]
"""A row of `case_states`: build, code, definition, and the nodes' fingerprints."""

_OF_A_MOMENT = frozenset({"schema", "id", "taken_at", "build", "code_digest"})
"""Parts of a fingerprint that are irrelevant, or that the run itself names."""

_SHOWN = 60
"""Characters of a value that are shown."""


@dataclass(frozen=True)
class RunDifference:
    """What two runs of a case did not have in common; as a text, a line for people."""

    field: str
    """The framework line, `build`, `benchmark code`, or the path of a field of a fingerprint."""
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
    line = bad.get("line") or "framework"
    for key, name in (("framework_version", line), ("build_id", "build")):
        if good.get(key) and bad.get(key) and good[key] != bad[key]:
            yield RunDifference(name, good[key], bad[key])
    for key, name in (
        ("definition_digest", "definition of the case (workload or protocol)"),
        ("code_digest", "benchmark code"),
    ):
        if good.get(key) and bad.get(key) and good[key] != bad[key]:
            yield RunDifference(name, good[key][:12], bad[key][:12])


def _of_nodes(good: Any, bad: Any) -> Iterator[RunDifference]:
    if not isinstance(good, dict) or not isinstance(bad, dict):
        return
    if set(good) != set(bad):
        yield RunDifference("nodes", ", ".join(sorted(good)), ", ".join(sorted(bad)))
    found: dict[tuple[str, str, str], list[str]] = {}
    for node in sorted(set(good) & set(bad)):
        old, new = (dict(_leaves(document)) for document in (good[node], bad[node]))
        for key in dict.fromkeys([*old, *new]):
            if old.get(key) != new.get(key):
                change = (key, _value(old, key), _value(new, key))
                found.setdefault(change, []).append(node)
    for (field, before, since), nodes in found.items():
        yield RunDifference(field, before, since, tuple(nodes))


def _leaves(document: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Return path -> value of all leaves; a list of plain values is one value."""
    if isinstance(document, dict):
        for key, value in document.items():
            if path or key not in _OF_A_MOMENT:
                yield from _leaves(value, (*path, str(key)))
    elif isinstance(document, list) and any(isinstance(entry, dict) for entry in document):
        for place, entry in enumerate(document):
            own = entry.get("name") or entry.get("uuid") if isinstance(entry, dict) else None
            yield from _leaves(entry, (*path, str(own or place)))
    else:
        yield " ".join(path), document


def _value(leaves: Mapping[str, Any], key: str) -> str:
    if key not in leaves or leaves[key] is None:
        return "nothing"
    value = leaves[key]
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
