"""Calls, polls and commands to all nodes of a gang at once; no node delays the others."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from nightbench.gang.decisions import NodeView
from nightbench.gang.errors import DamagedAnswer, NodeError, NodeUnreachable
from nightbench.gang.node_client import NodeClient
from nightbench.gang.progress import GangEvent, OnEvent

T = TypeVar("T")

ANSWER_S = 5.0
"""Time limit of a small call."""

RETRY_S = 0.5
"""Interval between attempts to reach a node."""

COMMAND_WAIT_S = 1.0
"""Time for which `CommandSender.send` waits; slower nodes get the command in the background."""

COMMAND_RETRY_S = 1.0
"""Interval between attempts to send a node a command."""

FAST_POLL_S = 0.25
"""Poll interval while a repeat is prepared or ends."""

SLOW_POLL_S = 1.0
"""Poll interval during measured steps: on a local node polling takes CPU time from them."""

POLLS_ON_NODE = 5
"""`agent.py follow` reads the job directory this often in one poll interval."""

CONTROLLER_PAUSE_S = 2.0
"""A delay of the controller's own event loop above this is not counted as nodes' silence."""

BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0)


async def call_each(
    clients: Iterable[NodeClient],
    call: Callable[[NodeClient], Awaitable[T]],
    limit_s: float = ANSWER_S,
) -> dict[str, T]:
    """Call all nodes at the same time.

    Returns:
        Node -> answer. A node that failed or did not answer in time is left out; its `view` holds
        the error.
    """

    async def one(client: NodeClient) -> T | NodeError:
        try:
            async with asyncio.timeout(limit_s):
                return await call(client)
        except TimeoutError:
            error: NodeError = NodeUnreachable.of(
                client.transport, f"no answer within {limit_s:g} s"
            )
        except NodeError as refused:
            error = refused
        if not isinstance(error, DamagedAnswer):  # the node itself answers
            client.note_error(error)
        return error

    called = list(clients)
    answers = await asyncio.gather(*(one(client) for client in called))
    return {
        client.name: answer
        for client, answer in zip(called, answers, strict=True)
        if not isinstance(answer, NodeError)
    }


async def retry_unreachable(call: Callable[[], Awaitable[T]], limit_s: float) -> T:
    """Return the result of a call that is repeated while the node cannot be reached.

    Raises:
        NodeUnreachable: it could not be reached for `limit_s`.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limit_s
    while True:
        try:
            return await call()
        except NodeUnreachable:
            if loop.time() + RETRY_S > until_s:
                raise
        await asyncio.sleep(RETRY_S)


class CommandSender:
    """Sends the commands of one repeat to the nodes."""

    def __init__(self, clients: Sequence[NodeClient]) -> None:
        self._clients = clients
        self._sent: set[tuple[str, str]] = set()
        self._sending: dict[tuple[str, str], asyncio.Task[None]] = {}

    def was_sent(self, verb: str) -> bool:
        """Return whether any node has received it."""
        return any(known == verb for known, _ in self._sent)

    async def send(
        self,
        verb: str,
        repeat: int,
        document: Mapping[str, Any],
        only: Collection[str] | None = None,
    ) -> None:
        """Send a command to every node that has not received it.

        Returns when all have it, or after `COMMAND_WAIT_S`; sending to the others continues.
        """
        if verb == "abort":
            # A node must not obey an earlier command after the abort.
            await self._drop([key for key in self._sending if key[0] != verb])
        new = []
        for client in self._clients:
            key = (verb, client.name)
            if key in self._sent or key in self._sending:
                continue
            if only is None or client.name in only:
                task = asyncio.create_task(self._send(client, verb, repeat, document))
                self._sending[key] = task
                new.append(task)
        if new:
            await asyncio.wait(new, timeout=COMMAND_WAIT_S)
        for task in [task for task in self._sending.values() if task.done()]:
            task.result()  # raises a defect of this code
        self._sending = {k: t for k, t in self._sending.items() if not t.done()}

    async def close(self) -> None:
        """Stop sending what has not arrived."""
        await self._drop(list(self._sending))

    async def _drop(self, keys: Sequence[tuple[str, str]]) -> None:
        tasks = [self._sending.pop(key) for key in keys]
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended  # a defect of this code

    async def _send(
        self, client: NodeClient, verb: str, repeat: int, document: Mapping[str, Any]
    ) -> None:
        while True:
            try:
                await client.command(verb, repeat, document)
            except NodeError as error:
                client.note_error(error)
                await asyncio.sleep(COMMAND_RETRY_S)
            else:
                self._sent.add((verb, client.name))
                return


