"""Local nodes, jobs of the `fake` framework, and meters: what the figures stand on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.openssh import local_nodes
from tests.jobs import gang_job
from tests.marks import marks
from tests.shipped import shipped

from nightbench.core.model import (
    EnvironmentPolicy,
    JobSpec,
    Limits,
    Node,
    Protocol,
)
from nightbench.gang import Shipment, SshTarget
from nightbench.spool import CaseStore, Spool

REPO = Path(__file__).resolve().parents[2]
LIMITS = Limits(ready_s=120, repeat_s=600, progress_s=300, lease_s=60, term_s=2)


@dataclass(frozen=True)
class Ground:
    """Nodes that answer SSH on loopback, a spool, and the tree to ship."""

    folder: Path
    nodes: tuple[Node, ...]
    targets: dict[str, SshTarget]
    shipment: Shipment
    spool: Spool
    server: subprocess.Popen[bytes] | None = None

    def job(
        self,
        run_id: str,
        nodes: Sequence[Node],
        trainers: int,
        pservers: int = 0,
        protocol: Protocol = Protocol(2, 10, 1),  # noqa: B008 - frozen
        step_s: float = 0.05,
        lock: str = "",
    ) -> JobSpec:
        """A gang whose processes are dealt out over its nodes.

        Args:
            run_id: of the run, one for each job.
            nodes: lead first.
            trainers: how many.
            pservers: how many.
            protocol: steps and repeats.
            step_s: length of a step.
            lock: name of a lock of its own, where several gangs are to run on one node.
        """
        return gang_job(
            nodes,
            trainers,
            pservers,
            run_id=run_id,
            protocol=protocol,
            workload_params={"step_s": step_s},
            limits=LIMITS,
            code_digest=self.shipment.code_digest(),
            environments=EnvironmentPolicy(
                python=sys.executable, lock_dir=str(self.folder / "locks" / lock)
            ),
        )

    def store(self, job: JobSpec) -> CaseStore:
        """Where its results go."""
        return self.spool.run(job.run_id).case(job.case.case_id, job.generation)

    def folder_of(self, job: JobSpec, node: str) -> Path:
        """The job directory on a node."""
        home = self.folder / "cluster" / node / ".nightbench-node"
        return home / "jobs" / job.job_id / node

    def agent_log(self, job: JobSpec, node: str) -> list[dict[str, Any]]:
        """What its agent did, in order."""
        text = (self.folder_of(job, node) / "agent.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def server_cpu_s(self) -> float:
        """CPU time of the SSH server, which stands for the sshd of all nodes."""
        assert self.server is not None
        fields = Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connections(self) -> int:
        """Established SSH connections from this process's side."""
        port = next(iter(self.targets.values())).port
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        fields = [line.split() for line in lines]
        return sum(f[3] == "01" and int(f[2].rpartition(":")[2], 16) == port for f in fields)


@contextlib.contextmanager
def ground(count: int, pin: bool = False) -> Iterator[Ground]:
    """Start so many local nodes; nothing of them is left at the end."""
    folder = Path(tempfile.mkdtemp(prefix="nbfig-", dir="/tmp"))
    try:
        with local_nodes(folder, count, "--cores" if pin else "--no-cores") as local:
            (server,) = local.servers
            yield Ground(
                folder=folder,
                nodes=local.nodes,
                targets=local.targets,
                shipment=Shipment(shipped(folder)),
                spool=Spool(folder / "spool"),
                server=server,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def left_over(run_prefix: str, wait_s: float = 20.0) -> list[int]:
    """Processes that are still there when agents that have said their last have exited, too."""
    until = time.monotonic() + wait_s
    while (found := list(marks(run_prefix))) and time.monotonic() < until:
        time.sleep(0.2)
    return found


@dataclasses.dataclass
class Meter:
    """CPU and memory of this process since a moment."""

    wall_s: float = 0.0
    cpu_s: float = 0.0

    @classmethod
    def now(cls) -> Meter:
        """The moment to measure from."""
        return cls(time.monotonic(), cpu_s())

    def cores(self) -> float:
        """CPU time / wall time since then."""
        return (cpu_s() - self.cpu_s) / max(time.monotonic() - self.wall_s, 1e-9)


def cpu_s() -> float:
    """CPU time of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_bytes() -> int:
    """Memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def say(what: str, value: float, unit: str, target: str = "") -> None:
    """One figure on one line."""
    print(f"{what:<58} {value:>9.2f} {unit:<6} {target}", flush=True)
