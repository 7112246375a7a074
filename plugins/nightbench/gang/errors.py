"""What can go wrong between the controller and a node, in words that a user can act on."""

from __future__ import annotations

from nightbench.core.errors import UserError


class GangError(UserError):
    """Something about a gang, or about one of its nodes."""


class NodeError(GangError):
    """Something about one node.

    Args:
        node: its name in the cluster.
        address: `host:port` as it was reached.
        message: what was found, what was expected, what to do.
    """

    def __init__(self, node: str, address: str, message: str) -> None:
        self.node = node
        self.address = address
        self.message = message
        super().__init__(f"node {node} ({address}): {message}")

    def __reduce__(self) -> tuple[type[NodeError], tuple[str, str, str]]:
        return type(self), (self.node, self.address, self.message)


class NodeUnreachable(NodeError):
    """Refused, timed out, no such host, or a connection that was lost: it may come back."""


class NotSsh(NodeError):
    """Something answers there that is no SSH server."""


class HostKeyRejected(NodeError):
    """The host key is unknown, or another one than before."""


class LoginRefused(NodeError):
    """The node does not accept the user or the key."""


class DiskFull(NodeError):
    """No room on the node's disk."""


class RemoteFailure(NodeError):
    """A command, or an access to a file, failed on the node."""


class EnvironmentUnavailable(NodeError):
    """The framework's environment cannot be built on the node; the message says how to get it."""


def faults_of(error: BaseException) -> dict[str, str]:
    """Node -> its fault, where an error is about a node; what it lacks to be built on is none."""
    if isinstance(error, NodeError) and not isinstance(error, EnvironmentUnavailable):
        return {error.node: error.message}
    return {}


class Superseded(GangError):
    """Another controller has claimed a higher epoch and steers the gang now."""
