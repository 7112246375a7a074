"""How far a node's monotonic clock is from the controller's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

from nightbench.core.model import ClockOffset
from nightbench.gang.transport import Transport

EXCHANGES = 10


def best_offset(exchanges: Iterable[tuple[float, float, float]]) -> ClockOffset:
    """The offset from the exchange with the shortest round trip.

    The node read its clock at some moment of the round trip: taking its middle errs by half of it
    at most (Cristian, Probabilistic clock synchronization, 1989).

    Args:
        exchanges: (sent_s, node_s, received_s) each; the node's reading on its own clock.
    """
    sent, node, received = min(exchanges, key=lambda exchange: exchange[2] - exchange[0])
    return ClockOffset(offset_s=node - (sent + received) / 2, error_s=(received - sent) / 2)


async def measure_offset(
    transport: Transport,
    python: str,
    agent: str,
    exchanges: int = EXCHANGES,
    clock: Callable[[], float] = time.monotonic,
) -> ClockOffset:
    """Ask a node for its monotonic clock, several times over one channel."""
    return (await measure_clocks(transport, python, agent, exchanges, clock))[0]


async def measure_clocks(
    transport: Transport,
    python: str,
    agent: str,
    exchanges: int = EXCHANGES,
    clock: Callable[[], float] = time.monotonic,
    wall_clock: Callable[[], float] = time.time,
) -> tuple[ClockOffset, ClockOffset]:
    """Ask a node for both clocks: the offsets of its monotonic and of its wall clock."""
    monotonic, wall = [], []
    async with transport.converse([python, agent, "clock"]) as conversation:
        for _ in range(exchanges):
            sent, sent_wall = clock(), wall_clock()
            answer = json.loads(await conversation.ask(""))
            received, received_wall = clock(), wall_clock()
            monotonic.append((sent, float(answer["monotonic_s"]), received))
            wall.append((sent_wall, float(answer["wall_s"]), received_wall))
    return best_offset(monotonic), best_offset(wall)


def closer(first: ClockOffset | None, second: ClockOffset | None) -> ClockOffset | None:
    """The one with the smaller error."""
    known = [offset for offset in (first, second) if offset is not None]
    return min(known, key=lambda offset: offset.error_s, default=None)
