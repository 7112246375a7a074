"""The processes of one node for OneFlow: what its launcher sets, without it."""

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
    argv = [python, "-u", os.path.join(code, "rank.py")]
    mine = [process for process in job["processes"] if process["node"] == node]
    env = {}
    if len(job["processes"]) > 1:
        env["MASTER_ADDR"] = job["nodes"][0]["data_address"]
        env["MASTER_PORT"] = str(ports["master"])
        env["WORLD_SIZE"] = str(len(job["processes"]))
    devices = [process["device"] for process in mine if process["device"] is not None]
    if devices:
        # Ranks see all devices of their node and take that of their number there.
        env["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
        # cuDNN's convolutions take TF32 for float32 otherwise.
        env["NVIDIA_TF32_OVERRIDE"] = "0"
    started = []
    for process in mine:
        # OneFlow counts the ranks of a host itself: LOCAL_RANK would be wrong where two nodes of a
        # cluster are one host.
        rank = {"RANK": str(process["rank"])} if "WORLD_SIZE" in env else {}
        started.append({"name": process["name"], "argv": argv, "env": {**env, **rank}})
    return started
