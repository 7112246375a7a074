"""Errors between the controller and a node; each message says what the user can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from nightbench.core.errors import UserError
from nightbench.core.model import Reason, ReasonCode
from nightbench.core.sentences import sentences


class GangError(UserError):
    """An error of a gang or of one of its nodes."""


class Place(Protocol):
    """A way to one node: a transport, or the target of a login."""

    @property
    def node(self) -> str:
        """Its name in the cluster."""

    @property
    def address(self) -> str:
        """`host:port`."""


class NodeError(GangError):
    """An error of one node.

    The address is `host:port`; the message says what was found, what was expected, what to do.
    """

    code = ReasonCode.NODE_ERROR
    expected = ""

    def __init_subclass__(cls, code: ReasonCode | None = None) -> None:
        cls.code = code or cls.code

    def __init__(self, node: str, address: str, message: str) -> None:
        self.node = node
        self.address = address
        self.message = message
        super().__init__(f"node {node} ({address}): {message}")

    @classmethod
    def of(cls, place: Place, message: str) -> Self:
        """The error of the node that a transport or a target leads to."""
        return cls(place.node, place.address, message)

    @property
    def reason(self) -> Reason:
        """The error as the reason of a repeat or a case."""
        return Reason(self.code, self.node, self.address, self.message, self.expected)


class NodeUnreachable(NodeError, code=ReasonCode.NODE_UNREACHABLE):
    """Connection refused, timed out or lost, or no such host; a later attempt may succeed."""


class NotSsh(NodeError, code=ReasonCode.NOT_SSH):
    """The program on the port is not an SSH server."""


class HostKeyRejected(NodeError, code=ReasonCode.HOST_KEY_REJECTED):
    """The host key is not in known_hosts, or differs from the key there."""


class LoginRefused(NodeError, code=ReasonCode.LOGIN_REFUSED):
    """The node does not accept the user or the key."""


class DiskFull(NodeError, code=ReasonCode.DISK_FULL):
    """The node's disk is full."""


class RemoteFailure(NodeError, code=ReasonCode.REMOTE_FAILURE):
    """A command or a file operation failed on the node."""


class PythonUnusable(NodeError, code=ReasonCode.PYTHON_UNUSABLE):
    """The Python interpreter for the agent is missing, broken or too old."""


class EnvironmentUnavailable(NodeError, code=ReasonCode.ENVIRONMENT_UNAVAILABLE):
    """The framework's environment cannot be built on the node; the message says how to get it."""


class MachinesDiffer(EnvironmentUnavailable, code=ReasonCode.MACHINES_DIFFER):
    """The node has another CPU architecture than the gang's lead, or than its cluster states."""


class DamagedAnswer(RemoteFailure):
    """A file or an answer of a node is no JSON object; the node itself answers."""


class AgentCrashed(RemoteFailure):
    """agent.py ended with a traceback: a defect of it, or of what was shipped next to it."""


_OF_REQUESTS = (ReasonCode.API_FORBIDDEN, ReasonCode.API_REFUSED, ReasonCode.QUOTA_EXCEEDED)


class PodError(NodeError):
    """Kubernetes does not give a node its pod, or has taken it away; the message is its own."""

    @classmethod
    def of_code(cls, place: Place, message: str, code: ReasonCode, expected: str = "") -> Self:
        """Return the error of the pod of the node that a transport or a target leads to."""
        error = cls.of(place, message)
        error.code, error.expected = code, expected
        return error

    @property
    def is_of_pod(self) -> bool:
        """Whether it is about the pod itself, not about a request to the API server."""
        return self.code not in _OF_REQUESTS


def remote_failure(place: Place, what: str, stderr: bytes) -> RemoteFailure | DiskFull:
    """Return the error for a command that failed, by what it wrote to stderr."""
    tail = stderr.decode(errors="replace").strip()[-1500:]
    if "No space left on device" in tail or "Disk quota exceeded" in tail:
        return DiskFull.of(
            place,
            f"no room to {what}. Make room there, or put environments.root on another disk "
            "(cluster YAML)",
        )
    return RemoteFailure.of(place, f"could not {what}: {tail}")


_NOT_THE_NODE = (EnvironmentUnavailable, AgentCrashed)


def reason_of(error: UserError) -> Reason:
    """Return the reason of an error; it names the node if the error is about one."""
    if isinstance(error, NodeError):
        return error.reason
    return Reason(ReasonCode.CONTROLLER_ERROR, observed=str(error))


def faults_of(error: UserError) -> tuple[Reason, ...]:
    """Return the fault of the node that an error is about; empty if the node is not at fault.

    An environment that cannot be built is no fault of the node. Neither is a mistake in
    the code that was shipped to it, or a pod that Kubernetes did not place.
    """
    if isinstance(error, PodError) and error.code is not ReasonCode.MACHINE_LOST:
        return ()
    if isinstance(error, NodeError) and not isinstance(error, _NOT_THE_NODE):
        return (error.reason,)
    return ()


class Superseded(GangError):
    """Another controller has claimed a higher epoch and has taken the gang over."""


class Cancelled(GangError):
    """A user ended the job with `cancel`."""

    def __init__(self, reasons: Sequence[Reason]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(sentences(self.reasons))


class DeadlinePassed(GangError):
    """A repeat that is started now would end after the job's deadline."""
