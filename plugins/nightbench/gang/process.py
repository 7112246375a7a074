"""A running command on a node, as each kind of transport gives it, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nightbench.gang.errors import DamagedAnswer, NodeUnreachable, Place

FILE_TIMEOUT_S = 30.0
"""For an operation on a small file, and for an answer; uploads have their own."""

OnLine = Callable[[str], None]


class Reader(Protocol):
    """Output of a command."""

    async def readline(self) -> bytes:
        """Return the next line; empty at the end."""

    async def read(self) -> bytes:
        """Return all that follows."""

    async def readexactly(self, n: int, /) -> bytes:
        """Return so many bytes; raise `IncompleteReadError` if there are fewer."""


class Writer(Protocol):
    """Input of a command."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def write_eof(self) -> None:
        """End the input."""


class RemoteProcess(Protocol):
    """A command on a node."""

    @property
    def stdin(self) -> Writer:
        """Its input."""

    @property
    def stdout(self) -> Reader:
        """Its output."""

    @property
    def stderr(self) -> Reader:
        """Its error output."""

    @property
    def returncode(self) -> int | None:
        """Exit status, -n for a death by signal n; None where it is not known."""

    def is_closing(self) -> bool:
        """Return whether its stream has ended."""

    async def wait_closed(self) -> None:
        """Wait for its end."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True)
class Completed:
    """A command that ended on a node."""

    exit: int
    """Exit status; 128 + n for a death by signal n."""
    stdout: bytes
    stderr: bytes


async def read_lines(stream: Reader, on_line: OnLine | None) -> bytes:
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
    """Return the JSON object in a text; None where it holds something else."""
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
