"""Files and the agent's answers over SSH; all gangs of an event loop share connections.

Uploads appear complete, and resume after an interruption. The last user closes a connection. Over
it runs one process on the node (`agent.py follow`) that answers in one round trip what would take
several file operations for each gang.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from pathlib import Path

import asyncssh

from nightbench.gang.conversation import FILE_TIMEOUT_S
from nightbench.gang.errors import RemoteFailure
from nightbench.gang.ssh_connection import SshConnection
from nightbench.gang.transport import MIN_BYTES_PER_S, unique_beside

PIECE_BYTES = 4 << 20
"""Bytes of an upload that are sent at once."""

log = logging.getLogger(__name__)


class SshTransport(SshConnection):
    """Commands and files on one node over SSH."""

    async def read(self, path: str) -> bytes | None:
        """Return the content of a file; None where there is none."""
        async with self.guard(f"read {path}", FILE_TIMEOUT_S):
            sftp = await self.files()
            try:
                async with sftp.open(path, "rb", encoding=None) as file:
                    content: bytes = await file.read()
                    return content
            except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
                return None

    async def piece(self, path: str, begin: int, size: int) -> bytes:
        """Return at most so many bytes of a file; none at its end."""
        async with self.guard(f"read {path}", FILE_TIMEOUT_S + PIECE_BYTES / MIN_BYTES_PER_S):
            sftp = await self.files()
            async with sftp.open(path, "rb", encoding=None) as file:
                piece: bytes = await file.read(min(PIECE_BYTES, size), begin)
                return piece

    async def write_atomic(self, path: str, content: bytes) -> None:
        """Make a file appear with all its content, replacing one that is there."""
        async with self.guard(f"write {path}", FILE_TIMEOUT_S):
            sftp = await self.files()
            beside = unique_beside(path)
            async with sftp.open(beside, "wb", encoding=None) as file:
                await file.write(content)
            await _check_complete(sftp, beside, len(content))
            await sftp.posix_rename(beside, path)

    async def put_file(
        self, source: Path, path: str, mode: int = 0o644, digest: str | None = None
    ) -> None:
        """Upload a file; it appears complete or not at all.

        With its sha256 as `digest` an interrupted upload is resumed.
        """
        await _Upload(self, source, path, mode, digest).run()

    async def mkdir(self, path: str) -> bool:
        """Make one folder, atomically; return False where it existed already."""
        async with self.guard(f"make {path}", FILE_TIMEOUT_S):
            sftp = await self.files()
            for is_last in (False, True):
                try:
                    await sftp.mkdir(path)
                except (asyncssh.SFTPFailure, asyncssh.SFTPFileAlreadyExists):
                    # Version 3 of SFTP has one code for every failure.
                    if await sftp.exists(path):
                        return False
                    if is_last:  # Before, it may have been there and gone since.
                        raise
                else:
                    break
            return True

    async def make_folders(self, path: str) -> None:
        """Make a folder and all above it."""
        async with self.guard(f"make {path}", FILE_TIMEOUT_S):
            await (await self.files()).makedirs(path, exist_ok=True)

    async def rename(self, source: str, destination: str) -> bool:
        """Rename; return False where the destination is a folder that is not empty."""
        async with self.guard(f"rename {source} to {destination}", FILE_TIMEOUT_S):
            sftp = await self.files()
            try:
                await sftp.posix_rename(source, destination)
            except (asyncssh.SFTPFailure, asyncssh.SFTPDirNotEmpty):
                if await sftp.isdir(destination):
                    return False
                raise
            return True

    async def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder."""
        async with self.guard(f"look at {path}", FILE_TIMEOUT_S):
            return await (await self.files()).exists(path)

    async def listdir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none where there is no such folder."""
        async with self.guard(f"list {path}", FILE_TIMEOUT_S):
            try:
                names = await (await self.files()).listdir(path)
            except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
                return []
            return sorted(name for name in map(str, names) if name not in (".", ".."))


class _Upload:
    """The upload of one file to one node; see `SshTransport.put_file`."""

    def __init__(
        self, transport: SshTransport, source: Path, path: str, mode: int, digest: str | None
    ) -> None:
        self._transport = transport
        self._source = source
        self._path = path
        self._mode = mode
        self._digest = digest
        self._size = source.stat().st_size
        self._beside = unique_beside(path) if digest is None else _part(path, digest)
        self._what = f"upload {path}"

    async def run(self) -> None:
        begun = 0
        if self._digest is not None:
            async with self._transport.guard(self._what, FILE_TIMEOUT_S):
                begun = await self._begin()
        if begun:
            log.info(
                "node %s: upload of %s resumes at %.1f MB",
                self._transport.node,
                self._source.name,
                begun / 1e6,
            )
        try:
            await self._send_all(begun)
            if begun and not await self._is_whole():
                await self._transport.run(["rm", "-f", self._beside], timeout_s=FILE_TIMEOUT_S)
                why = f"{self._path} was damaged in transit; try again"
                raise RemoteFailure.of(self._transport, why)
            async with self._transport.guard(self._what, FILE_TIMEOUT_S, self._size):
                await self._end()
        except RemoteFailure:
            # Another controller that uploads the same content may have renamed the part file.
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
                limit_s = FILE_TIMEOUT_S + len(piece) / MIN_BYTES_PER_S
                async with self._transport.guard(self._what, limit_s, self._size):
                    await self._send(offset, piece)
                offset += len(piece)
                if not piece:
                    break

    async def _send(self, offset: int, piece: bytes) -> None:
        sftp = await self._transport.files()
        # Created by the first piece only: a later piece alone must never become the file.
        flags = asyncssh.FXF_WRITE | (asyncssh.FXF_CREAT if offset == 0 else 0)
        async with sftp.open(self._beside, flags, encoding=None) as file:
            await file.write(piece, offset)

    async def _end(self) -> None:
        sftp = await self._transport.files()
        await _check_complete(sftp, self._beside, self._size)
        await sftp.chmod(self._beside, self._mode)
        await sftp.posix_rename(self._beside, self._path)

    async def _is_whole(self) -> bool:
        """Tell whether its sha256 is right (true where the node has no sha256sum)."""
        done = await self._transport.run(["sha256sum", self._beside], timeout_s=600)
        return done.exit != 0 or done.stdout.split()[:1] == [str(self._digest).encode()]


async def _check_complete(sftp: asyncssh.SFTPClient, path: str, size: int) -> None:
    """Check the size of what was written: not every server reports a full disk as it writes."""
    found = (await sftp.stat(path)).size
    if found != size:
        await sftp.remove(path)
        raise asyncssh.SFTPFailure(f"{found} of {size} bytes were written")


def _part(path: str, digest: str) -> str:
    """Return the name of the part file: one for one content, so that another attempt resumes it."""
    folder, name = posixpath.split(path)
    return posixpath.join(folder, f".{name}.{digest[:12]}.part")
