"""One long conversation with a controller: what job directories show, and lease renewals.

A request is a line of JSON on stdin, its answer a line on stdout with the same `id`:

    {"id": 1, "clock": true}                    {"id": 1, "monotonic_s": 5.1, "wall_s": 1.7e9}
    {"id": 2, "jobdir": D, "repeat": 3,         {"id": 2, "epoch": 2, "renewed": true,
     "epoch": 2, "lease": "text" or null,        "agent": {...} or null, "state": {...} or null,
     "seen": G or null, "wait_s": 1.0,           "gist": G}
     "every_s": 0.05}

A lease is renewed at once, where nobody has claimed a higher epoch. The answer comes at once where
the gist (all but steps and times) is another one than was `seen`, else as soon as it changes,
and after `wait_s` anyhow. What cannot be done is answered with `error`. One such process serves
all gangs that a controller has on a node.
"""

from __future__ import annotations

import json
import os
import re
import select
import time
import zlib
from typing import Any

from nodeside.files import explain, read_json, write_text

EPOCH = re.compile(r"epoch-(\d+)\Z")

IDLE_S = 900.0
"""A controller that has asked nothing for so long is gone, whatever the connection says."""


def follow(source: int = 0, sink: int = 1) -> None:
    """Answer requests until the input ends or nobody asks any more."""
    rest = b""
    waiting: dict[str, _Look] = {}
    while True:
        pause_s = min([look.every_s for look in waiting.values()] or [IDLE_S])
        answers = []
        if select.select([source], [], [], pause_s)[0]:
            chunk = os.read(source, 65536)
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            for line in filter(None, lines):
                request = json.loads(line.decode())
                if request.get("clock"):
                    moment = {"monotonic_s": time.monotonic(), "wall_s": time.time()}
                    answers.append(dict(moment, id=request["id"]))
                else:
                    # A second look at the same folder takes the place of the first.
                    waiting[request["jobdir"]] = _Look(request)
        elif not waiting:
            return
        for folder, look in list(waiting.items()):
            answer = look.answer()
            if answer is not None:
                del waiting[folder]
                answers.append(answer)
        # Together: a controller with many gangs here gets one packet for many answers.
        _write(
            sink, "".join(json.dumps(answer, separators=(",", ":")) + "\n" for answer in answers)
        )


def _write(sink: int, text: str) -> None:
    content = text.encode()
    while content:
        content = content[os.write(sink, content) :]


class _Look:
    """A request for a look at one job directory."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._folder = request["jobdir"]
        self._until_s = time.monotonic() + (request.get("wait_s") or 0.0)
        self.every_s = request.get("every_s") or 0.05
        self._error: str | None = None
        self._renewed = False
        self._kept: dict[str, tuple[Any, Any]] = {}
        try:
            self._renew()
        except OSError as error:
            self._error = str(explain(error, self._folder))

    def answer(self) -> dict[str, Any] | None:
        """The answer, where it is time for it."""
        if self._error is not None:
            return {"id": self._request["id"], "error": self._error}
        # The agent's first: when it says that it has ended, the repeat's state is final.
        agent = self._document("agent.json")
        state = None
        if self._request.get("repeat") is not None:
            name = "{:03d}".format(self._request["repeat"])
            state = self._document(os.path.join("repeats", name, "state.json"))
        gist = _gist(agent, state)
        if gist == self._request.get("seen") and time.monotonic() < self._until_s:
            return None
        return {
            "id": self._request["id"],
            "epoch": self._highest_epoch(),
            "renewed": self._renewed,
            "agent": agent,
            "state": state,
            "gist": gist,
        }

    def _renew(self) -> None:
        text = self._request.get("lease")
        if text is not None and self._highest_epoch() <= self._request["epoch"]:
            write_text(os.path.join(self._folder, "control", "lease"), text)
            self._renewed = True

    def _highest_epoch(self) -> int:
        try:
            names = os.listdir(os.path.join(self._folder, "control"))
        except FileNotFoundError:
            return 0
        return max((int(found.group(1)) for found in map(EPOCH.match, names) if found), default=0)

    def _document(self, name: str) -> Any:
        """A document, read again only where another file has taken its place."""
        path = os.path.join(self._folder, name)
        try:
            found = os.stat(path)
        except OSError:
            return None
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if name not in self._kept or self._kept[name][0] != stamp:
            self._kept[name] = (stamp, read_json(path))
        return self._kept[name][1]


def _gist(agent: Any, state: Any) -> str:
    """What a controller acts on, as a short text that changes with it."""
    seen = [agent]
    if isinstance(state, dict):
        seen += [state.get("state"), state.get("reasons"), state.get("ports")]
        for name, process in sorted((state.get("processes") or {}).items()):
            seen.append((name, process.get("phase"), process.get("exit_code")))
    return "{:08x}".format(zlib.crc32(json.dumps(seen, sort_keys=True).encode()))


def main() -> int:
    """The verb `follow`; the exit code."""
    try:
        follow()
    except BrokenPipeError:
        return 0  # the controller has gone: nobody is there to be told
    return 0
