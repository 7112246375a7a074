"""SSH connections that all gangs of an event loop share, one for each target.

The last user closes a connection. Over it runs one process on the node (`agent.py follow`) that
answers in one round trip what would take several file operations for each gang.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import asyncssh

from nightbench.gang.errors import RemoteFailure, remote_failure
from nightbench.gang.ssh_connection import FILE_TIMEOUT_S, MARK
from nightbench.gang.ssh_target import SshTarget
from nightbench.gang.ssh_transport import SshTransport

_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[SshTarget, SharedTransport]]


class SharedTransport(SshTransport):
    """A transport with several users.

    It removes itself from the pool of its event loop when it is closed.
    """

    def __init__(self, target: SshTarget, pool: dict[SshTarget, SharedTransport]) -> None:
        super().__init__(target)
        self._pool = pool
        self._channels: dict[tuple[str, str], _FollowChannel] = {}
        self.users = 0

    async def follow(self, python: str, agent: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of `agent.py follow` to a request.

        Raises:
            NodeUnreachable: no answer.
            RemoteFailure: the request failed on the node; `DiskFull` where its disk is full.
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
        if self._pool.get(self._target) is self:
            del self._pool[self._target]
        for channel in self._channels.values():
            channel.close()
        await super().close()


class _FollowChannel:
    """One `agent.py follow` on a node; started at the first request, and again after its end."""

    def __init__(self, transport: SharedTransport, python: str, agent: str) -> None:
        self._transport = transport
        self._argv = [python, agent, "follow"]
        self._process: asyncssh.SSHClientProcess[bytes] | None = None
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

    async def _read(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        """Hand each answer to the request that waits for it, until the process ends."""
        begun = False
        while line := await process.stdout.readline():
            if not begun:
                # Login scripts of some sites print before it, even what looks like an answer.
                begun = line.rstrip() == MARK.encode()
                continue
            try:
                document = json.loads(line)
            except ValueError:
                continue  # cut off by the end of the process
            waiting = self._waiting.get(document["id"])
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
        if self._process is not None:
            self._process.close()


_POOLS = WeakKeyDictionary()


def shared_transport(target: SshTarget) -> SharedTransport:
    """Return this event loop's transport to a target, and count one more user of it."""
    pool = _POOLS.setdefault(asyncio.get_running_loop(), {})
    transport = pool.setdefault(target, SharedTransport(target, pool))
    transport.users += 1
    return transport
