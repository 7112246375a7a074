"""The processes of one node for PaddlePaddle 2, with the variables that its launcher would set.

(Under its launcher, Geo-SGD crashes and the launcher never ends.)
"""

from apis.paddle.launch import collective_or_served, parameter_server
from base_launch import each_with


def _parameter_server(job, process, ports):
    env = parameter_server(job, process, ports)
    if process["role"] == "pserver":
        env["PADDLE_PSERVER_ID"] = str(process["rank"])
    # Without gloo's barrier a trainer may fetch weights before trainer 0 has pushed them, and then
    # trains nothing: its loss stays at ln 2. The trainers find each other at an HTTP server that
    # the first parameter server runs, on the node whose port `master` was reserved.
    host = job["nodes"][0]["data_address"]
    env["PADDLE_WITH_GLOO"] = "1"
    env["PADDLE_GLOO_RENDEZVOUS"] = "3"
    env["PADDLE_GLOO_HTTP_ENDPOINT"] = "{}:{}".format(host, ports["master"])
    return env


processes = each_with(collective_or_served(_parameter_server))
