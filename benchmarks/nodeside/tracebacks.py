"""The last output of a failed process: exception and end of the traceback, without secrets."""

from __future__ import annotations

import os
import re
from typing import Mapping, NamedTuple

from nodeside.files import tail

READ_BYTES = 65536
"""Size of the end of a log that is searched for a traceback."""

LINES = 12
MESSAGE_LINES = 3
"""Maximum lines of a message after the line that names the exception."""

LONGEST_LINE = 300
"""Characters; a longer line is cut."""

_HEAD = "Traceback (most recent call last):"
_RANK_PREFIX = re.compile(r"\[rank\d+\]: ?")
"""Prefix of PyTorch before every line of an exception in a process group."""
_FRAME = re.compile(r'\s*File "(?P<path>[^"]+)", line (?P<line>\d+)')
_MARKS = re.compile(r"\s*[~^]+\Z")
"""Marks by which Python 3.11 underlines the failing part of a line."""
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::\s.*)?\Z")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<package>[^'.]+)")
_SECRET_NAME = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|APIKEY|\AAWS_|(?:TOKEN|KEY)S?(?:_|\d|\Z)|_PAT\Z",
    re.IGNORECASE,
)
_LOGIN_IN_URL = re.compile(r"(://)[^/@\s]+@")
_SHORTEST_SECRET = 6


class Failure(NamedTuple):
    """The end of what a process wrote."""

    exception: str | None
    """Its last uncaught exception with the place in the benchmarks' code, on one line; None if the
    log shows no traceback."""
    lines: str
    """The end of that traceback, or of the log without one; empty for an empty log."""


def read_failure(log: str, code: str, env: Mapping[str, str], packages: str = "") -> Failure:
    """Return what the end of a log says of the failure of its process.

    Args:
        log: path of the file that holds stdout and stderr of the process.
        code: folder of the benchmarks; paths below it are shortened.
        env: the environment of the process; values of variables that are named like secrets, and
            logins in URLs, are masked.
        packages: file below `code` that names the packages of the line, if it has one.
    """
    text = without_secrets(tail(log, READ_BYTES, READ_BYTES), env)
    plain = text.replace(code + os.sep, "").splitlines()
    written = [_RANK_PREFIX.sub("", line, count=1).rstrip() for line in plain]
    starts = [number for number, line in enumerate(written) if line == _HEAD]
    if not starts:
        return Failure(None, _shortened([line for line in written if line]))
    found = written[starts[-1] :]
    number = _exception_line(found)
    if number is None:
        return Failure(None, _shortened(found))
    place = _place(found[:number])
    exception = _cut(found[number]) + (" ({})".format(place) if place else "")
    missing = _NO_MODULE.match(found[number])
    own = missing and os.path.exists(os.path.join(code, missing.group("package")))
    if missing and not own and os.path.isfile(os.path.join(code, packages)):
        exception += "; the line's packages are listed in {}".format(packages)
    # Text that libraries print while the process ends would push the traceback out.
    return Failure(exception, _shortened(found[: number + 1 + MESSAGE_LINES]))


def without_secrets(text: str, env: Mapping[str, str]) -> str:
    """Return the text with the values of secret variables and logins in URLs masked."""
    secrets = {
        value
        for name, value in env.items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET
    }
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, "***")
    return without_logins(text)


def without_logins(text: str) -> str:
    """Return the text with logins in URLs masked."""
    return _LOGIN_IN_URL.sub(r"\1***@", text)


def _exception_line(traceback: list[str]) -> int | None:
    """Return the index of the line that names the exception: the first that is not indented."""
    for number, line in enumerate(traceback[1:], start=1):
        if line and not line.startswith(" ") and _EXCEPTION.match(line):
            return number
    return None


def _place(frames: list[str]) -> str:
    """Return `FILE, line N` of the innermost frame in the benchmarks' code, else the innermost."""
    found = [match for match in map(_FRAME.match, frames) if match]
    own = [match for match in found if not match.group("path").startswith(("/", "<"))]
    for match in (own or found)[-1:]:
        return "{}, line {}".format(match.group("path"), match.group("line"))
    return ""


def _shortened(lines: list[str]) -> str:
    if len(lines) > LINES:
        lines = [line for line in lines if not _MARKS.match(line)]
    return "\n".join(_cut(line) for line in lines[-LINES:])


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 3] + "..."
