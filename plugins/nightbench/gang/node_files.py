"""Files on a node: read, written and uploaded by a small program that runs there.

The program is sent as text (`file_program.py`) and answers one request after another over one
stream, so that SSH and the API of Kubernetes need nothing but commands.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import json
import logging
import posixpath
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from nightbench.gang import file_program
from nightbench.gang.errors import DiskFull, PythonUnusable, RemoteFailure
from nightbench.gang.process import FILE_TIMEOUT_S, Completed, RemoteProcess, as_document

MIN_BYTES_PER_S = 100_000
"""A slower upload has stalled."""

PIECE_BYTES = 1 << 19
"""Bytes of a file in one request."""

MARK = "nightbench: output follows"
"""Printed on a line of its own before a command's output; text before it comes from login files
(`.zshenv`, `config.fish`, `BASH_ENV`)."""

BEGIN = f'echo; echo "{MARK}"; exec "$@"'

AT_ONCE = 4
"""Pieces of a file that travel at once. More would keep small requests waiting too long over a slow
line."""

ABSENT = (errno.ENOENT, errno.ENOTDIR)
"""Numbers of the errors for a path at which there is nothing."""

READY = "nightbench: files"
"""Printed by the program before its first answer."""

TOO_OLD = "import sys; sys.exit(0 if sys.version_info >= (3, 7) else 3)"

_RUN_FILES = "import base64,sys;exec(base64.b64decode(sys.stdin.buffer.readline()))"
"""Runs the program that is the first line of its input: a command line would be too long."""

log = logging.getLogger(__name__)
T = TypeVar("T")


class NodeFiles(ABC):
    """Files on one node, whatever leads to it."""

    def __init__(self, node: str, address: str, user: str, python: str) -> None:
        self.node = node
        self.address = address
        self.user = user
        """Name of the user on the node, for messages."""
        self._python = python
        self._program: _Program | None = None
        self._beginning = asyncio.Lock()

    @abstractmethod
    async def reach(self) -> None:
        """Connect if there is no connection; all who wait for it get its error."""

    @abstractmethod
    async def start(self, argv: Sequence[str]) -> RemoteProcess:
        """Start a command whose output begins after `MARK`; the caller closes it."""

    @abstractmethod
    def guard(self, what: str, timeout_s: float | None) -> AbstractAsyncContextManager[None]:
        """Turn the errors of an operation into a `NodeError`."""

    @abstractmethod
    def not_run(self, command: str, status: int | None, said: bytes) -> RemoteFailure:
        """Return the error for a command that was not even begun."""

    @abstractmethod
    async def run(self, argv: Sequence[str], *, timeout_s: float | None = None) -> Completed:
        """Run a command without a shell."""

    async def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        return await self._piece(path, 0, -1)  # at once: another may replace the file

    async def get_file(self, path: str, target: BinaryIO, size: int) -> None:
        """Append a file of so many bytes to an open one, piece by piece."""
        begin, write = 0, cast(Callable[[bytes], int], target.write)
        while begin < size:
            places = range(begin, min(size, begin + AT_ONCE * PIECE_BYTES), PIECE_BYTES)
            pieces = (self._piece(path, at, min(PIECE_BYTES, size - at)) for at in places)
            found = b"".join(piece or b"" for piece in await _together(pieces))
            begin += len(found)
            if begin < places.stop:
                raise RemoteFailure.of(self, f"{path} has {begin} bytes; expected {size}")
            await asyncio.to_thread(write, found)

    async def write_atomic(self, path: str, content: bytes) -> None:
        """Make a file appear with all its content, replacing one that is there."""
        what, beside = f"write {path}", _unique_beside(path)
        for begin in range(0, max(len(content), 1), PIECE_BYTES):
            piece = content[begin : begin + PIECE_BYTES]
            await self._write(what, beside, begin, piece, len(content))
        await self._finish(what, beside, path, None, len(content))

    async def put_file(
        self, source: Path, path: str, mode: int = 0o644, digest: str | None = None
    ) -> None:
        """Upload a file; it appears complete or not at all.

        With its sha256 as `digest` an interrupted upload is resumed.
        """
        what, size, begun = f"upload {path}", source.stat().st_size, 0
        beside = _unique_beside(path)
        if digest is not None:
            folder, name = posixpath.split(path)
            # One name for one content, so that another attempt resumes it.
            beside = posixpath.join(folder, f".{name}.{digest[:12]}.part")
            there = await self._ask(what, "size", beside, expected=ABSENT)
            # The end may have holes after a crash of the node.
            begun = 0 if there.failed else max(0, min(there.value, size) - AT_ONCE * PIECE_BYTES)
        if begun:
            said = "node %s: upload of %s resumes at %.1f MB"
            log.info(said, self.node, source.name, begun / 1e6)
        try:
            await self._send(what, source, beside, begun, size)
            if begun and not await self._is_whole(beside, str(digest)):
                await self.run(["rm", "-f", beside], timeout_s=FILE_TIMEOUT_S)
                raise RemoteFailure.of(self, f"{path} was damaged in transit; try again")
            await self._finish(what, beside, path, mode, size)
        except (RemoteFailure, DiskFull):
            # Another controller that uploads the same content may have renamed the part file.
            if digest is None or not await self.exists(path):
                raise

    async def _send(self, what: str, source: Path, beside: str, begin: int, size: int) -> None:
        with source.open("rb") as file:
            file.seek(begin)
            if begin == 0:  # this piece makes the file
                first = await asyncio.to_thread(file.read, PIECE_BYTES)
                await self._write(what, beside, 0, first, size)
            while block := await asyncio.to_thread(file.read, AT_ONCE * PIECE_BYTES):
                begin = file.tell() - len(block)
                writes = (
                    self._write(what, beside, begin + n, block[n : n + PIECE_BYTES], size)
                    for n in range(0, len(block), PIECE_BYTES)
                )
                await _together(writes)

    async def _is_whole(self, path: str, digest: str) -> bool:
        """Return whether a file's sha256 is right (true if the node has no sha256sum)."""
        done = await self.run(["sha256sum", path], timeout_s=600)
        return done.exit != 0 or done.stdout.split()[:1] == [digest.encode()]

    async def mkdir(self, path: str) -> bool:
        """Make one folder, atomically; return False if it existed already."""
        expected = (errno.EEXIST,)
        return not (await self._ask(f"make {path}", "mkdir", path, expected=expected)).failed

    async def make_folders(self, path: str) -> None:
        """Make a folder and all above it."""
        await self._ask(f"make {path}", "makedirs", path)

    async def rename(self, source: str, destination: str) -> bool:
        """Rename; return False if the destination is a folder that is not empty."""
        what, full = f"rename {source} to {destination}", (errno.ENOTEMPTY, errno.EEXIST)
        answer = await self._ask(what, "rename", source, expected=full, to=destination)
        return not answer.failed

    async def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder."""
        return not (await self._ask(f"look at {path}", "size", path, expected=ABSENT)).failed

    async def listdir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        answer = await self._ask(f"list {path}", "listdir", path, expected=ABSENT)
        return [name.decode(errors="replace") for name in answer.content.split(b"\0") if name]

    async def free_space(self, path: str) -> tuple[int | None, str | None]:
        """Return the free bytes at a path, and its nearest folder if that is not writable."""
        script = (
            'p=$(dirname "$1"); while [ ! -e "$p" ]; do p=$(dirname "$p"); done; '
            '[ ! -d "$p" ] || [ -w "$p" ] || echo "locked $p"; df -Pk "$p" | tail -n 1'
        )
        done = await self.run(["sh", "-c", script, "sh", path], timeout_s=FILE_TIMEOUT_S)
        lines = done.stdout.decode(errors="replace").splitlines()
        locked = next((x.removeprefix("locked ") for x in lines if x.startswith("locked ")), None)
        fields = lines[-1].split() if done.exit == 0 and lines else []
        free = int(fields[3]) * 1024 if len(fields) > 3 and fields[3].isdecimal() else None
        return free, locked

    async def begun(self, process: RemoteProcess, command: str, mark: str = MARK) -> None:
        """Read the output of a command up to a line."""
        noise: list[bytes] = []
        while (line := await process.stdout.readline()).rstrip() != mark.encode():
            if not line:
                said = b"".join(noise) + await process.stderr.read()
                raise self.not_run(command, process.returncode, said)
            noise.append(line)

    def drop_program(self) -> None:
        """End the program; the next operation starts another."""
        if self._program is not None:
            self._program.process.close()
            self._program = None

    async def _piece(self, path: str, begin: int, size: int) -> bytes | None:
        """Return a piece of a file; None if there is no file."""
        answer = await self._ask(
            f"read {path}", "read", path, expected=ABSENT, begin=begin, size=size
        )
        return None if answer.failed else answer.content

    async def _write(self, what: str, path: str, begin: int, piece: bytes, need: int) -> None:
        limit_s = FILE_TIMEOUT_S + AT_ONCE * len(piece) / MIN_BYTES_PER_S
        await self._ask(what, "write", path, limit_s, need=need, content=piece, begin=begin)

    async def _finish(self, what: str, beside: str, path: str, mode: int | None, size: int) -> None:
        await self._ask(what, "finish", beside, need=size, to=path, mode=mode, size=size)

    async def _ask(
        self,
        what: str,
        do: str,
        path: str,
        limit_s: float = FILE_TIMEOUT_S,
        expected: Sequence[int] = (),
        need: int = 0,
        content: bytes = b"",
        **more: Any,
    ) -> _Answer:
        """Return the answer to a request; raise errors unless their number is `expected`."""
        request = {"do": do, "path": path, "bytes": len(content), **more}
        async with self.guard(what, limit_s):
            await self.reach()
        program = await self._running()
        async with self.guard(what, limit_s):
            answer = await program.ask(request, content)
        if answer.number in (None, *expected):
            return answer
        raise await self._file_error(what, do, path, answer, need)

    async def _running(self) -> _Program:
        async with self._beginning, self.guard(f"begin {self._python}", FILE_TIMEOUT_S):
            if self._program is None or self._program.process.is_closing():
                self._program = await self._begin()
            return self._program

    async def _begin(self) -> _Program:
        process = await self.start([self._python, "-ISc", _RUN_FILES])
        text = base64.b64encode(Path(file_program.__file__).read_bytes())
        try:
            with contextlib.suppress(BrokenPipeError):  # it has ended: `begun` raises why
                process.stdin.write(text + b"\n")
            await self.begun(process, self._python)
            try:
                await self.begun(process, self._python, READY)
            except RemoteFailure:
                await require_python(self, self._python)
                raise
        except BaseException:
            process.close()
            raise
        return _Program(process)

    async def _file_error(
        self, what: str, do: str, path: str, answer: _Answer, need: int
    ) -> RemoteFailure | DiskFull:
        if do in ("read", "listdir", "size"):
            return RemoteFailure.of(self, f"could not {what}: {answer.value}")
        full = answer.number in (errno.ENOSPC, errno.EDQUOT)
        free, locked = await self.free_space(path)
        if locked is not None and not full:
            return RemoteFailure.of(
                self,
                f"could not {what}: {locked} cannot be written by user {self.user} "
                "(read-only, or no rights). Choose another environments.root in the "
                "cluster's YAML, or repair the folder",
            )
        if full or (answer.number == errno.EIO and free is not None and free <= max(need, 1 << 20)):
            return DiskFull.of(
                self,
                f"no room to {what}: {(free or 0) / 1e6:.1f} MB free. Make room there, or put "
                "environments.root on another disk (cluster YAML)",
            )
        return RemoteFailure.of(self, f"could not {what}: {answer.value}")


@dataclass(frozen=True)
class _Answer:
    value: Any
    """The requested content, or the error."""
    number: int | None
    """The number of the error."""
    content: bytes

    @property
    def failed(self) -> bool:
        return self.number is not None


class _Program:
    """The program on the node; it answers in the order of the requests."""

    def __init__(self, process: RemoteProcess) -> None:
        self.process = process
        self._turn = asyncio.Lock()

    async def ask(self, request: dict[str, Any], content: bytes) -> _Answer:
        """Return the answer to a request; others may be asked meanwhile."""
        self.process.stdin.write(json.dumps(request).encode() + b"\n" + content)
        reading = asyncio.create_task(self._read())
        reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        # The answer is read even if nobody waits for it: it must not pass for the next one.
        return await asyncio.shield(reading)

    async def _read(self) -> _Answer:
        async with self._turn:
            document = as_document(await self.process.stdout.readline()) or {}
            with contextlib.suppress(asyncio.IncompleteReadError):
                if isinstance(size := document.get("bytes"), int) and size >= 0:
                    piece = await self.process.stdout.readexactly(size)
                    value = document.get("value", document.get("error"))
                    return _Answer(value, document.get("errno"), piece)
            said = (await self.process.stderr.read()).decode(errors="replace").strip()
            await self.process.wait_closed()
        status = self.process.returncode
        kind = ConnectionResetError if status is None else EOFError
        raise kind(f"the file program ended without an answer (exit {status}): {said[-500:]}")


async def _together(requests: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all answers. The first error cancels the other requests."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in requests]
    except BaseExceptionGroup as error:
        raise error.exceptions[0] from None
    return [task.result() for task in tasks]


def _unique_beside(path: str) -> str:
    folder, name = posixpath.split(path)
    return posixpath.join(folder, f".{name}.{uuid.uuid4().hex[:8]}.part")


async def require_python(node: NodeFiles, python: str) -> None:
    """Check the interpreter that runs the agent.

    Raises:
        PythonUnusable: it is missing, does not start, or is older than 3.7.
    """
    found = await node.run([python, "-c", TOO_OLD], timeout_s=60)
    if found.exit == 0:
        return
    said = found.stderr.decode(errors="replace").strip().splitlines()
    why = "is older than 3.7" if found.exit == 3 else f"does not run: {said[-1] if said else '?'}"
    raise PythonUnusable.of(
        node,
        f"{python} {why}. The agent needs Python 3.7 or newer: set environments.python in the "
        "cluster's YAML",
    )
