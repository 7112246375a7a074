"""Access to nodes: connections, paths on them, and calls of the agent's verbs."""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from nightbench.core.model import ClockOffset, EnvironmentPolicy, JobSpec, Node
from nightbench.gang.errors import AgentCrashed, GangError, remote_failure
from nightbench.gang.node_files import require_python
from nightbench.gang.process import OnLine, as_document, no_document
from nightbench.gang.transport import Target, Transport, shared_transport

T = TypeVar("T")

CODE_DIGITS = 12
"""Characters of a digest in a folder's name on nodes: every line of a traceback has it."""

EXCHANGES = 10
"""Readings of a node's clock for one offset."""


@asynccontextmanager
async def connections(
    nodes: Iterable[Node], targets: Mapping[str, Target], job_id: str = ""
) -> AsyncIterator[dict[str, Transport]]:
    """Yield transports to the nodes, of a job if given, by name; they are closed at the end.

    Raises:
        GangError: a node has no target.
    """
    transports: dict[str, Transport] = {}
    for node in nodes:
        if node.name not in targets:
            raise GangError(
                f"node {node.name}: found no SSH target (known: {sorted(targets)}). Does the "
                f"connection {node.ssh_conn_id} exist?"
            )
        transports[node.name] = shared_transport(targets[node.name].of_job(job_id))
    try:
        yield transports
    finally:
        await asyncio.gather(*(t.close() for t in transports.values()))


