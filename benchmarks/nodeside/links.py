"""The limit on a node's link, set by the site's own command: `COMMAND 100mbit`, `COMMAND full`."""

from __future__ import annotations

from nodeside.files import AgentError
from nodeside.job import NodeJob
from nodeside.shell import run

FULL = "full"
_LIMIT_S = 30


def limit_link(job: NodeJob, bandwidth: str | None = None) -> None:
    """Set the bandwidth of the node's link; do nothing if the cluster has no command for it.

    Every job sets it, also to `full`: a killed agent may have left another limit.

    Args:
        job: the job.
        bandwidth: used instead of that of the job's case.

    Raises:
        AgentError: the command fails.
    """
    command = list(job.document["link_command"])
    if not command:
        return
    rate = bandwidth or job.document["case"]["link_bandwidth"]
    code, said = run([*command, rate], _LIMIT_S)
    if code != 0:
        raise AgentError(
            "node {}: the link cannot be set to {}: {}: {} (exit code {})".format(
                job.node, rate, command[0], said.strip()[-300:], code
            ),
            "look at `link.command` of the cluster, and run the command on the node",
        )
    job.log.write("link", bandwidth=rate)
