"""The words of Nightbench as plain data: frozen dataclasses, standard library only.

Everything that one package hands to another is defined here. Durations are seconds
(`_s`), sizes are bytes (`_bytes`), throughput is in units of work per second, and the
unit of work ("images", "samples", "tokens") travels beside it. Documents that cross SSH
are described by the JSON Schemas under `benchmarks/contract/`; the classes here that have
a `to_json`/`from_json` are the control plane's side of that contract.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
"""What a name must look like to become a path component on a node."""


class Strategy(StrEnum):
    """How the work of a step is spread over processes."""

    SINGLE = "single"
    COLLECTIVE = "collective"
    PARAMETER_SERVER = "parameter_server"


class RunKind(StrEnum):
    """Why a run was made; only `nightly` feeds baselines."""

    NIGHTLY = "nightly"
    ON_DEMAND = "on_demand"
    CONFIRM = "confirm"
    BACKFILL = "backfill"
    DRILL = "drill"


class VerdictKind(StrEnum):
    """What a run says about a series."""

    OK = "ok"
    REGRESSED = "regressed"
    IMPROVED = "improved"
    INSUFFICIENT_DATA = "insufficient_data"
    FAILED = "failed"
    MISSING = "missing"


class Severity(StrEnum):
    """`fail` quarantines a result, `warn` is recorded beside it."""

    FAIL = "fail"
    WARN = "warn"


class CaseStatus(StrEnum):
    """How the measurement of a case ended."""

    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNAVAILABLE = "unavailable"
    """A node can neither find nor build the framework's environment; the reason says what to do."""
    LEFT_OUT = "left_out"
    """The night had no room for it: neither failed nor missing; the reason says what ended it."""


# --- what is measured ---------------------------------------------------------------------


@dataclass(frozen=True)
class Protocol:
    """How a case is measured: the default is 20 steps ignored, 100 measured, 7 repeats."""

    warmup_steps: int = 20
    measured_steps: int = 100
    repeats: int = 7
    """With `confidence`: the most launches; otherwise exactly so many."""
    min_seconds: float = 0.0
    """The window goes on past `measured_steps` until it is at least this long."""
    min_repeats: int | None = None
    """Adaptive: good repeats before the interval is looked at, at least 5."""
    confidence: float | None = None
    """Adaptive: no more repeats once the relative 95 % half-width is at most this."""

    @property
    def adaptive(self) -> bool:
        """Whether the number of repeats follows from their spread."""
        return self.confidence is not None


@dataclass(frozen=True)
class Case:
    """What is measured: everything that changes the work done, and nothing else.

    A key at its default never appears in `case_id`, and defaults never change, so that
    slugs are for ever (see `docs/adr/`).
    """

    workload: str
    framework: str
    strategy: Strategy
    nodes: int = 1
    devices_per_node: int = 1
    trainers: int = 1
    """Data-parallel ranks: nodes x devices for `collective`, the trainers of a parameter server."""
    pservers: int = 0
    batch_size_per_device: int = 1
    precision: str = "fp32"
    sync: str = "sync"
    """Parameter server only: sync, async, half_async or geo."""
    compiler: str = "none"
    execution: str = "default"
    """The framework line's own default (eager or graph), or another by name."""
    layout: str = "default"
    sequence_length: int | None = None
    compression: str = "none"
    link_bandwidth: str = "full"
    threads: int | None = None
    data: str = "synthetic"
    scale: str = "full"

    @property
    def case_id(self) -> str:
        """Readable slug, for example `resnet50_v1.5-pytorch-collective-2x1-bs2-smoke`."""
        strategy = "ps" if self.strategy is Strategy.PARAMETER_SERVER else self.strategy.value
        parts = [self.workload, self.framework, strategy]
        if self.strategy is Strategy.PARAMETER_SERVER:
            parts.append(f"{self.pservers}ps{self.trainers}tr")
            if (self.nodes, self.devices_per_node) != (self.trainers, 1):
                parts.append(f"{self.nodes}x{self.devices_per_node}")
        else:
            parts.append(f"{self.nodes}x{self.devices_per_node}")
        parts.append(f"bs{self.batch_size_per_device}")
        for axis, prefix in _OPTIONAL_AXES:
            value = getattr(self, axis)
            if value != _AXIS_DEFAULTS[axis]:
                parts.append(f"{prefix}{value}")
        return "-".join(parts)

    def axes(self) -> dict[str, Any]:
        """All axes by name, as JSON values."""
        return {k: (str(v) if isinstance(v, StrEnum) else v) for k, v in vars(self).items()}

    @classmethod
    def from_axes(cls, axes: Mapping[str, Any]) -> Case:
        """The inverse of `axes`."""
        return cls(**{**axes, "strategy": Strategy(axes["strategy"])})


