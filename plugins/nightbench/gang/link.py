"""One node of a gang as its controller deals with it: the job directory, as calls."""

from __future__ import annotations

import dataclasses
import json
import posixpath
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from nightbench.gang.agentcall import call_agent
from nightbench.gang.clock import measure_offset
from nightbench.gang.errors import NodeError, RemoteFailure
from nightbench.gang.layout import Layout, repeat_dir
from nightbench.gang.machine import NodeView, ProcessView
from nightbench.gang.transport import Transport, expand
from nightbench.model import ClockOffset, JobSpec, Node

EPOCH = re.compile(r"epoch-(\d+)\Z")


class NodeLink:
    """The job directory of one node.

    Args:
        job: the job.
        node: the node.
        transport: access to it.
        clock: the controller's monotonic clock.
    """

    def __init__(
        self,
        job: JobSpec,
        node: Node,
        transport: Transport,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.job = job
        self.node = node
        self.name = node.name
        self.transport = transport
        self._clock = clock
        self._python = job.environments.python
        self._folder = ""
        self._agent = ""
        self._renewals = 0
        self.view = NodeView(node.name, heard_s=clock())
        self.highest_epoch = 0

    async def open(self) -> None:
        """Find the job directory.

        Raises:
            RemoteFailure: it was not prepared.
        """
        layout = Layout(await expand(self.transport, self.job.environments.root))
        self._folder = layout.job(self.job, self.name)
        self._agent = layout.agent(self.job.code_digest)
        if not await self.transport.exists(self._path("job.json")):
            raise RemoteFailure(
                self.name,
                self.transport.address,
                f"no job.json in {self._folder}: prepare the job before it is run",
            )
        await self.transport.make_folders(self._path("control"))

    # --- what the controller says ---------------------------------------------------------

    async def epoch(self) -> int:
        """The highest epoch that was claimed here; 0 when none was."""
        names = await self.transport.listdir(self._path("control"))
        found = [int(match[1]) for name in names if (match := EPOCH.match(name))]
        self.highest_epoch = max(found, default=0)
        return self.highest_epoch

    async def claim_epoch(self, epoch: int) -> bool:
        """Claim an epoch; False when another controller has it."""
        return await self.transport.mkdir(self._path("control", f"epoch-{epoch:04d}"))

    async def renew(self, epoch: int) -> None:
        """Renew the lease."""
        self._renewals += 1
        text = f"{epoch} {self._renewals} {self._clock():.3f}\n"
        await self.transport.write_atomic(self._path("control", "lease"), text.encode())

    async def command(self, verb: str, repeat: int | None, document: Mapping[str, Any]) -> None:
        """Write prepare, go, drain, finish, abort (of a repeat) or stop (of the job)."""
        name = f"{verb}.json" if repeat is None else f"{verb}-{repeat:03d}.json"
        await self.transport.write_atomic(
            self._path("control", name), json.dumps(document).encode()
        )

    async def claim_repeat(self, repeat: int) -> bool:
        """Take a repeat (on the lead): False when a controller before took it."""
        folder = repeat_dir(self._folder, repeat)
        await self.transport.make_folders(folder)
        return await self.transport.mkdir(posixpath.join(folder, "claim"))

    async def start_agent(self) -> bool:
        """Start the agent; False when one is there."""
        answer = await call_agent(
            self.transport, self._python, self._agent, "start", self._folder, "--node", self.name
        )
        return bool(answer.get("started"))

    # --- what the node shows --------------------------------------------------------------

    async def look(self, repeat: int | None) -> NodeView:
        """Read the agent's state and a repeat's; `view` keeps it."""
        # The agent's first: when it says that it has ended, the repeat's state is final.
        agent = await self._document("agent.json") or {}
        state = None
        if repeat is not None:
            state = await self._document(repeat_dir("", repeat), "state.json")
        now = self._clock()
        view = dataclasses.replace(
            self.view,
            heard_s=now,
            silence=None,
            agent=agent.get("state"),
            agent_reason=agent.get("reason"),
            holder=agent.get("holder"),
        )
        self.view = with_state(view, state, now)
        return self.view

    def unheard(self, error: NodeError) -> None:
        """Note that the node did not answer."""
        self.view = dataclasses.replace(self.view, silence=error.message)

    def forget_repeat(self) -> None:
        """Another repeat begins: nothing of it has been seen."""
        self.view = with_state(self.view, None, self._clock())

    async def stop_command(self) -> dict[str, Any] | None:
        """stop.json, whoever wrote it."""
        return await self._document("control", "stop.json")

    async def result(self, repeat: int) -> dict[str, Any] | None:
        """result.json of a repeat; None while it has not ended."""
        return await self._document(repeat_dir("", repeat), "result.json")

    async def fingerprint(self) -> dict[str, Any] | None:
        """fingerprint.json; None before the agent has the lock."""
        return await self._document("fingerprint.json")

    async def clock_offset(self) -> ClockOffset:
        """How far its monotonic clock is from the controller's, now."""
        return await measure_offset(self.transport, self._python, self._agent, clock=self._clock)

    async def sweep(self, kill: bool) -> dict[str, Any]:
        """List, or end, every process of the job, its agent too."""
        words = ["--root", posixpath.dirname(posixpath.dirname(posixpath.dirname(self._agent)))]
        words += ["--job", self.job.job_id]
        if self.job.environments.lock_dir:
            words += ["--lock-dir", self.job.environments.lock_dir]
        if kill:
            words.append("--kill")
        return await call_agent(self.transport, self._python, self._agent, "sweep", *words)

    async def _document(self, *parts: str) -> dict[str, Any] | None:
        path = self._path(*parts)
        content = await self.transport.read(path)
        if content is None:
            return None
        try:
            document = json.loads(content)
        except ValueError as error:
            raise RemoteFailure(
                self.name, self.transport.address, f"{path} is not JSON: {error}"
            ) from error
        if not isinstance(document, dict):
            raise RemoteFailure(self.name, self.transport.address, f"{path} is no JSON object")
        return document

    def _path(self, *parts: str) -> str:
        return posixpath.join(self._folder, *parts)


def with_state(view: NodeView, state: Mapping[str, Any] | None, now: float) -> NodeView:
    """The view with what a repeat's state.json says; `beat_s` moves when it has changed."""
    if state is None:
        return dataclasses.replace(
            view, state=None, reason=None, ports={}, processes={}, beat_s=now
        )
    processes = {
        name: ProcessView(
            phase=p.get("phase") or "",
            step=p.get("step") or 0,
            t_s=p.get("t_s"),
            exit_code=p.get("exit_code"),
        )
        for name, p in state.get("processes", {}).items()
    }
    written = state.get("t_s")
    fresh = view.written_s != written or view.state != state["state"]
    return dataclasses.replace(
        view,
        state=state["state"],
        reason=state.get("reason"),
        ports=state.get("ports") or {},
        processes=processes,
        written_s=written,
        beat_s=now if fresh else view.beat_s,
    )
