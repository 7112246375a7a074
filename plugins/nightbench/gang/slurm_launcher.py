"""Runs the agents of a gang as one job of Slurm, submitted on a login node.

    <root>/jobs/<job id>/slurm/submission-001/number   Slurm's number of the job, once it has one
    <root>/jobs/<job id>/slurm/ended-17                a controller has cancelled job 17
    <root>/jobs/<job id>/slurm/job-17.out              what the job printed

A submission is claimed by `mkdir`, and no job is submitted while one of its name is in the queue:
a controller that was started again finds it there. `--dependency=singleton` keeps two jobs of a
name from running at once, whatever went wrong before.
"""

from __future__ import annotations

import asyncio
import json
import math
import posixpath
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nightbench.core.model import JobSpec, Reason, ReasonCode, SlurmPolicy
from nightbench.gang.errors import Cancelled, GangError, RemoteFailure
from nightbench.gang.node_access import Layout, read_document
from nightbench.gang.progress import GangEvent, OnEvent, ignore
from nightbench.gang.transport import Target, Transport

ASK_S = 2.0
"""An answer of `squeue` counts for so long."""
COMMAND_TIMEOUT_S = 60.0
UNRESOLVED_S = 90.0
"""A submission whose job does not appear within this time has failed."""
END_S = 90.0
"""Slurm sends SIGKILL `KillWait` after SIGTERM, 30 s unless the site says otherwise."""

WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
RUNNING = frozenset(
    {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
)
"""States in which a job holds its nodes. Every other one is an end."""

ENVIRONMENT = "HOME,USER,LOGNAME,PATH,LANG"
"""Variables of the login session that a job gets, in addition to Slurm's own."""


def launcher_of(
    job: JobSpec, targets: Mapping[str, Target], on_event: OnEvent
) -> SlurmLauncher | None:
    """Return the launcher of a gang; None if each agent is started over SSH."""
    policy = targets[job.nodes[0].name].slurm if job.nodes[0].name in targets else None
    return SlurmLauncher(job, policy, on_event) if policy is not None else None


class SlurmLauncher:
    """Starts all agents of one gang as the tasks of one step of one job.

    Without it agents are started over SSH (`NodeClient.start_agent`). The transports lead to the
    login node.
    """

    def __init__(
        self,
        job: JobSpec,
        policy: SlurmPolicy,
        on_event: OnEvent = ignore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._policy = policy
        self._on_event = on_event
        self._clock = clock
        self._name = _job_name(job.job_id)
        self._busy = asyncio.Lock()
        self._known: SlurmJob | None = None
        self._asked_s: float | None = None
        self._silent_since_s: float | None = None
        self._unresolved_since_s: dict[str, float] = {}
        self._reported: set[int] = set()
        """Jobs whose end was reported."""
        self._end: Reason | None = None
        self.waits: str | None = None
        """Why the agents have not begun, as a sentence; None if nothing is waited for."""

    async def start(self, transport: Transport) -> bool:
        """Submit the job; return False if it runs already, or waits for its nodes.

        Raises:
            NodeError: for now it cannot be started.
            GangError: it cannot be started.
            Cancelled: a person has ended the job.
        """
        async with self._busy:
            found = await self._ask(transport)
            if found is not None and found.is_active:
                self.waits = None if found.is_running else f"waiting for {found}"
                return False
            if found is not None and await self._is_cancelled(transport, found):
                observed = f"Slurm job {found.number} by scancel"
                raise Cancelled([Reason(ReasonCode.CANCELLED, observed=observed)])
            return await self._submit(transport)

    async def is_running(self, transport: Transport) -> bool:
        """Return whether the job runs; what was known last if Slurm does not answer."""
        async with self._busy:
            try:
                found = await self._ask(transport)
            except RemoteFailure:
                found = self._known  # a controller that is down says nothing of its jobs
        return found is not None and found.is_running

    async def on_node(self, transport: Transport, host: str) -> Sequence[str]:
        """Return the words before a command that is to run on a node itself.

        Raises:
            RemoteFailure: the job does not run.
        """
        if not await self.is_running(transport) or self._known is None:
            raise RemoteFailure.of(transport, "the node's Slurm job does not run")
        words = ["srun", f"--jobid={self._known.number}", "--overlap", "--nodes=1", "--ntasks=1"]
        return [*words, f"--nodelist={host}", "--cpu-bind=none", "--quiet"]

    def take_end(self) -> Reason | None:
        """Return once why Slurm's job ended, unless it ended by itself."""
        end, self._end = self._end, None
        return end

    async def end(self, transport: Transport) -> None:
        """Cancel the job if it is left in the queue, and wait for its end."""
        for job in await _queue(transport, self._name):
            if job.is_active:
                await transport.write_atomic(await self._ended_path(transport, job.number), b"")
        await end_job(transport, self._job.job_id)

    async def _is_cancelled(self, transport: Transport, job: SlurmJob) -> bool:
        """Tell whether somebody else than a controller has cancelled the job."""
        ended = await self._ended_path(transport, job.number)
        return job.state == "CANCELLED" and not await transport.exists(ended)

    async def _ended_path(self, transport: Transport, number: int) -> str:
        return posixpath.join(await self._folder(transport), f"ended-{number}")

    async def _folder(self, transport: Transport) -> str:
        layout = await Layout.of(transport, self._job.environments)
        return posixpath.join(layout.run(self._job.job_id), "slurm")

    # --- what Slurm says ------------------------------------------------------------------

    async def _ask(self, transport: Transport) -> SlurmJob | None:
        """Return the gang's job; None if Slurm has none. Slurm may be silent for one lease."""
        now = self._clock()
        if self._asked_s is not None and now - self._asked_s < ASK_S:
            return self._known
        try:
            found = newest(await _queue(transport, self._name))
        except RemoteFailure as error:
            self._silent_since_s = self._silent_since_s or now
            if now - self._silent_since_s > self._job.limits.lease_s:
                raise GangError(f"Slurm has not answered for a while: {error}") from error
            raise
        self._silent_since_s = None
        if found is None and self._known is not None and self._known.is_active:
            found = await self._accounted(transport, self._known.number)
        self._known, self._asked_s = found, now
        if found is not None and not found.is_active and found.number not in self._reported:
            self._reported.add(found.number)
            self._on_event(GangEvent("batch", str(found)))
            if found.state != "COMPLETED":
                why = f"{found.state} {found.why}".strip()
                subject = f"Slurm job {found.number}"
                self._end = Reason(ReasonCode.BATCH_JOB_ENDED, subject=subject, observed=why)
        return found

    async def _accounted(self, transport: Transport, number: int) -> SlurmJob:
        """Return a job that has left the queue, from the accounting if Slurm has one."""
        words = ["sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={number}"]
        words.append("--format=JobIDRaw,State,ExitCode")
        done = await transport.run(words, timeout_s=COMMAND_TIMEOUT_S)
        if done.exit == 0:
            for job in read_jobs(done.stdout.decode(errors="replace")):
                if job.number == number:
                    return job
        return SlurmJob(number, "UNKNOWN", "left the queue, and Slurm has no accounting")

    # --- submitting -----------------------------------------------------------------------

    async def _submit(self, transport: Transport) -> bool:
        layout = await Layout.of(transport, self._job.environments)
        run = layout.run(self._job.job_id)
        folder = await self._folder(transport)
        await transport.make_folders(folder)
        names = [n for n in await transport.listdir(folder) if n.startswith("submission-")]
        if names and not await transport.exists(posixpath.join(folder, names[-1], "number")):
            # Another controller submits, or died while it submitted: its job may still appear.
            since_s = self._unresolved_since_s.setdefault(names[-1], self._clock())
            if self._clock() - since_s < UNRESOLVED_S:
                self.waits = "waiting for a job that an earlier controller may have submitted"
                return False
        claim = posixpath.join(folder, f"submission-{len(names) + 1:03d}")
        if not await transport.mkdir(claim):
            return False
        await self._end_stale_states(transport, layout)
        self.waits = "waiting for the submitted Slurm job to appear"
        words = submit_words(self._policy, self._job, folder)
        agent = posixpath.join(layout.code(self._job.code_digest), "agent.py")
        text = script(self._job, self._job.environments.python, agent, run)
        done = await transport.run(words, stdin=text.encode(), timeout_s=COMMAND_TIMEOUT_S)
        said = done.stderr.decode(errors="replace").strip()[-1000:]
        number = done.stdout.decode(errors="replace").strip().partition(";")[0]
        if done.exit != 0 or not number.isdecimal():
            await transport.write_atomic(posixpath.join(claim, "number"), b"refused\n")
            if "contact slurm controller" in said.lower():
                raise RemoteFailure.of(transport, f"sbatch: {said}")
            raise GangError(
                f"Slurm refuses the job of {self._job.job_id} (exit {done.exit}): {said}. Check "
                "`slurm` and the node names in the cluster's YAML"
            )
        await transport.write_atomic(posixpath.join(claim, "number"), f"{number}\n".encode())
        self._known, self._asked_s = SlurmJob(int(number), "PENDING"), None
        message = f"submitted as Slurm job {number}"
        self._on_event(GangEvent("batch", message))
        return True

    async def _end_stale_states(self, transport: Transport, layout: Layout) -> None:
        """Mark agents of an ended job as ended, because they may have died silently."""
        for node in self._job.nodes:
            path = posixpath.join(layout.job(self._job, node.name), "agent.json")
            agent = await read_document(transport, path)
            if agent is not None and agent["state"] != "ended":
                died = Reason(ReasonCode.AGENT_DIED, node.name)
                agent.update(state="ended", reasons=[died.to_json()])
                await transport.write_atomic(path, json.dumps(agent).encode())


async def end_job(transport: Transport, job_id: str) -> None:
    """Cancel the job of a gang, and wait until it has left the nodes.

    Raises:
        RemoteFailure: Slurm does not answer, or the job does not end.
    """
    name = _job_name(job_id)
    until_s = time.monotonic() + END_S
    while any(job.is_active for job in await _queue(transport, name)):
        if time.monotonic() > until_s:
            why = f"the Slurm job {name} is still there {END_S:.0f} s after scancel"
            raise RemoteFailure.of(transport, why)
        await _command(transport, ["scancel", "--me", f"--name={name}"])
        await asyncio.sleep(ASK_S / 2)


async def _queue(transport: Transport, name: str) -> list[SlurmJob]:
    # Jobs in all states: also ended jobs, as long as Slurm lists them.
    words = ["squeue", "--me", "--noheader", "--states=all", f"--name={name}"]
    output = await _command(transport, [*words, "--format=%A|%T|%r"])
    try:
        return read_jobs(output)
    except ValueError as error:
        why = f"squeue: found {output[-200:]!r}, expected lines NUMBER|STATE|REASON"
        raise RemoteFailure.of(transport, why) from error


async def _command(transport: Transport, words: Sequence[str]) -> str:
    done = await transport.run(words, timeout_s=COMMAND_TIMEOUT_S)
    if done.exit != 0:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        why = f"`{words[0]}` failed (exit {done.exit}): {said}"
        raise RemoteFailure.of(transport, why)
    return done.stdout.decode(errors="replace")


# --- command lines and what they print; pure ----------------------------------------------


@dataclass(frozen=True)
class SlurmJob:
    """A job as Slurm shows it."""

    number: int
    state: str
    """`PENDING`, `RUNNING`, `COMPLETED`, `TIMEOUT`, …"""
    why: str = ""
    """Why it waits, or how it ended: `Resources`, `NonZeroExitCode`."""

    @property
    def is_active(self) -> bool:
        """Whether it waits or runs."""
        return self.state in WAITING or self.state in RUNNING

    @property
    def is_running(self) -> bool:
        """Whether it holds its nodes."""
        return self.state in RUNNING

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why not in ("", "None") else ""
        return f"Slurm job {self.number}: {self.state}{why}"


def _job_name(job_id: str) -> str:
    return f"nightbench/{job_id}"


def script(job: JobSpec, python: str, agent: str, folder: str) -> str:
    """Return the script of a gang's job: one step with one agent on each node.

    Job directories of all nodes are in `folder`, agent.py at `agent`.
    """
    nodes = [word for node in job.nodes for word in ("--node", f"{node.host}={node.name}")]
    step = ["srun", "--overlap", f"--nodes={len(job.nodes)}", f"--ntasks={len(job.nodes)}"]
    # An agent that ends although no controller told it to takes the others and the job with it.
    step += ["--ntasks-per-node=1", "--cpu-bind=none", "--kill-on-bad-exit=1", "--wait=0"]
    words = [*step, python, agent, "task", folder, *nodes]
    return f"#!/bin/sh\nexec {shlex.join(words)}\n"


def submit_words(policy: SlurmPolicy, job: JobSpec, folder: str) -> list[str]:
    """Return the words that submit a script, which is their input; they print the job's number.

    The job's own output goes into `folder`.
    """
    words = ["sbatch", *policy.options, "--parsable", f"--job-name={_job_name(job.job_id)}"]
    words += [f"--nodes={len(job.nodes)}", f"--nodelist={','.join(n.host for n in job.nodes)}"]
    # A second job of the same name never runs beside the first one, whoever submitted it.
    words += ["--ntasks-per-node=1", "--exclusive", "--no-requeue", "--dependency=singleton"]
    words += [f"--signal=B:USR1@{policy.warning_s:.0f}", f"--export={ENVIRONMENT}"]
    words.append(f"--output={posixpath.join(folder, 'job-%j.out')}")
    if policy.partition:
        words.append(f"--partition={policy.partition}")
    if policy.account:
        words.append(f"--account={policy.account}")
    if policy.time_limit_s:
        words.append(f"--time={math.ceil(policy.time_limit_s / 60)}")
    return words


def read_jobs(output: str) -> list[SlurmJob]:
    """Return the jobs that `squeue` or `sacct` printed, the newest first.

    Raises:
        ValueError: a line is not what was asked for.
    """
    found = {}
    for line in output.splitlines():
        if not line.strip():
            continue
        number, state, why = line.strip().split("|", 2)
        # sacct says who: `CANCELLED by 1000`.
        found[int(number)] = SlurmJob(int(number), state.split()[0], why)
    return sorted(found.values(), key=lambda job: -job.number)


def newest(jobs: Iterable[SlurmJob]) -> SlurmJob | None:
    """Return the job that a gang's agents run in: an active one, else the last that ended."""
    listed = sorted(jobs, key=lambda job: (job.is_running, job.is_active, job.number))
    return listed[-1] if listed else None
