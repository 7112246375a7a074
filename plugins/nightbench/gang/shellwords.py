"""Command lines that every login shell reads alike, and answers that its noise cannot spoil.

sshd hands a command to the user's login shell as one text. bash, dash, zsh and fish agree on
plain words, on single quotes around anything but a quote or a backslash, and on a backslash
before one of these two; they differ in nearly everything else (fish reads a backslash inside of
single quotes, zsh expands `=word`). Nothing else is used here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MARK = "nightbench: output follows"
"""Printed on a line of its own before a command's output; what stands before it is the noise of
login files (`.zshenv`, `config.fish`, `BASH_ENV`)."""

_PLAIN = re.compile(r"[A-Za-z0-9_/.,:+-]+\Z")
_PIECES = re.compile(r"['\\]|[^'\\]+")
_BEGIN = f'echo; echo "{MARK}"; exec "$@"'


def quote(word: str) -> str:
    """One word, so that bash, dash, zsh and fish read it as it is.

    Raises:
        ValueError: it holds a NUL character, which no command line can carry.
    """
    if "\0" in word:
        raise ValueError("a word of a command holds a NUL character")
    if _PLAIN.match(word):
        return word
    pieces = _PIECES.findall(word)
    return "".join(f"\\{p}" if p in "'\\" else f"'{p}'" for p in pieces) or "''"


def command_line(argv: Sequence[str]) -> str:
    """A command whose output begins after `MARK`."""
    return " ".join(quote(word) for word in ("sh", "-c", _BEGIN, "sh", *argv))


def after_mark(output: bytes) -> bytes | None:
    """What the command itself printed; None where the login shell never came to run it."""
    _, mark, after = output.partition(f"\n{MARK}\n".encode())
    return after if mark else None
