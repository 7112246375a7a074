"""Commands, conversations and the agent's answers on one node, whatever leads to it.

`SshTransport` leads to a machine over SSH, `PodTransport` into a pod over the API's exec stream.
All gangs of an event loop share transports; the last user closes one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from nightbench.gang.errors import RemoteFailure, remote_failure
from nightbench.gang.kubernetes_api import PodTarget
from nightbench.gang.node_files import MARK, NodeFiles
from nightbench.gang.process import (
    FILE_TIMEOUT_S,
    Completed,
    OnLine,
    RemoteProcess,
    as_document,
    exit_of,
    no_document,
    read_lines,
)
from nightbench.gang.ssh_target import SshTarget

SESSIONS = 7
"""Commands at once on a node: OpenSSH allows ten sessions over one connection (MaxSessions), and
files and conversations need some of them. A server that allows fewer gets further connections."""

NOISE_LINES = 50
"""Lines that a node's Python may print before its first answer: of a wrapper, or sitecustomize."""


Target = SshTarget | PodTarget
"""How a node is reached."""

Pool = dict[Target, "Transport"]


@dataclass
class Conversation:
    """A command that answers each line of its input with one line, within `answer_s`."""

    transport: Transport
    process: RemoteProcess
    answer_s: float

    async def ask(self, line: str) -> str:
        """Send one line; return the answer without its line end."""
        with contextlib.suppress(BrokenPipeError):  # it has ended: stderr holds the reason
            self.process.stdin.write(line.encode() + b"\n")
        return await self.read_line()

    async def ask_document(self, what: str, line: str) -> dict[str, Any]:
        """Send one line; return the JSON object that answers it, after what else is printed.

        Raises:
            DamagedAnswer: there is none within `NOISE_LINES` lines.
        """
        answer = await self.ask(line)
        first = answer
        for _ in range(NOISE_LINES):
            document = as_document(answer)
            if document is not None:
                return document
            answer = await self.read_line()
        raise no_document(self.transport, what, first.encode())

    async def read_line(self) -> str:
        """Return the next line of its output without its line end."""
        async with self.transport.guard("converse", self.answer_s):
            answer = await self.process.stdout.readline()
            if not answer:
                why = (await self.process.stderr.read()).decode(errors="replace").strip()
                raise RemoteFailure.of(self.transport, f"no answer: {why[-500:]}")
            return answer.decode(errors="replace").rstrip("\n")


