"""A suite's command on one node; placeholders are replaced in each word, without a shell."""

import os
import re
import sys

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def processes(job, node, ports, python, code):
    """Return this node's processes: a list of {"name", "argv", "env"}. A pure function.

    Args:
        job: the job.json document.
        node: name of the node.
        ports: {name: port} of the whole gang.
        python: interpreter of the line on this node.
        code: folder of the shipped code.
    """
    command = job["workload"]["params"]["command"]
    mine = [p for p in job["processes"] if p["node"] == node]
    started = []
    for process in mine:
        known = placeholders(job, process, ports, python)
        argv = [replaced(word, known) for word in command["argv"]]
        argv = [sys.executable, "-u", os.path.join(code, "frameworks/external/script.py"), *argv]
        env = {
            "MASTER_ADDR": known["master"],
            "MASTER_PORT": known["master_port"],
            "RANK": known["rank"],
            "WORLD_SIZE": known["world_size"],
            "LOCAL_RANK": known["local_rank"],
            "LOCAL_WORLD_SIZE": str(len(mine)),
        }
        visible = process["device"] or known["devices"]
        if visible:
            env["CUDA_VISIBLE_DEVICES"] = visible
        env.update({name: replaced(text, known) for name, text in command["env"].items()})
        started.append({"name": process["name"], "argv": argv, "env": env})
    return started


def replaced(word, known):
    """Return a word with its placeholders replaced; raise KeyError for an unknown one."""
    return _PLACEHOLDER.sub(lambda found: known[found.group(1)], word)


def placeholders(job, process, ports, python):
    """Return name -> text of the placeholders that a command may contain in braces."""
    case, nodes = job["case"], job["nodes"]
    command = job["workload"]["params"]["command"]
    order = [node["name"] for node in nodes]
    here = nodes[order.index(process["node"])]
    hosts = [node["data_address"] for node in nodes]
    slots = case["devices_per_node"]
    protocol = job["protocol"]
    steps = protocol["warmup_steps"] + protocol["measured_steps"]
    prefix = os.path.expanduser(command["prefix"] or "")
    known = {
        "python": os.path.join(prefix, "bin/python") if prefix else python,
        "rank": process["rank"],
        "local_rank": process["local_rank"],
        "world_size": len(job["processes"]),
        "trainers": case["trainers"],
        "nodes": len(nodes),
        "node_rank": order.index(process["node"]),
        "devices_per_node": slots,
        "host": here["data_address"],
        "hosts": ",".join(hosts),
        "host_slots": ",".join("{}:{}".format(host, slots) for host in hosts),
        "master": hosts[0],
        "master_port": ports["master"],
        "port": ports[process["name"]],
        "endpoints": ",".join(
            "{}:{}".format(hosts[order.index(p["node"])], ports[p["name"]])
            for p in job["processes"]
        ),
        "device": process["device"] or "",
        "devices": ",".join(here["devices"]),
        "batch_size": case["batch_size_per_device"],
        "global_batch_size": case["batch_size_per_device"] * case["trainers"],
        "steps": steps + max(20, steps // 10),
        "warmup_steps": protocol["warmup_steps"],
        "measured_steps": protocol["measured_steps"],
        "precision": case["precision"],
        "sequence_length": case["sequence_length"] or "",
        "threads": case["threads"] or "",
        "scale": case["scale"],
        "seed": job["workload"]["seed"],
        "data": os.path.expanduser(job["workload"]["data_path"] or ""),
    }
    return {name: str(value) for name, value in known.items()}
