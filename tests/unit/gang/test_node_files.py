"""Files on a node: the program that serves them runs here, as a process of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nightbench.gang import node_files
from nightbench.gang.errors import RemoteFailure
from nightbench.gang.node_files import (
    AT_ONCE,
    BEGIN,
    MARK,
    MIN_BYTES_PER_S,
    PIECE_BYTES,
    READY,
    NodeFiles,
)
from nightbench.gang.process import Completed
from nightbench.gang.shipping import STALLED_S

CONTENT = os.urandom(AT_ONCE * PIECE_BYTES * 2 + 5)


class Local:
    """A process of this machine as `RemoteProcess`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.stdin: Any = process.stdin
        self.stdout: Any = process.stdout
        self.stderr: Any = process.stderr

    @property
    def returncode(self) -> int | None:
        return self.process.returncode

    def is_closing(self) -> bool:
        return self.returncode is not None

    async def wait_closed(self) -> None:
        await self.process.wait()

    def close(self) -> None:
        self.stdin.close()


class LocalFiles(NodeFiles):
    """Files of this machine; `limits` are those of the operations."""

    def __init__(self) -> None:
        super().__init__("n1", "here", "me", sys.executable)
        self.limits: list[float | None] = []
        self.started: list[Process] = []
        self.before: Callable[[str], None] = lambda do: None
        """Called before each request."""
        self.free = 1 << 40
        self.reach_s = 0.0

    async def reach(self) -> None:
        await asyncio.sleep(self.reach_s)

    async def start(self, argv: Sequence[str]) -> Local:
        words = ("sh", "-c", BEGIN, "sh", *argv)
        process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        self.started.append(process)
        return Local(process)

    @contextlib.asynccontextmanager
    async def guard(self, what: str, timeout_s: float | None) -> AsyncIterator[None]:
        self.limits.append(timeout_s)
        async with asyncio.timeout(20):
            yield

    def not_run(self, command: str, status: int | None, said: bytes) -> RemoteFailure:
        return RemoteFailure.of(self, f"{command}: {said!r}")

    async def run(self, argv: Sequence[str], *, timeout_s: float | None = None) -> Completed:
        process = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=PIPE)
        stdout, stderr = await process.communicate()
        return Completed(process.returncode or 0, stdout, stderr)

    async def free_space(self, path: str) -> tuple[int | None, str | None]:
        return self.free, None

    async def _ask(self, what: str, do: str, *words: Any, **more: Any) -> Any:
        self.before(do)
        return await super()._ask(what, do, *words, **more)

    @property
    def pid(self) -> int:
        """Process id of the program."""
        process: Any = self._program and self._program.process
        return int(process.process.pid)


def with_files(work: Callable[[LocalFiles], Awaitable[None]]) -> None:
    async def run() -> None:
        files = LocalFiles()
        try:
            async with asyncio.timeout(60):
                await work(files)
        finally:
            files.drop_program()
            for process in files.started:
                await process.communicate()

    asyncio.run(run())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return path


# --- names -----------------------------------------------------------------------------------


def test_a_folder_of_many_and_odd_names(tmp_path: Path) -> None:
    names = [f"{number:05d}-{'x' * 100}" for number in range(1000)]
    for name in (*names, "two\nlines", "漢字"):
        (tmp_path / name).touch()
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff")).touch()

    async def work(files: LocalFiles) -> None:
        assert await files.listdir(str(tmp_path)) == [*names, "two\nlines", "漢字", "\ufffd"]
        (tmp_path / "none").mkdir()
        assert await files.listdir(str(tmp_path / "none")) == []

    with_files(work)


@pytest.mark.parametrize(
    "path", ["/a\0b", "/\udcff", "/" + "x" * 300], ids=["NUL", "surrogate", "long"]
)
def test_a_path_that_no_file_can_have_is_refused(path: str) -> None:
    async def work(files: LocalFiles) -> None:
        assert await files.exists("/")
        pid = files.pid
        for operation in (files.exists, files.read, files.listdir, files.mkdir):
            with pytest.raises(RemoteFailure):
                await operation(path)
        assert files.pid == pid, "the program serves others, too"

    with_files(work)


