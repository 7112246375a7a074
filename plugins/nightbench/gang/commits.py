"""Building commits on a node of a cluster; the wheel comes back, and nothing of it runs here."""

import asyncio
import hashlib
import posixpath
import tempfile
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from nightbench.config.compare_builds import MOST_BYTES, WHEEL
from nightbench.core.model import Cluster, GitRepository, Node, digest_of
from nightbench.gang.errors import GangError, RemoteFailure
from nightbench.gang.node_access import Agent, connections
from nightbench.gang.process import FILE_TIMEOUT_S
from nightbench.gang.progress import GangEvent, OnEvent, ignore
from nightbench.gang.shipping import Shipment, ship
from nightbench.gang.transport import Target, Transport
from nightbench.spool.run import Uploads

LOG_BYTES = 4_000_000
"""Most that is kept of the log of a build: its end."""


class CommitFailed(GangError):
    """A commit cannot be built; the message ends with what its build said last."""

    def __init__(self, commit: str, why: str) -> None:
        super().__init__(f"{commit} could not be built {why}")
        self.commit = commit


class CommitLate(CommitFailed):
    """Its time was up before it was built."""


@dataclass(frozen=True)
class CommitBuild:
    """A commit of a repository that is built on a cluster for a framework line."""

    cluster: Cluster
    line: str
    repository: str
    commit: str

    @property
    def recipe(self) -> GitRepository:
        """Where it comes from, and how it is built."""
        return self.cluster.compare.repositories[self.repository]

    @property
    def node(self) -> Node:
        """The node that builds it."""
        name = self.cluster.compare.build_node
        return next(node for node in self.cluster.nodes if name in (None, node.name))

    @property
    def build(self) -> str:
        """Name of its build: another recipe is another build of the same commit."""
        recipe = self.recipe.model_dump(mode="json", exclude={"branch", "timeout_s"})
        digest = digest_of({**recipe, "line": self.line, "cluster": self.cluster.name})
        return f"{self.repository[:60]}-{self.commit}-{digest[:12]}"


async def merge_base(
    commit: CommitBuild,
    targets: Mapping[str, Target],
    shipment: Shipment,
    timeout_s: float,
) -> str:
    """Return the commit at which a commit left its repository's branch.

    Raises:
        CommitFailed: the repository has no such commit; `CommitLate` if the time was up.
        NodeError: the node does not answer, or has no git.
    """
    async with _agent(commit, targets, shipment, ignore) as (agent, uv):
        words = [*_words(commit, agent, uv, timeout_s), "--branch", commit.recipe.branch]
        answer = await _ask(agent, words, commit.build, ignore)
    _raise_failure(commit, answer)
    return str(answer["commit"])


async def build_commit(
    commit: CommitBuild,
    targets: Mapping[str, Target],
    shipment: Shipment,
    uploads: Uploads,
    timeout_s: float,
    on_event: OnEvent = ignore,
) -> str:
    """Build a commit unless that was done before; return `upload:SHA256/NAME` of its wheel.

    A build that is ended, by this process's end too, is ended on the node, which keeps nothing of
    it but the repository.

    Raises:
        CommitFailed: it cannot be built; `CommitLate` if the time was up.
        NodeError: the node does not answer, or has no git.
        SpoolError: the wheel cannot be kept.
    """
    name = commit.build
    found = await asyncio.to_thread(uploads.built, name)
    if found is None:
        async with _agent(commit, targets, shipment, on_event) as (agent, uv):
            folder = posixpath.join(agent.layout.root, "commits", commit.repository, name)
            found = await _ask(agent, _words(commit, agent, uv, timeout_s), name, on_event)
            words = ["tail", "-c", str(LOG_BYTES), posixpath.join(folder, "build.log")]
            log = await agent.transport.run(words, timeout_s=FILE_TIMEOUT_S)
            await asyncio.to_thread(uploads.save_log, name, log.stdout)
            if "failed" not in found and (why := _refusal(found["wheel"], found["size"])):
                found["failed"] = why
            if "failed" not in found:
                await _fetch(agent.transport, folder, found, uploads)
            await agent.transport.run(["rm", "-rf", folder], timeout_s=FILE_TIMEOUT_S)
        _raise_failure(commit, found)
        await asyncio.to_thread(uploads.save_note, name, {**found, "commit": commit.commit})
    return f"upload:{found['sha256']}/{found['wheel']}"


@asynccontextmanager
async def _agent(
    commit: CommitBuild, targets: Mapping[str, Target], shipment: Shipment, on_event: OnEvent
) -> AsyncIterator[tuple[Agent, str | None]]:
    async with connections([commit.node], targets) as transports:
        policy = commit.cluster.environments
        shipped = await ship(transports[commit.node.name], policy, shipment, on_event)
        yield shipped.agent, shipped.uv


def _words(commit: CommitBuild, agent: Agent, uv: str | None, timeout_s: float) -> list[str]:
    recipe = commit.recipe
    return [
        *agent.where,
        *("--line", commit.line, "--repository", commit.repository, "--url", recipe.url),
        *("--commit", commit.commit, "--build", commit.build, "--timeout", f"{timeout_s:.3f}"),
        *(["--uv", uv] if uv else []),
        *(f"--command={line}" for line in recipe.recipe),
    ]


async def _ask(agent: Agent, words: list[str], build: str, on_event: OnEvent) -> dict[str, Any]:
    # Each try has a mark of its own, by which what it leaves is found.
    mark = {
        "NIGHTBENCH_AGENT": f"commits/{build}/{uuid.uuid4().hex[:8]}",
        "NIGHTBENCH_AGENT_NODE": agent.transport.node,
    }
    return await agent.call(
        "commit",
        *words,
        env=mark,
        on_stderr=lambda line: on_event(GangEvent("provision", line, agent.transport.node)),
        timeout_s=None,
    )


def _refusal(name: str, size: int) -> str | None:
    if WHEEL.fullmatch(name) and len(name) <= 200 and size <= MOST_BYTES:
        return None
    return f"found {name[:200]!r} of {size} bytes; expected a wheel, *.whl, of {MOST_BYTES} at most"


def _raise_failure(commit: CommitBuild, answer: Mapping[str, Any]) -> None:
    if why := answer.get("failed"):
        kind = CommitLate if answer.get("late") else CommitFailed
        raise kind(
            f"{commit.repository}@{commit.commit}",
            f"on node {commit.node.name}: {why}\n{answer.get('said', '')}".rstrip(),
        )


async def _fetch(
    transport: Transport, folder: str, found: Mapping[str, Any], uploads: Uploads
) -> None:
    """Keep the wheel that a build has left on a node, under its digest."""
    name, size, sha256 = found["wheel"], found["size"], found["sha256"]
    with tempfile.TemporaryFile() as beside:
        await transport.get_file(posixpath.join(folder, "wheel", name), beside, size)
        beside.seek(0)
        digest = await asyncio.to_thread(hashlib.file_digest, beside, "sha256")
        if digest.hexdigest() != sha256:
            raise RemoteFailure.of(transport, f"{name} was damaged in transit; try again")
        beside.seek(0)
        await asyncio.to_thread(uploads.keep, sha256, name, beside)
