"""Names on a node: where everything of Nightbench lies below `environments.root`.

The state of jobs lies below `environments.job_root` where the site names one: a root on a shared
file system is a good place for environments and a slow one for files that change every second.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from nightbench.core.model import EnvironmentPolicy, JobSpec
from nightbench.gang.transport import Transport, expand


@dataclass(frozen=True)
class Layout:
    """Paths below the root, which is absolute (its `~` is resolved on the node)."""

    root: str
    job_root: str

    @classmethod
    async def of(cls, transport: Transport, policy: EnvironmentPolicy) -> Layout:
        """The layout on a node.

        Raises:
            NodeError: the node does not say where the user's home is.
        """
        root = await expand(transport, policy.root)
        return cls(root, await expand(transport, policy.job_root) if policy.job_root else root)

    def words(self) -> list[str]:
        """The options by which the agent's verbs find both roots."""
        apart = ["--job-root", self.job_root] if self.job_root != self.root else []
        return ["--root", self.root, *apart]

    def code(self, digest: str) -> str:
        """The shipped tree."""
        return posixpath.join(self.root, "code", digest)

    def agent(self, digest: str) -> str:
        """The agent's script."""
        return posixpath.join(self.code(digest), "agent.py")

    def uv(self, version: str) -> str:
        """The shipped uv binary."""
        return posixpath.join(self.root, "tools", f"uv-{version}")

    def wheel(self, digest: str, name: str) -> str:
        """A shipped wheel."""
        return posixpath.join(self.root, "wheels", digest[:12], name)

    def job(self, job: JobSpec, node: str) -> str:
        """A node's folder of a job (one for each node, so that a shared home works)."""
        return posixpath.join(self.run(job.job_id), node)

    def run(self, run_id: str) -> str:
        """Folder of all jobs of a run on the node, or of one job by its whole id."""
        return posixpath.join(self.job_root, "jobs", run_id)


def repeat_dir(job_dir: str, repeat: int) -> str:
    """Folder of a repeat."""
    return posixpath.join(job_dir, "repeats", f"{repeat:03d}")
