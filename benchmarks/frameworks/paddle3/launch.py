"""The processes of one node for PaddlePaddle 3: what its launcher sets for gloo, without it."""

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
    ranks = sorted(job["processes"], key=lambda p: p["rank"])
    endpoints = ["{}:{}".format(nodes[p["node"]]["data_address"], ports[p["name"]]) for p in ranks]
    mine = [p for p in ranks if p["node"] == node]
    interface = nodes[node]["interface"] or _loopback(nodes[node]["data_address"])
    started = []
    for process in mine:
        env = {
            "PADDLE_MASTER": "{}:{}".format(job["nodes"][0]["data_address"], ports["master"]),
            "PADDLE_NNODES": str(len(job["nodes"])),
            "PADDLE_TRAINERS_NUM": str(len(ranks)),
            "PADDLE_TRAINER_ID": str(process["rank"]),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            "PADDLE_CURRENT_ENDPOINT": endpoints[process["rank"]],
            "PADDLE_GLOBAL_SIZE": str(len(ranks)),
            "PADDLE_GLOBAL_RANK": str(process["rank"]),
            "PADDLE_LOCAL_SIZE": str(len(mine)),
            "PADDLE_LOCAL_RANK": str(process["local_rank"]),
            "PADDLE_RANK_IN_NODE": str(process["local_rank"]),
            "PADDLE_DISTRI_BACKEND": "gloo",
        }
        if interface:
            env["GLOO_SOCKET_IFNAME"] = interface
        argv = [python, "-u", os.path.join(code, "rank.py")]
        started.append({"name": process["name"], "argv": argv, "env": env})
    return started


def _loopback(address):
    # Gloo would resolve the host's name instead and may find an address that nobody listens on.
    return "lo" if address.startswith("127.") else None
