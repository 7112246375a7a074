"""The processes of a node, each of which runs rank.py: what most lines' `launch.py` are made of."""

import os


def each_with(environment):
    """Returns a line's `processes`, from what the environment of one of them is.

    Args:
        environment: function of the job, of a process's entry in it, and of {name: port}, to
            {variable: value}.
    """

    def processes(job, node, ports, python, code):
        """This node's processes: a list of {"name", "argv", "env"}. Pure.

        Args:
            job: the job.json document.
            node: name of the node.
            ports: {name: port} of the whole gang.
            python: interpreter of the line's environment on this node.
            code: folder of the shipped code.
        """
        argv = [python, "-u", os.path.join(code, "rank.py")]
        return [
            {"name": process["name"], "argv": argv, "env": environment(job, process, ports)}
            for process in job["processes"]
            if process["node"] == node
        ]

    return processes


def device(job, process, ports):
    """The device and the interface of a process whose runtime finds the others by job.json."""
    if process["device"] is None:
        return {}
    env = {"CUDA_VISIBLE_DEVICES": process["device"]}
    interface = next(n["interface"] for n in job["nodes"] if n["name"] == process["node"])
    if interface:
        env["NCCL_SOCKET_IFNAME"] = interface
    return env


def device_without_tf32(job, process, ports):
    """The same for lines that take TF32 for float32 on GPUs and have no switch of their own."""
    env = device(job, process, ports)
    return {**env, "NVIDIA_TF32_OVERRIDE": "0"} if env else env


processes = each_with(device)
processes_without_tf32 = each_with(device_without_tf32)
