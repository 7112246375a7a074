"""The interface through which the controller runs commands and accesses files on a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nightbench.gang.errors import DiskFull, RemoteFailure

OnLine = Callable[[str], None]


@dataclass(frozen=True)
class Completed:
    """A command that ended on a node."""

    exit: int
    """Exit status; 128 + n for a death by signal n."""
    stdout: bytes
    stderr: bytes


class Conversation(Protocol):
    """A command that answers each line of its input with one line."""

    async def ask(self, line: str) -> str:
        """Send one line; return the answer without its line end."""

    async def read_line(self) -> str:
        """Return the next line of its output without its line end."""


class Transport(Protocol):
    """Access to one node.

    Paths are the node's own and absolute. Every method raises a `NodeError`: `NodeUnreachable`
    when the node does not answer (the next call tries to connect again), `RemoteFailure` or
    `DiskFull` when the operation fails on the node.
    """

    node: str
    address: str
    """`host:port`, for messages."""

    async def run(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        on_stderr: OnLine | None = None,
        timeout_s: float | None = None,
    ) -> Completed:
        """Run a command without a shell. A status other than 0 is not an error here.

        Args:
            argv: the words of the command.
            stdin: its whole input.
            env: added to its environment.
            on_stderr: called with each line of stderr.
            timeout_s: time limit in seconds; None for none.
        """

    def converse(self, argv: Sequence[str]) -> AbstractAsyncContextManager[Conversation]:
        """Run a command that answers each line with a line; it ends with the context."""

    async def home(self) -> str:
        """Return the SSH user's home folder."""

    async def read(self, path: str) -> bytes | None:
        """Return the content of a file; None where there is none."""

    async def write_atomic(self, path: str, content: bytes) -> None:
        """Make a file appear with all its content, replacing one that is there."""

    async def put_file(
        self, source: Path, path: str, mode: int = 0o644, digest: str | None = None
    ) -> None:
        """Upload a file; it appears complete or not at all.

        Args:
            source: the file here.
            path: its path on the node.
            mode: its permissions.
            digest: its sha256; with it an interrupted upload is resumed.
        """

    async def mkdir(self, path: str) -> bool:
        """Make one folder, atomically; return False where it existed already."""

    async def make_folders(self, path: str) -> None:
        """Make a folder and all above it."""

    async def rename(self, source: str, destination: str) -> bool:
        """Rename; return False where the destination is a folder that is not empty."""

    async def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder."""

    async def listdir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none where there is no such folder."""

    async def close(self) -> None:
        """Close the connection; processes on the node keep running."""


async def expand(transport: Transport, path: str) -> str:
    """Return the path with a leading `~` replaced by the SSH user's home on the node."""
    if path == "~" or path.startswith("~/"):
        return await transport.home() + path[1:]
    return path


def remote_failure(transport: Transport, what: str, stderr: bytes) -> RemoteFailure | DiskFull:
    """Return the error for a command that failed, by what it wrote to stderr."""
    tail = stderr.decode(errors="replace").strip()[-1500:]
    if "No space left on device" in tail or "Disk quota exceeded" in tail:
        return DiskFull(
            transport.node,
            transport.address,
            f"no room to {what}. Make room there, or put environments.root on another disk "
            "(cluster YAML)",
        )
    return RemoteFailure(transport.node, transport.address, f"could not {what}: {tail}")
