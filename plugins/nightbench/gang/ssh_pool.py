"""One SSH connection to each node for all gangs that an event loop steers.

A connection is shared by all callers with the same target, and closed when the last of them
closes it. Over it runs one long conversation with the node (`agent.py follow`), which answers in
one round trip what several file operations for each gang would read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import asyncssh

from nightbench.gang.errors import RemoteFailure
from nightbench.gang.ssh_connection import FILE_TIMEOUT_S, MARK
from nightbench.gang.ssh_target import SshTarget
from nightbench.gang.ssh_transport import SshTransport
from nightbench.gang.transport import remote_failure

_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[SshTarget, SharedTransport]]


@runtime_checkable
class Follows(Protocol):
    """A transport over which a node can be asked by a conversation that stays open."""

    async def follow(
        self, python: str, agent: str, request: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Ask `agent.py follow`; None where the agent there is too old to know it.

        Raises:
            NodeUnreachable: no answer.
            RemoteFailure: the node refuses; `DiskFull` where that is why.
        """


class SharedTransport(SshTransport):
    """A transport with several users.

    Args:
        target: address, user and keys.
        pool: the transports of this event loop; this one removes itself when it is closed.
    """

    def __init__(self, target: SshTarget, pool: dict[SshTarget, SharedTransport]) -> None:
        super().__init__(target)
        self._pool = pool
        self._followers: dict[tuple[str, str], _Follower] = {}
        self.users = 0

    async def follow(
        self, python: str, agent: str, request: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Ask the node; see `Follows`."""
        follower = self._followers.setdefault((python, agent), _Follower(self, python, agent))
        if not follower.known:
            return None
        answer = await self.guard("follow", lambda: follower.ask(request), FILE_TIMEOUT_S)
        if answer is not None and "error" in answer:
            raise remote_failure(self, "follow the job", str(answer["error"]).encode())
        return answer

    async def close(self) -> None:
        """Count one user less; the last one closes the connection."""
        self.users -= 1
        if self.users > 0:
            return
        if self._pool.get(self._target) is self:
            del self._pool[self._target]
        for follower in self._followers.values():
            follower.close()
        await super().close()


class _Follower:
    """One `agent.py follow` on a node; started at the first request, and again after its end."""

    def __init__(self, transport: SharedTransport, python: str, agent: str) -> None:
        self._transport = transport
        self._argv = [python, agent, "follow"]
        self._process: asyncssh.SSHClientProcess[bytes] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last_id = 0
        self.known = True
        """False once the agent there has shown that it does not know the verb."""

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """One request, one answer; None where the agent does not know the verb."""
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
        if not self.known:
            return None
        raise ConnectionResetError("the conversation ended without an answer")

    async def _read(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        """Hand each answer to the request that waits for it, until the conversation ends.

        Raises:
            RemoteFailure: the command ended by itself.
        """
        begun = False
        while line := await process.stdout.readline():
            if not begun:
                # Login scripts of some sites print before it, even what looks like an answer.
                begun = line.rstrip() == MARK.encode()
                continue
            try:
                document = json.loads(line)
            except ValueError:
                continue  # torn off by the end of the conversation
            waiting = self._waiting.get(document["id"])
            if waiting is not None and not waiting.done():
                waiting.set_result(document)
        said = (await process.stderr.read()).decode(errors="replace").strip()
        await process.wait_closed()
        if process.exit_status == 2 and "invalid choice" in said:
            self.known = False
        elif process.returncode is not None:
            raise RemoteFailure(
                self._transport.node,
                self._transport.address,
                f"`agent.py follow` ended (exit {process.returncode}): {said[-500:]}",
            )

    def close(self) -> None:
        """End the conversation."""
        if self._reading is not None:
            self._reading.cancel()
        if self._process is not None:
            self._process.close()


_POOLS = WeakKeyDictionary()


def shared(target: SshTarget) -> SharedTransport:
    """Return this event loop's transport to a target, with one user more."""
    pool = _POOLS.setdefault(asyncio.get_running_loop(), {})
    transport = pool.setdefault(target, SharedTransport(target, pool))
    transport.users += 1
    return transport
