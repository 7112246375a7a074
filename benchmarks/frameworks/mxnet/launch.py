"""The processes of one node for MXNet, with the variables that launchers set (ps-lite, Horovod)."""

from base_launch import device_without_tf32, each_with


def _environment(job, process, ports):
    env = {}
    if any(each["role"] == "scheduler" for each in job["processes"]):
        env = _parameter_server(job, process, ports)
    elif len(job["processes"]) > 1:
        env = _horovod(job, process, ports)
    return {**env, **device_without_tf32(job, process, ports)}


def _parameter_server(job, process, ports):
    nodes = {each["name"]: each for each in job["nodes"]}
    roles = [each["role"] for each in job["processes"]]
    (scheduler,) = [each for each in job["processes"] if each["role"] == "scheduler"]
    return {
        "DMLC_ROLE": process["role"],
        "DMLC_PS_ROOT_URI": nodes[scheduler["node"]]["data_address"],
        "DMLC_PS_ROOT_PORT": str(ports[scheduler["name"]]),
        "DMLC_NUM_SERVER": str(roles.count("server")),
        "DMLC_NUM_WORKER": str(roles.count("worker")),
        "DMLC_NODE_HOST": nodes[process["node"]]["data_address"],
        "PORT": str(ports[process["name"]]),
    }


def _horovod(job, process, ports):
    nodes = {each["name"]: each for each in job["nodes"]}
    here = [each for each in job["processes"] if each["node"] == process["node"]]
    across = [x for x in job["processes"] if x["local_rank"] == process["local_rank"]]
    env = {
        "HOROVOD_CONTROLLER": "gloo",  # it negotiates ranks and ready gradients without MPI
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": job["nodes"][0]["data_address"],
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(ports["master"]),
        "HOROVOD_HOSTNAME": process["node"],
        "HOROVOD_RANK": str(process["rank"]),
        "HOROVOD_SIZE": str(len(job["processes"])),
        "HOROVOD_LOCAL_RANK": str(process["local_rank"]),
        "HOROVOD_LOCAL_SIZE": str(len(here)),
        "HOROVOD_CROSS_RANK": str([x["rank"] for x in across].index(process["rank"])),
        "HOROVOD_CROSS_SIZE": str(len(across)),
    }
    interface = nodes[process["node"]]["interface"]
    if interface:
        env["HOROVOD_GLOO_IFACE"] = interface
    return env


processes = each_with(_environment)
