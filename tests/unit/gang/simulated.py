"""Nodes in memory under virtual time, with an agent that behaves as `benchmarks/nodeside` does.

What is simulated: a node's files, its boot, the agent's lock, the node's lock for which rival jobs
compete, processes that die with the agent and one that does not, claims by mkdir, commands with
epochs, the lease, `launched` before a process is started, results that appear by rename. What is
real: everything of the controller. Cables are cut silently (an access hangs) or loudly, and answers
get lost after a command has been carried out.
"""

from __future__ import annotations

import asyncio
import json
import posixpath
import random
import re
import selectors
from collections import defaultdict
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from nightbench.core.model import JobSpec, Reason, ReasonCode
from nightbench.gang.errors import NodeUnreachable, PodError, RemoteFailure
from nightbench.gang.process import Completed

TICK_S = 0.25
HANG_S = 30.0
FRESH_TICKS = 4

EPOCH = re.compile(r"epoch-(\d+)\Z")
COMMAND = re.compile(r"(prepare|go|drain|finish|abort|release)-(\d+)\.json\Z")


class _Jump(selectors.SelectSelector):
    """Instead of waiting, time passes."""

    now = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everybody waits for ever"
            self.now += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes as fast as nothing happens."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now

    def jump(self, seconds: float) -> None:
        """All that is due by then is late."""
        self._jump.now += seconds


@dataclass
class Process:
    repeat: int
    name: str
    since_s: float
    exit_code: int | None = None
    daemon: bool = False
    """Left the process group, and does not die with the agent."""


@dataclass
class World:
    """What all nodes share, and what happened."""

    job: JobSpec
    random: random.Random
    nodes: dict[str, SimNode] = field(default_factory=dict)
    launches: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    obeyed: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    disturbed: set[int] = field(default_factory=set)
    fails: set[tuple[str, int]] = field(default_factory=set)
    """Nodes and repeats of which a rank exits with 1."""
    unseen_s: float = 0.0
    """Time that passed on the controller's machine alone."""
    run_s: float = 2.0
    wrong: list[str] = field(default_factory=list)

    def note_launch(self, node: str, repeat: int) -> None:
        self.launches[node, repeat] += 1
        for rival in self.nodes[node].machine.jobs:
            processes = [p for p in rival.processes if not p.daemon]
            if rival.world is not self and processes:
                self.wrong.append(f"{self.job.job_id} is launched on {node} beside {processes}")
        alive = {(n.node, p.repeat) for n in self.nodes.values() for p in n.processes}
        others = {entry for entry in alive if entry[1] != repeat}
        if others:
            self.wrong.append(f"repeat {repeat} is launched on {node} beside {sorted(others)}")


class Machine:
    """What the jobs on one machine share."""

    def __init__(self) -> None:
        self.lock: object = None
        """The agent that holds the node's lock."""
        self.jobs: list[SimNode] = []
        self.cpu = "first"


class SimNode:
    """One machine as one job sees it.

    Args:
        world: of the job.
        node: its name.
        machine: shared with rival jobs; a machine of its own unless given.
    """

    def __init__(self, world: World, node: str, machine: Machine | None = None) -> None:
        self.world = world
        self.node = node
        self.machine = machine or Machine()
        self.machine.jobs.append(self)
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = set()
        self.up = True
        self.silent = False
        """Cut: an access gets no answer at all."""
        self.refused = False
        """Cut: an access fails at once."""
        self.gone = False
        """It was a pod, and is deleted."""
        self.deaf = False
        """The agent is told nothing."""
        self.busy = False
        """Foreign work delays the launch."""
        self.lose = 0
        """So many answers get lost from now on, after the access was carried out."""
        self.boots = 1
        self.processes: list[Process] = []
        self.agent: SimAgent | None = None
        self._pids = 100
        world.nodes[node] = self
        self.job_dir = f"/node/jobs/{world.job.job_id}/{node}"
        self.files[f"{self.job_dir}/job.json"] = json.dumps(
            {"code_digest": world.job.code_digest}
        ).encode()

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids

    @property
    def reachable(self) -> bool:
        return self.up and not (self.silent or self.refused or self.lose)

    # --- faults -----------------------------------------------------------------------------

    def kill_agent(self, leave_daemon: bool = False) -> None:
        """SIGKILL to the agent; its ranks die with it, what left their group does not."""
        if self.agent is not None:
            self.agent.die()
        if leave_daemon and self.processes:
            self.processes[0].daemon = True
        self.processes = [p for p in self.processes if p.daemon]

    def reboot(self) -> None:
        """All processes of all jobs are gone, the disk is as it was; `boot` ends it."""
        for job in self.machine.jobs:
            job.kill_agent()
            job.processes = []
            job.boots += 1
            job.up = False
        self.machine.lock = None

    def boot(self) -> None:
        """The machine answers again."""
        for job in self.machine.jobs:
            job.up = True

    def fail_process(self) -> None:
        """A rank exits with 1."""
        for process in self.processes:
            if process.exit_code is None:
                process.exit_code = 1
                return

    def sweep(self, job: str | None) -> list[int]:
        if job is not None and self.agent is not None:
            self.agent.end("aborted", [self.agent.why("agent_signalled", "SIGTERM")])
        swept = [self] if job is not None else [j for j in self.machine.jobs if j.agent is None]
        gone = sum(len(each.processes) for each in swept)
        for each in swept:
            each.processes = []
        return [1] * gone


