"""One long conversation with a controller: what the job directories show, and lease renewals.

A request is a line of JSON on stdin, its answer a line on stdout with the same `id`:

    {"id": 1, "clock": true}                       {"id": 1, "monotonic_s": 5.1, "wall_s": 1.7e9}
    {"id": 2, "jobdir": D, "repeat": 3,            {"id": 2, "epoch": 2, "renewed": true,
     "epoch": 2, "lease": "text" or null}           "agent": {...} or null, "state": {...} or null}

A lease is renewed only where nobody has claimed a higher epoch. What cannot be done is answered
with `error`. One such process serves all gangs that a controller has on a node.
"""

from __future__ import annotations

import json
import os
import re
import select
import sys
import time
from typing import Any

from nodeside.files import explain, read_json, write_text

EPOCH = re.compile(r"epoch-(\d+)\Z")

IDLE_S = 900.0
"""A controller that has asked nothing for so long is gone, whatever the connection says."""


def follow(source: int = 0, sink: int = 1) -> None:
    """Answer requests until the input ends or nobody asks any more."""
    rest = b""
    while select.select([source], [], [], IDLE_S)[0]:
        chunk = os.read(source, 65536)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        # Together: a controller with many gangs here gets one packet for many answers.
        _write(sink, b"".join(_line(line) for line in lines if line.strip()))


def _write(sink: int, content: bytes) -> None:
    while content:
        content = content[os.write(sink, content) :]


def _line(line: bytes) -> bytes:
    request = json.loads(line.decode())
    try:
        answer = _answer(request)
    except OSError as error:
        answer = {"error": str(explain(error, str(request.get("jobdir"))))}
    answer["id"] = request["id"]
    return (json.dumps(answer, separators=(",", ":")) + "\n").encode()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    if request.get("clock"):
        return {"monotonic_s": time.monotonic(), "wall_s": time.time()}
    folder = request["jobdir"]
    control = os.path.join(folder, "control")
    epoch = _highest_epoch(control)
    renewed = request.get("lease") is not None and epoch <= request["epoch"]
    if renewed:
        write_text(os.path.join(control, "lease"), request["lease"])
    # The agent's first: when it says that it has ended, the repeat's state is final.
    agent = read_json(os.path.join(folder, "agent.json"))
    state = None
    if request.get("repeat") is not None:
        name = "{:03d}".format(request["repeat"])
        state = read_json(os.path.join(folder, "repeats", name, "state.json"))
    return {"epoch": epoch, "renewed": renewed, "agent": agent, "state": state}


def _highest_epoch(control: str) -> int:
    try:
        names = os.listdir(control)
    except FileNotFoundError:
        return 0
    return max((int(found.group(1)) for found in map(EPOCH.match, names) if found), default=0)


def main() -> int:
    """The verb `follow`; the exit code."""
    try:
        follow()
    except BrokenPipeError:
        # The controller has gone; nothing is lost, and nobody is there to be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
