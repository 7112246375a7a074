"""Names on a node: where everything of Nightbench lies below `environments.root`."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from nightbench.model import JobSpec


@dataclass(frozen=True)
class Layout:
    """Paths below the root, which is absolute (its `~` is resolved on the node)."""

    root: str

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
        return posixpath.join(self.root, "jobs", job.job_id, node)


def repeat_dir(job_dir: str, repeat: int) -> str:
    """Folder of a repeat."""
    return posixpath.join(job_dir, "repeats", f"{repeat:03d}")
