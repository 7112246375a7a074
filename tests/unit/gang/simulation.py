"""A node in memory: the transport's double, with an agent that does what it is told at once."""

from __future__ import annotations

import asyncio
import json
import posixpath
import time
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

from nightbench.core.model import Reason, ReasonCode
from nightbench.gang.errors import NodeUnreachable
from nightbench.gang.process import Completed


class FollowedByFiles:
    """`agent.py follow` of a node in memory, by the files of its job directory."""

    async def follow(self, python, agent, request):
        if request.get("clock"):
            return json.loads(await self.ask(""))
        folder, renewed = request["jobdir"], False
        names = await self.listdir(f"{folder}/control")
        epoch = max((int(n.removeprefix("epoch-")) for n in names if "epoch-" in n), default=0)
        if request["lease"] is not None and epoch <= request["epoch"]:
            await self.write_atomic(f"{folder}/control/lease", request["lease"].encode())
            renewed = True
        clock = asyncio.get_running_loop().time
        until_s = clock() + request["wait_s"]
        while True:
            agent = json.loads(await self.read(f"{folder}/agent.json") or b"null")
            state = None
            if request["repeat"] is not None:
                path = f"{folder}/repeats/{request['repeat']:03d}/state.json"
                state = json.loads(await self.read(path) or b"null")
            # As on a node: without steps and times.
            seen = [(state or {}).get(key) for key in ("state", "reasons", "ports")]
            processes = ((state or {}).get("processes") or {}).items()
            codes = [(name, p["phase"], p["exit_code"]) for name, p in sorted(processes)]
            digest = repr((agent, seen, codes))
            if digest != request["seen"] or clock() > until_s:
                return {
                    "epoch": epoch,
                    "renewed": renewed,
                    "agent": agent,
                    "state": state,
                    "digest": digest,
                }
            await asyncio.sleep(request["every_s"])


class MemoryNode(FollowedByFiles):
    """One node: files, folders, and an agent.

    `looks` is how often a running repeat is looked at before it is done. `fails` are repeats that
    end as failed. While `down` every access fails as if the cable were cut.
    """

    def __init__(self, node: str, looks: int = 2, fails: tuple[int, ...] = ()) -> None:
        self.node = node
        self.address = f"{node}.test:22"
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = set()
        self.down = False
        self.looks = looks
        self.fails = fails
        self.launches: list[int] = []
        self.commands: list[str] = []
        self._left: dict[int, int] = {}
        self._job_dir = ""

    # --- the transport ----------------------------------------------------------------------

    async def run(self, argv, stdin=b"", env=None, on_stderr=None, timeout_s=None):
        self._reach()
        if argv[0] == "cat":
            return Completed(0, b"boot-1\n", b"")
        verb = argv[2]
        if verb == "sweep":
            return Completed(0, b'{"found": [], "killed": []}', b"")
        if verb != "start":
            raise AssertionError(f"unexpected command {argv}")
        self._job_dir = argv[3]
        started = (self._json("agent.json") or {}).get("state") in (None, "ended")
        if started:
            self._put("agent.json", {"state": "idle", "reasons": [], "holder": None, "pid": 1})
            self._put("fingerprint.json", {"schema": "nightbench.fingerprint/1"})
        answer = json.dumps({"pid": 1, "started": started, "swept": []}).encode()
        return Completed(0, answer, b"")

    @asynccontextmanager
    async def converse(self, argv):
        self._reach()
        yield self

    async def ask(self, line):
        return json.dumps({"monotonic_s": time.monotonic() + 1000, "wall_s": 0})

    async def home(self):
        self._reach()
        return "/home/u"

    async def read(self, path):
        self._reach()
        if path.endswith("state.json"):
            self._step(int(posixpath.basename(posixpath.dirname(path))))
        return self.files.get(path)

    async def write_atomic(self, path, content):
        self._reach()
        self.files[path] = content
        if posixpath.basename(posixpath.dirname(path)) == "control":
            self._obey(posixpath.basename(path), content)

    async def put_file(self, source, path, mode=0o644, digest=None):
        self._reach()
        self.files[path] = source.read_bytes()

    async def mkdir(self, path):
        self._reach()
        if path in self.folders:
            return False
        self.folders.add(path)
        return True

    async def make_folders(self, path):
        self._reach()
        while path not in ("/", ""):
            self.folders.add(path)
            path = posixpath.dirname(path)

    async def rename(self, source, destination):
        raise AssertionError("nothing is renamed in a run")

    async def exists(self, path):
        self._reach()
        return path in self.files or path in self.folders or path == "/proc/1"

    async def listdir(self, path):
        self._reach()
        everything = [*self.files, *self.folders]
        return sorted({posixpath.basename(p) for p in everything if posixpath.dirname(p) == path})

    async def close(self):
        pass

    # --- the agent --------------------------------------------------------------------------

    def end_agent(self, reasons: Sequence[Any]) -> None:
        """The agent goes away, as when its lease has ended."""
        self._put("agent.json", {"state": "ended", "reasons": list(reasons), "holder": None})

    def _reach(self) -> None:
        if self.down:
            raise NodeUnreachable(self.node, self.address, "the cable is cut")

    def _obey(self, name: str, content: bytes) -> None:
        if name == "lease":
            return
        self.commands.append(name)
        if name == "stop.json":
            self.end_agent(json.loads(content).get("reasons") or [])
            return
        verb, number = name.removesuffix(".json").split("-")
        repeat = int(number)
        if verb == "prepare" and repeat not in self._left:
            self._left[repeat] = self.looks
            agent = {"state": "ready", "repeat": repeat, "pid": 1}
            self._put("agent.json", {"reasons": [], "holder": None, **agent})
            self._state(repeat, "ready")
        elif verb == "go" and repeat not in self.launches:
            self.launches.append(repeat)
            self._state(repeat, "running")
        elif verb == "abort" and f"repeats/{repeat:03d}/result.json" not in self._results():
            self._end(repeat, "aborted", json.loads(content)["reasons"])

    def _step(self, repeat: int) -> None:
        state = self._json(f"repeats/{repeat:03d}/state.json")
        if state is None or state["state"] != "running":
            return
        self._left[repeat] -= 1
        if self._left[repeat] > 0:
            self._state(repeat, "running")
        elif repeat in self.fails:
            ended = Reason(ReasonCode.PROCESS_EXITED, self.node, "trainer", "code 1")
            self._end(repeat, "failed", [ended.to_json()])
        else:
            self._end(repeat, "done", [])

    def _state(self, repeat: int, state: str, reasons: Sequence[Any] = ()) -> None:
        self._put(
            f"repeats/{repeat:03d}/state.json",
            {
                "state": state,
                "reasons": list(reasons),
                "ports": {f"trainer-{self.node}": 20000},
                "processes": {},
                "t_s": time.monotonic(),
            },
        )

    def _end(self, repeat: int, state: str, reasons: Sequence[Any]) -> None:
        status = "ok" if state == "done" else state
        result = {"status": status, "reasons": list(reasons), "log_tail": f"log of {self.node}"}
        self._put(f"repeats/{repeat:03d}/result.json", result)
        self._state(repeat, state, reasons)

    def _results(self) -> list[str]:
        return [posixpath.relpath(p, self._job_dir) for p in self.files if "result.json" in p]

    def _put(self, name: str, document: object) -> None:
        self.files[posixpath.join(self._job_dir, name)] = json.dumps(document).encode()

    def _json(self, name: str):
        content = self.files.get(posixpath.join(self._job_dir, name))
        return None if content is None else json.loads(content)
