"""Dataclasses as JSON documents and back: what the spool and the warehouse store of them."""

import logging
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from nightbench.core.printable import without_controls

log = logging.getLogger(__name__)
T = TypeVar("T")


def to_document(value: Any) -> dict[str, Any]:
    """Return a dataclass as JSON has it: its fields, and those of dataclasses in them."""
    document: dict[str, Any] = _adapter(type(value)).dump_python(value, mode="json")
    return document


def from_document(
    kind: type[T], document: Mapping[str, Any], extra: Literal["ignore", "forbid"] = "ignore"
) -> T:
    """Return the inverse of `to_document`.

    Raises:
        ValueError: a field is missing, or is of another type; with `forbid` also a further key.
    """
    try:
        found: T = _adapter(kind).validate_python(document, extra=extra)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return found


def stored_document(kind: type[T], document: Any, of: str) -> T | None:
    """Return what a row has of one of many items; None if it cannot be read, which is logged."""
    try:
        return from_document(kind, document)
    except ValueError as error:
        log.warning("%s cannot be read: %s", of, without_controls(str(error)))
        return None


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]
