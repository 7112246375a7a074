"""The processes of one node for MindSpore: what msrun sets, without it."""

import os


def processes(job, node, ports, python, code):
    """This node's ranks, on the lead the scheduler too: a list of {"name", "argv", "env"}. Pure.

    Args:
        job: the job.json document.
        node: name of the node.
        ports: {name: port} of the whole gang.
        python: interpreter of the line's environment on this node.
        code: folder of the shipped code.
    """
    argv = [python, "-u", os.path.join(code, "rank.py")]
    return [
        {"name": process["name"], "argv": argv, "env": _environment(job, process, ports)}
        for process in job["processes"]
        if process["node"] == node
    ]


def _environment(job, process, ports):
    addresses = {each["name"]: each["data_address"] for each in job["nodes"]}
    schedulers = [each for each in job["processes"] if each["role"] == "scheduler"]
    if not schedulers or len(job["processes"]) == 2:
        return {}  # a lone rank meets nobody
    env = {
        "MS_ROLE": "MS_SCHED" if process["role"] == "scheduler" else "MS_WORKER",
        "MS_SCHED_HOST": addresses[schedulers[0]["node"]],
        "MS_SCHED_PORT": str(ports[schedulers[0]["name"]]),
        "MS_WORKER_NUM": str(len(job["processes"]) - 1),
    }
    if process["role"] != "scheduler":
        env["MS_NODE_ID"] = str(process["rank"])
    return env
