"""The processes of one node for OneFlow, with the variables that its launcher would set."""

from base_launch import each_with


def _environment(job, process, ports):
    env = {}
    if len(job["processes"]) > 1:
        env["MASTER_ADDR"] = job["nodes"][0]["data_address"]
        env["MASTER_PORT"] = str(ports["master"])
        env["WORLD_SIZE"] = str(len(job["processes"]))
        # OneFlow counts the ranks of a host itself: LOCAL_RANK would be wrong if two nodes of a
        # cluster are one host.
        env["RANK"] = str(process["rank"])
    here = [p["device"] for p in job["processes"] if p["node"] == process["node"]]
    devices = [device for device in here if device is not None]
    if devices:
        # A rank sees all devices of its node and uses the one with its local number.
        env["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
        # Otherwise cuDNN's convolutions use TF32 for float32.
        env["NVIDIA_TF32_OVERRIDE"] = "0"
    return env


processes = each_with(_environment)
