"""The words of complaints: what was found, and what was expected."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Key: TypeAlias = tuple[str | int, ...]
"""Where something stands in a document: `("matrix", 1, "frameworks", 0)`."""


@dataclass(frozen=True)
class Complaint:
    """Something wrong in a file, found after its validation."""

    key: Key
    message: str
    others: tuple[Key, ...] = ()
    """Keys that are tried in turn if the file does not have `key`."""
    first: Key | None = None
    """Where the file says the same before."""
    is_missing: bool = False
    """The key is missing; the message says what is expected there."""


def unquoted(value: Any) -> str:
    """Return the remedy for numbers that a file has in quotes; empty for any other value."""
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else []
    if not parts or not all(part.isdecimal() for part in parts):
        return ""
    plain = parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"
    return f"; write it without quotes: {plain}"


def describe(value: Any) -> str:
    """Say what was found, with its type if that helps to see what is wrong."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"{str(value).lower()} (a switch)"
        case str():
            return f'"{value}"'
        case int() | float():
            return str(value)
        case Mapping():
            return "a mapping"
        case Sequence():
            return "a list"
    return repr(value)


def one_of(found: str, choices: Iterable[str]) -> str:
    """Complain of a value that is not among the choices, and guess which was meant."""
    known = sorted(choices)
    close = difflib.get_close_matches(found, known, n=1)
    guess = f' (did you mean "{close[0]}"?)' if close else ""
    return f'found "{found}"; expected {any_of(known)}{guess}'


def any_of(choices: Sequence[str]) -> str:
    """Write a set of choices: `one of a, b, c`, or the only one."""
    if not choices:
        return "nothing: there is none"
    return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
