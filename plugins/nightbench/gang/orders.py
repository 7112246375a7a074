"""Commands on their way to the nodes of a gang: each to its node, none held up by another's."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nightbench.gang.errors import NodeError
from nightbench.gang.link import NodeLink

TOGETHER_S = 1.0
"""How long commands are waited for before the others' answers are acted on."""

AGAIN_S = 1.0
"""Between attempts on a node that did not take a command."""


class Orders:
    """The commands of one repeat that this controller gives.

    Args:
        links: the nodes.
    """

    def __init__(self, links: Sequence[NodeLink]) -> None:
        self._links = links
        self._sent: set[tuple[str, str]] = set()
        self._under_way: dict[tuple[str, str], asyncio.Task[None]] = {}

    def sent(self, verb: str) -> bool:
        """Whether any node has got it."""
        return any(known == verb for known, _ in self._sent)

    async def give(
        self,
        verb: str,
        repeat: int,
        document: Mapping[str, Any],
        only: Collection[str] | None = None,
    ) -> None:
        """Give a command to every node that has not got it; saying it again costs nothing.

        Returns when all have it, or after `TOGETHER_S`: it stays on its way to the others.
        """
        if verb == "abort":
            # What comes after it would only be obeyed to be ended again.
            await self._give_up([key for key in self._under_way if key[0] != verb])
        new = []
        for link in self._links:
            key = (verb, link.name)
            if key in self._sent or key in self._under_way:
                continue
            if only is None or link.name in only:
                task = asyncio.create_task(self._give(link, verb, repeat, document))
                self._under_way[key] = task
                new.append(task)
        if new:
            await asyncio.wait(new, timeout=TOGETHER_S)
        for task in [task for task in self._under_way.values() if task.done()]:
            task.result()  # a defect of ours is not kept quiet
        self._under_way = {k: t for k, t in self._under_way.items() if not t.done()}

    async def close(self) -> None:
        """Give up what has not arrived."""
        await self._give_up(list(self._under_way))

    async def _give_up(self, keys: Sequence[tuple[str, str]]) -> None:
        tasks = [self._under_way.pop(key) for key in keys]
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended  # a defect of ours is not kept quiet

    async def _give(
        self, link: NodeLink, verb: str, repeat: int, document: Mapping[str, Any]
    ) -> None:
        while True:
            try:
                await link.command(verb, repeat, document)
            except NodeError as error:
                link.unheard(error)
                await asyncio.sleep(AGAIN_S)
            else:
                self._sent.add((verb, link.name))
                return
