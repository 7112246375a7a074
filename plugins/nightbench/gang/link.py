"""One node of a gang as its controller deals with it: the job directory, as calls."""

from __future__ import annotations

import dataclasses
import json
import posixpath
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from nightbench.core.model import ClockOffset, JobSpec, Node, reasons_from_json
from nightbench.gang.decisions import NodeView, ProcessView
from nightbench.gang.errors import NodeError, RemoteFailure
from nightbench.gang.node_access import (
    EXCHANGES,
    Layout,
    best_offset,
    call_agent,
    measure_offset,
    repeat_dir,
)
from nightbench.gang.ssh_pool import Follows
from nightbench.gang.transport import Transport

BOOT_ID = "/proc/sys/kernel/random/boot_id"

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
        self._root = ""
        self._folder = ""
        self._agent = ""
        self._renewals = 0
        self.converses = False
        """Whether the last visit was by conversation, and waited on the node."""
        self._gist: str | None = None
        """What the conversation showed last, for asking only for what is new."""
        self.view = NodeView(node.name, heard_s=clock())
        self.highest_epoch = 0
        self._started_pid: int | None = None
        """Of an agent that was started here and has written nothing yet."""
        self._boot_id: str | None = None
        """The boot that was seen first."""

    async def open(self) -> None:
        """Find the job directory.

        Raises:
            RemoteFailure: it was not prepared.
        """
        layout = await Layout.of(self.transport, self.job.environments)
        self._root = layout.root
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
        text = self._lease(epoch)
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

    async def claimed(self, repeat: int) -> bool:
        """Whether a controller took the repeat (on the lead)."""
        return await self.transport.exists(
            posixpath.join(repeat_dir(self._folder, repeat), "claim")
        )

    async def start_agent(self) -> bool:
        """Start the agent; False when one is there."""
        answer = await call_agent(
            self.transport, self._python, self._agent, "start", self._folder, "--node", self.name
        )
        if answer.get("started"):
            self._started_pid = answer.get("pid")
        return bool(answer.get("started"))

    # --- what the node shows --------------------------------------------------------------

    async def visit(
        self, repeat: int | None, epoch: int, renew: bool, every_s: float, wait_s: float
    ) -> bool:
        """Look again; renew the lease where that is due and nobody has claimed a higher epoch.

        `view` and `highest_epoch` keep what was seen.

        Args:
            repeat: the repeat to look at.
            epoch: what this controller has claimed.
            renew: the lease is due.
            every_s: how often the node itself looks, where it can be asked by conversation.
            wait_s: how long it may keep the answer back while there is nothing new to act on.

        Returns:
            Whether the lease was renewed.
        """
        lease = None
        if renew:
            self._renewals += 1
            lease = self._lease(epoch)
        request = {
            "jobdir": self._folder,
            "repeat": repeat,
            "epoch": epoch,
            "lease": lease,
            "seen": self._gist,
            "wait_s": wait_s,
            "every_s": every_s,
        }
        answer = await self._ask(request)
        self.converses = answer is not None
        if answer is None:
            # By the files themselves: an agent shipped long ago, or another transport.
            renewed = renew and await self.epoch() <= epoch
            if renewed:
                await self.renew(epoch)
            await self.look(repeat)
            return renewed
        self.highest_epoch = max(self.highest_epoch, int(answer["epoch"]))
        self._gist = answer["gist"]
        self._see(answer["agent"] or {}, answer["state"])
        return bool(answer["renewed"])

    async def look(self, repeat: int | None) -> NodeView:
        """Read the agent's state and a repeat's; `view` keeps it."""
        # The agent's first: when it says that it has ended, the repeat's state is final.
        agent = await self._document("agent.json") or {}
        state = None
        if repeat is not None:
            state = await self._document(repeat_dir("", repeat), "state.json")
        return self._see(agent, state)

    def _see(self, agent: Mapping[str, Any], state: Mapping[str, Any] | None) -> NodeView:
        now = self._clock()
        if self._started_pid is not None:
            if agent.get("pid") != self._started_pid:
                agent = {}  # what the one before it wrote
            else:
                self._started_pid = None
        view = dataclasses.replace(
            self.view,
            heard_s=now,
            silence=None,
            agent=agent.get("state"),
            agent_reasons=reasons_from_json(agent.get("reasons")),
            holder=agent.get("holder"),
            pid=agent.get("pid"),
            boot_id=agent.get("boot_id"),
            rebooted=self._other_boot(agent.get("boot_id")),
        )
        if stale(agent, state):
            state = None
        self.view = with_state(view, state, now)
        return self.view

    async def agent_lives(self) -> bool:
        """Whether the agent that was seen last still has its process."""
        pid = self.view.pid
        return pid is not None and await self.transport.exists(f"/proc/{pid}")

    async def look_for_reboot(self) -> bool:
        """Whether the node was started anew since it was seen first, and not only its agent."""
        done = await self.transport.run(["cat", BOOT_ID], timeout_s=30.0)
        now = done.stdout.decode(errors="replace").strip() if done.exit == 0 else None
        rebooted = self._other_boot(now or None)
        self.view = dataclasses.replace(self.view, rebooted=rebooted)
        return rebooted

    def _other_boot(self, boot_id: str | None) -> bool:
        known = self._boot_id
        self._boot_id = boot_id or known
        return self.view.rebooted or (None not in (known, boot_id) and boot_id != known)

    def excuse(self, away_s: float) -> None:
        """The controller itself did not run for so long: no silence of the node."""
        view, now = self.view, self._clock()
        # It may have been heard since: nothing is dated into the future.
        self.view = dataclasses.replace(
            view,
            heard_s=min(now, view.heard_s + away_s),
            beat_s=min(now, view.beat_s + away_s),
        )

    def unheard(self, error: NodeError) -> None:
        """Note that the node did not answer."""
        self.view = dataclasses.replace(self.view, silence=error.message)

    def forget_repeat(self) -> None:
        """Another repeat begins: nothing of it has been seen."""
        self._gist = None
        view = dataclasses.replace(self.view, rebooted=False)
        self.view = with_state(view, None, self._clock())

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
        readings = []
        for _ in range(EXCHANGES):
            sent = self._clock()
            answer = await self._ask({"clock": True})
            if answer is None:
                return await measure_offset(
                    self.transport, self._python, self._agent, clock=self._clock
                )
            readings.append((sent, float(answer["monotonic_s"]), self._clock()))
        return best_offset(readings)

    async def sweep_orphans(self) -> list[int]:
        """End every process on the node that carries a mark of ours and has no agent any more."""
        words = ["--root", self._root, "--kill"]
        if self.job.environments.lock_dir:
            words += ["--lock-dir", self.job.environments.lock_dir]
        answer = await call_agent(self.transport, self._python, self._agent, "sweep", *words)
        return [int(pid) for pid in answer.get("killed") or []]

    async def _ask(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Ask over the conversation that stays open; None where there can be none."""
        if not isinstance(self.transport, Follows):
            return None
        return await self.transport.follow(self._python, self._agent, request)

    def _lease(self, epoch: int) -> str:
        return f"{epoch} {self._renewals} {self._clock():.3f}\n"

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


def stale(agent: Mapping[str, Any], state: Mapping[str, Any] | None) -> bool:
    """Whether it was an agent before this one that got so far, and launched nothing.

    The one that serves now does not know of the repeat before it is asked for it again.
    """
    if state is None or state.get("state") not in ("preparing", "ready"):
        return False
    return agent.get("repeat") is None


def with_state(view: NodeView, state: Mapping[str, Any] | None, now: float) -> NodeView:
    """The view with what a repeat's state.json says; `beat_s` moves when it has changed."""
    if state is None:
        return dataclasses.replace(view, state=None, reasons=(), ports={}, processes={}, beat_s=now)
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
        reasons=reasons_from_json(state.get("reasons")),
        ports=state.get("ports") or {},
        processes=processes,
        written_s=written,
        beat_s=now if fresh else view.beat_s,
    )
