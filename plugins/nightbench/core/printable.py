"""Text that terminals, pages and PostgreSQL take as it is."""

import unicodedata
from collections.abc import Sequence

_DIRECTION_CODES = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Embeddings, overrides and isolates of Unicode's bidirectional algorithm."""


def has_control_characters(text: str) -> bool:
    """Whether a text holds control characters or lone surrogates, line ends and tabs apart.

    PostgreSQL takes no NUL and no lone surrogate; terminals obey the others. Codes that turn the
    direction of writing turn the text beside them as well.
    """
    return any(map(_is_control, text))


def without_controls(text: str) -> str:
    """A text for a terminal, on several lines: what `has_control_characters` finds is escaped."""
    return "".join(escaped(c) if _is_control(c) else c for c in text)


def _is_control(c: str) -> bool:
    is_control = unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"
    return is_control or c in _DIRECTION_CODES


def escaped(text: str) -> str:
    r"""A text with each character that is not printable as its escape, as `\x1b`."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def some_of(names: Sequence[str], most: int) -> str:
    """The first names of a list with commas between, and how many more it has."""
    first = ", ".join(names[:most])
    return f"{first} and {len(names) - most:,} more" if len(names) > most else first


def shown(value: str) -> str:
    """A text for a message: control characters by their codes, no more than a line of it."""
    text = value if len(value) <= 100 else value[:100] + "…"
    return f'"{escaped(text)}"'
