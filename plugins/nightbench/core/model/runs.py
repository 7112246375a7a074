"""One run of a suite: its processes on their nodes, the job of a gang, and how it comes back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nightbench.core.documents import to_document
from nightbench.core.model.cases import MAX_BATCH, Build, Case, Protocol
from nightbench.core.model.clusters import Cluster, EnvironmentPolicy, NeighbourPolicy, Node
from nightbench.core.model.pairs import MeasuredPair
from nightbench.core.model.reasons import Reason
from nightbench.core.model.results import (
    CheckResult,
    HistoryPoint,
    Measurement,
    RepeatRecord,
    RepeatSummary,
)
from nightbench.core.model.words import CaseStatus, RunKind


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
    env: Mapping[str, str] | None = None
    """Environment variables that the cluster and the suite set for all ranks. Those of a role have
    its name before them: `pserver.OMP_NUM_THREADS`. None: unknown, for imported runs."""


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
    """One case resolved for one cluster: the `job.json` that crosses SSH (job/1).

    `ClusterFile` describes what the cluster says.
    """

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
    neighbours: NeighbourPolicy = field(default_factory=lambda: NeighbourPolicy(action="record"))
    lock: str = "node"
    binding: str = "numa"
    deadline: datetime | None = None
    """No repeat is started that cannot end by then."""
    expected_repeat_s: float | None = None
    """Usual seconds of a repeat, from earlier runs; if None, its time limit."""
    data_path: str | None = None
    """Folder of the case's data on the nodes; None if they are synthetic, or the sample."""
    link_command: tuple[str, ...] = ()
    transport: str | None = None

    @property
    def job_id(self) -> str:
        """Unique name of the job, and the mark that its processes carry."""
        return f"{self.run_id}/{self.case.case_id}/g{self.generation}"

    @property
    def from_log(self) -> bool:
        """Whether values are read from the log of a command."""
        return "command" in self.workload_params

    @property
    def measured(self) -> int:
        """Number of the measured processes."""
        return sum(process.measured for process in self.processes)

    @property
    def units_per_trainer_step(self) -> int | None:
        """Units of work in one step of a measured process, which may stand for several devices.

        None if the run has to find its batch.
        """
        batch_size = self.case.batch_size_per_device
        if batch_size == MAX_BATCH:
            return None
        units: int = self.workload_params.get("units_per_example", 1)
        return units * batch_size * self.case.trainers // self.measured

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
            "ports": [
                {"name": "master", "node": self.nodes[0].name},
                *({"name": each.name, "node": each.node} for each in self.processes),
            ],
            "lock_dir": self.environments.lock_dir,
            "neighbours": {name: document["neighbours"][name] for name in _OF_NEIGHBOURS},
            **{name: document[name] for name in _OF_JOB},
        }


_OF_NODE = ("name", "interface", "port_range", "cpus", "devices", "env")
_OF_NEIGHBOURS = ("action", "wait_s", "cpu_share", "gpu")
_OF_JOB = (
    *("run_id", "generation", "cluster", "case", "processes", "env", "role_env", "limits"),
    *("lock", "binding", "link_command", "code_digest", "definition_digest"),
)
"""Fields that job.json holds under the same name."""


@dataclass(frozen=True)
class PlannedCase:
    """A case that a run means to measure: one entry of a run's `planned.json`."""

    case: Case
    build: Build
    definition_digest: str = ""
    unit: str | None = None
    """Unit of work counted; kept here too, so that a missing case still has one."""
    left_out: Reason | None = None
    """Why the night had no room for it; None if it is to be measured."""
    private_build: bool = False
    """The build was named for this run alone: it belongs to no history but its own."""
    untried: str | None = None
    """Why this configuration of the line was untried on such devices; None if it was tried."""
    flops_per_unit: float | None = None
    """Model FLOPs of one unit of work, forward and backward; None if the workload states none.
    """
    tokens_per_unit: float | None = None
    """Tokens of one unit of work; None if it is none of a language model."""

    @property
    def case_id(self) -> str:
        """Slug of the case."""
        return self.case.case_id


@dataclass(frozen=True)
class RepeatToLoad:
    """One launch of the gang and its numbers; None if it could not be summarised."""

    record: RepeatRecord
    summary: RepeatSummary | None = None


@dataclass(frozen=True)
class CaseToLoad:
    """All that came back of one case in one generation."""

    case: Case
    generation: int
    status: CaseStatus
    reasons: tuple[Reason, ...] = ()
    repeats: tuple[RepeatToLoad, ...] = ()
    measurement: Measurement | None = None
    """None if the case ended before anything could be summarised."""
    checks: tuple[CheckResult, ...] = ()
    """On repeats and on the measurement; those of `measurement.checks` may be repeated here."""
    elapsed_s: float | None = None
    """Seconds from preparing to the last repeat; estimates are made from it."""


@dataclass(frozen=True)
class LoadBatch:
    """A run as it came back: what `RunRepository.load` stores in one transaction."""

    run: Run
    planned: tuple[PlannedCase, ...]
    cases: tuple[CaseToLoad, ...]
    """Cases that came back, in any state; a planned case that is not here is missing."""
    checks_digest: str = field(default="", kw_only=True)
    """Digest of the checks that judged them."""
    fingerprints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Fingerprint id -> the node's document (nightbench.fingerprint/1)."""
    cluster: Cluster | None = None
    """Fills `marts.dim_cluster`."""
    pairs: tuple[MeasuredPair, ...] = ()
    """Results of the measurement with a reference build."""


@dataclass(frozen=True)
class MeasuredCase:
    """How one planned case of a run stands in the warehouse."""

    case_id: str
    status: CaseStatus | None
    """None: nothing came back (missing)."""
    reasons: tuple[Reason, ...]
    """Why it did not end well."""
    quarantine_reasons: tuple[Reason, ...]
    """The checks that it failed; empty if it counts."""
    point: HistoryPoint | None
    """The judged value, if it counts: status ok and not quarantined."""
    not_judged: str | None = None
    """Why a case that counts has no such value; None if it has."""
