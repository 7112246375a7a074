"""The processes of one node for PaddlePaddle 3: what its launcher sets for gloo, without it."""

import os

from apis.paddle.launch import collective


def processes(job, node, ports, python, code):
    """This node's ranks: a list of {"name", "argv", "env"}. Pure.

    Args:
        job: the job.json document.
        node: name of the node.
        ports: {name: port} of the whole gang.
        python: interpreter of the line's environment on this node.
        code: folder of the shipped code.
    """
    argv = [python, "-u", os.path.join(code, "rank.py")]
    return [
        {"name": process["name"], "argv": argv, "env": collective(job, process, ports)}
        for process in job["processes"]
        if process["node"] == node
    ]
