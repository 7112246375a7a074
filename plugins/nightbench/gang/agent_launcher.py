"""How the agents of a gang are started: over SSH one by one, or all by a batch system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nightbench.core.model import Reason
from nightbench.gang.ssh_transport import SshTransport


class AgentLauncher(Protocol):
    """Starts the agents of one gang where the transports lead elsewhere than to its nodes.

    Without one, agents are started over SSH (`NodeClient.start_agent`).
    """

    waits: str | None
    """Why the agents have not begun, as a sentence; None where nothing is waited for."""

    async def start(self, transport: SshTransport) -> bool:
        """Start all agents; return False where they run already, or wait for their nodes.

        Raises:
            NodeError: for now it cannot be started.
            GangError: it cannot be started.
            Cancelled: a person has ended the job.
        """

    async def is_running(self, transport: SshTransport) -> bool:
        """Return whether the agents run."""

    async def on_node(self, transport: SshTransport, host: str) -> Sequence[str]:
        """Return the words before a command that is to run on a node itself."""

    def take_end(self) -> Reason | None:
        """Return once why the agents ended, where the batch system ended them."""

    async def end(self, transport: SshTransport) -> None:
        """End all agents that are left, and whatever waits to start some.

        Raises:
            NodeError: it could not be done.
        """
