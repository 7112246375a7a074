"""What a suite and a cluster file may say. The reference pages are made from these classes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from nightbench.config import values as v
from nightbench.config.source import one_of
from nightbench.config.validate import Strict


def _known(kind: str) -> AfterValidator:
    def check(name: str, info: ValidationInfo) -> str:
        known = (info.context or {}).get(kind)
        if known is not None and name not in known:
            raise ValueError(one_of(name, known))
        return name

    return AfterValidator(check)


def _url(value: str) -> str:
    scheme, separator, rest = value.partition("://")
    if not (scheme and separator and rest):
        raise ValueError(f'found "{value}"; expected an Apprise URL such as apprise://conn/team')
    return value


def _schedule(value: str) -> str:
    presets = {"@hourly", "@daily", "@weekly", "@monthly", "@midnight"}
    if value in presets:
        return value
    # croniter takes a fifth of a second to import, and most files have no schedule.
    from croniter import croniter  # type: ignore[import-untyped]

    if len(value.split()) != 5 or not croniter.is_valid(value):
        raise ValueError(
            f'found "{value}"; expected a cron expression of five fields such as "0 1 * * *", or '
            + ", ".join(sorted(presets))
        )
    return value


FrameworkName = Annotated[str, _known("frameworks"), v.Words("framework line")]
WorkloadName = Annotated[str, _known("workloads"), v.Words("workload")]
Role = Literal["trainer", "pserver"]
Url = Annotated[str, AfterValidator(_url), v.Words("URL")]

_axis = (BeforeValidator(v.as_list), Field(min_length=1), AfterValidator(v.no_twins))
Frameworks = Annotated[list[FrameworkName], *_axis]
Workloads = Annotated[list[WorkloadName], *_axis]
Shapes = Annotated[list[v.Shape], *_axis]
Counts = Annotated[list[v.Count], *_axis]
Names = Annotated[list[v.Name], *_axis]


class ProtocolFile(Strict):
    """How every case of the suite is measured."""

    warmup_steps: v.Whole = Field(20, description="Steps before the window; they are not counted.")
    measured_steps: v.Count = Field(100, description="Steps in the window, at least.")
    repeats: v.Count = Field(7, description="Fresh launches of the gang; their median counts.")
    min_seconds: v.Duration = Field(
        0.0, description="The window goes on past `measured_steps` until it is this long."
    )


class BlockFile(Strict):
    """One block of the matrix: a list is an axis, a scalar is fixed; all combinations are cases."""

    workload: Workloads = Field(description="What is trained: a folder of `benchmarks/workloads`.")
    frameworks: Frameworks = Field(
        description="Framework lines: folders of `benchmarks/frameworks`."
    )
    strategy: Literal["single", "collective", "parameter_server"] = Field(
        description="How the work of a step is spread over processes."
    )
    devices: Shapes | None = Field(
        None,
        description="Nodes x devices on each, `2x1`. For `parameter_server` as many nodes as "
        "trainers with one device each, unless it is given.",
    )
    pservers: Counts | None = Field(
        None, description="Parameter servers (`parameter_server` only; 1 unless given)."
    )
    trainers: Counts | None = Field(None, description="Trainers (`parameter_server` only).")
    sync: Annotated[
        list[Literal["sync", "async", "half_async", "geo"]] | None,
        BeforeValidator(v.as_list),
    ] = Field(None, description="How trainers wait for each other (`parameter_server` only).")
    batch_size_per_device: Counts = Field(description="Samples in a step of one trainer.")
    precision: Names = Field(
        ["fp32"], description="`fp32`, `tf32`, `bf16` or `fp16`, as the line has it."
    )
    compiler: Names = Field(["none"], description="Compiler of the line, by name.")
    execution: v.Name = Field("default", description="Execution mode; `default` is the line's own.")
    layout: v.Name = Field(
        "default", description="Layout of tensors; `default` is the workload's own."
    )
    compression: v.Name = Field("none", description="Compression of gradients.")
    link_bandwidth: v.Name = Field("full", description="Limit on the link between nodes.")
    data: v.Name = Field("synthetic", description="What is fed to the model.")
    sequence_length: Counts | None = Field(
        None, description="Tokens in a sequence, for workloads that have them."
    )
    threads: Counts | None = Field(
        None, description="Threads of each process; the number of its cores unless given."
    )
    scale: Names | None = Field(
        None, description="Size of the workload; the suite's `scale` unless given."
    )


class BuildFile(Strict):
    """Which build of a framework line is measured; give at most one of the first three keys."""

    version: v.Version | None = Field(
        None, description="Another version than the line's lock, from the index."
    )
    wheel: v.Text | None = Field(
        None, description="A wheel file on the controller, shipped to the nodes."
    )
    path: v.Text | None = Field(
        None, description="A prefix that the site prepared on its nodes (`bin/python` below it)."
    )
    variant: v.Name | None = Field(
        None, description="Which lock of the line: `cpu`, `cu126`, …; the cluster's unless given."
    )


class PolicyFile(Strict):
    """When the suite wants to hear of a change."""

    min_change: v.Percentage = Field(0.03, description="A smaller change is not reported.")
    min_history: Annotated[int, Field(ge=2), v.Words("whole number, at least 2")] = Field(
        10, description="Nights before a verdict other than insufficient_data."
    )


class TimeoutsFile(Strict):
    """When a repeat is given up."""

    repeat: v.PositiveDuration = Field(1800.0, description="A repeat as a whole.")
    progress: v.PositiveDuration = Field(300.0, description="A process that makes no step.")


class SuiteFile(Strict):
    """A suite: `dags/suites/<suite>.yaml`."""

    suite: v.Name = Field(description="Name of the suite: the file's name without `.yaml`.")
    owner: v.Text = Field(description="Who looks after it; owner of its DAG.")
    cluster: v.Name = Field(description="The cluster that it runs on: a file of `dags/clusters`.")
    description: str = Field("", description="What it is for, in a sentence.")
    schedule: Annotated[str, AfterValidator(_schedule), v.Words("cron expression")] | None = Field(
        None, description="When it runs by itself (UTC); on demand only unless given."
    )
    scale: v.Name = Field("full", description="Size of the workloads, by the name of their scale.")
    protocol: ProtocolFile = Field(
        default_factory=ProtocolFile, description="How cases are measured."
    )
    matrix: Annotated[list[BlockFile], Field(min_length=1)] = Field(
        description="The cases, in blocks."
    )
    builds: dict[FrameworkName, BuildFile] = Field(
        default_factory=dict, description="Framework line: build; the line's lock unless given."
    )
    env: v.Env = Field(default_factory=dict, description="Environment of all processes.")
    role_env: dict[Role, v.Env] = Field(
        default_factory=dict, description="Environment of `trainer` or `pserver` processes."
    )
    policy: PolicyFile = Field(default_factory=PolicyFile, description="What is a regression.")
    alerts: list[Url] = Field(
        default_factory=list, description="Channels for alerts, as Apprise URLs."
    )
    timeouts: TimeoutsFile = Field(
        default_factory=TimeoutsFile, description="When a repeat is given up."
    )


class NodeFile(Strict):
    """One node, or several that differ by their names only."""

    hosts: v.Hosts = Field(
        description="SSH address, or several: `gpu[01-04].example.org`; leading zeros are kept."
    )
    ssh_conn_id: v.Name = Field(description="Airflow Connection with user, key and port.")
    name: v.Hosts | None = Field(
        None, description="Name in results, with as many numbers as `hosts`; the host unless given."
    )
    port: v.Port | None = Field(None, description="SSH port; the Connection's unless given.")
    data_address: v.Hosts | None = Field(
        None, description="Address for the frameworks' own traffic; the host unless given."
    )
    interface: v.Text | None = Field(
        None, description="Network interface for the frameworks' own traffic."
    )
    port_range: v.PortRange = Field(
        (20000, 29999), description="Ports that the frameworks may listen on, `20000-29999`."
    )
    cpus: v.Cores = Field(
        default_factory=list,
        description="Cores that processes are pinned to, `[0, 1]` or `0-3,8`; all unless given.",
    )
    devices: list[v.DeviceName] = Field(
        default_factory=list, description="Indices or UUIDs of the GPUs; all unless given."
    )
    env: v.Env = Field(default_factory=dict, description="Environment of this node's processes.")


class DevicesFile(Strict):
    """What the nodes compute with."""

    kind: Literal["cpu", "gpu"] = Field("cpu", description="`cpu` or `gpu`.")
    per_node: v.Count = Field(
        1, description="Devices on each node: GPUs, or groups of cores that count as a device."
    )


class EnvironmentsFile(Strict):
    """Where framework environments come from on the nodes."""

    kind: Literal["venv"] = Field("venv", description="How they are made.")
    root: v.Text = Field(
        "~/.nightbench-node", description="Folder on the node; `~` is the SSH user's home."
    )
    python: v.Text = Field(
        "python3", description="Interpreter (3.7 or newer) on the node that runs the agent."
    )
    variants: dict[FrameworkName, v.Name] = Field(
        default_factory=dict, description="Framework line: variant of its lock, `cu126` say."
    )
    paths: dict[FrameworkName, v.Text] = Field(
        default_factory=dict,
        description="Framework line: prefix that the site prepared (`bin/python` below it).",
    )
    wheelhouse: v.Text | None = Field(
        None, description="Folder on the controller whose wheels are shipped to the nodes."
    )
    index_url: v.Text | None = Field(None, description="Package index that the nodes use.")
    find_links: list[v.Text] = Field(
        default_factory=list, description="Folders or pages with wheels, as the nodes see them."
    )
    lock_dir: v.Text | None = Field(
        None,
        description="Node-local folder for the node's lock; /tmp/nightbench-locks unless given.",
    )


class ClusterFile(Strict):
    """A cluster: `dags/clusters/<cluster>.yaml`."""

    cluster: v.Name = Field(description="Name of the cluster: the file's name without `.yaml`.")
    nodes: Annotated[list[NodeFile], Field(min_length=1)] = Field(
        description="Its nodes, in the order in which gangs fill them."
    )
    description: str = Field("", description="What it is, in a sentence.")
    shared: bool = Field(
        False,
        description="Nodes share hardware: spread, drift and efficiency only warn.",
    )
    devices: DevicesFile = Field(
        default_factory=DevicesFile, description="What the nodes compute with."
    )
    environments: EnvironmentsFile = Field(
        default_factory=EnvironmentsFile, description="Where framework environments come from."
    )
    known_hosts: v.Text | None = Field(
        None,
        description="File with the nodes' host keys, relative to this file or to `dags/`; the "
        "Connection's own host keys unless given. `${NIGHTBENCH_HOME}` is the state folder.",
    )
    env: v.Env = Field(default_factory=dict, description="Environment of all processes.")
    role_env: dict[Role, v.Env] = Field(
        default_factory=dict, description="Environment of `trainer` or `pserver` processes."
    )
