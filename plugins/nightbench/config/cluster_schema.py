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
    """SSH address of a node, or of several: `gpu[01-04].example.org`. Leading zeros are kept."""
    ssh_conn_id: v.Name | None = None
    """Airflow Connection with user, key and port. Every node has one, unless the cluster has
    `kubernetes`."""
    name: v.Hosts | None = None
    """Name in results; for several hosts, a range of equal length [default: the host]."""
    port: v.Port | None = None
    """SSH port [default: the Connection's]."""
    user: v.User | None = None
    """Login [default: the Connection's]."""
    jump: v.Many[JumpHost] | None = None
    """Jump hosts in their order; `[]` for none [default: the cluster's jump hosts]."""
    data_address: v.Hosts | None = None
    """Address for the frameworks' own traffic [default: the host]."""
    interface: v.Interface | None = None
    """Network interface for the frameworks' own traffic."""
    port_range: v.PortRange = (20000, 29999)
    """Ports that the frameworks may listen on, `20000-29999`."""
    cpus: v.Cores = ()
    """Cores that processes are pinned to, `[0, 1]` or `0-3,8` [default: all]."""
    devices: v.Many[v.DeviceName] = ()
    """Indices or UUIDs of the GPUs that Nightbench may use [default: all]."""
    env: v.Env = Field({})
    """Environment variables of the processes on this node."""
    machine: Literal["x86_64", "aarch64"] | None = None
    """CPU architecture, as `uname -m` prints it. Required if nodes differ, to place cases."""


class DevicesFile(v.StrictModel):
    """Devices of the nodes."""

    kind: Literal["cpu", "gpu"] = "cpu"
    """`cpu` or `gpu`."""
    per_node: v.Count = 1
    """Devices on each node: GPUs, or groups of cores that count as a device."""
    compute_capability: v.Capability | None = None
    """Compute capability of the GPUs, in quotes: `"9.0"` (H100). Each line then uses its first
    variant for this capability. A line without such a variant is refused when a run is planned, not
    on the node."""
    memory: v.Size | None = None
    """Memory of one device, `80GB`: a case whose weights, gradients and optimizer states need more
    is refused when it is planned. [default: not compared]."""
    peak_tflops: dict[
        Literal["fp32", "tf32", "bf16", "fp16"],
        Annotated[float, Field(gt=0, le=1e5), v.Words("number")],
    ] = Field({})
    """Dense peak of one device in TFLOP/s by precision, for the MFU [default: the known peak]."""


class LinkFile(v.StrictModel):
    """Limit of a node's link, for cases with a `link_bandwidth`."""

    command: v.Many[v.Text] = ()
    """Program, with its arguments, that limits the link of a node (`tools/limit-link.sh` uses tc).
    Before a case, it runs on each node with the bandwidth as last argument: `100mbit` or `full`.
    After the case, it runs with `full`. Without this key the link is not changed."""


class LimitsFile(v.StrictModel):
    """Hours of measurements on a cluster, and number of cases at the same time."""

    hours: v.HoursText | None = None
    """Hours of measurements, with time zone: `22:00-06:00 Europe/Berlin` [default: any]."""
    parallel_cases: v.Count = 1
    """Largest number of cases that are measured at once, on different nodes or devices."""


class ClusterFile(v.StrictModel):
    """A cluster: `dags/clusters/<cluster>.yaml`."""

    cluster: v.DagName
    """Name of the cluster: the file's name without `.yaml`."""
    nodes: v.Some[NodeFile]
    """Nodes of the cluster, in the order in which gangs use them."""
    description: str = ""
    """Description in a sentence."""
    shared: bool = False
    """The nodes share hardware, so the checks of spread, drift and efficiency only warn."""
    devices: DevicesFile = DevicesFile()
    """Devices of the nodes."""
    environments: EnvironmentPolicy = EnvironmentPolicy()
    """Source of the framework environments."""
    known_hosts: v.Text | None = None
    """File with the nodes' host keys, relative to this file or to `dags/` [default: the host keys
    of the Connection]. `${NIGHTBENCH_HOME}` is the state folder."""
    jump: v.Many[JumpHost] = ()
    """Jump hosts on the way to every node, in their order."""
    transport: v.Transport | None = None
    """Network that the ranks must use, for example `nccl/ib`. Repeats over another network do not
    count [default: not checked]."""
    env: v.Env = Field({})
    """Environment variables of all processes."""
    role_env: dict[v.RoleName, v.Env] = Field({})
    """Environment variables for each role of processes (`trainer`, `pserver`, … as the lines name
    the roles)."""
    slurm: SlurmPolicy | None = None
    """Launch gangs as jobs of Slurm [default: over SSH to each node]."""
    kubernetes: KubernetesPolicy | None = None
    """Use pods as nodes, through the API of Kubernetes [default: machines over SSH]."""
    link: LinkFile = LinkFile()
    """Program that limits the link of a node."""
    data: dict[Annotated[v.Name, AfterValidator(_data_name)], v.NodePath] = Field({})
    """File or folder on every node for each name, for cases with `data: NAME` (docs/data.md). NAME
    becomes a part of the cases' names."""
    lock: Literal["node", "devices"] = "node"
    """Resources that a gang locks while it runs: its whole nodes, or only its devices (cores on CPU
    nodes)."""
    binding: Literal["numa", "none"] = "numa"
    """`numa`: processes run on cores of the NUMA node of their GPU. `none`: on all cores."""
    limits: LimitsFile = LimitsFile()
    """Hours in which the cluster is measured, and number of cases at the same time."""
    compare: ComparePolicy = ComparePolicy()
    """Comparisons that people request (docs/compare.md)."""
    neighbours: NeighbourPolicy = NeighbourPolicy()
    """Reaction to processes of other users on the nodes."""
    health: HealthPolicy = HealthPolicy()
    """Requirements that the nodes must meet before a night."""