_OPTIONAL_AXES: tuple[tuple[str, str], ...] = (
    ("sequence_length", "seq"),
    ("precision", ""),
    ("sync", ""),
    ("compiler", ""),
    ("execution", ""),
    ("layout", ""),
    ("compression", ""),
    ("link_bandwidth", "link"),
    ("threads", "threads"),
    ("data", ""),
    ("scale", ""),
)
_AXIS_DEFAULTS: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(Case)}


@dataclass(frozen=True)
class Build:
    """Which build of a framework line is run: an attribute of a run, never of a case."""

    line: str
    variant: str = "cpu"
    """Which lock of the line's folder: `cpu`, `cu126`, ..."""
    source: str = "index"
    """`index` (the line's lock), `wheel` (a file that the controller ships) or `path` (a
    prefix that the site prepared on its nodes)."""
    version: str | None = None
    """Another version than the lock's (`index`), or what the wheel says of itself."""
    location: str | None = None
    """The wheel's path on the controller, or the prefix on the nodes."""
    digest: str | None = None
    """sha256 of the wheel."""

    @property
    def build_id(self) -> str:
        """Readable and unique: `pytorch-cpu-index-2.13.0`, `paddle3-cpu-wheel-1a2b3c4d`."""
        tail = self.digest[:8] if self.digest else (self.version or "locked")
        if self.source == "path" and self.location:
            tail = hashlib.sha256(self.location.encode()).hexdigest()[:8]
        return f"{self.line}-{self.variant}-{self.source}-{tail}"


# --- where it is measured -----------------------------------------------------------------


@dataclass(frozen=True)
class JumpHost:
    """A host that a connection to a node passes through."""

    host: str
    ssh_conn_id: str
    """Airflow Connection with user, key and, unless `port` is given, the port."""
    port: int | None = None


@dataclass(frozen=True)
class Node:
    """One machine of a cluster."""

    name: str
    """Unique in the cluster; the host as written in the YAML unless it says otherwise."""
    host: str
    """SSH address."""
    ssh_conn_id: str
    """Airflow Connection with user, key and, unless `port` is given, the port."""
    port: int | None = None
    data_address: str | None = None
    """Address for the frameworks' own traffic; the SSH host when None."""
    interface: str | None = None
    port_range: tuple[int, int] = (20000, 29999)
    cpus: tuple[int, ...] = ()
    """Cores that all processes of the node are pinned to; empty means all."""
    devices: tuple[str, ...] = ()
    """Device indices or UUIDs; empty on CPU clusters or for all devices."""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    """Login; the Connection's when None."""
    jump: tuple[JumpHost, ...] | None = None
    """Hops on the way, the first first; the cluster's when None."""


@dataclass(frozen=True)
class NeighbourPolicy:
    """What is done about foreign work on a node: processes that are not of the job.

    Before a launch it is waited for or refused; a repeat with foreign work inside its window is
    `disturbed`: kept, not counted, and launched again within a budget.
    """

    action: str = "record"
    """`record` only writes it down; `wait`, then fail; `refuse` at once."""
    wait_s: float = 600.0
    cpu_share: float = 0.10
    """Foreign CPU time / CPU time of the cores that the job uses, above which it counts."""
    gpu: bool = True
    """A foreign compute process on a device of the job counts."""
    budget: int = 3
    """Disturbed repeats of a case that are launched again."""


