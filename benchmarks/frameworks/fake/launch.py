"""Processes of the `fake` line: the agent's own interpreter runs main.py."""

from __future__ import annotations

import os


def processes(job, node, ports, python, code):
    """One process for each of the job's processes on `node`; see benchmarks/README.md."""
    main = os.path.join(code, "frameworks", "fake", "main.py")
    return [
        {"name": process["name"], "argv": [python, main], "env": {}}
        for process in job["processes"]
        if process["node"] == node
    ]
