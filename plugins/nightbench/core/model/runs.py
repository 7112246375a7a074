"""One run of a suite: its processes on their nodes, and the job of a gang."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nightbench.core.documents import to_document
from nightbench.core.model.cases import MAX_BATCH, Build, Case, Protocol
from nightbench.core.model.clusters import EnvironmentPolicy, NeighbourPolicy, Node
from nightbench.core.model.words import RunKind


@dataclass(frozen=True)
class Run:
    """One execution of a suite on a cluster."""

    run_id: str
    suite: str
    cluster: str
    run_kind: RunKind
    started_at: datetime
    requested_by: str = ""
    dag_id: str | None = None
    dag_run_id: str | None = None
    code_digest: str = ""


@dataclass(frozen=True)
class Process:
    """One process of a gang."""

    name: str
    """`trainer-0`, `pserver-1`."""
    role: str
    """One of the line's for the strategy: `trainer`, `pserver`, `scheduler`."""
    rank: int
    """Rank within the role."""
    node: str
    local_rank: int
    """Index among the processes of its role on its node."""
    device: str | None = None
    measured: bool = True
    """Its steps are timed; it writes rank.json."""


@dataclass(frozen=True)
class Limits:
    """Time limits of a job, in seconds."""

    ready_s: float = 120.0
    repeat_s: float = 1800.0
    progress_s: float = 300.0
    lease_s: float = 120.0
    term_s: float = 3.0


@dataclass(frozen=True)
class JobSpec:
    """One case resolved for one cluster: the `job.json` that crosses SSH (job/1)."""

    run_id: str
    case: Case
    generation: int
    cluster: str
    build: Build
    protocol: Protocol
    nodes: tuple[Node, ...]
    """The gang's nodes, lead first."""
    processes: tuple[Process, ...]
    unit: str
    workload_params: Mapping[str, Any]
    seed: int
    env: Mapping[str, str]
    role_env: Mapping[str, Mapping[str, str]]
    limits: Limits
    code_digest: str
    definition_digest: str
    environments: EnvironmentPolicy
    neighbours: NeighbourPolicy = field(default_factory=NeighbourPolicy)
    lock: str = "node"
    """What the agents lock: `node` or `devices`."""
    deadline: datetime | None = None
    """No repeat is started that cannot end by then."""
    expected_repeat_s: float | None = None
    """What a repeat usually takes, where earlier runs say it; its time limit when None."""
    data_path: str | None = None
    """Where the case's data lie on the nodes; None where they are synthetic, or the sample."""
    link_command: tuple[str, ...] = ()
    """What limits the link of a node on that node; empty: nothing."""
    transport: str | None = None
    """What the frameworks' own traffic is expected to use; not compared when None."""

    @property
    def job_id(self) -> str:
        """Unique name of the job, and the mark that its processes carry."""
        return f"{self.run_id}/{self.case.case_id}/g{self.generation}"

    @property
    def from_log(self) -> bool:
        """Whether figures are read from the log of a command."""
        return "command" in self.workload_params

    @property
    def measured(self) -> int:
        """Number of the measured processes."""
        return sum(process.measured for process in self.processes)

    @property
    def units_per_trainer_step(self) -> int | None:
        """Units of work in one step of a measured process, which may stand for several devices.

        None where the run has to find its batch.
        """
        batch_size = self.case.batch_size_per_device
        if batch_size == MAX_BATCH:
            return None
        units: int = self.workload_params.get("units_per_example", 1)
        return units * batch_size * self.case.trainers // self.measured

    @property
    def lead(self) -> Node:
        """The node that claims repeats."""
        return self.nodes[0]

    def ports(self) -> tuple[tuple[str, str], ...]:
        """Names of the ports to reserve, each with its node: one master, one for each process."""
        return (("master", self.lead.name), *((p.name, p.node) for p in self.processes))

    def to_json(self) -> dict[str, Any]:
        """The job.json document (schema `benchmarks/contract/job.schema.json`)."""
        document = to_document(self)
        framework = {"line": self.build.line, "variant": self.build.variant}
        if self.build.source == "image":
            framework["image"] = str(self.build.location)
        return {
            "schema": "nightbench.job/1",
            "job_id": self.job_id,
            "case_id": self.case.case_id,
            "framework": {**framework, "build_id": self.build.build_id},
            "workload": {
                "name": self.case.workload,
                "scale": self.case.scale,
                "params": document["workload_params"],
                **{name: document[name] for name in ("unit", "seed", "data_path")},
            },
            "protocol": {k: v for k, v in document["protocol"].items() if v is not None},
            "nodes": [
                {
                    **{name: node[name] for name in _OF_NODE},
                    "data_address": node["data_address"] or node["host"],
                }
                for node in document["nodes"]
            ],
            "ports": [{"name": name, "node": node} for name, node in self.ports()],
            "lock_dir": self.environments.lock_dir,
            "neighbours": {name: document["neighbours"][name] for name in _OF_NEIGHBOURS},
            **{name: document[name] for name in _OF_JOB},
        }


_OF_NODE = ("name", "interface", "port_range", "cpus", "devices", "env")
_OF_NEIGHBOURS = ("action", "wait_s", "cpu_share", "gpu")
_OF_JOB = (
    *("run_id", "generation", "cluster", "case", "processes", "env", "role_env", "limits"),
    *("lock", "link_command", "code_digest", "definition_digest"),
)
"""Fields that job.json holds under the same name."""
