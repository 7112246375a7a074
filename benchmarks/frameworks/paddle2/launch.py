"""The processes of one node for PaddlePaddle 2: what its launcher sets, without it.

(Under that launcher geo-SGD crashes, and it never ends.)
"""

import os

from apis.paddle.launch import collective, parameter_server


def processes(job, node, ports, python, code):
    """This node's ranks, pservers and trainers: a list of {"name", "argv", "env"}. Pure.

    Args:
        job: the job.json document.
        node: name of the node.
        ports: {name: port} of the whole gang.
        python: interpreter of the line's environment on this node.
        code: folder of the shipped code.
    """
    with_pservers = any(process["role"] == "pserver" for process in job["processes"])
    environment = _parameter_server if with_pservers else collective
    argv = [python, "-u", os.path.join(code, "rank.py")]
    return [
        {"name": process["name"], "argv": argv, "env": environment(job, process, ports)}
        for process in job["processes"]
        if process["node"] == node
    ]


def _parameter_server(job, process, ports):
    env = parameter_server(job, process, ports)
    if process["role"] == "pserver":
        env["PADDLE_PSERVER_ID"] = str(process["rank"])
    # Without gloo's barrier a trainer may fetch weights before trainer 0 has pushed them, and then
    # trains nothing: its loss stands at ln 2. The trainers find each other at an HTTP server that
    # the first parameter server runs, which lies on the node that the port `master` was taken on.
    host = job["nodes"][0]["data_address"]
    env["PADDLE_WITH_GLOO"] = "1"
    env["PADDLE_GLOO_RENDEZVOUS"] = "3"
    env["PADDLE_GLOO_HTTP_ENDPOINT"] = "{}:{}".format(host, ports["master"])
    return env
