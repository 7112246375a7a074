"""Launching gangs: transports, preparation of nodes, the state machine, cancellation.

`prepare` sends code and environments to the nodes of a job, `run_gang` measures it, `cancel`
ends it. Each can be called again after any interruption.
"""

from nightbench.gang.cleanup import cancel, cancel_run, clean, sweep
from nightbench.gang.controller import run_gang
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
    reason_of,
)
from nightbench.gang.kubernetes_api import ApiAccess, PodTarget
from nightbench.gang.preflight import preflight
from nightbench.gang.progress import GangEvent
from nightbench.gang.provisioning import prepare
from nightbench.gang.shipping import Shipment, local_shipment
from nightbench.gang.ssh_target import SshTarget
from nightbench.gang.ssh_transport import SshTransport
from nightbench.gang.transport import Target
