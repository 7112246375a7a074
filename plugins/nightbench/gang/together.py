"""One call on several nodes at once, in which none that is away holds up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from nightbench.gang.errors import NodeError, NodeUnreachable
from nightbench.gang.link import NodeLink

T = TypeVar("T")

ANSWER_S = 5.0
"""What a small call may take; whoever needs longer is looked at again later."""

PAUSE_S = 0.5


async def on_each(
    links: Iterable[NodeLink],
    call: Callable[[NodeLink], Awaitable[T]],
    limit_s: float = ANSWER_S,
) -> dict[str, T]:
    """Call all nodes at the same time.

    Returns:
        Node -> answer. One that failed, or gave none in time, is not among them; its view says so.
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


async def patiently(call: Callable[[], Awaitable[T]], limit_s: float) -> T:
    """Call again while the node cannot be reached: a short cut is no end.

    Raises:
        NodeUnreachable: it stayed away for `limit_s`.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limit_s
    while True:
        try:
            return await call()
        except NodeUnreachable:
            if loop.time() + PAUSE_S > until_s:
                raise
        await asyncio.sleep(PAUSE_S)
