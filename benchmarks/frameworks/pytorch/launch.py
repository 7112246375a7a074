"""The processes of one node for PyTorch, with the variables that torchrun would set."""

from base_launch import device, each_with


def _environment(job, process, ports):
    here = [node["name"] for node in job["nodes"]].index(process["node"])
    env = {
        "MASTER_ADDR": job["nodes"][0]["data_address"],
        "MASTER_PORT": str(ports["master"]),
        "RANK": str(process["rank"]),
        "WORLD_SIZE": str(len(job["processes"])),
        "LOCAL_RANK": str(process["local_rank"]),
        "LOCAL_WORLD_SIZE": str(sum(p["node"] == process["node"] for p in job["processes"])),
        "GROUP_RANK": str(here),
        **device(job, process, ports),
    }
    interface = job["nodes"][here]["interface"]
    if interface:
        env["GLOO_SOCKET_IFNAME"] = interface
    return env


processes = each_with(_environment)
