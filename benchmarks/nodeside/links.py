"""The limit on a node's link, set by the site's own command: `COMMAND 100mbit`, `COMMAND full`."""

from __future__ import annotations

import subprocess

from nodeside.files import AgentError
from nodeside.job import NodeJob

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
    try:
        done = subprocess.run(
            [*command, rate],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LIMIT_S,
            check=False,
        )
        problem = "exited with {}: {}".format(
            done.returncode, done.stdout.decode(errors="replace").strip()[-300:]
        )
        failed = done.returncode != 0
    except subprocess.TimeoutExpired:
        failed, problem = True, "did not end within {} s".format(_LIMIT_S)
    except OSError as error:
        failed, problem = True, "cannot be started: {}".format(error.strerror)
    if failed:
        raise AgentError(
            "node {}: the link cannot be set to {}: {} {}".format(
                job.node, rate, command[0], problem
            ),
            "look at `link.command` of the cluster, and run it on the node",
        )
    job.log.write("link", bandwidth=rate)
