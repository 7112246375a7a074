"""Schema of a cluster's file. The reference page is made from these classes."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from nightbench.core.capabilities import SHIPPED_DATA
from nightbench.core.model import (
    ComparePolicy,
    EnvironmentPolicy,
    HealthPolicy,
    JumpHost,
    KubernetesPolicy,
    NeighbourPolicy,
    SlurmPolicy,
)
from nightbench.core.model import values as v


def _data_name(name: str) -> str:
    if name in SHIPPED_DATA:
        raise ValueError(f'found "{name}", which every cluster has; expected another name')
    return name


class NodeFile(v.StrictModel):
    """One node, or several that differ by their names only."""

    hosts: v.Hosts
    """SSH address, or several: `gpu[01-04].example.org`; leading zeros are kept."""
    ssh_conn_id: v.Name | None = None
    """Airflow Connection with user, key and port. Every node has one, unless the cluster has
    `kubernetes`."""
    name: v.Hosts | None = None
    """Name in results, with as many numbers as `hosts` [default: the host]."""
    port: v.Port | None = None
    """SSH port [default: the Connection's]."""
    user: v.User | None = None
    """Login [default: the Connection's]."""
    jump: v.Many[JumpHost] | None = None
    """Jump hosts in their order; `[]`: none [default: those of the cluster]."""
    data_address: v.Hosts | None = None
    """Address for the frameworks' own traffic [default: the host]."""
    interface: v.Interface | None = None
    """Network interface for the frameworks' own traffic."""
    port_range: v.PortRange = (20000, 29999)
    """Ports that the frameworks may listen on, `20000-29999`."""
    cpus: v.Cores = ()
    """Cores that processes are pinned to, `[0, 1]` or `0-3,8` [default: all]."""
    devices: v.Many[v.DeviceName] = ()
    """Indices or UUIDs of the GPUs that may be used [default: all]."""
    env: v.Env = Field({})
    """Environment of this node's processes."""
    machine: Literal["x86_64", "aarch64"] | None = None
    """CPU architecture, as `uname -m` prints it. Required if nodes differ: it places cases."""


class DevicesFile(v.StrictModel):
    """Devices of the nodes."""

    kind: Literal["cpu", "gpu"] = "cpu"
    """`cpu` or `gpu`."""
    per_node: v.Count = 1
    """Devices on each node: GPUs, or groups of cores that count as a device."""
    compute_capability: v.Capability | None = None
    """Compute capability of the GPUs, in quotes: `"9.0"` (H100). Each line then runs its first
    variant that is built for it; a line without one is refused when it is planned, not on the
    node."""
    memory: v.Size | None = None
    """Memory of one device, `80GB`: a case whose weights, gradients and optimiser states need more
    is refused when it is planned. [default: not compared]."""
    peak_tflops: dict[
        Literal["fp32", "tf32", "bf16", "fp16"],
        Annotated[float, Field(gt=0, le=1e5), v.Words("number")],
    ] = Field({})
    """Precision: dense peak of one device in TFLOP/s, for MFU [default: that of known GPUs]."""


class LinkFile(v.StrictModel):
    """How a node's link is made slower, for cases with a `link_bandwidth`."""

    command: v.Many[v.Text] = ()
    """Program that limits the link of a node, with its arguments (`tools/limit-link.sh` uses tc).
    It runs on each node before a case, with the bandwidth as last argument: `100mbit` or `full`. It
    runs after the case with `full`. Without the key the link is not changed."""


class LimitsFile(v.StrictModel):
    """When, and how much at once, a cluster may be measured on."""

    hours: v.HoursText | None = None
    """Hours with their time zone, `22:00-06:00 Europe/Berlin` [default: any]."""
    parallel_cases: v.Count = 1
    """Cases of a run that may be measured at once, on disjoint nodes or devices."""


class ClusterFile(v.StrictModel):
    """A cluster: `dags/clusters/<cluster>.yaml`."""

    cluster: v.DagName
    """Name of the cluster: the file's name without `.yaml`."""
    nodes: v.Some[NodeFile]
    """Nodes of the cluster, in the order in which gangs use them."""
    description: str = ""
    """Description in a sentence."""
    shared: bool = False
    """Nodes share hardware: spread, drift and efficiency only warn."""
    devices: DevicesFile = DevicesFile()
    """Devices of the nodes."""
    environments: EnvironmentPolicy = EnvironmentPolicy()
    """Where framework environments come from."""
    known_hosts: v.Text | None = None
    """File with the nodes' host keys, relative to this file or to `dags/` [default: the host keys
    of the Connection]. `${NIGHTBENCH_HOME}` is the state folder."""
    jump: v.Many[JumpHost] = ()
    """Hosts on the way to every node, the first first."""
    transport: v.Transport | None = None
    """Network that the ranks must use, for example `nccl/ib`; repeats over any other do not count.
    [default: not compared]."""
    env: v.Env = Field({})
    """Environment of all processes."""
    role_env: dict[v.RoleName, v.Env] = Field({})
    """Role of a process (`trainer`, `pserver`, …, as the lines name them): environment of its
    processes."""
    slurm: SlurmPolicy | None = None
    """Launch gangs as jobs of Slurm [default: over SSH to each node]."""
    kubernetes: KubernetesPolicy | None = None
    """Nodes are pods, reached through the API of Kubernetes; machines over SSH [default]."""
    link: LinkFile = LinkFile()
    """How a node's link is limited."""
    data: dict[Annotated[v.Name, AfterValidator(_data_name)], v.NodePath] = Field({})
    """Name: file or folder on every node, for cases with `data: NAME` (docs/data.md). The name
    becomes part of the cases' names."""
    lock: Literal["node", "devices"] = "node"
    """Resources that a gang locks: its whole nodes, or only its devices (cores on CPU nodes)."""
    binding: Literal["numa", "none"] = "numa"
    """Processes run on cores of the NUMA node of their GPU; `none`: on all cores."""
    limits: LimitsFile = LimitsFile()
    """Hours in which the cluster is measured, and how many cases at once."""
    compare: ComparePolicy = ComparePolicy()
    """Comparisons that people request (docs/compare.md)."""
    neighbours: NeighbourPolicy = NeighbourPolicy()
    """Reaction to the processes of other users on its nodes."""
    health: HealthPolicy = HealthPolicy()
    """Requirements that its nodes must meet before a night."""