class NodeMonitor:
    """Polls all nodes, renews their leases and reconnects, one task for each, until closed.

    `on_event` is informed when a node is lost, and when it is back.
    """

    def __init__(
        self,
        clients: Sequence[NodeClient],
        epoch: int,
        lease_s: float,
        on_event: OnEvent,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients = clients
        self._epoch = epoch
        self._renew_s = min(5.0, lease_s / 4)
        self._on_event = on_event
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._polled = asyncio.Event()
        self.repeat: int | None = None
        self._interval_s = FAST_POLL_S
        self._interrupt = asyncio.Event()
        self.superseded_by: int | None = None

    def set_interval(self, interval_s: float) -> None:
        """Set the poll interval in seconds; a shorter one takes effect at once."""
        if interval_s < self._interval_s:
            interrupt, self._interrupt = self._interrupt, asyncio.Event()
            interrupt.set()
        self._interval_s = interval_s

    def open(self) -> None:
        """Start polling."""
        self._tasks = [asyncio.create_task(self._poll_forever(client)) for client in self._clients]
        self._tasks.append(asyncio.create_task(self._detect_pauses()))

    async def close(self) -> None:
        """Stop polling; the leases expire."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def next_views(self) -> list[NodeView]:
        """Return the views of all nodes, after at least one of them was polled again.

        Raises:
            BaseException: a defect ended one of the tasks.
        """
        self._polled.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._polled.wait(), 2 * SLOW_POLL_S)
        for task in self._tasks:
            if task.done():
                task.result()
        return [client.view for client in self._clients]

    def select_repeat(self, repeat: int) -> None:
        """Poll the state of another repeat from now on."""
        self.repeat = repeat
        for client in self._clients:
            client.reset_repeat()
        self._interrupt.set()
        self._interrupt = asyncio.Event()

    async def _detect_pauses(self) -> None:
        """Detect that this process was suspended or starved; do not count it as nodes' silence."""
        while True:
            before_s = self._clock()
            await asyncio.sleep(SLOW_POLL_S)
            paused_s = self._clock() - before_s - SLOW_POLL_S
            if paused_s > CONTROLLER_PAUSE_S:
                self._on_event(
                    GangEvent("paused", f"the controller did not run for {paused_s:.0f} s")
                )
                for client in self._clients:
                    client.discount_pause(paused_s)

    async def _poll_forever(self, client: NodeClient) -> None:
        renewed_s: float | None = None
        failures = 0
        while True:
            repeat = self.repeat
            try:
                now = self._clock()
                due = renewed_s is None or now - renewed_s >= self._renew_s
                poll = client.poll(
                    repeat,
                    self._epoch,
                    due,
                    every_s=self._interval_s / POLLS_ON_NODE,
                    wait_s=SLOW_POLL_S,
                )
                renewed = await self._poll_unless_interrupted(poll)
                if renewed is None:
                    continue
                if renewed:
                    renewed_s = now
                elif client.highest_epoch > self._epoch:
                    self.superseded_by = client.highest_epoch
                if repeat != self.repeat:
                    client.reset_repeat()
                if failures:
                    self._on_event(GangEvent("back", "answers again", client.name))
                failures = 0
            except NodeError as error:
                client.note_error(error)
                if failures == 0:
                    self._on_event(GangEvent("lost", error.message, client.name))
                failures += 1
            self._polled.set()
            if failures:
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S)) - 1])

    async def _poll_unless_interrupted(self, poll: Coroutine[None, None, bool]) -> bool | None:
        """Return the result of a poll; None if the next one became due before it ended."""
        polling = asyncio.create_task(poll)
        interrupted = asyncio.create_task(self._interrupt.wait())
        try:
            await asyncio.wait([polling, interrupted], return_when=asyncio.FIRST_COMPLETED)
            return polling.result() if polling.done() else None
        finally:
            for task in (polling, interrupted):
                task.cancel()
            await asyncio.gather(polling, interrupted, return_exceptions=True)
