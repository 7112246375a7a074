"""Ways in which one file of many is damaged: `DAMAGES` by name, each takes the path of the file.

Root reads a file whatever its mode is, so a link to itself stands for a file that nobody may open.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def _to(content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(content(path.read_bytes()))

    return damage


def _unreadable(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": _to(lambda content: b""),
    "nuls": _to(lambda content: b"\0" * len(content)),
    "truncated": _to(lambda content: content[: len(content) // 2]),
    "list": _to(lambda content: b"[]\n"),
    "number": _to(lambda content: b"7\n"),
    "latin-1": _to(lambda content: b"\xfc" + content),
    "deep": _to(lambda content: b"[" * 500_000),
    "unreadable": _unreadable,
    "folder": _folder,
}
NAMES = ("base copy", "a+b", "n" * 240, "\udcff", "two\nlines", "-x", "a:b")
"""Names that a file or folder may have, and that no suite, run or case has."""
