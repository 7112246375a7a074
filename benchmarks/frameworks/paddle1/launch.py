"""The processes of one node for Fluid: what its launchers set, without them.

(They also write the whole environment into log files.)
"""

import os

from apis.paddle.launch import collective, parameter_server


def processes(job, node, ports, python, code):
    """This node's ranks, pservers and trainers: a list of {"name", "argv", "env"}. Pure.

    Args:
        job: the job.json document.
        node: name of the node.
        ports: {name: port} of the whole gang.
        python: interpreter of the line's environment on this node.
        code: folder of the shipped code.
    """
    served = any(process["role"] == "pserver" for process in job["processes"])
    environment = parameter_server if served else collective
    argv = [python, "-u", os.path.join(code, "rank.py")]
    return [
        {"name": process["name"], "argv": argv, "env": environment(job, process, ports)}
        for process in job["processes"]
        if process["node"] == node
    ]
