"""The processes of one node: a scheduler that everybody asks, servers, workers."""

import os


def processes(job, node, ports, python, code):
    """Argv and environment of this node's processes; see docs/framework-code.md."""
    addresses = {n["name"]: n["data_address"] for n in job["nodes"]}
    scheduler = next(p for p in job["processes"] if p["role"] == "scheduler")
    place = "{}:{}".format(addresses[scheduler["node"]], ports[scheduler["name"]])
    argv = [python, "-u", os.path.join(code, "rank.py")]
    return [
        {"name": process["name"], "argv": argv, "env": {"RELAY_SCHEDULER": place}}
        for process in job["processes"]
        if process["node"] == node
    ]
