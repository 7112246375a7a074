"""Text that terminals, pages and PostgreSQL take as it is."""

import re
from collections.abc import Sequence

UNSTORED = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069"
"""Class of a regular expression: what `has_control_characters` finds, but for surrogates.

The last two ranges are embeddings, overrides and isolates of Unicode's bidirectional algorithm.
"""
_CONTROL = re.compile(rf"[{UNSTORED}\ud800-\udfff]")


def has_control_characters(text: str) -> bool:
    """Whether a text holds control characters or lone surrogates, line ends and tabs apart.

    PostgreSQL takes no NUL and no lone surrogate; terminals obey the others. Codes that turn the
    direction of writing also turn the text next to them.
    """
    return bool(_CONTROL.search(text))


def without_controls(text: str) -> str:
    """A text for a terminal, on several lines: what `has_control_characters` finds is escaped."""
    return _CONTROL.sub(lambda found: escaped(found[0]), text)


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