@dataclass(frozen=True)
class HealthPolicy:
    """What a node must show before a night, and when it is left out."""

    quarantine_after: int = 3
    """Faults of a node in a row."""
    expected_devices: int | None = None
    governor: str | None = None
    min_disk_bytes: int = 5_000_000_000
    max_clock_error_s: float = 60.0
    min_link_mbps: int | None = None


@dataclass(frozen=True)
class NightPolicy:
    """Which part of a day the cases of a suite may take."""

    window: str | None = None
    """`22:00-06:00 Europe/Berlin`; any time when None."""
    budget_s: float | None = None
    """Measuring time of one night; only the window limits it when None."""
    deadline: str | None = None
    """`07:00 Europe/Berlin`: results that are not there by then are missing; worked out if None."""


@dataclass(frozen=True)
class EnvironmentPolicy:
    """Where framework environments come from on the nodes of a cluster."""

    root: str = "~/.nightbench-node"
    """Folder on the node for code, tools, environments and jobs; `~` is the SSH user's home."""
    python: str = "python3"
    """Interpreter (3.7 or newer) that runs the agent."""
    variants: Mapping[str, str] = field(default_factory=dict)
    """Framework line -> variant of its lock; `cpu` or the line's default otherwise."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Framework line -> prefix that the site prepared (`bin/python` below it)."""
    wheelhouse: str | None = None
    """Folder on the controller whose wheels are shipped, for nodes without an index."""
    index_url: str | None = None
    find_links: tuple[str, ...] = ()
    lock_dir: str | None = None
    """Node-local folder for the node's lock; `/tmp/nightbench-locks` when None."""
    job_root: str | None = None
    """Node-local folder for the state of jobs where `root` is shared; `root` when None."""


@dataclass(frozen=True)
class Cluster:
    """Nodes that gangs are launched on."""

    name: str
    nodes: tuple[Node, ...]
    description: str = ""
    device_kind: str = "cpu"
    devices_per_node: int = 1
    environments: EnvironmentPolicy = field(default_factory=EnvironmentPolicy)
    known_hosts: str | None = None
    """Absolute path on the controller; the Connection's own host keys when None."""
    env: Mapping[str, str] = field(default_factory=dict)
    role_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    shared: bool = False
    """Nodes share hardware (or their neighbours do): spread, drift and efficiency only warn."""
    jump: tuple[JumpHost, ...] = ()
    """Hops on the way to every node, the first first."""
    transport: str | None = None
    """What the frameworks' own traffic is to use, `nccl/ib` say; not compared when None."""
    lock: str = "node"
    """`node`: a gang has its nodes for itself; `devices`: only its devices (or cores) of them."""
    parallel_cases: int = 1
    """Cases of one run that may be measured at once, on disjoint nodes or devices."""
    window: str | None = None
    """Hours in which the cluster may be measured on, `22:00-06:00 UTC`."""
    neighbours: NeighbourPolicy = field(default_factory=NeighbourPolicy)
    health: HealthPolicy = field(default_factory=HealthPolicy)


@dataclass(frozen=True)
class RegressionPolicy:
    """When a suite wants to hear of a change."""

    min_change: float = 0.03
    """Relative change below which nothing is reported."""
    min_history: int = 10
    """Nights needed before a verdict other than insufficient_data."""
    max_spread: float = 0.10
    """A series whose nights or repeats vary by more is noisy: it runs on and alerts no more."""
    urgent: float = 0.20
    """A fall of this size is told at once, apart from the night's message."""
    confirm_s: float = 3600.0
    """How long a night may take to measure its suspects again before it tells; 0: not at all."""