def test_below_a_file_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def work(files: LocalFiles) -> None:
        below = str(tmp_path / "file" / "x")
        assert await files.listdir(below) == []
        assert await files.read(below) is None
        assert not await files.exists(below)

    with_files(work)


def test_what_cannot_be_looked_at_is_not_absent(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    async def work(files: LocalFiles) -> None:
        with pytest.raises(RemoteFailure, match="Too many levels of symbolic links"):
            await files.exists(str(tmp_path / "loop"))

    with_files(work)


# --- content ---------------------------------------------------------------------------------


def test_a_file_that_is_replaced_while_it_is_read(source: Path) -> None:
    asked: list[str] = []

    def replace(do: str) -> None:
        asked.append(do)
        if len(asked) > 1:
            (source.parent / "other").write_bytes(bytes(len(CONTENT)))
            (source.parent / "other").replace(source)

    async def work(files: LocalFiles) -> None:
        files.before = replace
        assert await files.read(str(source)) == CONTENT

    with_files(work)


def test_a_program_that_is_stopped_and_continued_loses_nothing(source: Path) -> None:
    async def work(files: LocalFiles) -> None:
        assert await files.exists("/")
        with (source.parent / "copy").open("wb") as copy:
            reading = asyncio.create_task(files.get_file(str(source), copy, len(CONTENT)))
            while not reading.done():
                os.kill(files.pid, signal.SIGSTOP)
                await asyncio.sleep(0.001)
                os.kill(files.pid, signal.SIGCONT)
                await asyncio.sleep(0)
            await reading
        assert (source.parent / "copy").read_bytes() == CONTENT

    with_files(work)


def test_a_file_that_is_shorter_than_expected_is_refused(source: Path) -> None:
    async def work(files: LocalFiles) -> None:
        for more in (1, AT_ONCE * PIECE_BYTES):
            with (
                (source.parent / "copy").open("wb") as copy,
                pytest.raises(RemoteFailure, match=f"has {len(CONTENT)} bytes; expected"),
            ):
                await files.get_file(str(source), copy, len(CONTENT) + more)

    with_files(work)


def test_the_answer_of_a_cancelled_request_is_not_taken_for_another(source: Path) -> None:
    async def work(files: LocalFiles) -> None:
        assert await files.exists("/")
        reading = asyncio.create_task(files.read(str(source)))
        await asyncio.sleep(0.001)
        reading.cancel()
        assert await files.listdir(str(source.parent)) == ["source"]

    with_files(work)


def test_a_program_that_is_killed_says_so_and_is_started_again() -> None:
    async def work(files: LocalFiles) -> None:
        assert await files.exists("/")
        os.kill(files.pid, signal.SIGKILL)
        with pytest.raises(EOFError, match=r"ended without an answer \(exit -9\)"):
            await files.exists("/")
        assert await files.exists("/")

    with_files(work)


# --- uploads ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, AT_ONCE * PIECE_BYTES + 1, len(CONTENT)])
def test_an_upload_is_whole_and_leaves_nothing_beside(source: Path, size: int) -> None:
    source.write_bytes(CONTENT[:size])

    async def work(files: LocalFiles) -> None:
        await files.put_file(source, str(source.parent / "there"), 0o755, "d" * 64)
        assert (source.parent / "there").read_bytes() == CONTENT[:size]
        assert (source.parent / "there").stat().st_mode & 0o777 == 0o755
        assert sorted(os.listdir(source.parent)) == ["source", "there"]

    with_files(work)


def test_an_upload_is_resumed_and_a_damaged_part_is_found(source: Path) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    there = source.parent / "there"
    part = source.parent / f".there.{digest[:12]}.part"

    async def work(files: LocalFiles) -> None:
        part.write_bytes(b"?" + CONTENT[1:-9])
        with pytest.raises(RemoteFailure, match="damaged"):
            await files.put_file(source, str(there), digest=digest)
        assert not part.exists()
        part.write_bytes(CONTENT[:-9])
        await files.put_file(source, str(there), digest=digest)
        assert there.read_bytes() == CONTENT

    with_files(work)


def test_a_source_that_has_become_empty_ends_its_upload(source: Path) -> None:
    def empty(do: str) -> None:
        if do == "size":
            source.write_bytes(b"")

    async def work(files: LocalFiles) -> None:
        files.before = empty
        with pytest.raises(RemoteFailure, match=f"0 of {len(CONTENT)} bytes were written"):
            await files.put_file(source, str(source.parent / "there"), digest="d" * 64)

    with_files(work)


def test_another_may_end_the_same_upload_on_a_disk_that_is_full_then(source: Path) -> None:
    there = source.parent / "there"

    def end(do: str) -> None:
        if do == "finish":
            (source.parent / f".there.{'d' * 12}.part").replace(there)

    async def work(files: LocalFiles) -> None:
        files.before, files.free = end, 0
        await files.put_file(source, str(there), digest="d" * 64)
        assert there.read_bytes() == CONTENT

    with_files(work)


def test_a_line_of_the_lowest_rate_is_fast_enough(source: Path) -> None:
    at_once_s = AT_ONCE * PIECE_BYTES / MIN_BYTES_PER_S
    assert at_once_s < node_files.FILE_TIMEOUT_S, "a small request waits for them"
    assert PIECE_BYTES / MIN_BYTES_PER_S < STALLED_S, "who waits for an upload sees it grow"

    async def work(files: LocalFiles) -> None:
        await files.put_file(source, str(source.parent / "there"))
        limits = [each for each in files.limits if each and each != node_files.FILE_TIMEOUT_S]
        full = len(CONTENT) // PIECE_BYTES
        assert sum(each >= at_once_s for each in limits) >= full

    with_files(work)


async def test_a_python_that_starts_slowly_is_named_and_not_the_file(tmp_path: Path) -> None:
    """`nightbench doctor` recognises it by `begin`."""

    class Slow(LocalFiles):
        @contextlib.asynccontextmanager
        async def guard(self, what: str, timeout_s: float | None) -> AsyncIterator[None]:
            try:
                async with asyncio.timeout(0.2):
                    yield
            except TimeoutError:
                raise RemoteFailure.of(self, f"no answer to: {what}") from None

        async def start(self, argv: Sequence[str]) -> Local:
            await asyncio.sleep(60)
            raise AssertionError

    with pytest.raises(RemoteFailure, match=f"no answer to: begin {sys.executable}"):
        await Slow().exists(str(tmp_path))


@pytest.mark.parametrize("answer", ["{}", '{"bytes": "x"}', '{"bytes": -1}', "[]", "x"])
async def test_a_damaged_answer_is_an_error_of_the_node(answer: str) -> None:
    class Damaged(LocalFiles):
        async def start(self, argv: Sequence[str]) -> Local:
            script = f"echo {MARK}; read l; echo {READY}; read l; echo '{answer}'"
            return await super().start(["sh", "-c", script])

    with pytest.raises(EOFError, match="ended without an answer"):
        await Damaged().exists("/")


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_transfer_that_fails_asks_for_nothing_more(source: Path, direction: str) -> None:
    """A later request would begin a program, over SSH also a connection, that nobody closes."""
    requests: list[str] = []

    def fail(do: str) -> None:
        requests.append(do)
        if len(requests) == 3:
            raise RemoteFailure("n1", "here", "lost")

    async def work(files: LocalFiles) -> None:
        assert await files.exists(str(source))
        files.before = fail
        files.reach_s = 0.05  # the other pieces are on their way
        there = source.parent / "there"
        with there.open("wb") as target:
            transfer = {
                "up": lambda: files.put_file(source, str(there)),
                "down": lambda: files.get_file(str(source), target, len(CONTENT)),
            }[direction]
            with pytest.raises(RemoteFailure, match="lost"):
                await transfer()
        files.drop_program()
        begun = len(files.started)
        await asyncio.sleep(0.3)
        assert len(files.started) == begun

    with_files(work)
