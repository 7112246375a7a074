"""Where it is measured: nodes, how they are reached, and what a site asks of a run."""

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
    machine: str | None = None
    """CPU architecture as `uname -m` prints it; None where the cluster's file does not state it."""


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
    """What a node must show before a night, and when it is left out: `health` of its file."""

    quarantine_after: int = 3
    expected_devices: int | None = None
    governor: str | None = None
    min_disk_bytes: int = 5_000_000_000
    max_clock_error_s: float = 60.0
    min_link_mbps: int | None = None
    min_controls: Mapping[str, float] = field(default_factory=dict)
    """Control measurement -> least median of every node, in its unit, for an acceptance."""


@dataclass(frozen=True)
class EnvironmentPolicy:
    """Where framework environments come from on the nodes of a cluster.

    The keys of `environments` in its file, and described there (`config.cluster_schema`).
    """

    root: str = "~/.nightbench-node"
    python: str = "python3"
    variants: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    engine: str = "podman"
    images: Mapping[str, str] = field(default_factory=dict)
    """Framework line -> image with its digest. Where there is one, every line runs in an image."""
    image_python: str = "python3"
    engine_options: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    prefix_roots: tuple[str, ...] = ()
    wheelhouse: str | None = None
    index_url: str | None = None
    find_links: tuple[str, ...] = ()
    lock_dir: str | None = None
    job_root: str | None = None


@dataclass(frozen=True)
class SlurmPolicy:
    """How gangs become jobs of Slurm: `slurm` of a cluster's file (`config.cluster_schema`)."""

    login: str
    partition: str | None = None
    account: str | None = None
    time_limit_s: float | None = None
    warning_s: int = 60
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class KubernetesPolicy:
    """How gangs become indexed Jobs of Kubernetes, a pod for each node.

    `kubernetes` of a cluster's file, and described there (`config.cluster_schema`).
    """

    claim: str
    images: Mapping[str, str]
    namespace: str = "default"
    resources: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[str, ...] = ()
    user: int = 50001
    time_limit_s: float | None = None


@dataclass(frozen=True)
class GitRepository:
    """A repository whose commits nodes build for comparisons, and how."""

    url: str
    recipe: tuple[str, ...]
    """Lines for sh in a checkout of the commit; they leave one wheel in `$OUT`."""
    branch: str = "main"
    """Where a commit left it is what the commit is compared with unless a build is named."""
    timeout_s: float = 2 * 3600.0


@dataclass(frozen=True)
class ComparePolicy:
    """What people may have compared on a cluster by the DAG `nightbench_experiments`."""

    person_s: float = 4 * 3600.0
    """Seconds in 24 hours for one person."""
    day_s: float = 12 * 3600.0
    """The same for all people together."""
    images: tuple[str, ...] = ()
    """Registries, or folders of them, whose images somebody names."""
    wheel_urls: tuple[str, ...] = ()
    """Addresses below which a wheel lies that somebody names."""
    repositories: Mapping[str, GitRepository] = field(default_factory=dict)
    """Name -> repository whose commits somebody names."""
    build_node: str | None = None
    """Node that builds them; the first one where None."""


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
    device_memory_bytes: int | None = None
    """Memory of one device; None where the file does not say it: nothing is held against it."""
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
    binding: str = "numa"
    """`numa`: processes run on cores of the NUMA node of their GPU; `none`: on all cores."""
    parallel_cases: int = 1
    """Cases of one run that may be measured at once, on disjoint nodes or devices."""
    window: str | None = None
    """Hours in which the cluster may be measured on, `22:00-06:00 UTC`."""
    compare: ComparePolicy = field(default_factory=ComparePolicy)
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
