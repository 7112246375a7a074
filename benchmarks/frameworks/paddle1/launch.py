"""The processes of one node for Fluid: what launch_ps sets, without it.

(That launcher also writes the whole environment into log files.)
"""

import os


def processes(job, node, ports, python, code):
    """This node's pservers and trainers: a list of {"name", "argv", "env"}. Pure.

    Args:
        job: the job.json document.
        node: name of the node.
        ports: {name: port} of the whole gang.
        python: interpreter of the line's environment on this node.
        code: folder of the shipped code.
    """
    addresses = {n["name"]: n["data_address"] for n in job["nodes"]}

    def endpoints(role):
        ranks = sorted((p for p in job["processes"] if p["role"] == role), key=lambda p: p["rank"])
        return ["{}:{}".format(addresses[p["node"]], ports[p["name"]]) for p in ranks]

    trainers, pservers = endpoints("trainer"), endpoints("pserver")
    started = []
    for process in job["processes"]:
        if process["node"] != node:
            continue
        env = {
            "CPU_NUM": "1",  # or Fluid copies the model once for every core
            "POD_IP": addresses[node],
            "PADDLE_PORT": str(ports[process["name"]]),
            "PADDLE_TRAINERS_NUM": str(len(trainers)),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(trainers),
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(pservers),
            "TRAINING_ROLE": process["role"].upper(),
        }
        if process["role"] == "trainer":
            env["PADDLE_TRAINER_ID"] = str(process["rank"])
            env["PADDLE_CURRENT_ENDPOINT"] = trainers[process["rank"]]
        argv = [python, "-u", os.path.join(code, "rank.py")]
        started.append({"name": process["name"], "argv": argv, "env": env})
    return started