@dataclass(frozen=True)
class Route:
    """Whose the alerts of some cases are, and where they are told. An empty selection means all."""

    frameworks: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    verdicts: tuple[VerdictKind, ...] = ()
    owner: str | None = None
    """The suite's where None."""
    alerts: tuple[str, ...] | None = None
    """Channels; the suite's where None."""


@dataclass(frozen=True)
class Suite:
    """A matrix of cases with its protocol, schedule, cluster, policy and channels."""

    name: str
    owner: str
    cluster: str
    cases: tuple[Case, ...]
    protocol: Protocol = field(default_factory=Protocol)
    description: str = ""
    schedule: str | None = None
    builds: Mapping[str, Build] = field(default_factory=dict)
    """Framework line -> build; the line's lock where absent."""
    env: Mapping[str, str] = field(default_factory=dict)
    role_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    policy: RegressionPolicy = field(default_factory=RegressionPolicy)
    alerts: tuple[str, ...] = ()
    repeat_timeout_s: float = 1800.0
    progress_timeout_s: float = 300.0
    source: str = ""
    """Path of the YAML file."""
    night: NightPolicy = field(default_factory=NightPolicy)
    priorities: Mapping[str, int] = field(default_factory=dict)
    """case_id -> 0 to 9, the higher first; 5 where absent."""
    routes: tuple[Route, ...] = ()
    """Whose alerts are whose: the first that matches counts, else the suite's owner and alerts."""


@dataclass(frozen=True)
class FrameworkInfo:
    """What the control plane knows of a framework line: its `framework.json`, as data."""

    line: str
    title: str
    version: str
    python: str | None
    """Interpreter series of the environment ("3.7"); None: the agent's own interpreter."""
    variants: tuple[str, ...]
    strategies: tuple[Strategy, ...]
    sync_modes: tuple[str, ...]
    precisions: Mapping[str, tuple[str, ...]]
    """Device kind -> precisions that truly run there."""
    compilers: tuple[str, ...]
    remarks: Mapping[str, str]
    """Axis or axis value -> why it is not supported, for messages."""
    for_tests: bool = False
    size_bytes: int = 0
    """Disk that the environment takes."""


@dataclass(frozen=True)
class WorkloadInfo:
    """What the control plane knows of a workload: its `spec.json`, as data."""

    name: str
    title: str
    unit: str
    """Unit of work counted: images, samples, sequences, tokens, words."""
    frameworks: tuple[str, ...]
    """Lines that have an implementation file in the workload's folder."""
    strategies: tuple[Strategy, ...]
    scales: Mapping[str, Mapping[str, Any]]
    """Scale -> parameters (shapes, classes, vocabulary); key `converges` marks a proved scale."""
    parameters: int | None = None
    """Trainable parameters, where the workload fixes them."""
    seed: int = 1
    digest: str = ""
    """Digest of the spec: part of a case's definition."""


@dataclass(frozen=True)
class Catalog:
    """All framework lines and workloads that `benchmarks/` holds."""

    frameworks: Mapping[str, FrameworkInfo]
    workloads: Mapping[str, WorkloadInfo]
    code_digest: str
    """Digest of every file that is shipped to the nodes."""


