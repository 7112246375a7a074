"""What a cluster's file may say. The reference page is made from these classes."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from nightbench.config import values as v
from nightbench.config.schema import FrameworkName, RoleName
from nightbench.config.validate import StrictModel
from nightbench.core.capabilities import SHIPPED_DATA


def _data_name(name: str) -> str:
    if name in SHIPPED_DATA:
        raise ValueError(f'found "{name}", which every cluster has; expected another name')
    return name


PINNED = re.compile(r"([a-z0-9/][\w.:/-]{0,400}@)?sha256:[0-9a-f]{64}\Z")
_MOUNT = re.compile(r"/[^\x00-\x1f\x7f:,]{1,1000}(:ro)?\Z")


PinnedImage = Annotated[
    str,
    v.fits(
        PINNED,
        "its digest, NAME@sha256:…, or the id sha256:… of an image that lies on the nodes: a tag "
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


class SlurmFile(StrictModel):
    """Gangs become jobs of Slurm: `hosts` of `nodes` are Slurm's names of nodes (docs/slurm.md)."""

    login: v.Hosts
    """SSH address of a login node: it submits jobs and sees `environments.root`, which all nodes
    share. Its Connection is the `ssh_conn_id` of the nodes."""
    partition: v.Name | None = None
    """Partition; Slurm's default unless given."""
    account: v.Name | None = None
    """Account; the user's default unless given."""
    time_limit_s: v.PositiveDuration | None = Field(None, alias="time_limit")
    """Time limit of a job, for a case; the partition's unless given."""
    warning_s: v.PositiveDuration = Field(60.0, alias="warning")
    """How long before its end Slurm tells a job's agents of it."""
    options: v.Many[SlurmOption] = ()
    """Further options of `sbatch`, each `--name=value`, `--gres=gpu:8` say."""


_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
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


class KubernetesFile(StrictModel):
    """Gangs become indexed Jobs, a pod for each of `nodes` (docs/kubernetes-jobs.md)."""

    claim: DnsLabel
    """PersistentVolumeClaim that all pods mount, ReadWriteMany: plans and results."""
    images: Annotated[dict[FrameworkName, Image], Field(min_length=1), v.Words("images")]
    """Framework line: image that has it. `environments.paths` says below which prefix, and
    `environments.python` runs the agent."""
    namespace: DnsLabel = "default"
    """Namespace of all that is made."""
    resources: Annotated[dict[LabelKey, Quantity], v.Words("resources")] = Field({})
    """What a pod requests, and may have no more of: `{cpu: "10", memory: 5Gi, nvidia.com/gpu:
    "8"}`. A case with `cpus` or `memory` states these itself."""
    node_selector: Annotated[dict[LabelKey, LabelValue], v.Words("labels")] = Field({})
    """Labels that the pods' machines must have."""
    tolerations: Annotated[v.Many[LabelKey], v.Words("keys of taints")] = ()
    """Taints of machines that the pods tolerate."""
    user: v.Count = 50001
    """User id that the pods run as; never root."""
    time_limit_s: v.PositiveDuration | None = Field(None, alias="time_limit")
    """After which Kubernetes ends a Job; never unless given."""


class JumpFile(StrictModel):
    """A host that connections to nodes pass through."""

    host: v.Hosts
    """Its SSH address, as the hop before it reaches it."""
    ssh_conn_id: v.Name
    """Airflow Connection with user, key and port."""
    port: v.Port | None = None
    """SSH port; the Connection's unless given."""


class NodeFile(StrictModel):
    """One node, or several that differ by their names only."""

    hosts: v.Hosts
    """SSH address, or several: `gpu[01-04].example.org`; leading zeros are kept."""
    ssh_conn_id: v.Name | None = None
    """Airflow Connection with user, key and port. Every node has one, unless the cluster has
    `kubernetes`."""
    name: v.Hosts | None = None
    """Name in results, with as many numbers as `hosts`; the host unless given."""
    port: v.Port | None = None
    """SSH port; the Connection's unless given."""
    user: v.User | None = None
    """Login; the Connection's unless given."""
    jump: v.Many[JumpFile] | None = None
    """Hosts on the way, the first first; the cluster's unless given, `[]` for none."""
    data_address: v.Hosts | None = None
    """Address for the frameworks' own traffic; the host unless given."""
    interface: v.Interface | None = None
    """Network interface for the frameworks' own traffic."""
    port_range: v.PortRange = (20000, 29999)
    """Ports that the frameworks may listen on, `20000-29999`."""
    cpus: v.Cores = ()
    """Cores that processes are pinned to, `[0, 1]` or `0-3,8`; all unless given."""
    devices: v.Many[v.DeviceName] = ()
    """Indices or UUIDs of the GPUs that may be used; all unless given."""
    env: v.Env = Field({})
    """Environment of this node's processes."""
    machine: Literal["x86_64", "aarch64"] | None = None
    """CPU architecture, as `uname -m` prints it. Required if nodes differ: it places cases."""


