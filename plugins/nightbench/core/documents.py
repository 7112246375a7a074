"""Dataclasses as JSON documents and back: what the spool and the warehouse store of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


def to_document(value: Any) -> dict[str, Any]:
    """Return a dataclass as JSON has it: its fields, and those of dataclasses in them."""
    document: dict[str, Any] = _adapter(type(value)).dump_python(value, mode="json")
    return document


def from_document(kind: type[T], document: Mapping[str, Any]) -> T:
    """Return the inverse of `to_document`; further keys are ignored.

    Raises:
        ValueError: a field is missing, or is of another type.
    """
    found: T = _adapter(kind).validate_python(document)
    return found


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        # Slow to import, and most importers of a dataclass only make one.
        from pydantic import TypeAdapter

        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]
