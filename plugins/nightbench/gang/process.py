"""A running command on a node, as each kind of transport gives it, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import asyncssh

from nightbench.gang.errors import DamagedAnswer, NodeUnreachable, Place
from nightbench.gang.pod_process import PodProcess

FILE_TIMEOUT_S = 30.0
"""For an operation on a small file, and for an answer; uploads have their own."""

OnLine = Callable[[str], None]

RemoteProcess = asyncssh.SSHClientProcess[bytes] | PodProcess
"""A command on a node; its `returncode` is -n for a death by signal n, None if not known."""


@dataclass(frozen=True)
class Completed:
    """A command that ended on a node."""

    exit: int
    """Exit status; 128 + n for a death by signal n."""
    stdout: bytes
    stderr: bytes


async def read_lines(
    stream: asyncssh.SSHReader[bytes] | asyncio.StreamReader, on_line: OnLine | None
) -> bytes:
    """Return an output; `on_line` is called with each of its lines."""
    collected = []
    while line := await stream.readline():
        collected.append(line)
        if on_line is not None:
            on_line(line.decode(errors="replace").rstrip())
    return b"".join(collected)


def exit_of(process: RemoteProcess) -> int:
    """Return the exit status; raise if the connection was lost before it arrived."""
    code = process.returncode
    if code is None:
        raise ConnectionResetError("the command's channel closed without an exit status")
    return code if code >= 0 else 128 - code


@contextlib.asynccontextmanager
async def time_limit(
    place: Place, drop: Callable[[], None], what: str, timeout_s: float | None
) -> AsyncIterator[None]:
    """Drop the connection to a node if an operation takes too long.

    Raises:
        NodeUnreachable: the operation took too long.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        drop()
        raise NodeUnreachable.of(place, f"no answer within {timeout_s:.0f} s to: {what}") from error


def as_document(line: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object in a text; None if it holds something else."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def no_document(place: Place, what: str, said: bytes) -> DamagedAnswer:
    """Return the error for an answer of a node that is no JSON object."""
    return DamagedAnswer.of(
        place,
        f"`{what}`: expected a JSON object; found {said[:80]!r}"
        + (f" and {len(said) - 80} more bytes" if len(said) > 80 else ""),
    )