class SimAgent:
    """The daemon of one job directory: see agent_daemon.py and node_repeat.py of nodeside."""

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.world = node.world
        self.pid = node.next_pid()
        self.epoch = 0
        self.commands: dict[tuple[str, int], dict] = {}
        self.lease: bytes | None = None
        self.renewed_s = self._now()
        self.repeat: int | None = None
        self.state: str | None = None
        self.ready_s = 0.0
        self.started_s = 0.0
        self._fresh = FRESH_TICKS
        node.agent = self
        self._task = asyncio.get_running_loop().create_task(self._live())

    def die(self) -> None:
        """As by SIGKILL."""
        self._task.cancel()
        self._gone()

    def why(self, code: str, observed: str = "", subject: str | None = None) -> dict[str, Any]:
        """A reason as the node writes it."""
        return Reason(ReasonCode(code), self.node.node, subject, observed).to_json()

    def _foreign(self) -> dict[str, Any]:
        return self.why("foreign_cpu", "40% of the cores: cc1")

    def _longest_ready_s(self) -> float:
        policy = self.world.job.neighbours
        waits_s = policy.wait_s if policy.action == "wait" else 0.0
        return self.world.job.limits.ready_s + waits_s

    def end(self, status: str, reasons: list[Any]) -> None:
        """As after stop, an expired lease or SIGTERM."""
        if self.repeat is not None and self.state not in ("done", "failed", "aborted", None):
            self._end(status, reasons)
        self.node.processes = []
        self._write_agent("ended", reasons=reasons)
        self._task.cancel()
        self._gone()

    # --- its life -----------------------------------------------------------------------------

    async def _live(self) -> None:
        machine = self.node.machine
        while machine.lock not in (None, self):
            self._write_agent("waiting", holder={"job_id": "other", "user": "u", "since": "now"})
            if self._why_end():
                return
            await asyncio.sleep(2 * TICK_S)
        machine.lock = self
        self._end_what_was_left()
        self._put("fingerprint.json", {"schema": "nightbench.fingerprint/1", "cpu": machine.cpu})
        while not self._why_end():
            if self.repeat is None or self.state in ("done", "failed", "aborted"):
                self._next()
            else:
                self._tick()
            shown = self.state if self.state in ("preparing", "ready") else "running"
            idle = self.repeat is None or self.state in ("done", "failed", "aborted")
            self._write_agent("idle" if idle else shown, repeat=self.repeat)
            await asyncio.sleep(TICK_S)

    def _why_end(self) -> bool:
        self._look()
        stop = self.commands.get(("stop", 0)) or self.commands.get(("release", self.pid))
        if stop is not None:
            self.end("aborted", stop.get("reasons") or [self.why("stopped")])
            return True
        lease_s = self.world.job.limits.lease_s
        if self._now() - self.renewed_s > lease_s:
            self.end("failed", [self.why("lease_expired", f"{lease_s:g} s")])
            return True
        return False

    def _look(self) -> None:
        control = f"{self.node.job_dir}/control"
        names = sorted(self.node_names(control))
        for name in names:
            if found := EPOCH.match(name):
                self.epoch = max(self.epoch, int(found[1]))
        for name in names:
            if found := COMMAND.match(name):
                self._read(f"{control}/{name}", (found[1], int(found[2])))
            elif name == "stop.json":
                self._read(f"{control}/{name}", ("stop", 0))
        lease = self.node.files.get(f"{control}/lease")
        if lease is not None and lease != self.lease:
            self.lease, self.renewed_s = lease, self._now()

    def node_names(self, folder: str) -> set[str]:
        everything = [*self.node.files, *self.node.folders]
        return {posixpath.basename(p) for p in everything if posixpath.dirname(p) == folder}

    def _read(self, path: str, key: tuple[str, int]) -> None:
        if key in self.commands:
            return
        document = json.loads(self.node.files[path])
        if document["epoch"] >= self.epoch:
            self.commands[key] = document
            if not document.get("cancelled"):
                self.world.obeyed[self.node.node].append(document["epoch"])

    def _end_what_was_left(self) -> None:
        self.node.processes = []
        for repeat in range(1, 30):
            launched = f"{self._folder(repeat)}/launched" in self.node.folders
            if launched and f"{self._folder(repeat)}/result.json" not in self.node.files:
                self.repeat = repeat
                self._end("failed", [self.why("agent_died")])
                self.repeat = self.state = None

    # --- a repeat -----------------------------------------------------------------------------

    def _next(self) -> None:
        if self.node.deaf:
            return
        for verb, number in sorted(self.commands):
            result = f"{self._folder(number)}/result.json"
            if verb == "prepare" and result not in self.node.files:
                self.repeat, self.ready_s = number, self._now()
                self.state = "preparing" if self.node.busy else "ready"
                self._fresh = FRESH_TICKS
                self._write_state([self._foreign()] if self.node.busy else [])
                return

    def _tick(self) -> None:
        repeat = self.repeat
        assert repeat is not None
        abort = self.commands.get(("abort", repeat))
        if abort is not None:
            self._end("aborted", abort.get("reasons") or [self.why("stopped")])
        elif self.state == "preparing":
            if not self.node.busy:
                self.state = "ready"
                self._write_state()
        elif self.state == "ready":
            if ("go", repeat) in self.commands:
                self._launch(repeat)
            elif self._now() - self.ready_s > self._longest_ready_s():
                self._end("failed", [self.why("no_go")])
        else:
            self._watch(repeat)
        self._fresh -= 1
        if self.state in ("ready", "running") and self._fresh <= 0:
            self._fresh = FRESH_TICKS
            self._write_state()

    def _launch(self, repeat: int) -> None:
        folder = f"{self._folder(repeat)}/launched"
        if folder in self.node.folders:
            self._end("failed", [self.why("agent_error", "launched before")])
            return
        self.node.folders.add(folder)
        self.world.note_launch(self.node.node, repeat)
        self.state, self.started_s = "running", self._now()
        for process in self.world.job.processes:
            if process.node == self.node.node:
                self.node.processes.append(Process(repeat, process.name, self._now()))
        if (self.node.node, repeat) in self.world.fails:
            self.node.fail_process()
        self._write_state()

    def _watch(self, repeat: int) -> None:
        mine = [p for p in self.node.processes if p.repeat == repeat]
        failed = [p.name for p in mine if p.exit_code not in (None, 0)]
        if failed:
            self._end("failed", [self.why("process_exited", "code 1", failed[0])])
            return
        # A collective ends together: only once all nodes have their processes.
        everywhere = [p for n in self.world.nodes.values() for p in n.processes]
        whole = {p.name for p in everywhere if p.repeat == repeat and p.exit_code in (None, 0)}
        enough_s = self._now() - self.started_s > self.world.run_s
        if enough_s and (len(whole) == len(self.world.job.processes) or self._others_done(repeat)):
            for process in mine:
                process.exit_code = 0
            self._end("done", [])
        elif self._now() - self.started_s > self.world.job.limits.progress_s:
            self._end("failed", [self.why("no_progress", "", mine[0].name)])

    def _others_done(self, repeat: int) -> bool:
        others = [n for n in self.world.nodes.values() if n is not self.node]
        return all(
            json.loads(n.files.get(f"{n.job_dir}/repeats/{repeat:03d}/result.json", b"{}")).get(
                "status"
            )
            == "ok"
            for n in others
        )

    def _end(self, status: str, reasons: list[Any]) -> None:
        repeat = self.repeat
        assert repeat is not None
        self.node.processes = [p for p in self.node.processes if p.repeat != repeat]
        self.state = status
        self._write_state(reasons)
        quiet = repeat not in self.world.disturbed
        self._put(
            f"repeats/{repeat:03d}/result.json",
            {
                "status": "ok" if status == "done" else status,
                "reasons": list(reasons),
                "log_tail": None if status == "done" else f"log of {self.node.node}",
                "processes": [],
                "disturbed": None if quiet else {"reasons": [self._foreign()]},
                "stamp": self._now(),
            },
        )

    # --- what it writes -------------------------------------------------------------------------

    def _write_state(self, reasons: Sequence[Any] = ()) -> None:
        assert self.repeat is not None
        processes = {
            p.name: {"phase": "window", "step": 1, "t_s": self._now(), "exit_code": p.exit_code}
            for p in self.node.processes
            if p.repeat == self.repeat
        }
        self._put(
            f"repeats/{self.repeat:03d}/state.json",
            {
                "state": self.state,
                "reasons": list(reasons),
                "ports": {f"trainer-{self.node.node}": 20000},
                "processes": processes,
                "t_s": self._now(),
            },
        )

    def _write_agent(self, state: str, **details: object) -> None:
        self._put(
            "agent.json",
            {
                "state": state,
                "pid": self.pid,
                "boot_id": f"boot-{self.node.boots}",
                "repeat": details.get("repeat"),
                "holder": details.get("holder"),
                "reasons": details.get("reasons") or [],
            },
        )

    def _put(self, name: str, document: object) -> None:
        self.node.files[f"{self.node.job_dir}/{name}"] = json.dumps(document).encode()

    def _folder(self, repeat: int) -> str:
        return f"{self.node.job_dir}/repeats/{repeat:03d}"

    def _gone(self) -> None:
        if self.node.agent is self:
            self.node.agent = None
        if self.node.machine.lock is self:
            self.node.machine.lock = None

    def _now(self) -> float:
        return asyncio.get_running_loop().time() - self.world.unseen_s


