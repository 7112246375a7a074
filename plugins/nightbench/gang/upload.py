"""Uploads that appear complete, and go on where they broke off."""

from __future__ import annotations

import asyncio
import functools
import logging
import posixpath
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh

from nightbench.gang.errors import RemoteFailure

if TYPE_CHECKING:
    from nightbench.gang.ssh import SshTransport

PIECE_BYTES = 4 << 20
"""Of an upload."""

SMALL_S = 30.0
"""For what takes no time that grows with the file."""

SLOWEST = 100_000
"""Bytes in a second; whatever is slower has stopped."""

log = logging.getLogger(__name__)


class Upload:
    """One file on its way to one node.

    Args:
        transport: the node.
        source: the file here.
        path: where it is to be.
        mode: its rights.
        digest: its sha256; with it an upload that broke off goes on.
    """

    def __init__(
        self, transport: SshTransport, source: Path, path: str, mode: int, digest: str | None
    ) -> None:
        self._transport = transport
        self._source = source
        self._path = path
        self._mode = mode
        self._digest = digest
        self._size = source.stat().st_size
        self._beside = beside_of(path) if digest is None else _part(path, digest)
        self._what = f"upload {path}"

    async def run(self) -> None:
        """Bring it.

        Raises:
            NodeError: as `Transport.put_file`.
        """
        begun = 0
        if self._digest is not None:
            begun = await self._transport.guard(self._what, self._begin, SMALL_S)
        if begun:
            log.info(
                "node %s: %s goes on at %.1f MB",
                self._transport.node,
                self._source.name,
                begun / 1e6,
            )
        try:
            await self._send_all(begun)
            if begun and not await self._is_whole():
                await self._transport.run(["rm", "-f", self._beside], timeout_s=SMALL_S)
                why = f"{self._path} was damaged on its way; try again"
                raise RemoteFailure(self._transport.node, self._transport.address, why)
            await self._transport.guard(self._what, self._end, SMALL_S, self._size)
        except RemoteFailure:
            # Where another controller brings the same content, the first takes it from under us.
            if self._digest is None or not await self._transport.exists(self._path):
                raise

    async def _begin(self) -> int:
        sftp = await self._transport.files()
        try:
            there = (await sftp.stat(self._beside)).size or 0
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return 0
        # The end may have holes: the pieces of one write travel at once.
        return max(0, min(there, self._size) - PIECE_BYTES)

    async def _send_all(self, offset: int) -> None:
        with self._source.open("rb") as file:
            file.seek(offset)
            while (piece := await asyncio.to_thread(file.read, PIECE_BYTES)) or not offset:
                limit_s = SMALL_S + len(piece) / SLOWEST
                send = functools.partial(self._send, offset, piece)
                await self._transport.guard(self._what, send, limit_s, self._size)
                offset += len(piece)
                if not piece:
                    break

    async def _send(self, offset: int, piece: bytes) -> None:
        sftp = await self._transport.files()
        # Made at its begin only: a later piece alone must never become the file.
        flags = asyncssh.FXF_WRITE | (asyncssh.FXF_CREAT if offset == 0 else 0)
        async with sftp.open(self._beside, flags, encoding=None) as file:
            await file.write(piece, offset)

    async def _end(self) -> None:
        sftp = await self._transport.files()
        await complete(sftp, self._beside, self._size)
        await sftp.chmod(self._beside, self._mode)
        await sftp.posix_rename(self._beside, self._path)

    async def _is_whole(self) -> bool:
        """Whether it has its sha256 (or the node has nothing to tell it by)."""
        done = await self._transport.run(["sha256sum", self._beside], timeout_s=600)
        return done.exit != 0 or done.stdout.split()[:1] == [str(self._digest).encode()]


async def complete(sftp: asyncssh.SFTPClient, path: str, size: int) -> None:
    """Make sure that all was written: not every server reports a full disk while it writes."""
    found = (await sftp.stat(path)).size
    if found != size:
        await sftp.remove(path)
        raise asyncssh.SFTPFailure(f"{found} of {size} bytes were written")


def _part(path: str, digest: str) -> str:
    """Where a file grows; one name for one content, so that another attempt goes on with it."""
    folder, name = posixpath.split(path)
    return posixpath.join(folder, f".{name}.{digest[:12]}.part")


def beside_of(path: str) -> str:
    """A name of its own beside a file, for what is to be renamed to it."""
    folder, name = posixpath.split(path)
    return posixpath.join(folder, f".{name}.{uuid.uuid4().hex[:8]}.part")
