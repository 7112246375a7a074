"""The processes of a node, each of which runs rank.py: the core of most lines' `launch.py`."""

import os


def each_with(environment):
    """Return the function `processes` of a line, given the environment of one process.

    Args:
        environment: function of the job, of a process's entry in it, and of {name: port}; it
            returns {variable: value}.
    """

    def processes(job, node, ports, python, code):
        """Return this node's processes: a list of {"name", "argv", "env"}. A pure function.

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
    """Return the variables of a process's device and interface; job.json has the other ranks."""
    if process["device"] is None:
        return {}
    env = {"CUDA_VISIBLE_DEVICES": process["device"]}
    interface = next(n["interface"] for n in job["nodes"] if n["name"] == process["node"])
    if interface:
        env["NCCL_SOCKET_IFNAME"] = interface
    return env


def device_without_tf32(job, process, ports):
    """Return the same without TF32, for lines that use it for float32 and have no own switch."""
    env = device(job, process, ports)
    return {**env, "NVIDIA_TF32_OVERRIDE": "0"} if env else env


processes = each_with(device)
processes_without_tf32 = each_with(device_without_tf32)