class SimTransport:
    """A controller's access to a node."""

    def __init__(self, node: SimNode) -> None:
        self._it = node
        self.node = node.node
        self.address = f"{node.node}.test:22"

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

    async def _access(self, act):
        """Carry out an access: later, or never, or with its answer lost."""
        it = self._it
        await asyncio.sleep(it.world.random.choice((0.001, 0.004, 0.02)))
        if it.silent or not it.up:
            await asyncio.sleep(HANG_S)
            raise NodeUnreachable(self.node, self.address, "no answer")
        if it.gone:
            raise PodError.of_code(self, "it is gone", ReasonCode.POD_DELETED)
        if it.refused:
            raise NodeUnreachable(self.node, self.address, "the cable is cut")
        answer = act()
        if it.lose > 0:
            it.lose -= 1
            raise NodeUnreachable(self.node, self.address, "connection lost")
        await asyncio.sleep(it.world.random.choice((0.001, 0.01)))
        return answer

    async def run(self, argv, stdin=b"", env=None, on_stderr=None, timeout_s=None):
        return await self._access(lambda: Completed(0, self._run(argv), b""))

    def _run(self, argv) -> bytes:
        it = self._it
        if argv[0] == "cat":
            return f"boot-{it.boots}\n".encode()
        verb = argv[2]
        if verb == "start":
            swept = it.sweep(None) if "--sweep" in argv else []
            started = it.agent is None
            agent = SimAgent(it) if it.agent is None else it.agent
            return json.dumps({"pid": agent.pid, "started": started, "swept": swept}).encode()
        if verb == "sweep":
            job = argv[argv.index("--job") + 1] if "--job" in argv else None
            if "--kill" not in argv:
                return json.dumps({"found": [1] * len(it.processes), "killed": []}).encode()
            return json.dumps({"found": [], "killed": it.sweep(job)}).encode()
        raise AssertionError(f"unexpected command {argv}")

    @asynccontextmanager
    async def converse(self, argv):
        await self._access(lambda: None)
        yield self

    async def ask(self, line):
        now = asyncio.get_running_loop().time() + 1000
        return json.dumps({"monotonic_s": now, "wall_s": 0})

    async def home(self):
        return await self._access(lambda: "/home/u")

    async def read(self, path):
        return await self._access(lambda: self._it.files.get(path))

    async def write_atomic(self, path, content):
        if posixpath.dirname(path) not in self._it.folders:
            raise RemoteFailure(self.node, self.address, f"no folder for {path}")
        await self._access(lambda: self._it.files.__setitem__(path, content))

    async def put_file(self, source, path, mode=0o644, digest=None):
        raise AssertionError("nothing is uploaded in a run")

    async def mkdir(self, path):
        def act():
            made = path not in self._it.folders
            self._it.folders.add(path)
            return made

        return await self._access(act)

    async def make_folders(self, path):
        def act():
            folder = path
            while folder not in ("/", ""):
                self._it.folders.add(folder)
                folder = posixpath.dirname(folder)

        await self._access(act)

    async def rename(self, source, destination):
        raise AssertionError("nothing is renamed in a run")

    async def exists(self, path):
        def act():
            if path.startswith("/proc/"):
                agent = self._it.agent
                return agent is not None and path == f"/proc/{agent.pid}"
            return path in self._it.files or path in self._it.folders

        return await self._access(act)

    async def listdir(self, path):
        def act():
            everything = [*self._it.files, *self._it.folders]
            return sorted(
                {posixpath.basename(p) for p in everything if posixpath.dirname(p) == path}
            )

        return await self._access(act)

    async def close(self):
        """Nothing is open."""
