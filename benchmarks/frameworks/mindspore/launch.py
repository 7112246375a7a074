"""The processes of one node for MindSpore, with the variables that msrun would set."""

from base_launch import each_with


def _environment(job, process, ports):
    addresses = {each["name"]: each["data_address"] for each in job["nodes"]}
    schedulers = [each for each in job["processes"] if each["role"] == "scheduler"]
    if not schedulers or len(job["processes"]) == 2:
        return {}  # a single rank needs no rendezvous
    env = {
        "MS_ROLE": "MS_SCHED" if process["role"] == "scheduler" else "MS_WORKER",
        "MS_SCHED_HOST": addresses[schedulers[0]["node"]],
        "MS_SCHED_PORT": str(ports[schedulers[0]["name"]]),
        "MS_WORKER_NUM": str(len(job["processes"]) - 1),
    }
    if process["role"] != "scheduler":
        env["MS_NODE_ID"] = str(process["rank"])
    return env


processes = each_with(_environment)