class DevicesFile(StrictModel):
    """What the nodes compute with."""

    kind: Literal["cpu", "gpu"] = "cpu"
    """`cpu` or `gpu`."""
    per_node: v.Count = 1
    """Devices on each node: GPUs, or groups of cores that count as a device."""
    compute_capability: v.Capability | None = None
    """Of the GPUs, in quotes: `"9.0"` (H100). With it each line runs its first variant that is
    built for them, and what has none is refused when it is planned, not on the node."""
    memory: v.Size | None = None
    """Of one device, `80GB`: a case whose weights, gradients and optimiser states are larger is
    refused with the figure when it is planned. Not compared unless given."""
    peak_tflops: dict[
        Literal["fp32", "tf32", "bf16", "fp16"],
        Annotated[float, Field(gt=0, le=1e5), v.Words("number")],
    ] = Field({})
    """Precision: dense peak of one device in TFLOP/s, for MFU; that of known GPUs unless given."""


class EnvironmentsFile(StrictModel):
    """Where framework environments come from on the nodes."""

    kind: Literal["venv", "container"] = "venv"
    """`venv`: from the lines' locks. `container`: every line runs in an image (docs/containers.md).
    """
    root: v.Text = "~/.nightbench-node"
    """Folder on the node; `~` is the SSH user's home."""
    python: v.Text = "python3"
    """Interpreter (3.7 or newer) on the node that runs the agent."""
    variants: dict[FrameworkName, v.Name] = Field({})
    """Framework line: variant of its lock, `cu126` say."""
    paths: dict[FrameworkName, v.Text] = Field({})
    """Framework line: prefix that the site prepared (`bin/python` below it)."""
    engine: v.Text = "podman"
    """With `kind: container`: program on the nodes, `podman`, `docker` or another that takes their
    commands, or `apptainer`."""
    images: dict[FrameworkName, PinnedImage] = Field({})
    """With `kind: container`: framework line: image, `NAME@sha256:…`, or `sha256:…` for one that
    lies on the nodes. With apptainer a NAME that begins with / is a file on the nodes."""
    image_python: v.Text = "python3"
    """Python in the images."""
    engine_options: v.Many[v.Text] = ()
    """Options of the engine's `run`, `--gpus=all` or `--device=nvidia.com/gpu=all`."""
    mounts: v.Many[Mount] = ()
    """Further folders of the nodes that containers see at the same path; `:ro` behind one makes it
    read-only. `root`, `job_root` and the data of cases are there anyway."""
    prefix_roots: v.Many[v.Text] = ()
    """Folders on the nodes below which a prefix lies that somebody names for one run
    (`LINE=/PREFIX`); none unless given. What lies there runs as the SSH user."""
    wheelhouse: v.Text | None = None
    """Folder on the controller whose wheels are shipped to the nodes."""
    index_url: v.Source | None = None
    """Package index that the nodes use."""
    find_links: v.Many[v.Source] = ()
    """Folders or pages with wheels, as the nodes see them."""
    lock_dir: v.Text | None = None
    """Node-local folder for the node's lock; /tmp/nightbench-locks unless given."""
    job_root: v.Text | None = None
    """Node-local folder for the state of jobs, where `root` is shared by nodes; `root` unless
    given."""


class NeighboursFile(StrictModel):
    """What is done about foreign work on a node: processes that are not of the job."""

    action: Literal["record", "wait", "refuse"] | None = None
    """Before a launch: `record` only writes it down, `wait` waits and then fails, `refuse` fails at
    once. `wait` unless given, and `record` where `shared: true`."""
    wait_s: v.PositiveDuration = Field(600.0, alias="wait")
    """How long `wait` waits for quiet."""
    cpu_share: v.Percentage = Field(0.10, alias="cpu")
    """Foreign share of the job's cores above which it counts."""
    gpu: bool = True
    """A foreign process on a GPU of the job counts."""
    budget: v.Whole = 3
    """Repeats of a case that are launched again because foreign work or a throttled device
    disturbed them."""


class HealthFile(StrictModel):
    """What a node must show before a night, and when it is left out."""

    quarantine_after: v.Count = 3
    """Faults of a node in a row, after which it is left out until it is well."""
    expected_devices: v.Whole | None = None
    """GPUs that each node must show; `devices.per_node` unless given."""
    governor: v.Name | None = None
    """CPU frequency governor that is expected, `performance` say."""
    min_disk_bytes: v.Size = Field(5_000_000_000, alias="min_disk")
    """Free disk below `environments.root`, `5GB`."""
    max_clock_error_s: v.PositiveDuration = Field(60.0, alias="max_clock_error")
    """How far a node's clock may be off the controller's."""
    min_link_mbps: v.LinkSpeed | None = Field(None, alias="min_link")
    """Speed of the link of `interface`, `10Gbit/s`."""
    min_controls: dict[
        Literal[
            "matrix_product",
            "matrix_product_tf32",
            "matrix_product_bf16",
            "matrix_product_fp16",
            "memory_copy",
            "all_reduce",
            "all_reduce_in_node",
            "all_reduce_gpus",
        ],
        Annotated[float, Field(gt=0), v.Words("number")],
    ] = Field({})
    """Control measurement: least median that `nightbench accept` takes from every device or link,
    matrix products in GFLOP/s, `memory_copy` and all-reduces in GB/s (docs/accept.md)."""


