"""Values of a suite that differ by scale: `devices: {full: [1x8, 4x8], smoke: [1x1, 2x1]}`."""

import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from nightbench.config.source import ConfigError, Document, read_document
from nightbench.core.complaints import Key, any_of, one_of
from nightbench.core.errors import UserError
from nightbench.core.model import Catalog

FULL = "full"
"""The scale of a suite that names none."""

_WHOLE = ("protocol", "timeouts", "matrix")
"""Keys whose value may differ by scale, in addition to all keys of a block of the matrix."""


def scales_of(catalog: Catalog) -> frozenset[str]:
    """The scales that the workloads have."""
    return frozenset(scale for each in catalog.workloads.values() for scale in each.scales)


def written_scales(document: Document, scales: Collection[str]) -> list[str]:
    """The scales that a suite's file has values for, its own first."""
    own = own_scale(document)
    named = {scale for _, value in _by_scale(document, scales) for scale in value}
    return [own, *sorted(named - {own})]


def own_scale(document: Document) -> str:
    """The scale that a suite's file names."""
    scale = document.data.get("scale", FULL)
    return scale if isinstance(scale, str) else FULL


def at_scale(path: Path, scale: str | None, scales: Collection[str]) -> Document:
    """Read a suite's file as it is at one scale; messages name its own lines.

    The scale overrides the file's own, also if a block names scales. A mapping has to consist of
    `scales` to be values by scale.

    Raises:
        ConfigError: the file cannot be read, it names a scale that is none, or a value has none for
            this scale.
        UserError: `scale` is none.
    """
    document = read_document(path)
    chosen = scale or own_scale(document)
    if chosen not in scales and document.data.get("scale") == chosen:
        raise ConfigError(document.path, [document.problem(("scale",), one_of(chosen, scales))])
    if scale is not None and chosen not in scales:
        raise UserError(f"scale: {one_of(chosen, scales)}")
    found = dict(_by_scale(document, scales))
    for key, value in found.items():
        if chosen not in value:
            said = f"found values for {any_of(sorted(value))}"
            document.complain(key, f"{said}; expected also one for the scale {chosen}")
    if document.problems:
        raise document.error
    document = read_document(path, dict.fromkeys(found, chosen))
    data = dict(document.data)
    if "scale" not in data or scale is not None:
        data["scale"] = chosen
    if scale is not None and isinstance(data.get("matrix"), list):
        data["matrix"] = [_without_scale(block) for block in data["matrix"]]
    return dataclasses.replace(document, data=data)


def _by_scale(document: Document, scales: Collection[str]) -> Iterator[tuple[Key, dict[str, Any]]]:
    def differs(value: Any) -> bool:
        return isinstance(value, dict) and bool(value) and set(value) <= set(scales)

    for name in _WHOLE:
        if differs(document.data.get(name)):
            yield (name,), document.data[name]
    blocks = document.data.get("matrix")
    for number, block in enumerate(blocks if isinstance(blocks, list) else []):
        for name in block if isinstance(block, dict) else []:
            if differs(block[name]):
                yield ("matrix", number, name), block[name]


def _without_scale(block: Any) -> Any:
    return {k: v for k, v in block.items() if k != "scale"} if isinstance(block, dict) else block
