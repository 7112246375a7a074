"""What can go wrong between the controller and a node, in words that a user can act on."""

from __future__ import annotations

from nightbench.core.errors import UserError
from nightbench.core.model import Reason, ReasonCode


class GangError(UserError):
    """Something about a gang, or about one of its nodes."""


class NodeError(GangError):
    """Something about one node.

    Args:
        node: its name in the cluster.
        address: `host:port` as it was reached.
        message: what was found, what was expected, what to do.
    """

    code = ReasonCode.NODE_ERROR

    def __init__(self, node: str, address: str, message: str) -> None:
        self.node = node
        self.address = address
        self.message = message
        super().__init__(f"node {node} ({address}): {message}")

    @property
    def reason(self) -> Reason:
        """Why something ended by this error."""
        return Reason(self.code, self.node, self.address, self.message)

    def __reduce__(self) -> tuple[type[NodeError], tuple[str, str, str]]:
        return type(self), (self.node, self.address, self.message)


class NodeUnreachable(NodeError):
    """Refused, timed out, no such host, or a connection that was lost: it may come back."""

    code = ReasonCode.NODE_UNREACHABLE


class NotSsh(NodeError):
    """Something answers there that is no SSH server."""

    code = ReasonCode.NOT_SSH


class HostKeyRejected(NodeError):
    """The host key is unknown, or another one than before."""

    code = ReasonCode.HOST_KEY_REJECTED


class LoginRefused(NodeError):
    """The node does not accept the user or the key."""

    code = ReasonCode.LOGIN_REFUSED


class DiskFull(NodeError):
    """No room on the node's disk."""

    code = ReasonCode.DISK_FULL


class RemoteFailure(NodeError):
    """A command, or an access to a file, failed on the node."""

    code = ReasonCode.REMOTE_FAILURE


class PythonUnusable(NodeError):
    """The interpreter that is to run the agent is not there, broken or too old."""

    code = ReasonCode.PYTHON_UNUSABLE


class EnvironmentUnavailable(NodeError):
    """The framework's environment cannot be built on the node; the message says how to get it."""

    code = ReasonCode.ENVIRONMENT_UNAVAILABLE


def reason_of(error: UserError) -> Reason:
    """Why something ended by an error, about its node where it has one."""
    if isinstance(error, NodeError):
        return error.reason
    return Reason(ReasonCode.CONTROLLER_ERROR, observed=str(error))


def faults_of(error: UserError) -> tuple[Reason, ...]:
    """The fault of the node that an error is about; what it lacks to be built on is none."""
    if isinstance(error, NodeError) and not isinstance(error, EnvironmentUnavailable):
        return (error.reason,)
    return ()


class Superseded(GangError):
    """Another controller has claimed a higher epoch and steers the gang now."""
