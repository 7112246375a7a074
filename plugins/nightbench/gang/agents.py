"""An agent on every node of a gang: found, started, waited for while others have the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nightbench.core.sentences import sentences
from nightbench.gang.decisions import SERVING
from nightbench.gang.errors import GangError, NodeError
from nightbench.gang.fanout import call_each
from nightbench.gang.link import NodeLink
from nightbench.gang.progress import GangEvent

if TYPE_CHECKING:
    from nightbench.gang.steer import Gang

ALIVE_S = 5.0
"""Between looks whether an agent that waits for its node still has its process."""

AGAIN_S = 2.0
"""What an agent may take to write where it stands."""

STARTS = 3
"""An agent that ends so often as soon as it is started will not serve."""

SWEEP_S = 30.0


class TooLate(GangError):
    """No repeat that is started now could end before the job's deadline."""


class Agents:
    """Sees to the agents of one gang.

    Args:
        gang: the gang.
    """

    def __init__(self, gang: Gang) -> None:
        self._gang = gang

    async def ensure(self, repeat: int, may_leave: bool) -> None:
        """Have an agent on every node that holds the node's lock.

        Args:
            repeat: for which repeat, for messages.
            may_leave: nobody has launched it yet, so that it may be left out.

        Raises:
            NodeError: a node does not answer for as long as a lease, or an agent cannot start.
            TooLate: the deadline came first.
        """
        links = self._gang.in_lock_order()
        now = self._gang.clock()
        serving = [x for x in links if x.view.agent in SERVING and x.view.answers(now)]
        alive = await call_each(serving, NodeLink.agent_lives)
        absent = [link for link in links if not alive.get(link.name)]
        await self.sweep(absent)
        # One after another in the one order of all gangs: whoever holds a node's lock while it
        # waits for another only ever waits for a later one, so that none wait for each other.
        for link in absent:
            await self._ensure(link, repeat, may_leave)

    async def revive(self, link: NodeLink, repeat: int) -> None:
        """Start an agent where none is heard; it says in the result what had happened."""
        try:
            if not await link.start_agent():
                return
            why = "the agent had died"
            if await link.look_for_reboot():
                why = "the node was rebooted"
            self._gang.on_event(GangEvent("agent", why, link.name, repeat))
        except NodeError as error:
            link.unheard(error)

    async def sweep(self, links: list[NodeLink]) -> None:
        """End what agents left that are no more, on nodes that came back or lost theirs."""
        swept = await call_each(links, NodeLink.sweep_orphans, SWEEP_S)
        for node, pids in swept.items():
            if pids:
                said = f"ended {len(pids)} processes that no agent watched"
                self._gang.on_event(GangEvent("sweep", said, node, data={"pids": pids}))

    async def _ensure(self, link: NodeLink, repeat: int, may_leave: bool) -> None:
        gang = self._gang
        started = 0
        told: object = None
        called_s: float | None = None
        while True:
            now = gang.clock()
            waited_s = now - called_s if called_s is not None else None
            mute = link.view.agent not in (*SERVING, "waiting", "ended")
            if waited_s is None or link.view.agent == "ended" or (mute and waited_s > AGAIN_S):
                if started >= STARTS:
                    raise NodeError(
                        link.name,
                        link.transport.address,
                        f"the agent ends at once: {sentences(link.view.agent_reasons)}; see "
                        "agent.out and agent.jsonl in its job folder",
                    )
                try:
                    await link.renew(gang.epoch)
                    if await link.start_agent():
                        started += 1
                        said = "agent started"
                        if repeat > 1 and await link.look_for_reboot():
                            said = "agent started; the node was rebooted"
                        gang.on_event(GangEvent("agent", said, link.name))
                    called_s = gang.clock()
                    await link.look(gang.watch.repeat)
                except NodeError as error:
                    # Short cuts survive; a node that stays away is reported with its last error.
                    if now - link.view.heard_s > gang.job.limits.lease_s:
                        raise
                    link.unheard(error)
            elif waited_s > ALIVE_S:
                called_s = now
                if (await call_each([link], NodeLink.agent_lives)).get(link.name) is False:
                    called_s = None
                    continue
            if called_s is not None and link.view.agent in SERVING:
                return
            holder = link.view.holder
            if link.view.agent == "waiting" and holder != told:
                told = holder
                await self._say_waiting(link, repeat, holder)
            await gang.watch.look()
            await gang.check()
            if may_leave and gang.too_late():
                raise TooLate(f"the deadline came while {link.name} was waited for")

    async def _say_waiting(
        self, link: NodeLink, repeat: int, holder: Mapping[str, object] | None
    ) -> None:
        who = holder or {}
        message = (
            f"waiting for node {link.name}: {who.get('job_id', 'somebody')} of "
            f"{who.get('user', '?')} has it since {who.get('since', '?')}"
        )
        self._gang.on_event(GangEvent("waiting", message, link.name, data=dict(who)))
        await self._gang.tell("waiting", repeat, message, force=True)
