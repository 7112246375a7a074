"""Where it is measured: nodes, how they are reached, and what a site asks of a run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from nightbench.core.model import values as v

PINNED = re.compile(r"([a-z0-9/][\w.:/-]{0,400}@)?sha256:[0-9a-f]{64}\Z")
_MOUNT = re.compile(r"/[^\x00-\x1f\x7f:,]{1,1000}(:ro)?\Z")


PinnedImage = Annotated[
    str,
    v.fits(
        PINNED,
        "its digest, NAME@sha256:…, or the id sha256:… of an image on the nodes: a tag "
        "may name another one tomorrow",
    ),
    v.Words("image with its digest"),
]
Mount = Annotated[str, v.fits(_MOUNT, "a folder such as /data, or /data:ro"), v.Words("folder")]
_IMAGE_FOLDER = re.compile(r"[a-z0-9][\w.:/-]{0,400}/\Z")
ImageFolder = Annotated[
    str,
    v.fits(_IMAGE_FOLDER, "a registry such as registry.example.org/, or a folder of it with /"),
    v.Words("registry"),
]
_WHEEL_FOLDER = re.compile(r"https?://[^\s?#@]{1,1000}/\Z")
WheelFolder = Annotated[
    str,
    v.fits(_WHEEL_FOLDER, "an address that ends with /, without a password"),
    v.Words("address"),
]
_GIT = re.compile(
    r"(https?://[^\s@]{1,1000}|ssh://([\w.-]+@)?[^\s@]{1,1000}|[\w.-]+@[\w.-]+:[^\s@]{1,1000}"
    r"|(file://)?/\S{1,1000})\Z"
)
GitUrl = Annotated[
    str,
    v.fits(_GIT, "https://…, ssh://…, user@host:path, or a path on the nodes, without a password"),
    v.Words("address"),
]
Branch = Annotated[
    str,
    v.fits(re.compile(r"(?!.*(\.\.|//))\w[\w./+-]{0,199}\Z"), "the name of a branch"),
    v.Words("name of a branch"),
]


class JumpHost(v.StrictModel):
    """A host that connections to nodes pass through."""

    host: v.Host
    """SSH address, as reached from the hop before it."""
    ssh_conn_id: v.Name
    """Airflow Connection with user, key and port."""
    port: v.Port | None = None
    """SSH port [default: the Connection's]."""


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
    """CPU architecture as `uname -m` prints it; None if the cluster's file does not state it."""


class NeighbourPolicy(v.StrictModel):
    """Reaction to other processes on a node, which do not belong to the job."""

    action: Literal["record", "wait", "refuse"] = "wait"
    """Reaction before a launch: `record` only stores the processes, `wait` waits and then fails,
    `refuse` fails at once [default: `wait`, with `shared: true` `record`]."""
    wait_s: v.PositiveDuration = Field(600.0, alias="wait")
    """Longest time that `wait` waits for the end of other processes."""
    cpu_share: v.Percentage = Field(0.10, alias="cpu")
    """Share of the job's cores above which other processes count."""
    gpu: bool = True
    """Another process on a GPU of the job counts."""
    budget: v.Whole = 3
    """Repeats of a case that are launched again because foreign work or a throttled device
    disturbed them."""


_CONTROLS = (
    *("matrix_product", "matrix_product_tf32", "matrix_product_bf16", "matrix_product_fp16"),
    *("memory_copy", "all_reduce", "all_reduce_in_node", "all_reduce_gpus"),
)
ControlName = Annotated[str, v.among(_CONTROLS), v.Words(", ".join(f"`{x}`" for x in _CONTROLS))]


class HealthPolicy(v.StrictModel):
    """Requirements on a node before a night, and when it is left out."""

    quarantine_after: v.Count = 3
    """Number of consecutive faults after which a node is left out until it is healthy."""
    expected_devices: v.Whole | None = None
    """Number of GPUs that each node must have [default: `devices.per_node`]."""
    governor: v.Name | None = None
    """CPU frequency governor that is expected, such as `performance`."""
    min_disk_bytes: v.Size = Field(5_000_000_000, alias="min_disk")
    """Smallest free disk space at `environments.root`, such as `5GB`."""
    max_clock_error_s: v.PositiveDuration = Field(60.0, alias="max_clock_error")
    """Largest difference of a node's clock from the controller's."""
    min_link_mbps: v.LinkSpeed | None = Field(None, alias="min_link")
    """Lowest speed of the link of `interface`, such as `10Gbit/s`."""
    min_controls: dict[
        ControlName,
        Annotated[float, Field(gt=0), v.Words("number")],
    ] = Field({})
    """Lowest median of each control measurement that `nightbench accept` accepts from every device
    or link: matrix products in GFLOP/s, `memory_copy` and all-reduces in GB/s (docs/accept.md)."""


class EnvironmentPolicy(v.StrictModel):
    """Source of the framework environments on the nodes."""

    kind: Literal["venv", "container"] = "venv"
    """`venv`: from the lines' locks. `container`: every line runs in an image (docs/containers.md).
    """
    root: v.Text = "~/.nightbench-node"
    """Folder on the node; `~` is the SSH user's home."""
    python: v.Text = "python3"
    """Interpreter (3.7 or newer) on the node that runs the agent."""
    variants: dict[v.FrameworkName, v.Name] = Field({})
    """For each framework line, the variant of its lock, such as `cu126`."""
    paths: dict[v.FrameworkName, v.Text] = Field({})
    """For each framework line, a prefix that the site prepared (with `bin/python`)."""
    engine: v.Text = "podman"
    """With `kind: container`: program on the nodes, `podman`, `docker` or another that takes their
    commands, or `apptainer`."""
    images: dict[v.FrameworkName, PinnedImage] = Field({})
    """With `kind: container`, image of each framework line: `NAME@sha256:…`, or `sha256:…` if it is
    already on the nodes. With apptainer a NAME that begins with / is a file on the nodes."""
    image_python: v.Text = "python3"
    """Python in the images."""
    engine_options: v.Many[v.Text] = ()
    """Options of the engine's `run`, `--gpus=all` or `--device=nvidia.com/gpu=all`."""
    mounts: v.Many[Mount] = ()
    """Further folders of the nodes that containers see at the same path; `:ro` makes a folder
    read-only. `root`, `job_root` and the data of cases are always visible."""
    prefix_roots: v.Many[v.Text] = ()
    """Folders on the nodes; a run may name a prefix below them (`LINE=/PREFIX`) [default: none].
    Code below them runs as the SSH user."""
    wheelhouse: v.Text | None = None
    """Folder on the controller whose wheels are shipped to the nodes."""
    index_url: v.Source | None = None
    """Package index that the nodes use."""
    find_links: v.Many[v.Source] = ()
    """Folders or pages with wheels, as the nodes see them."""
    lock_dir: v.Text | None = None
    """Node-local folder for the node's lock [default: /tmp/nightbench-locks]."""
    job_root: v.Text | None = None
    """Node-local folder for the state of jobs, if `root` is shared by nodes [default:
    `root`]."""


SLURM_RESERVED = frozenset(
    f"--{name}"
    for name in (
        *("array", "begin", "chdir", "dependency", "error", "exclude", "export", "export-file"),
        *("hold", "input", "job-name", "no-requeue", "nodefile", "nodelist", "nodes", "ntasks"),
        *("ntasks-per-node", "open-mode", "output", "parsable", "requeue", "signal", "test-only"),
        *("time", "wait", "wrap"),
    )
)
"""Options of `sbatch` that would change what a gang's job is, or that have keys of their own."""


def _slurm_option(option: str) -> str:
    name = option.partition("=")[0]
    if not re.fullmatch(r"--[a-z][a-z-]*", name):
        raise ValueError(f'found "{option}"; expected `--name` or `--name=value`')
    if name in SLURM_RESERVED:
        raise ValueError(f'found "{option}"; expected another option: Nightbench gives {name}')
    return option


SlurmOption = Annotated[v.Text, AfterValidator(_slurm_option)]


class SlurmPolicy(v.StrictModel):
    """Gangs become jobs of Slurm: `hosts` of `nodes` are Slurm's names of nodes (docs/slurm.md)."""

    login: v.Host
    """SSH address of a login node: it submits jobs and sees `environments.root`, which all nodes
    share. Its Connection is the `ssh_conn_id` of the nodes."""
    partition: v.Name | None = None
    """Partition [default: Slurm's default]."""
    account: v.Name | None = None
    """Account [default: the user's default]."""
    time_limit_s: v.PositiveDuration | None = Field(None, alias="time_limit")
    """Time limit of a job, for a case [default: the partition's]."""
    warning_s: v.PositiveDuration = Field(60.0, alias="warning")
    """Time before the end of a job when Slurm signals its agents."""
    options: v.Many[SlurmOption] = ()
    """Further options of `sbatch`, each `--name=value`, such as `--gres=gpu:8`."""


_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
_CLAIM = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(:ro)?\Z")
_KEY = re.compile(
    r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?\Z"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?\Z")
_QUANTITY = re.compile(r"[1-9]\d*(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?\Z")
_IMAGE = re.compile(r"[a-z0-9][\w.:/-]{0,400}(@sha256:[0-9a-f]{64})?\Z")


DnsLabel = Annotated[
    str, v.fits(_LABEL, 'a name of at most 63 of a-z, 0-9 and "-"'), v.Words("name")
]
LabelKey = Annotated[str, v.fits(_KEY, "a name such as nvidia.com/gpu")]
LabelValue = Annotated[str, v.fits(_LABEL_VALUE, "at most 63 letters, digits, and . _ - within")]
Quantity = Annotated[str, v.fits(_QUANTITY, 'a quantity in quotes, such as "10", 500m or 5Gi')]
Image = Annotated[str, v.fits(_IMAGE, "an image such as registry.example.org/training@sha256:…")]


Claim = Annotated[
    str, v.fits(_CLAIM, "the name of a PersistentVolumeClaim, `data:ro`"), v.Words("claim")
]


class KubernetesPolicy(v.StrictModel):
    """Nodes are pods, which a case creates and deletes (docs/kubernetes-clusters.md)."""

    images: Annotated[dict[v.FrameworkName, Image], Field(min_length=1), v.Words("images")]
    """Image of the pods of each framework line, with Python 3.7 or newer as `environments.python`.
    The line's environment is built in the pod, or is in the image (`environments.paths`)."""
    conn_id: v.Name = "kubernetes_default"
    """Airflow Connection of type kubernetes: in-cluster, or a kubeconfig."""
    namespace: DnsLabel = "default"
    """Namespace of the pods."""
    pinned: bool = True
    """`hosts` of `nodes` are names of Kubernetes nodes, and each pod runs on its own; `false`: the
    scheduler chooses machines."""
    wait_s: v.PositiveDuration = Field(1800.0, alias="wait")
    """Longest time until all pods of a case run; then they are deleted and the case fails."""
    time_limit_s: v.PositiveDuration = Field(12 * 3600.0, alias="time_limit")
    """Time limit of a pod, which Kubernetes enforces (`activeDeadlineSeconds`)."""
    resources: Annotated[dict[LabelKey, Quantity], v.Words("resources")] = Field({})
    """Requests and limits of a pod: `{cpu: "10", memory: 5Gi, nvidia.com/gpu: "8", hugepages-2Mi:
    1Gi}`. A case with `cpus` or `memory` states these itself."""
    node_selector: Annotated[dict[LabelKey, LabelValue], v.Words("labels")] = Field({})
    """Labels that the pods' machines must have."""
    tolerations: Annotated[v.Many[LabelKey], v.Words("keys of taints")] = ()
    """Taints of machines that the pods tolerate."""
    claims: Annotated[dict[v.NodePath, Claim], v.Words("claims")] = Field({})
    """PersistentVolumeClaim that is mounted at each folder in the pods; `:ro` makes it read-only.
    `/nightbench` keeps environments for later cases."""
    labels: Annotated[dict[LabelKey, LabelValue], v.Words("labels")] = Field({})
    """Further labels of the pods. With `kueue.x-k8s.io/queue-name` a case is a pod group of
    Kueue."""
    pod_groups: bool = False
    """The scheduler gives machines to all pods of a case or to none. Requires PodGroups of
    Kubernetes 1.36 or newer (feature gates `GenericWorkload` and `GangScheduling`)."""
    scheduler: DnsLabel | None = None
    """Name of the scheduler, such as `volcano` [default: the cluster's]."""
    priority_class: DnsLabel | None = None
    """Priority class of the pods [default: the cluster's]."""
    service_account: DnsLabel | None = None
    """Service account of the pods, whose token they do not get [default: the namespace's]."""
    pull_secrets: v.Many[DnsLabel] = ()
    """Secrets with logins to registries."""
    user: v.Count = 50001
    """User id that the pods run as; never root."""


class GitRepository(v.StrictModel):
    """A repository whose commits people may have compared (docs/comparisons.md)."""

    url: GitUrl
    """Address for git on the build node, whose own git must have the credentials."""
    branch: Branch = "main"
    """If a request names no build A, A is the commit at which B left this branch."""
    recipe: v.Some[v.Text]
    """Lines for sh on the build node, one after another in a checkout of the commit. They leave one
    wheel in `$OUT`; `$PYTHON` is the line's interpreter, `$UV` uv, `$COMMIT` the commit."""
    timeout_s: v.PositiveDuration = Field(2 * 3600.0, alias="timeout")
    """Time limit for fetching and building."""


class ComparePolicy(v.StrictModel):
    """Budgets and allowed builds of comparisons by the DAG `nightbench_experiments`."""

    person_s: v.PositiveDuration = Field(4 * 3600.0, alias="person")
    """Measuring time of one user's comparisons in 24 hours; further requests wait."""
    day_s: v.PositiveDuration = Field(12 * 3600.0, alias="day")
    """Measuring time of all users' comparisons in 24 hours."""
    images: v.Many[ImageFolder] = ()
    """Registries, or folders of them, whose images a request may name by digest:
    `registry.example.org/ci/`. Needs `environments: {kind: container}`; images in
    `environments.images` are always allowed. They run on the nodes as the SSH user."""
    wheel_urls: v.Many[WheelFolder] = ()
    """Addresses below which a request may name a wheel, `https://ci.example.org/wheels/` [default:
    none]. These wheels run on the nodes as the SSH user."""
    repositories: dict[v.Name, GitRepository] = Field({})
    """Repositories by name; a request may name their commits. Their code runs on the nodes as the
    SSH user."""
    build_node: v.Name | None = None
    """Node that builds commits [default: the first one]."""


@dataclass(frozen=True)
class Cluster:
    """Nodes that gangs are launched on; `ClusterFile` describes fields of the same name."""

    name: str
    nodes: tuple[Node, ...]
    description: str = ""
    device_kind: str = "cpu"
    devices_per_node: int = 1
    compute_capability: str | None = None
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    """Precision -> dense peak of one device in FLOP/s, if the file says it: it goes before the
    table of known devices."""
    device_memory_bytes: int | None = None
    """Memory of one device; None if the file does not state it: nothing is compared with it."""
    environments: EnvironmentPolicy = field(default_factory=EnvironmentPolicy)
    known_hosts: str | None = None
    """Absolute path on the controller; the Connection's own host keys when None."""
    env: Mapping[str, str] = field(default_factory=dict)
    role_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    shared: bool = False
    jump: tuple[JumpHost, ...] = ()
    transport: str | None = None
    lock: str = "node"
    binding: str = "numa"
    parallel_cases: int = 1
    window: str | None = None
    compare: ComparePolicy = field(default_factory=ComparePolicy)
    neighbours: NeighbourPolicy = field(default_factory=lambda: NeighbourPolicy(action="record"))
    health: HealthPolicy = field(default_factory=HealthPolicy)
    data: Mapping[str, str] = field(default_factory=dict)
    slurm: SlurmPolicy | None = None
    kubernetes: KubernetesPolicy | None = None
    link_command: tuple[str, ...] = ()
