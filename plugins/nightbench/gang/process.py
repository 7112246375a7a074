"""A running command on a node, as each kind of transport gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

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
        """Exit status, -n for a death by signal n; None if it is not known."""

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
