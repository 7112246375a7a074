"""The processes of one node for PyTorch: what torchrun would set, without torchrun between."""

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
    nodes = {n["name"]: n for n in job["nodes"]}
    order = [n["name"] for n in job["nodes"]]
    here = nodes[node]
    mine = [p for p in job["processes"] if p["node"] == node]
    interface = here["interface"]
    started = []
    for process in mine:
        env = {
            "MASTER_ADDR": job["nodes"][0]["data_address"],
            "MASTER_PORT": str(ports["master"]),
            "RANK": str(process["rank"]),
            "WORLD_SIZE": str(len(job["processes"])),
            "LOCAL_RANK": str(process["local_rank"]),
            "LOCAL_WORLD_SIZE": str(len(mine)),
            "GROUP_RANK": str(order.index(node)),
        }
        if interface:
            env["GLOO_SOCKET_IFNAME"] = interface
        if process["device"] is not None:
            env["CUDA_VISIBLE_DEVICES"] = process["device"]
            if interface:
                env["NCCL_SOCKET_IFNAME"] = interface
        argv = [python, "-u", os.path.join(code, "rank.py")]
        started.append({"name": process["name"], "argv": argv, "env": env})
    return started
