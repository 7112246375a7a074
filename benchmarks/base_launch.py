"""The processes of a node for lines whose runtimes find each other by job.json themselves."""

import os


def processes(job, node, ports, python, code):
    """This node's processes: a list of {"name", "argv", "env"}. Pure.

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


def processes_without_tf32(job, node, ports, python, code):
    """The same for lines that take TF32 for float32 on GPUs and have no switch of their own."""
    started = processes(job, node, ports, python, code)
    for process in started:
        if "CUDA_VISIBLE_DEVICES" in process["env"]:
            process["env"]["NVIDIA_TF32_OVERRIDE"] = "0"
    return started
