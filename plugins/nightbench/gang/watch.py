"""Keeping sight of the nodes: one task for each looks, renews the lease, and reconnects."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence

from nightbench.gang.errors import NodeError
from nightbench.gang.events import GangEvent, OnEvent
from nightbench.gang.link import NodeLink
from nightbench.gang.machine import NodeView

QUICK_S = 0.25
"""Between looks while something is about to happen."""

CALM_S = 1.0
"""Between looks while processes run: on one machine the looking costs the measured cores."""

LOOKS = 5
"""A node that is asked by conversation looks so many times in that time, and tells what is new."""

STARVED_S = 2.0
"""What the controller's own loop may be late before it is told from a node's silence."""

BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0)


class Watch:
    """Looks at all nodes of a gang until it is closed.

    Args:
        links: the nodes.
        epoch: the epoch that this controller has claimed.
        lease_s: the lease that the agents hold.
        on_event: hears of lost and found nodes.
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
        """Look every so many seconds from now on; a shorter interval takes hold at once."""
        if interval_s < self._interval_s:
            hurry, self._hurry = self._hurry, asyncio.Event()
            hurry.set()
        self._interval_s = interval_s

    def open(self) -> None:
        """Start looking."""
        self._tasks = [asyncio.create_task(self._follow(link)) for link in self._links]
        self._tasks.append(asyncio.create_task(self._stay_awake()))

    async def close(self) -> None:
        """Stop looking; the leases run out by themselves."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def look(self) -> list[NodeView]:
        """All views, once at least one node has been looked at again.

        Raises:
            BaseException: a defect that ended one of the tasks.
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
        """Notice that this process itself was stopped or starved: nodes are not to blame then."""
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
        """The result of a visit; None where another look became due before it came back."""
        visiting = asyncio.create_task(visit)
        hurried = asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait([visiting, hurried], return_when=asyncio.FIRST_COMPLETED)
            return visiting.result() if visiting.done() else None
        finally:
            for task in (visiting, hurried):
                task.cancel()
            await asyncio.gather(visiting, hurried, return_exceptions=True)
