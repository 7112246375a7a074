"""The processes of one node for the test line: nothing but rank.py."""

import os


def processes(job, node, ports, python, code):
    """One process for each of the job's processes on `node`; see benchmarks/README.md."""
    argv = [python, "-u", os.path.join(code, "rank.py")]
    return [
        {"name": process["name"], "argv": argv, "env": {}}
        for process in job["processes"]
        if process["node"] == node
    ]
