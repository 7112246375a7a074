"""The processes of one node for JAX: the runtime itself tells a rank where the others are."""

import os


def processes(job, node, ports, python, code):
    """This node's ranks: a list of {"name", "argv", "env"}. Pure.

    Args:
        job: the job.json document.
        node: name of the node.
        ports: {name: port} of the whole gang.
        python: interpreter of the line's environment on this node.
        code: folder of the shipped code.
    """
    interface = next(n["interface"] for n in job["nodes"] if n["name"] == node)
    argv = [python, "-u", os.path.join(code, "rank.py")]
    started = []
    for process in job["processes"]:
        if process["node"] != node:
            continue
        env = {}
        if process["device"] is not None:
            env["CUDA_VISIBLE_DEVICES"] = process["device"]
            if interface:
                env["NCCL_SOCKET_IFNAME"] = interface
        started.append({"name": process["name"], "argv": argv, "env": env})
    return started