class Transport(NodeFiles):
    """Commands and files on one node.

    Paths are the node's own and absolute. Every method raises a `NodeError`: `NodeUnreachable`
    when the node does not answer (the next call tries to connect again), `RemoteFailure` or
    `DiskFull` when the operation fails on the node. One with several users removes itself from the
    `pool` of its event loop when it is closed.
    """

    def __init__(self, target: Target, address: str, user: str, pool: Pool | None) -> None:
        super().__init__(target.node, address, user, target.python)
        self.users = 0
        self._key = target
        self._pool = {} if pool is None else pool
        self._channels: dict[tuple[str, str], _FollowChannel] = {}
        self._sessions = asyncio.Semaphore(SESSIONS)
        self._about: tuple[str, str] | None = None

    @abstractmethod
    async def disconnect(self) -> None:
        """Close the connection; processes on the node keep running."""

    async def run(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        on_stderr: OnLine | None = None,
        timeout_s: float | None = None,
    ) -> Completed:
        """Run a command without a shell. A status other than 0 is not an error here.

        `on_stderr` is called with each line of stderr.
        """
        async with (
            self.guard(f"run {argv[0]}", timeout_s),
            self._process(argv, env) as process,
        ):
            with contextlib.suppress(BrokenPipeError):
                # A short command may end before its input is sent.
                process.stdin.write(stdin)
                process.stdin.write_eof()
            stdout, stderr = await asyncio.gather(
                process.stdout.read(), read_lines(process.stderr, on_stderr)
            )
            await process.wait_closed()
            status = exit_of(process)
            # Before the mark is what the login shell wrote.
            _, mark, output = stdout.partition(f"\n{MARK}\n".encode())
            if not mark:
                raise self.not_run(argv[0], status, stdout + stderr)
            return Completed(status, output, stderr)

    @contextlib.asynccontextmanager
    async def converse(
        self, argv: Sequence[str], answer_s: float = FILE_TIMEOUT_S
    ) -> AsyncIterator[Conversation]:
        """Run a command that answers each line with a line; it ends with the context.

        Each answer may take `answer_s`.
        """
        async with self._process(argv, None) as process:
            async with self.guard(f"begin {argv[0]}", FILE_TIMEOUT_S):
                await self.begun(process, argv[0])
            yield Conversation(self, process, answer_s)

    @contextlib.asynccontextmanager
    async def _process(
        self, argv: Sequence[str], env: Mapping[str, str] | None
    ) -> AsyncIterator[RemoteProcess]:
        # The environment goes into the command: sshd accepts only the variables that it lists.
        words = ["env", *(f"{k}={v}" for k, v in env.items()), *argv] if env else list(argv)
        async with self._sessions:
            process = await self.start(words)
            try:
                yield process
            finally:
                process.close()

    async def home(self) -> str:
        """Return the user's home folder."""
        return (await self._home_and_machine())[0]

    async def machine(self) -> str:
        """Return the node's machine as `uname -m` prints it: x86_64, aarch64."""
        return (await self._home_and_machine())[1]

    async def _home_and_machine(self) -> tuple[str, str]:
        """Return both; one command asks for them, once."""
        if self._about is None:
            ask = ["sh", "-c", 'printf "%s\\n%s" "$(uname -m)" "$HOME"']
            done = await self.run(ask, timeout_s=FILE_TIMEOUT_S)
            machine, _, home = (
                done.stdout.decode(errors="backslashreplace").rstrip("/").partition("\n")
            )
            is_text = home.isprintable() and home.encode() in done.stdout
            if done.exit != 0 or not home.startswith("/") or not is_text:
                raise RemoteFailure.of(
                    self,
                    f"$HOME is {home!r}, expected an absolute path in UTF-8; give "
                    "environments.root as an absolute path in the cluster's YAML",
                )
            self._about = home, machine
        return self._about

    async def follow(self, python: str, agent: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of `agent.py follow` to a request.

        Raises:
            NodeUnreachable: no answer.
            RemoteFailure: the request failed on the node; `DiskFull` if its disk is full.
        """
        channel = self._channels.setdefault((python, agent), _FollowChannel(self, python, agent))
        async with self.guard("follow", FILE_TIMEOUT_S):
            answer = await channel.ask(request)
        if "error" in answer:
            raise remote_failure(self, "follow the job", str(answer["error"]).encode())
        return answer

    async def close(self) -> None:
        """Remove one user; the last one closes the connection."""
        self.users -= 1
        if self.users > 0:
            return
        if self._pool.get(self._key) is self:
            del self._pool[self._key]
        for channel in self._channels.values():
            channel.close()
        self.drop_program()
        await self.disconnect()


_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool]
_POOLS = WeakKeyDictionary()


def shared_transport(target: Target) -> Transport:
    """Return this event loop's transport to a target, and count one more user of it."""
    pool = _POOLS.setdefault(asyncio.get_running_loop(), {})
    if target not in pool:
        pool[target] = target.transport(pool)
    pool[target].users += 1
    return pool[target]


class _FollowChannel:
    """One `agent.py follow` on a node; started at the first request, and again after its end."""

    def __init__(self, transport: Transport, python: str, agent: str) -> None:
        self._transport = transport
        self._argv = [python, agent, "follow"]
        self._process: RemoteProcess | None = None
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last_id = 0

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        async with self._opening:
            if self._reading is None or self._reading.done():
                self._process = await self._transport.start(self._argv)
                self._reading = asyncio.create_task(self._read(self._process))
        assert self._process is not None
        self._last_id += 1
        number = self._last_id
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            with contextlib.suppress(BrokenPipeError):  # it has ended: the reader raises why
                self._process.stdin.write(json.dumps({**request, "id": number}).encode() + b"\n")
            await asyncio.wait([answer, self._reading], return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                found: dict[str, Any] = answer.result()
                return found
            self._reading.result()
        finally:
            self._waiting.pop(number, None)
        raise ConnectionResetError("`agent.py follow` ended without an answer")

    async def _read(self, process: RemoteProcess) -> None:
        """Hand each answer to the request that waits for it, until the process ends."""
        begun = False
        while line := await process.stdout.readline():
            if not begun:
                # Login scripts of some sites print before it, even what looks like an answer.
                begun = line.rstrip() == MARK.encode()
                continue
            document = as_document(line)
            if document is None:
                continue  # cut off by the end of the process
            waiting = self._waiting.get(document.get("id", 0))
            if waiting is not None and not waiting.done():
                waiting.set_result(document)
        said = (await process.stderr.read()).decode(errors="replace").strip()
        await process.wait_closed()
        if process.returncode is not None:
            raise RemoteFailure.of(
                self._transport,
                f"`agent.py follow` ended (exit {process.returncode}): {said[-500:]}",
            )

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self.end()

    def end(self) -> None:
        """End the process; requests that wait for an answer fail, and the next starts another."""
        if self._process is not None:
            self._process.close()
