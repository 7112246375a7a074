"""All nodes of a gang at once: call, watch and command them; none delays the others."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any, TypeVar

from nightbench.gang.decisions import NodeView
from nightbench.gang.errors import NodeError, NodeUnreachable
from nightbench.gang.link import NodeLink
from nightbench.gang.progress import GangEvent, OnEvent

T = TypeVar("T")

ANSWER_S = 5.0
"""Limit for a small call."""

RETRY_S = 0.5
"""Between attempts to reach a node."""

COMMAND_WAIT_S = 1.0
"""How long a command is waited for before the controller acts on what the other nodes show."""

COMMAND_RETRY_S = 1.0
"""Between attempts to give a node a command."""

QUICK_S = 0.25
"""Between looks while something is about to happen."""

CALM_S = 1.0
"""Between looks while processes run: on one machine the looking costs the measured cores."""

LOOKS = 5
"""A node that is asked by conversation looks so many times in that time, and reports changes."""

STARVED_S = 2.0
"""If the controller's own loop is later than this, a node's silence is the controller's fault."""

BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0)


async def call_each(
    links: Iterable[NodeLink],
    call: Callable[[NodeLink], Awaitable[T]],
    limit_s: float = ANSWER_S,
) -> dict[str, T]:
    """Call all nodes at the same time.

    Returns:
        Node -> answer. A node that failed or gave none in time is left out; its view says why.
    """

    async def one(link: NodeLink) -> T | NodeError:
        try:
            async with asyncio.timeout(limit_s):
                return await call(link)
        except TimeoutError:
            error: NodeError = NodeUnreachable(
                link.name, link.transport.address, f"no answer within {limit_s:g} s"
            )
        except NodeError as refused:
            error = refused
        link.unheard(error)
        return error

    called = list(links)
    answers = await asyncio.gather(*(one(link) for link in called))
    return {
        link.name: answer
        for link, answer in zip(called, answers, strict=True)
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
    """Sends the commands of one repeat to the nodes.

    Args:
        links: the nodes.
    """

    def __init__(self, links: Sequence[NodeLink]) -> None:
        self._links = links
        self._sent: set[tuple[str, str]] = set()
        self._sending: dict[tuple[str, str], asyncio.Task[None]] = {}

    def was_sent(self, verb: str) -> bool:
        """Tell whether any node has received it."""
        return any(known == verb for known, _ in self._sent)

    async def send(
        self,
        verb: str,
        repeat: int,
        document: Mapping[str, Any],
        only: Collection[str] | None = None,
    ) -> None:
        """Send a command to every node that has not received it.

        Returns when all have it, or after `COMMAND_WAIT_S`; sending to the others goes on.
        """
        if verb == "abort":
            # A node must not obey an earlier command after the abort.
            await self._drop([key for key in self._sending if key[0] != verb])
        new = []
        for link in self._links:
            key = (verb, link.name)
            if key in self._sent or key in self._sending:
                continue
            if only is None or link.name in only:
                task = asyncio.create_task(self._send(link, verb, repeat, document))
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
        self, link: NodeLink, verb: str, repeat: int, document: Mapping[str, Any]
    ) -> None:
        while True:
            try:
                await link.command(verb, repeat, document)
            except NodeError as error:
                link.unheard(error)
                await asyncio.sleep(COMMAND_RETRY_S)
            else:
                self._sent.add((verb, link.name))
                return


class NodeWatch:
    """Looks at all nodes, renews their leases and reconnects, one task for each, until closed.

    Args:
        links: the nodes.
        epoch: the epoch that this controller has claimed.
        lease_s: the lease that the agents hold.
        on_event: called when a node is lost, and when it is back.
        clock: the controller's monotonic clock.
    """

    def __init__(
        self,
        links: Sequence[NodeLink],
        epoch: int,
        lease_s: float,
        on_event: OnEvent,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._links = links
        self._epoch = epoch
        self._renew_s = min(5.0, lease_s / 4)
        self._on_event = on_event
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._looked = asyncio.Event()
        self.repeat: int | None = None
        self._interval_s = QUICK_S
        self._hurry = asyncio.Event()
        self.superseded_by: int | None = None

    def pace(self, interval_s: float) -> None:
        """Set the interval between looks; a shorter one takes effect at once."""
        if interval_s < self._interval_s:
            hurry, self._hurry = self._hurry, asyncio.Event()
            hurry.set()
        self._interval_s = interval_s

    def open(self) -> None:
        """Start looking."""
        self._tasks = [asyncio.create_task(self._follow(link)) for link in self._links]
        self._tasks.append(asyncio.create_task(self._stay_awake()))

    async def close(self) -> None:
        """Stop looking; the leases expire."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def look(self) -> list[NodeView]:
        """Return all views, once at least one node has been looked at again.

        Raises:
            BaseException: a defect ended one of the tasks.
        """
        self._looked.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._looked.wait(), 2 * CALM_S)
        for task in self._tasks:
            if task.done():
                task.result()
        return [link.view for link in self._links]

    def next_repeat(self, repeat: int | None) -> None:
        """Look at another repeat from now on."""
        self.repeat = repeat
        for link in self._links:
            link.forget_repeat()
        self._hurry.set()
        self._hurry = asyncio.Event()

    async def _stay_awake(self) -> None:
        """Notice when this process was stopped or starved, and excuse the nodes' silence."""
        while True:
            before_s = self._clock()
            await asyncio.sleep(CALM_S)
            away_s = self._clock() - before_s - CALM_S
            if away_s > STARVED_S:
                self._on_event(GangEvent("away", f"the controller did not run for {away_s:.0f} s"))
                for link in self._links:
                    link.excuse(away_s)

    async def _follow(self, link: NodeLink) -> None:
        renewed_s: float | None = None
        failures = 0
        while True:
            repeat = self.repeat
            try:
                now = self._clock()
                due = renewed_s is None or now - renewed_s >= self._renew_s
                visit = link.visit(
                    repeat, self._epoch, due, every_s=self._interval_s / LOOKS, wait_s=CALM_S
                )
                renewed = await self._unless_hurried(visit)
                if renewed is None:
                    continue
                if renewed:
                    renewed_s = now
                elif link.highest_epoch > self._epoch:
                    self.superseded_by = link.highest_epoch
                if repeat != self.repeat:
                    link.forget_repeat()
                if failures:
                    self._on_event(GangEvent("back", "answers again", link.name))
                failures = 0
            except NodeError as error:
                link.unheard(error)
                if failures == 0:
                    self._on_event(GangEvent("lost", error.message, link.name))
                failures += 1
            self._looked.set()
            if failures:
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S)) - 1])
                continue
            if not link.converses:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), self._interval_s)

    async def _unless_hurried(self, visit: Coroutine[None, None, bool]) -> bool | None:
        """Return the result of a visit; None where another look became due before it ended."""
        visiting = asyncio.create_task(visit)
        hurried = asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait([visiting, hurried], return_when=asyncio.FIRST_COMPLETED)
            return visiting.result() if visiting.done() else None
        finally:
            for task in (visiting, hurried):
                task.cancel()
            await asyncio.gather(visiting, hurried, return_exceptions=True)