async def on_all(work: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all, then raise the first error: no task is left running in the background."""
    done = await asyncio.gather(*work, return_exceptions=True)
    for result in done:
        if isinstance(result, BaseException):
            raise result
    return [result for result in done if not isinstance(result, BaseException)]


# --- paths on a node -----------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Paths below `environments.root`, which is absolute (its `~` is resolved on the node).

    The state of jobs is below `environments.job_root` if the site names one: a root on a
    shared file system suits environments, but not files that change every second.
    """

    root: str
    job_root: str

    @classmethod
    async def of(cls, transport: Transport, policy: EnvironmentPolicy) -> Layout:
        """Return the layout on a node.

        Raises:
            NodeError: the node does not say where the user's home is.
        """
        root = await _expand(transport, policy.root)
        return cls(root, await _expand(transport, policy.job_root) if policy.job_root else root)

    @property
    def job_root_option(self) -> list[str]:
        """The option of the agent's verbs for the folder of jobs; empty if it is the root."""
        return ["--job-root", self.job_root] if self.job_root != self.root else []

    def code(self, digest: str) -> str:
        """Return the folder of the shipped tree."""
        return posixpath.join(self.root, "code", digest[:CODE_DIGITS])

    def uv(self, version: str, machine: str) -> str:
        """Return the path of the shipped uv binary: nodes of two machines may share the root."""
        return posixpath.join(self.root, "tools", f"uv-{version}-{machine}")

    def wheel(self, digest: str, name: str) -> str:
        """Return the path of a shipped wheel."""
        return posixpath.join(self.root, "wheels", digest[:12], name)

    def job(self, job: JobSpec, node: str) -> str:
        """Return a node's folder of a job (one for each node, so that a shared home works)."""
        return posixpath.join(self.run(job.job_id), node)

    def run(self, run_id: str) -> str:
        """Return the folder of all jobs of a run on the node, or of one job by its whole id."""
        return posixpath.join(self.job_root, "jobs", run_id)


async def _expand(transport: Transport, path: str) -> str:
    """Return the path with a leading `~` replaced by the SSH user's home on the node."""
    if path == "~" or path.startswith("~/"):
        return await transport.home() + path[1:]
    return path


async def read_document(transport: Transport, path: str) -> dict[str, Any] | None:
    """Return the JSON object in a file of a node; None if there is no such file.

    Raises:
        DamagedAnswer: it holds something else.
    """
    content = await transport.read(path)
    if content is None:
        return None
    document = as_document(content)
    if document is None:
        raise no_document(transport, path, content)
    return document


def repeat_dir(job_dir: str, repeat: int) -> str:
    """Return the folder of a repeat."""
    return posixpath.join(job_dir, "repeats", f"{repeat:03d}")


# --- the agent's verbs ---------------------------------------------------------------------


@dataclass(frozen=True)
class Agent:
    """`agent.py` of one shipped tree on one node, and the folders that it works in."""

    transport: Transport
    policy: EnvironmentPolicy
    layout: Layout
    code: str
    """Folder of the shipped tree."""

    @classmethod
    async def of(cls, transport: Transport, policy: EnvironmentPolicy, digest: str) -> Agent:
        """Return the agent of a tree on a node.

        Raises:
            NodeError: the node does not say where the user's home is.
        """
        layout = await Layout.of(transport, policy)
        return cls(transport, policy, layout, layout.code(digest))

    @property
    def command(self) -> tuple[str, str]:
        """Interpreter and script: the first words of all its commands."""
        return self.policy.python, posixpath.join(self.code, "agent.py")

    @property
    def where(self) -> list[str]:
        """Options of its verbs: the root, and the folder of the node's lock if that is apart."""
        lock_dir = ["--lock-dir", self.policy.lock_dir] if self.policy.lock_dir else []
        return ["--root", self.layout.root, *lock_dir]

    async def call(
        self,
        verb: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        on_stderr: OnLine | None = None,
        timeout_s: float | None = 120.0,
    ) -> dict[str, Any]:
        """Run `agent.py VERB` on the node; return the JSON document that it prints.

        `on_stderr` is called with each of its progress lines. No time limit (None) is for verbs
        that may take long.

        Raises:
            AgentCrashed: it ended with a traceback.
            PythonUnusable: the node's interpreter is not there, or too old.
            RemoteFailure: it failed, or printed no JSON; `DiskFull` if that was the reason.
        """
        transport = self.transport
        done = await transport.run(
            [*self.command, verb, *arguments], env=env, on_stderr=on_stderr, timeout_s=timeout_s
        )
        document = _document(done.stdout)
        if document is None:
            said = done.stderr or done.stdout
            if done.exit in (126, 127) or b"SyntaxError" in said:
                await require_python(transport, self.policy.python)
            full = b"No space left on device" in said
            if done.exit == 1 and b"Traceback (most recent call last)" in said and not full:
                lines = said.decode(errors="replace").strip().splitlines()
                raise AgentCrashed.of(
                    transport,
                    f"`agent.py {verb}` failed with an exception: {lines[-1]}. The cause is the "
                    "code shipped to the node, not the node. " + "\n".join(lines[-12:]),
                )
            raise remote_failure(transport, f"run `agent.py {verb}` (exit {done.exit})", said)
        if done.exit != 0:
            said = _failure_message(document).encode()
            raise remote_failure(transport, f"run `agent.py {verb}`", said)
        return document

    def mark(self, job_id: str) -> dict[str, str]:
        """Return the variables by which `sweep` and `cancel` find what a verb starts for a job."""
        return {"NIGHTBENCH_AGENT": job_id, "NIGHTBENCH_AGENT_NODE": self.transport.node}

    async def sweep(self, job: str | None = None, *, kill: bool = False) -> dict[str, Any]:
        """Return {"found": [{pid, job, node, cmd}], "killed": [pid]}: processes without an agent.

        With `job`, all processes of the jobs whose id begins so, agents included, instead.
        """
        words = [*(["--job", job] if job else []), *(["--kill"] if kill else [])]
        return await self.call("sweep", *self.where, *words)

    async def clocks(
        self, before: Sequence[str] = (), monotonic: Callable[[], float] = time.monotonic
    ) -> tuple[ClockOffset, ClockOffset]:
        """Return the offsets of the node's monotonic and wall clock to the controller's.

        The words `before` the command send it to the node.
        """
        readings, wall = [], []
        question = '{"id": 0, "clock": true}'
        async with self.transport.converse([*before, *self.command, "follow"]) as conversation:
            for _ in range(EXCHANGES):
                sent, sent_wall = monotonic(), time.time()
                answer = await conversation.ask_document("agent.py follow", question)
                received, received_wall = monotonic(), time.time()
                readings.append((sent, float(answer["monotonic_s"]), received))
                wall.append((sent_wall, float(answer["wall_s"]), received_wall))
        return best_offset(readings), best_offset(wall)


def _failure_message(document: dict[str, Any]) -> str:
    """Return the agent's message about its failure: the error, its log on the node, a hint."""
    said = str(document.get("error") or document)
    if document.get("log"):
        said += f" (log on the node: {document['log']})"
    return f"{said}. {document['hint']}" if document.get("hint") else said


def _document(stdout: bytes) -> dict[str, Any] | None:
    """Return the last line that is a JSON object: some sites' login scripts print before it."""
    lines = reversed(stdout.decode(errors="replace").strip().splitlines())
    return next((each for each in map(as_document, lines) if each), None) or as_document(stdout)


def repeated_option(flag: str, values: Sequence[str]) -> list[str]:
    """Return the words of an option that is given once for each value."""
    return [word for value in values for word in (flag, value)]


# --- a node's clocks -----------------------------------------------------------------------


def best_offset(exchanges: Iterable[tuple[float, float, float]]) -> ClockOffset:
    """Return the offset from the exchange with the shortest round trip.

    The node read its clock at some moment of the round trip: taking its middle errs by half of it
    at most (Cristian, Probabilistic clock synchronization, 1989). Each exchange is (sent_s, node_s,
    received_s), the node's reading on its own clock.
    """
    sent, node, received = min(exchanges, key=lambda exchange: exchange[2] - exchange[0])
    return ClockOffset(offset_s=node - (sent + received) / 2, error_s=(received - sent) / 2)
