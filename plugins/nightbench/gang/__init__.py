"""Launching gangs over SSH: transport, preparation of nodes, the state machine, cancellation.

`prepare` brings code and environments to the nodes of a job, `run_gang` measures it, `cancel`
ends it. Each can be called again after any interruption.
"""

from nightbench.gang.cancel import CancelReport, cancel, cancel_run
from nightbench.gang.errors import (
    DiskFull,
    EnvironmentUnavailable,
    GangError,
    HostKeyRejected,
    LoginRefused,
    NodeError,
    NodeUnreachable,
    NotSsh,
    RemoteFailure,
    Superseded,
    faults_of,
)
from nightbench.gang.events import CaseOutcome, GangEvent, OnEvent, RepeatOutcome, node_faults
from nightbench.gang.preflight import Network, preflight
from nightbench.gang.provisioning import prepare
from nightbench.gang.shipping import Shipment, local_shipment
from nightbench.gang.ssh_target import SshTarget
from nightbench.gang.ssh_transport import SshTransport
from nightbench.gang.steer import run_gang
from nightbench.gang.tidying import clean, sweep

__all__ = [
    "CancelReport",
    "CaseOutcome",
    "DiskFull",
    "EnvironmentUnavailable",
    "GangError",
    "GangEvent",
    "HostKeyRejected",
    "LoginRefused",
    "Network",
    "NodeError",
    "NodeUnreachable",
    "NotSsh",
    "OnEvent",
    "RemoteFailure",
    "RepeatOutcome",
    "Shipment",
    "SshTarget",
    "SshTransport",
    "Superseded",
    "cancel",
    "cancel_run",
    "clean",
    "faults_of",
    "local_shipment",
    "node_faults",
    "preflight",
    "prepare",
    "run_gang",
    "sweep",
]
