"""`agent.py compare DIR`: compares a bundle's result here with its original.

DIR/measurement.json   the original median
DIR/jobs/<case_id>/    what `agent.py run DIR` measured, see nodeside/offline.py
"""

from __future__ import annotations

import math
import os
import statistics
from typing import Any

from nodeside.files import AgentError, read_json


def compare(folder: str) -> dict[str, Any]:
    """Return median and repeats measured here, the original median, and their ratio.

    Args:
        folder: of the unpacked bundle.

    Raises:
        AgentError: it is no bundle, or nothing was measured in it.
    """
    path = os.path.join(folder, "measurement.json")
    original = read_json(path)
    if original is None:
        raise AgentError(
            "{}: not found, expected the measurement of a bundle".format(path),
            "name the folder that the archive of `nightbench export --format bundle` holds",
        )
    nodes = os.path.join(folder, "jobs", original["case_id"], "nodes")
    node = next(iter(sorted(os.listdir(nodes)) if os.path.isdir(nodes) else []), "")
    repeats = os.path.join(nodes, node, "repeats")
    numbers = sorted(os.listdir(repeats)) if os.path.isdir(repeats) else []
    results = [read_json(os.path.join(repeats, number, "result.json")) for number in numbers]
    good = [result for result in results if result is not None and result["status"] == "ok"]
    if not good:
        raise AgentError(
            "{}: found {} repeats; expected one with status ok".format(repeats, len(numbers)),
            "measure first: python3 {} run {}".format(
                os.path.join(folder, "code", "agent.py"), folder
            ),
        )
    here = [throughput(result["processes"], original) for result in good]
    median = statistics.median(here)
    return {
        "case_id": original["case_id"],
        "unit": "{}/s".format(original["unit"]),
        "here": {"median": median, "n": len(here), "repeats": here},
        "original": {"median": original["throughput"], "n": original["n"]},
        "ratio": median / original["throughput"],
    }


def throughput(processes: list[dict[str, Any]], case: dict[str, Any]) -> float:
    """Return units of work per second of one repeat on one machine.

    Args:
        processes: of a result.json.
        case: `strategy` and `sync`. If trainers do not wait for each other, the interval that
            their windows have in common counts; otherwise the slowest window counts.
    """
    ranks = [each["summary"] for each in processes if each["measured"]]
    if case["strategy"] == "parameter_server" and case["sync"] != "sync":
        opens = max(rank["window"]["open_s"] for rank in ranks)
        closes = min(rank["window"]["close_s"] for rank in ranks)
        samples = math.fsum(r["samples_per_step"] * _steps(r, opens, closes) for r in ranks)
        return samples / (closes - opens)
    samples = math.fsum(r["samples_per_step"] * r["window"]["steps"] for r in ranks)
    return float(samples / max(rank["window"]["wall_s"] for rank in ranks))


def _steps(rank: dict[str, Any], opens: float, closes: float) -> float:
    """Return the number of steps between two instants; a step across an instant counts in part."""
    ends = [rank["window"]["open_s"], *rank["step_end_s"][-rank["window"]["steps"] :]]
    parts = []
    for i in range(1, len(ends)):
        begin, end = ends[i - 1], ends[i]
        inside = min(end, closes) - max(begin, opens)
        if end > begin and inside > 0:
            parts.append(inside / (end - begin))
    return math.fsum(parts)
