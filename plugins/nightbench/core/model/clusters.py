"""Where it is measured: nodes, how they are reached, and what a site asks of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    """Airflow Connection with user, key and, unless `port` is given, the port; empty for a pod."""
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
    engine: str = "podman"
    """Program that takes the commands of docker or podman."""
    images: Mapping[str, str] = field(default_factory=dict)
    """Framework line -> image with its digest. Where there is one, every line runs in an image."""
    image_python: str = "python3"
    """Python in the images."""
    engine_options: tuple[str, ...] = ()
    """Of the engine's `run`."""
    mounts: tuple[str, ...] = ()
    """Folders of the nodes that containers see, with `:ro` read-only."""
    prefix_roots: tuple[str, ...] = ()
    """Folders on the nodes below which a prefix lies that is named for one run; none when empty."""
    wheelhouse: str | None = None
    """Folder on the controller whose wheels are shipped, for nodes without an index."""
    index_url: str | None = None
    find_links: tuple[str, ...] = ()
    lock_dir: str | None = None
    """Node-local folder for the node's lock; `/tmp/nightbench-locks` when None."""
    job_root: str | None = None
    """Node-local folder for the state of jobs where `root` is shared; `root` when None."""


@dataclass(frozen=True)
class SlurmPolicy:
    """How gangs become jobs of Slurm."""

    login: str
    """SSH address of the login node, on which files are written and jobs are submitted."""
    partition: str | None = None
    account: str | None = None
    time_limit_s: float | None = None
    """Of one job; the partition's when None."""
    warning_s: int = 60
    """So long before its end a job is told of it, by a signal to its agents."""
    options: tuple[str, ...] = ()
    """Further options of `sbatch`."""


@dataclass(frozen=True)
class KubernetesPolicy:
    """How gangs become indexed Jobs of Kubernetes, a pod for each node."""

    claim: str
    """A PersistentVolumeClaim that all pods of a gang mount (ReadWriteMany)."""
    images: Mapping[str, str]
    """Framework line -> image."""
    namespace: str = "default"
    resources: Mapping[str, str] = field(default_factory=dict)
    """Of a pod: resource -> quantity, requested and limited alike."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[str, ...] = ()
    """Keys of taints that the pods tolerate."""
    user: int = 50001
    time_limit_s: float | None = None
    """Of one Job; none when None."""


@dataclass(frozen=True)
class Cluster:
    """Nodes that gangs are launched on."""

    name: str
    nodes: tuple[Node, ...]
    description: str = ""
    device_kind: str = "cpu"
    devices_per_node: int = 1
    compute_capability: str | None = None
    """Of its GPUs; None where the file does not say it."""
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    """Precision -> dense peak of one device in FLOP/s, where the file says it: it goes before the
    table of known devices."""
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
    data: Mapping[str, str] = field(default_factory=dict)
    """Name of a data set -> where it lies on every node."""
    slurm: SlurmPolicy | None = None
    """Gangs are jobs of Slurm, and nodes are Slurm's; each is reached over SSH when None."""
    kubernetes: KubernetesPolicy | None = None
    """Gangs are Jobs that `nightbench k8s render` writes; nothing is reached over SSH."""
    link_command: tuple[str, ...] = ()
    """What limits the link of a node, given a bandwidth as its last word; empty: nothing can."""
