"""Client for one node of a gang: reads and writes the job directory, starts the agent."""

import dataclasses
import json
import posixpath
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from nightbench.core.model import ClockOffset, JobSpec, Node, reasons_from_json, reasons_to_json
from nightbench.gang.decisions import SERVING, NodeView, ProcessView
from nightbench.gang.errors import DamagedAnswer, NodeError, PodError, RemoteFailure
from nightbench.gang.node_access import EXCHANGES, Agent, best_offset, read_document, repeat_dir
from nightbench.gang.slurm_launcher import SlurmLauncher
from nightbench.gang.transport import Transport

BOOT_ID = "/proc/sys/kernel/random/boot_id"

LOG_BYTES = 256 * 1024
"""Most that is fetched of the log of one process of one repeat."""

EPOCH = re.compile(r"epoch-(\d+)\Z")


class NodeClient:
    """The controller's access to one node of a job; `view` holds the node's last known state.

    Its agent is started over the node's transport without a launcher.
    """

    def __init__(
        self,
        job: JobSpec,
        node: Node,
        transport: Transport,
        clock: Callable[[], float] = time.monotonic,
        launcher: SlurmLauncher | None = None,
    ) -> None:
        self.job = job
        self.launcher = launcher
        self.node = node
        self.name = node.name
        self.transport = transport
        self._clock = clock
        self._agent: Agent
        self._folder = ""
        self._renewals = 0
        self._state_digest: str | None = None
        """Digest of the state in the last answer; the next poll asks for a different one."""
        self.view = NodeView(node.name, answered_s=clock())
        self.highest_epoch = 0
        self._released_pid: int | None = None
        """Process id of an agent that was asked to release the node."""
        self._started_pid: int | None = None
        """Process id of an agent that was started and has not written its state yet."""
        self._boot_id: str | None = None
        """Kernel boot id that the node had first."""

    async def open(self) -> None:
        """Locate the job directory.

        Raises:
            RemoteFailure: the job was not prepared there.
        """
        job = self.job
        self._agent = await Agent.of(self.transport, job.environments, job.code_digest)
        self._folder = self._agent.layout.job(job, self.name)
        if not await self.transport.exists(self._path("job.json")):
            raise RemoteFailure.of(
                self.transport,
                f"no job.json in {self._folder}: prepare the job before it is run",
            )
        await self.transport.make_folders(self._path("control"))

    # --- commands to the agent ------------------------------------------------------------

    async def epoch(self) -> int:
        """Return the highest epoch that a controller has claimed on the node; 0 if none."""
        names = await self.transport.listdir(self._path("control"))
        found = [int(match[1]) for name in names if (match := EPOCH.match(name))]
        self.highest_epoch = max(found, default=0)
        return self.highest_epoch

    async def claim_epoch(self, epoch: int) -> bool:
        """Claim an epoch; return False if another controller has claimed it."""
        return await self.transport.mkdir(self._path("control", f"epoch-{epoch:04d}"))

    async def renew(self, epoch: int) -> None:
        """Renew the lease, without which the agent ends the gang."""
        self._renewals += 1
        text = self._lease(epoch)
        await self.transport.write_atomic(self._path("control", "lease"), text.encode())

    async def command(self, verb: str, number: int | None, document: Mapping[str, Any]) -> None:
        """Write a command to the agent.

        The verbs are prepare, go, drain, finish and abort of a repeat; release of an agent, whose
        pid is the number; stop of the job, which has none.
        """
        name = f"{verb}.json" if number is None else f"{verb}-{number:03d}.json"
        await self.transport.write_atomic(
            self._path("control", name), json.dumps(document).encode()
        )

    async def release(self, epoch: int) -> None:
        """End the agent, so that another job may lock the node; a later agent may serve this job.

        Raises:
            NodeError: the command did not reach it.
        """
        pid = self.view.pid
        if pid is not None and pid != self._released_pid:
            await self.command("release", pid, {"epoch": epoch})
            self._released_pid = pid

    @property
    def holds_lock(self) -> bool:
        """Whether an agent that was not asked to release the node last had its lock."""
        return self.view.agent in SERVING and self.view.pid != self._released_pid

    async def claim_repeat(self, repeat: int) -> bool:
        """Claim a repeat (on the lead); return False if an earlier controller claimed it."""
        folder = repeat_dir(self._folder, repeat)
        await self.transport.make_folders(folder)
        return await self.transport.mkdir(posixpath.join(folder, "claim"))

    async def is_claimed(self, repeat: int) -> bool:
        """Return whether a controller has claimed the repeat (on the lead)."""
        return await self.transport.exists(
            posixpath.join(repeat_dir(self._folder, repeat), "claim")
        )

    async def has_begun(self, repeat: int) -> bool:
        """Return whether the node has files of the repeat."""
        return bool(await self.transport.listdir(repeat_dir(self._folder, repeat)))

    async def start_agent(self, *, sweep: bool) -> tuple[bool, list[int]]:
        """Start the agent; with `sweep`, end first what agents that have died left on the node.

        Returns:
            Whether it was started: False if one runs already, or waits for its node; and the
            pids of the processes that were ended.
        """
        if self.launcher is not None:
            return await self.launcher.start(self.transport), []
        words = ["--sweep", self._agent.layout.root] if sweep else []
        mark = self._agent.mark(self.job.job_id)
        answer = await self._agent.call(
            "start", self._folder, "--node", self.name, *words, env=mark
        )
        if answer.get("started"):
            self._started_pid = answer.get("pid")
        return bool(answer.get("started")), answer["swept"]

    # --- the state of the node ------------------------------------------------------------

    async def poll(
        self, repeat: int | None, epoch: int, renew: bool, every_s: float, wait_s: float
    ) -> bool:
        """Update `view` and `highest_epoch`, and renew the lease if asked for.

        Args:
            repeat: the repeat whose state is read.
            epoch: the epoch that this controller has claimed.
            renew: renew the lease, unless another controller has claimed a higher epoch.
            every_s: interval at which `agent.py follow` reads the job directory.
            wait_s: time for which `agent.py follow` may delay its answer while nothing changes.

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
            "seen": self._state_digest,
            "wait_s": wait_s,
            "every_s": every_s,
        }
        answer = await self.transport.follow(*self._agent.command, request)
        self.highest_epoch = max(self.highest_epoch, int(answer["epoch"]))
        self._state_digest = answer["digest"]
        self._update_view(answer["agent"] or {}, answer["state"])
        return bool(answer["renewed"])

    async def read_state(self, repeat: int | None) -> NodeView:
        """Update `view` from agent.json and state.json; return it."""
        # agent.json first: once it says that the agent has ended, the repeat's state is final.
        agent = await self._document("agent.json") or {}
        state = None
        if repeat is not None:
            state = await self._document(repeat_dir("", repeat), "state.json")
        return self._update_view(agent, state)

    def _update_view(self, agent: Mapping[str, Any], state: Mapping[str, Any] | None) -> NodeView:
        now = self._clock()
        if self._started_pid is not None:
            if agent.get("pid") != self._started_pid:
                agent = {}  # written by the agent before it
            else:
                self._started_pid = None
        view = dataclasses.replace(
            self.view,
            answered_s=now,
            last_error=None,
            lost=None,
            agent=agent.get("state"),
            agent_reasons=reasons_from_json(agent.get("reasons")),
            lock_holder=agent.get("holder"),
            pid=agent.get("pid"),
            rebooted=self._has_rebooted(agent.get("boot_id")),
        )
        if _is_stale(agent, state):
            state = None
        self.view = _with_state(view, state, now)
        return self.view

    async def is_agent_running(self) -> bool:
        """Return whether the process of the agent that was seen last exists."""
        if self.launcher is not None:
            return await self.launcher.is_running(self.transport)
        pid = self.view.pid
        return pid is not None and await self.transport.exists(f"/proc/{pid}")

    async def check_reboot(self) -> bool:
        """Return whether the node has rebooted since it was seen first."""
        if self.launcher is not None:
            return self.view.rebooted  # by what its agent writes
        done = await self.transport.run(["cat", BOOT_ID], timeout_s=30.0)
        now = done.stdout.decode(errors="replace").strip() if done.exit == 0 else None
        rebooted = self._has_rebooted(now or None)
        self.view = dataclasses.replace(self.view, rebooted=rebooted)
        return rebooted

    def _has_rebooted(self, boot_id: str | None) -> bool:
        known = self._boot_id
        self._boot_id = boot_id or known
        return self.view.rebooted or (None not in (known, boot_id) and boot_id != known)

    def discount_pause(self, paused_s: float) -> None:
        """Do not count a time in which the controller itself did not run as the node's silence."""
        view, now = self.view, self._clock()
        # The node may have answered since: no time may lie in the future.
        self.view = dataclasses.replace(
            view,
            answered_s=min(now, view.answered_s + paused_s),
            state_changed_s=min(now, view.state_changed_s + paused_s),
        )

    def note_error(self, error: NodeError) -> None:
        """Record in `view` why the node could not be polled."""
        lost = error.reason if isinstance(error, PodError) and error.is_of_pod else None
        self.view = dataclasses.replace(self.view, last_error=error.message, lost=lost)

    def forget(self) -> None:
        """Forget what was known of the node: another pod takes its place."""
        self.view = NodeView(self.name, answered_s=self._clock())
        self._state_digest = None
        self._released_pid = self._started_pid = self._boot_id = None

    def reset_repeat(self) -> None:
        """Clear the repeat's part of `view`: another repeat begins."""
        self._state_digest = None
        view = dataclasses.replace(self.view, rebooted=False)
        self.view = _with_state(view, None, self._clock())

    async def stop_command(self) -> dict[str, Any] | None:
        """Return stop.json of any controller; None if there is none."""
        return await self._document("control", "stop.json")

    async def result(self, repeat: int) -> dict[str, Any] | None:
        """Return result.json of a repeat; None while it has not ended.

        A damaged one is a failure of this repeat: the node continues.
        """
        try:
            return await self._document(repeat_dir("", repeat), "result.json")
        except DamagedAnswer as damaged:
            reasons = reasons_to_json([damaged.reason])
            return {"status": "failed", "reasons": reasons, "processes": []}

    async def log_end(self, repeat: int, process: str) -> bytes | None:
        """Return the end of a process's log, at most `LOG_BYTES`; None if there is none."""
        path = posixpath.join(repeat_dir(self._folder, repeat), process, "out.log")
        done = await self.transport.run(["tail", "-c", str(LOG_BYTES), path])
        return done.stdout if done.exit == 0 else None

    async def fingerprint(self) -> dict[str, Any] | None:
        """Return fingerprint.json; None before the agent has the node's lock."""
        return await self._document("fingerprint.json")

    async def clock_offset(self) -> ClockOffset:
        """Return the offset of the node's monotonic clock to the controller's, s."""
        if self.launcher is not None:
            words = await self.launcher.on_node(self.transport, self.node.host)
            return (await self._agent.clocks(words, self._clock))[0]
        readings = []
        for _ in range(EXCHANGES):
            sent = self._clock()
            answer = await self.transport.follow(*self._agent.command, {"clock": True})
            readings.append((sent, float(answer["monotonic_s"]), self._clock()))
        return best_offset(readings)

    async def sweep_orphans(self) -> list[int]:
        """End all processes of Nightbench on the node whose agent has died; return their pids."""
        if self.launcher is not None:
            return []  # the batch system ends what its jobs leave
        answer = await self._agent.sweep(kill=True)
        return [int(pid) for pid in answer.get("killed") or []]

    def _lease(self, epoch: int) -> str:
        return f"{epoch} {self._renewals} {self._clock():.3f}\n"

    async def _document(self, *parts: str) -> dict[str, Any] | None:
        return await read_document(self.transport, self._path(*parts))

    def _path(self, *parts: str) -> str:
        return posixpath.join(self._folder, *parts)


def _is_stale(agent: Mapping[str, Any], state: Mapping[str, Any] | None) -> bool:
    """Return whether a previous agent wrote the state of a repeat that it did not launch."""
    if state is None or state.get("state") not in ("preparing", "ready"):
        return False
    return agent.get("repeat") is None


def _with_state(view: NodeView, state: Mapping[str, Any] | None, now: float) -> NodeView:
    """Return the view updated by a repeat's state.json; a new state sets `state_changed_s`."""
    if state is None:
        return dataclasses.replace(
            view, state=None, reasons=(), ports={}, processes={}, state_changed_s=now
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
    fresh = view.state_written_s != written or view.state != state["state"]
    return dataclasses.replace(
        view,
        state=state["state"],
        reasons=reasons_from_json(state.get("reasons")),
        ports=state.get("ports") or {},
        processes=processes,
        state_written_s=written,
        state_changed_s=now if fresh else view.state_changed_s,
    )
