"""Queries of nvidia-smi, and the values in its answers."""

from __future__ import annotations

from nodeside.shell import run

FORMAT = "--format=csv,noheader,nounits"
_OLD_NAMES = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}
"""Names of fields before driver 535; one unknown name fails the whole query."""


def ask(query: str) -> tuple[int, str]:
    """Run one query; return the exit code and the output, or why there is no output."""
    code, text = run(["nvidia-smi", query, FORMAT], 30)
    return code, text + ": a GPU or the driver hangs" if code == 124 else text


def rows(query: str) -> list[list[str]]:
    """Return the answer to a query; no rows if nvidia-smi is absent or fails."""
    code, text = ask(query)
    return [row(line) for line in text.splitlines()] if code == 0 else []


def row(line: str) -> list[str]:
    """Return the fields of one line."""
    return [word.strip() for word in line.split(",")]


def known(field: str) -> str | None:
    """Return the name under which this driver knows a field of GPUs; None if it does not."""
    for name in (field, _OLD_NAMES.get(field)):
        if name and ask("--query-gpu=" + name)[0] == 0:
            return name
    return None


def named(field: str) -> str:
    """Return a field's name in this driver; the driver is asked if names differ by driver."""
    return (known(field) or field) if field in _OLD_NAMES else field


def word(text: str | None) -> str | None:
    """Return a value; None if the device does not report it ("[N/A]", "[Not Supported]")."""
    return None if text is None or text.startswith("[") or text in ("N/A", "") else text


def number(text: str | None) -> float | None:
    """Return a number; None if the device does not report it."""
    try:
        return float(text or "")
    except ValueError:
        return None
