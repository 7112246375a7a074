"""The test line starts rank.py for every process."""

import os


def processes(job, node, ports, python, code):
    """Returns name, argv and env of each process on `node`; see benchmarks/README.md."""
    argv = [python, "-u", os.path.join(code, "rank.py")]
    return [
        {"name": process["name"], "argv": argv, "env": {}}
        for process in job["processes"]
        if process["node"] == node
    ]
