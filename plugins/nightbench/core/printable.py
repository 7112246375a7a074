"""Text that terminals, pages and PostgreSQL take as it is."""

from __future__ import annotations

import unicodedata

_DIRECTION_CODES = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Embeddings, overrides and isolates of Unicode's bidirectional algorithm."""


def has_control_characters(text: str) -> bool:
    """Whether a text holds control characters or lone surrogates, line ends and tabs apart.

    PostgreSQL takes no NUL and no lone surrogate; terminals obey the others. Codes that turn the
    direction of writing turn the text beside them as well.
    """
    return any(
        (unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t") or c in _DIRECTION_CODES
        for c in text
    )


def escaped(text: str) -> str:
    r"""A text with each character that is not printable as its escape, as `\x1b`."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