class LinkFile(StrictModel):
    """How a node's link is made slower, for cases with a `link_bandwidth`."""

    command: v.Many[v.Text] = ()
    """Program with its arguments; it is run on each node before a case with the bandwidth as last
    argument, `100mbit` or `full`, and after it with `full` (`tools/limit-link.sh` does this by tc).
    Without it cases have the link as it is."""


class LimitsFile(StrictModel):
    """When, and how much at once, a cluster may be measured on."""

    hours: v.HoursText | None = None
    """Hours with their time zone, `22:00-06:00 Europe/Berlin`; any unless given."""
    parallel_cases: v.Count = 1
    """Cases of a run that may be measured at once, on disjoint nodes or devices."""


class RepositoryFile(StrictModel):
    """A repository whose commits people may have compared (docs/comparisons.md)."""

    url: GitUrl
    """As git on the build node takes it; the node's own git has the credentials."""
    branch: Branch = "main"
    """A commit is compared with the one at which it left this branch, unless A is named."""
    recipe: v.Some[v.Text]
    """Lines for sh on the build node, one after another in a checkout of the commit. They leave one
    wheel in `$OUT`; `$PYTHON` is the line's interpreter, `$UV` uv, `$COMMIT` the commit."""
    timeout_s: v.PositiveDuration = Field(2 * 3600.0, alias="timeout")
    """What fetching and building may take."""


class CompareFile(StrictModel):
    """Who may have how much compared on it by the DAG `nightbench_experiments`."""

    person_s: v.PositiveDuration = Field(4 * 3600.0, alias="person")
    """What the comparisons of one person may measure in 24 hours; the rest waits."""
    day_s: v.PositiveDuration = Field(12 * 3600.0, alias="day")
    """The same for all people together."""
    images: v.Many[ImageFolder] = ()
    """Registries, or folders of them, whose images somebody names by digest, with `environments:
    {kind: container}`: `registry.example.org/ci/`; those in `environments.images` may be named
    anyway. They run on the nodes as the SSH user."""
    wheel_urls: v.Many[WheelFolder] = ()
    """Addresses below which a wheel lies that somebody names, `https://ci.example.org/wheels/`;
    none unless given. What lies there runs on the nodes as the SSH user."""
    repositories: dict[v.Name, RepositoryFile] = Field({})
    """Name: repository whose commits people may name. What they hold runs on the nodes as the SSH
    user."""
    build_node: v.Name | None = None
    """Node that builds commits; the first one unless given."""


class ClusterFile(StrictModel):
    """A cluster: `dags/clusters/<cluster>.yaml`."""

    cluster: v.Name
    """Name of the cluster: the file's name without `.yaml`."""
    nodes: v.Some[NodeFile]
    """Its nodes, in the order in which gangs fill them."""
    description: str = ""
    """What it is, in a sentence."""
    shared: bool = False
    """Nodes share hardware: spread, drift and efficiency only warn."""
    devices: DevicesFile = DevicesFile()
    """What the nodes compute with."""
    environments: EnvironmentsFile = EnvironmentsFile()
    """Where framework environments come from."""
    known_hosts: v.Text | None = None
    """File with the nodes' host keys, relative to this file or to `dags/`; the Connection's own
    host keys unless given. `${NIGHTBENCH_HOME}` is the state folder."""
    jump: v.Many[JumpFile] = ()
    """Hosts on the way to every node, the first first."""
    transport: v.Transport | None = None
    """What the ranks must talk over, `nccl/ib` say; repeats over anything else do not count. Not
    compared unless given."""
    env: v.Env = Field({})
    """Environment of all processes."""
    role_env: dict[RoleName, v.Env] = Field({})
    """Role of a process (`trainer`, `pserver`, …, as the lines have them): its environment."""
    slurm: SlurmFile | None = None
    """Launch gangs as jobs of Slurm; over SSH to each node unless given."""
    kubernetes: KubernetesFile | None = None
    """Nodes are pods of Jobs that `nightbench k8s render` writes."""
    link: LinkFile = LinkFile()
    """How a node's link is limited."""
    data: dict[Annotated[v.Name, AfterValidator(_data_name)], v.NodePath] = Field({})
    """Name: file or folder on every node, for cases with `data: NAME` (docs/data.md). The name is
    part of the cases' names, for ever."""
    lock: Literal["node", "devices"] = "node"
    """What a gang has for itself: its nodes, or only its devices (cores on CPU nodes) of them."""
    binding: Literal["numa", "none"] = "numa"
    """Processes run on cores of the NUMA node of their GPU; `none`: on all cores."""
    limits: LimitsFile = LimitsFile()
    """When, and how much at once, it is measured on."""
    compare: CompareFile = CompareFile()
    """Comparisons that people request (docs/compare.md)."""
    neighbours: NeighboursFile = NeighboursFile()
    """What is done about foreign work on its nodes."""
    health: HealthFile = HealthFile()
    """What its nodes must show before a night."""