# --- one run of a suite -------------------------------------------------------------------


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
    """`trainer` or `pserver`."""
    rank: int
    """Rank within the role."""
    node: str
    local_rank: int
    """Index among the processes of its role on its node."""
    device: str | None = None


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
    transport: str | None = None
    """What the frameworks' own traffic is expected to use; not compared when None."""

    @property
    def job_id(self) -> str:
        """Unique name of the job, and the mark that its processes carry."""
        return f"{self.run_id}/{self.case.case_id}/g{self.generation}"

    @property
    def lead(self) -> Node:
        """The node that claims repeats."""
        return self.nodes[0]

    def ports(self) -> tuple[tuple[str, str], ...]:
        """Names of the ports to reserve, each with its node: one master, one for each process."""
        return (("master", self.lead.name), *((p.name, p.node) for p in self.processes))

    def to_json(self) -> dict[str, Any]:
        """The job.json document (schema `benchmarks/contract/job.schema.json`)."""
        return {
            "schema": "nightbench.job/1",
            "job_id": self.job_id,
            "run_id": self.run_id,
            "case_id": self.case.case_id,
            "generation": self.generation,
            "cluster": self.cluster,
            "case": self.case.axes(),
            "framework": {
                "line": self.build.line,
                "variant": self.build.variant,
                "build_id": self.build.build_id,
            },
            "workload": {
                "name": self.case.workload,
                "scale": self.case.scale,
                "unit": self.unit,
                "seed": self.seed,
                "params": dict(self.workload_params),
            },
            "protocol": {k: v for k, v in vars(self.protocol).items() if v is not None},
            "nodes": [
                {
                    "name": n.name,
                    "data_address": n.data_address or n.host,
                    "interface": n.interface,
                    "port_range": list(n.port_range),
                    "cpus": list(n.cpus),
                    "devices": list(n.devices),
                    "env": dict(n.env),
                }
                for n in self.nodes
            ],
            "processes": [dataclasses.asdict(p) for p in self.processes],
            "ports": [{"name": name, "node": node} for name, node in self.ports()],
            "env": dict(self.env),
            "role_env": {role: dict(env) for role, env in self.role_env.items()},
            "limits": dataclasses.asdict(self.limits),
            "lock_dir": self.environments.lock_dir,
            "lock": self.lock,
            "neighbours": {
                name: getattr(self.neighbours, name)
                for name in ("action", "wait_s", "cpu_share", "gpu")
            },
            "code_digest": self.code_digest,
            "definition_digest": self.definition_digest,
        }


# --- what came back -----------------------------------------------------------------------


@dataclass(frozen=True)
class RankResult:
    """What one process of a gang measured (a `processes[].summary` of result/1)."""

    name: str
    role: str
    rank: int
    node: str
    samples_per_step: float = 0.0
    window_open_s: float = 0.0
    """Monotonic clock of the rank's node."""
    window_close_s: float = 0.0
    window_wall_s: float = 0.0
    """Recorded by a clock of its own, independently of the step times."""
    step_seconds: tuple[float, ...] = ()
    step_end_s: tuple[float, ...] = ()
    """End of every step of warm-up, window and drain on the node's monotonic clock."""
    time_to_first_step_s: float | None = None
    loss_first: float | None = None
    """Loss of the first step: of the untrained weights."""
    loss_window: tuple[float, ...] = ()
    weights_digest: str | None = None
    parameters: int | None = None
    peak_resident_bytes: int | None = None
    peak_allocator_bytes: int | None = None
    precision: str | None = None
    transport: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, node: str, process: Mapping[str, Any]) -> RankResult:
        """From one entry of `processes` of a node's result.json."""
        identity = {"name": process["name"], "role": process["role"], "rank": process["rank"]}
        doc = process.get("summary")
        if doc is None:
            return cls(node=node, **identity)
        window, loss, peak = doc["window"], doc["loss"], doc["peak_memory"]
        return cls(
            node=node,
            **identity,
            samples_per_step=doc["samples_per_step"],
            window_open_s=window["open_s"],
            window_close_s=window["close_s"],
            window_wall_s=window["wall_s"],
            step_seconds=tuple(doc["step_seconds"]),
            step_end_s=tuple(doc["step_end_s"]),
            time_to_first_step_s=doc["time_to_first_step_s"],
            loss_first=_number(loss["first"]),
            loss_window=tuple(_number(x) for x in loss["window"]),
            weights_digest=doc["weights_digest"],
            parameters=doc["parameters"],
            peak_resident_bytes=peak["resident_bytes"],
            peak_allocator_bytes=peak["allocator_bytes"],
            precision=doc["precision"],
            transport=doc["transport"],
            versions=dict(doc["versions"]),
        )


def _number(value: float | None) -> float:
    """JSON knows no NaN: a rank writes null for a loss that is not finite."""
    return math.nan if value is None else value


