"""Variables of PaddlePaddle's launcher for a rank, from 2 on. Pure; standard library only."""

from base_launch import device


def collective(job, process, ports):
    """Return the environment of a rank that communicates over gloo, or on GPUs over NCCL.

    Args:
        job: the job.json document.
        process: the rank's entry in it.
        ports: {name: port} of the whole gang.
    """
    nodes = {n["name"]: n for n in job["nodes"]}
    here = nodes[process["node"]]
    ranks = sorted(job["processes"], key=lambda p: p["rank"])
    endpoints = ["{}:{}".format(nodes[p["node"]]["data_address"], ports[p["name"]]) for p in ranks]
    env = {
        "PADDLE_MASTER": "{}:{}".format(job["nodes"][0]["data_address"], ports["master"]),
        "PADDLE_NNODES": str(len(nodes)),
        "PADDLE_TRAINERS_NUM": str(len(ranks)),
        "PADDLE_TRAINER_ID": str(process["rank"]),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_CURRENT_ENDPOINT": endpoints[process["rank"]],
        "PADDLE_GLOBAL_SIZE": str(len(ranks)),
        "PADDLE_GLOBAL_RANK": str(process["rank"]),
        "PADDLE_LOCAL_SIZE": str(sum(p["node"] == process["node"] for p in ranks)),
        "PADDLE_LOCAL_RANK": str(process["local_rank"]),
        "PADDLE_RANK_IN_NODE": str(process["local_rank"]),
        "PADDLE_DISTRI_BACKEND": "gloo" if process["device"] is None else "nccl",
    }
    if here["interface"]:
        env["GLOO_SOCKET_IFNAME"] = here["interface"]
    if process["device"] is not None:
        env.update(gpu(process), **device(job, process, ports))
    return env


def collective_or_served(served):
    """Return a function like `collective` that calls `served` if the job has parameter servers."""

    def environment(job, process, ports):
        with_pservers = any(each["role"] == "pserver" for each in job["processes"])
        return (served if with_pservers else collective)(job, process, ports)

    return environment


def parameter_server(job, process, ports):
    """Return the environment of a trainer or parameter server; for arguments see `collective`."""
    addresses = {n["name"]: n["data_address"] for n in job["nodes"]}

    def endpoints(role):
        ranks = sorted((p for p in job["processes"] if p["role"] == role), key=lambda p: p["rank"])
        return ["{}:{}".format(addresses[p["node"]], ports[p["name"]]) for p in ranks]

    trainers, pservers = endpoints("trainer"), endpoints("pserver")
    env = {
        "CPU_NUM": "1",  # otherwise the model is copied for every core
        "POD_IP": addresses[process["node"]],
        "PADDLE_PORT": str(ports[process["name"]]),
        "PADDLE_TRAINERS_NUM": str(len(trainers)),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(trainers),
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(pservers),
        "TRAINING_ROLE": process["role"].upper(),
    }
    if process["role"] == "trainer":
        env["PADDLE_TRAINER_ID"] = str(process["rank"])
        env["PADDLE_CURRENT_ENDPOINT"] = trainers[process["rank"]]
    if process["device"] is not None:
        env.update(gpu(process))
    return env


def gpu(process):
    """Return settings of a process on a GPU: its own device, float32 without TF32, and cuDNN's.

    PaddlePaddle's `auto_cast` sets these flags of cuDNN too. Set here, they are the same for every
    precision.
    """
    return {
        "CUDA_VISIBLE_DEVICES": process["device"],
        "FLAGS_selected_gpus": "0",  # number among the visible devices
        "NVIDIA_TF32_OVERRIDE": "0",  # otherwise float32 products and convolutions use TF32
        "FLAGS_cudnn_exhaustive_search": "1",
        "FLAGS_conv_workspace_size_limit": "1000",
        "FLAGS_cudnn_batchnorm_spatial_persistent": "1",
    }
