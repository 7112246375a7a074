"""A controller in miniature: real agents as processes, no SSH between."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodeside.processes import is_running

CODE = Path(__file__).resolve().parents[3] / "benchmarks"
AGENT = CODE / "agent.py"
GOLDEN = Path(__file__).resolve().parents[2] / "contract" / "golden"
PYTHON = os.environ.get("NIGHTBENCH_TEST_AGENT_PYTHON", sys.executable)
"""Interpreter of the agents; set it to a Python 3.7 to test the oldest that is supported."""


def wait_until(ready: Callable[[], Any], timeout_s: float = 120.0, what: str = "") -> Any:
    """The first true answer of `ready`; fails the test after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = ready()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {timeout_s} s for {what or ready}")


@contextmanager
def agent_of(job: str, node: str | None = None) -> Iterator[None]:
    """A process that sweeps take for a job's agent.

    Tests of other workers sweep this machine, and end every process with a mark and no agent.
    """
    marks = {"NIGHTBENCH_AGENT": job, **({"NIGHTBENCH_AGENT_NODE": node} if node else {})}
    with subprocess.Popen(["sleep", "600"], env={**os.environ, **marks}) as agent:
        try:
            yield
        finally:
            agent.kill()


def read(path: Path) -> Any:
    """A JSON document, None while it is absent."""
    return json.loads(path.read_text()) if path.exists() else None


def verb(*words: str | Path, env: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """Run a verb of the agent: exit code and the document that it printed."""
    done = subprocess.run(
        [PYTHON, str(AGENT), *map(str, words)],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.count("\n") == 1, (done.stdout, done.stderr)
    return done.returncode, json.loads(done.stdout)


def job_document(**changes: Any) -> dict[str, Any]:
    """The golden job: `fake`, two trainers on one node each; keys of the top level replaced."""
    document = copy.deepcopy(json.loads((GOLDEN / "job.json").read_text()))
    document.update(changes)
    return document


def one_node(trainers: int = 2, pservers: int = 0, **changes: Any) -> dict[str, Any]:
    """A job whose processes all run on node n1."""
    document = job_document()
    document["nodes"] = document["nodes"][:1]
    roles = [("pserver", n) for n in range(pservers)] + [("trainer", n) for n in range(trainers)]
    document["processes"] = [
        {
            "name": f"{role}-{rank}",
            "role": role,
            "rank": rank,
            "node": "n1",
            "local_rank": rank,
            "device": None,
            "measured": role == "trainer",
        }
        for role, rank in roles
    ]
    document["ports"] = [{"name": "master", "node": "n1"}]
    document["ports"] += [{"name": p["name"], "node": "n1"} for p in document["processes"]]
    if pservers:
        document["case"]["strategy"] = "parameter_server"
    document["limits"] = {
        "ready_s": 10.0,
        "repeat_s": 60.0,
        "progress_s": 20.0,
        "lease_s": 60.0,
        "term_s": 0.5,
    }
    document.update(changes)
    return document


def why(document: dict[str, Any]) -> str:
    """The reasons of a document as `code subject: observed (expected)`, one after another."""
    return "; ".join(
        f"{each['code']} {each['subject'] or ''}: {each['observed']} ({each['expected']})"
        for each in document["reasons"]
    )


def reason(code: str, observed: str = "") -> dict[str, Any]:
    """A reason as a controller gives it."""
    return {"code": code, "node": None, "subject": None, "observed": observed, "expected": ""}


class NodeDriver:
    """One job directory and the agent that serves it."""

    def __init__(
        self,
        folder: Path,
        document: dict[str, Any],
        node: str = "n1",
        params: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> None:
        self.folder = folder / node
        self.node = node
        self.document = document
        # A run of this process's own: one may be swept while other workers' jobs go on.
        document["job_id"] = f"{os.getpid()}-{document['job_id']}-{folder.name}"
        document["lock_dir"] = str(folder / "locks")
        document["workload"]["params"].update(params or {})
        for entry in document["nodes"]:
            entry["cpus"] = []
            entry["data_address"] = "127.0.0.1"
        self.control = self.folder / "control"
        # As a controller marks it.
        marks = {"NIGHTBENCH_AGENT": document["job_id"], "NIGHTBENCH_AGENT_NODE": node}
        connection = f"127.0.0.1 55555 {address} 2222"
        self.env = {"SSH_CONNECTION": connection, **marks, **(env or {})}
        (self.control / "epoch-0001").mkdir(parents=True, exist_ok=True)
        (self.folder / "job.json").write_text(json.dumps(document))

    @property
    def job_id(self) -> str:
        return str(self.document["job_id"])

    def start(self, *words: object) -> dict[str, Any]:
        code, answer = verb("start", self.folder, "--node", self.node, *words, env=self.env)
        assert code == 0, answer
        return answer

    def command(self, name: str, epoch: int = 1, **more: Any) -> None:
        path = self.control / f"{name}.json"
        path.with_suffix(".tmp").write_text(json.dumps({"epoch": epoch, **more}))
        path.with_suffix(".tmp").rename(path)

    def repeat(self, number: int) -> Path:
        return self.folder / "repeats" / f"{number:03d}"

    def state(self, number: int) -> dict[str, Any]:
        return read(self.repeat(number) / "state.json") or {}

    def phase(self, number: int, process: str) -> str | None:
        return self.state(number).get("processes", {}).get(process, {}).get("phase")

    def agent(self) -> dict[str, Any]:
        return read(self.folder / "agent.json") or {}

    def events(self) -> list[dict[str, Any]]:
        path = self.folder / "agent.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def prepare(self, number: int = 1) -> dict[str, int]:
        self.command(f"prepare-{number:03d}")
        state = wait_until(
            lambda: s if (s := self.state(number)) and s["state"] != "preparing" else None,
            what="state.json",
        )
        assert state["state"] == "ready", state
        return dict(state["ports"])

    def go(self, number: int = 1) -> None:
        self.command(f"go-{number:03d}", ports=self.prepare(number))

    def result(self, number: int = 1, timeout_s: float = 30.0) -> dict[str, Any]:
        path = self.repeat(number) / "result.json"
        found: dict[str, Any] = wait_until(lambda: read(path), timeout_s, f"result of {number}")
        return found

    def until_ended(self) -> dict[str, Any]:
        found: dict[str, Any] = wait_until(
            lambda: self.agent() if self.agent().get("state") == "ended" else None,
            what="the agent's end",
        )
        wait_until(lambda: not is_running(found["pid"]), what="its exit")
        return found

    def stop(self) -> None:
        self.command("stop")
        self.until_ended()

    def kill_agent_and_reaper(self) -> None:
        """Kill the agent, and first its parent, which would end what the agent leaves."""
        agent = self.agent()["pid"]
        parent = int(Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[1])
        command = Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0")
        assert b"start" in command, command
        for pid in (parent, agent):
            os.kill(pid, signal.SIGKILL)

    def marked(self) -> list[int]:
        """Processes of this job that run now, the agent aside."""
        wanted = b"NIGHTBENCH_JOB=" + self.job_id.encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environ = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in environ:
                found.append(int(entry.name))
        return found


def remove_cgroup(folder: Path) -> bool:
    """Remove a cgroup and those in it; False if one is not empty yet."""
    for inner in [*folder.glob("*/"), folder]:
        try:
            inner.rmdir()
        except OSError:
            return False
    return True