@dataclass(frozen=True)
class ClockOffset:
    """Node's monotonic clock minus the controller's, with the error of that estimate."""

    offset_s: float
    error_s: float


@dataclass(frozen=True)
class RepeatRecord:
    """One launch of the whole gang, put together from the nodes' results."""

    repeat: int
    status: str
    """ok, failed, aborted, or disturbed: measured, but not counted."""
    reason: str | None
    ranks: tuple[RankResult, ...]
    clocks: Mapping[str, ClockOffset] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Node -> fingerprint id."""
    started_at: datetime | None = None
    log_tail: str | None = None


@dataclass(frozen=True)
class RepeatSummary:
    """The numbers of one repeat."""

    repeat: int
    throughput: float | None
    """Units of work per second over all ranks; None where the repeat is no measurement."""
    window_s: float | None
    """Length of the interval that was counted."""
    samples: float | None
    step_throughput: float | None
    """The same figure from the independently recorded step times."""
    overlap: float | None = None
    """Asynchronous only: common interval / shortest window."""
    drift: float | None = None
    """Median step of the window's last third / first third - 1."""
    time_to_first_step_s: float | None = None
    peak_resident_bytes: int | None = None
    loss_first: float | None = None
    loss_median: float | None = None
    problem: str | None = None
    """Why there is no throughput."""


@dataclass(frozen=True)
class CheckResult:
    """One expectation held against one result."""

    subject: str
    """`repeat` or `measurement`."""
    repeat: int | None
    check: str
    severity: Severity
    success: bool
    observed: str
    expected: str


@dataclass(frozen=True)
class Measurement:
    """The median over the good repeats of a case in a run."""

    run_id: str
    case: Case
    cluster: str
    build: Build
    unit: str
    repeats: tuple[RepeatSummary, ...]
    n: int
    throughput: float | None
    minimum: float | None = None
    maximum: float | None = None
    mad: float | None = None
    spread: float | None = None
    """(maximum - minimum) / median."""
    half_width: float | None = None
    """Relative 95 % confidence half-width from the t distribution on log values; None for n < 3."""
    speedup: float | None = None
    efficiency: float | None = None
    baseline_case_id: str | None = None
    framework_version: str | None = None
    time_to_first_step_s: float | None = None
    peak_resident_bytes: int | None = None
    definition_digest: str = ""
    fingerprint_id: str = ""
    status: CaseStatus = CaseStatus.OK
    reason: str | None = None
    checks: tuple[CheckResult, ...] = ()

    @property
    def quarantined(self) -> bool:
        """True where a `fail` check of the measurement failed."""
        return any(
            c.subject == "measurement" and c.severity is Severity.FAIL and not c.success
            for c in self.checks
        )


# --- what is made of it -------------------------------------------------------------------


@dataclass(frozen=True)
class HistoryPoint:
    """One night of a series."""

    at: datetime
    value: float
    run_id: str = ""
    n: int | None = None
    spread: float | None = None
    fingerprint_id: str | None = None
    definition_digest: str | None = None
    framework_version: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What a run says about a series, with the evidence in one sentence."""

    case_id: str
    cluster: str
    run_id: str
    kind: VerdictKind
    sentence: str
    value: float | None = None
    baseline: float | None = None
    change: float | None = None
    """value / baseline - 1."""
    history: int = 0
    """Nights that the verdict rests on."""
    smallest_slowdown: float | None = None
    """Relative fall that the series would tell within a week in nine of ten cases."""
    low: float | None = None
    high: float | None = None
    """95 % interval of the level's relative change, for regressed and improved."""
    since: datetime | None = None
    """First night at the new level, for regressed and improved."""
    first_bad_run_id: str | None = None
    """The run of that night."""
    last_good_run_id: str | None = None
    """The last run before it; of a failed or missing case the last one with a value."""


def digest_of(document: Any) -> str:
    """The sha256 of a JSON document in canonical form: sorted keys, no blanks."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
