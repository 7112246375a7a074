"""The verb `follow`: reports changes in job directories to a controller and renews leases.

A request is a line of JSON on stdin, its answer a line on stdout with the same `id`:

    {"id": 1, "clock": true}                    {"id": 1, "monotonic_s": 5.1, "wall_s": 1.7e9}
    {"id": 2, "jobdir": D, "repeat": 3,         {"id": 2, "epoch": 2, "renewed": true,
     "epoch": 2, "lease": "text" or null,        "agent": {...} or null, "state": {...} or null,
     "seen": G or null, "wait_s": 1.0,           "digest": G}
     "every_s": 0.05}

A lease is renewed at once, unless another controller has claimed a higher epoch. `digest` covers
the state without steps and times. The answer is sent as soon as the digest differs from `seen`,
and after `wait_s` at the latest. A request that fails is answered with `error`. One such process
serves all gangs that a controller has on a node.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
import zlib
from typing import Any

from nodeside.commands import highest_epoch
from nodeside.files import explain, read_json, write_text

IDLE_S = 900.0
"""The process ends after this time without a request, even if the connection is open."""


def follow(source: int = 0, sink: int = 1) -> None:
    """Answer requests until the input ends or none has come for `IDLE_S`."""
    rest = b""
    waiting: dict[str, _Request] = {}
    while True:
        pause_s = min([request.every_s for request in waiting.values()] or [IDLE_S])
        answers = []
        if select.select([source], [], [], pause_s)[0]:
            chunk = os.read(source, 65536)
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            for line in filter(None, lines):
                document = json.loads(line.decode())
                if document.get("clock"):
                    moment = {"monotonic_s": time.monotonic(), "wall_s": time.time()}
                    answers.append(dict(moment, id=document["id"]))
                else:
                    # A second request for the same folder replaces the first.
                    waiting[document["jobdir"]] = _Request(document)
        elif not waiting:
            return
        for folder, request in list(waiting.items()):
            answer = request.answer()
            if answer is not None:
                del waiting[folder]
                answers.append(answer)
        # Written at once, so that a controller with many gangs here receives one packet.
        _write(
            sink, "".join(json.dumps(answer, separators=(",", ":")) + "\n" for answer in answers)
        )


def _write(sink: int, text: str) -> None:
    content = text.encode()
    while content:
        content = content[os.write(sink, content) :]


class _Request:
    """A request for the state of one job directory."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._folder = request["jobdir"]
        self._until_s = time.monotonic() + (request.get("wait_s") or 0.0)
        self.every_s = request.get("every_s") or 0.05
        self._error: str | None = None
        self._renewed = False
        self._documents: dict[str, tuple[Any, Any]] = {}
        try:
            self._renew()
        except OSError as error:
            self._error = str(explain(error, self._folder))

    def answer(self) -> dict[str, Any] | None:
        """Return the answer; None while it has to wait for a change."""
        if self._error is not None:
            return {"id": self._request["id"], "error": self._error}
        # agent.json first: once it says that the agent has ended, the repeat's state is final.
        agent = self._document("agent.json")
        state = None
        if self._request.get("repeat") is not None:
            name = "{:03d}".format(self._request["repeat"])
            state = self._document(os.path.join("repeats", name, "state.json"))
        digest = _digest(agent, state)
        if digest == self._request.get("seen") and time.monotonic() < self._until_s:
            return None
        return {
            "id": self._request["id"],
            "epoch": self._highest_epoch(),
            "renewed": self._renewed,
            "agent": agent,
            "state": state,
            "digest": digest,
        }

    def _renew(self) -> None:
        text = self._request.get("lease")
        if text is not None and self._highest_epoch() <= self._request["epoch"]:
            write_text(os.path.join(self._folder, "control", "lease"), text)
            self._renewed = True

    def _highest_epoch(self) -> int:
        try:
            return highest_epoch(os.listdir(os.path.join(self._folder, "control")))
        except FileNotFoundError:
            return 0

    def _document(self, name: str) -> Any:
        """Return a JSON document, read again only when its file was replaced."""
        path = os.path.join(self._folder, name)
        try:
            found = os.stat(path)
        except OSError:
            return None
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if name not in self._documents or self._documents[name][0] != stamp:
            self._documents[name] = (stamp, read_json(path))
        return self._documents[name][1]


def _digest(agent: Any, state: Any) -> str:
    """Return a digest of everything in the state that a controller acts on."""
    seen = [agent]
    if isinstance(state, dict):
        seen += [state.get("state"), state.get("reasons"), state.get("ports")]
        for name, process in sorted((state.get("processes") or {}).items()):
            seen.append((name, process.get("phase"), process.get("exit_code")))
    return "{:08x}".format(zlib.crc32(json.dumps(seen, sort_keys=True).encode()))


def main() -> int:
    """Run the verb `follow`; return the exit code."""
    with contextlib.suppress(BrokenPipeError):  # the controller has closed the connection
        follow()
    return 0
