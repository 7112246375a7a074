"""Schema of a suite's file. The reference page is made from these classes."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from nightbench.config.commands import CommandFile
from nightbench.config.suite_heads import A_SCHEDULE, is_schedule
from nightbench.core.budget import PRIORITY
from nightbench.core.complaints import describe, unquoted
from nightbench.core.model import (
    MAX_BATCH,
    NightPolicy,
    Publication,
    RegressionPolicy,
    Route,
    SuiteTable,
)
from nightbench.core.model import values as v


def _schedule(value: str) -> str:
    if not is_schedule(value):
        raise ValueError(f'found "{value}"; expected {A_SCHEDULE}')
    return value


AS_TRAINERS = "trainers"
"""Instead of a number of parameter servers: as many as trainers."""


def _number_or(word: str, meaning: str) -> tuple[Any, ...]:
    """What a number of at least 1 may be, or a word in its place."""

    def check(value: Any) -> Any:
        if value == word or (type(value) is int and value >= 1):
            return value
        expected = f'a number of at least 1, or "{word}": {meaning}'
        raise ValueError(f"found {describe(value)}; expected {expected}{unquoted(value)}")

    return BeforeValidator(check), v.Words(f"whole number, at least 1, or `{word}`")


AS_DEVICES = "devices"
"""Instead of a number of shards: all devices that `tensor` and `pipeline` leave."""
ShardCount = Annotated[Any, *_number_or(AS_DEVICES, "all that `tensor` and `pipeline` leave")]
ShardStage = Annotated[int, Field(ge=1, le=3), v.Words("1 to 3")]
PserverCount = Annotated[Any, *_number_or(AS_TRAINERS, "as many as trainers")]
BatchSize = Annotated[Any, *_number_or(MAX_BATCH, "the largest batch that fits")]
TableName = Annotated[str, v.known("tables"), v.Words("table")]
CommandName = Annotated[str, v.known("commands"), v.Words("command")]


_ADAPTIVE = "{min: 5, max: 15, confidence: 1%}"


class RepeatsFile(v.StrictModel):
    """Launches until the interval of their median is narrow enough."""

    min: Annotated[int, Field(ge=5), v.Words("whole number, at least 5")] = 5
    """Number of good repeats before the interval is checked: fewer may have a narrow interval by
    chance."""
    max: v.Count = 15
    """Largest number of repeats. After it the case ends, even if its interval is still wide."""
    confidence: v.Percentage | None = None
    """The case ends when the relative half-width of the 95 % interval is at most this. Required."""

    def __str__(self) -> str:
        """As it would be written."""
        return str(self.max) if self.confidence is None else f"at most {self.max}"


def _repeats(value: Any) -> Any:
    """A number means exactly so many; a mapping means as many as it takes."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"found {value}; expected a number of at least 1")
        return RepeatsFile.model_construct(min=value, max=value, confidence=None)
    if isinstance(value, RepeatsFile):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"found {describe(value)}; expected 7, or {_ADAPTIVE}")
    if "confidence" not in value:
        raise ValueError(f"found no confidence; expected {_ADAPTIVE}")
    return value


def _in_order(value: RepeatsFile) -> RepeatsFile:
    if value.max < value.min:
        raise ValueError(f"found max {value.max} below min {value.min}; expected {_ADAPTIVE}")
    return value


Repeats = Annotated[
    RepeatsFile,
    BeforeValidator(_repeats),
    AfterValidator(_in_order),
    v.Words("whole number, or a mapping, see below"),
]


class ProtocolFile(v.StrictModel):
    """How every case of the suite is measured."""

    warmup_steps: v.Whole = 20
    """Steps before the measurement window, which are not counted."""
    measured_steps: v.Count = 100
    """Smallest number of steps in the measurement window."""
    repeats: Repeats = Field(
        default_factory=lambda: RepeatsFile.model_construct(min=7, max=7, confidence=None)
    )
    """Number of launches, whose median counts. A mapping: until its interval is narrow enough."""
    min_seconds: v.Duration = 0.0
    """Shortest duration of the window: after `measured_steps` it continues until this time."""


class BlockFile(v.StrictModel):
    """One block of the matrix: a list is an axis, a scalar is fixed; all combinations are cases."""

    workload: v.Axis[v.WorkloadName] | None = None
    """Workload to train: a folder of `benchmarks/workloads`."""
    frameworks: v.Axis[v.FrameworkName] | None = None
    """Framework lines: folders of `benchmarks/frameworks`."""
    command: v.Axis[CommandName] | None = None
    """External scripts to run instead of a `workload` with `frameworks`: names from the suite's
    `commands`."""
    strategy: Literal["single", "collective", "parameter_server"]
    """How the work of a step is distributed over the processes."""
    devices: v.Axis[v.Shape] | None = None
    """Number of nodes x number of devices on each node, such as `2x1`. `fit`: a node with one
    device for each trainer. On a smaller cluster, `fit` puts several trainers on each node, as
    evenly as possible (20 trainers on four nodes: `4x5`). [default for `parameter_server`: one node
    for each trainer]"""
    pservers: v.Axis[PserverCount] | None = None
    """Number of parameter servers (only for `parameter_server`); `trainers`: as many as trainers
    [default: 1]."""
    trainers: v.Axis[v.Count] | None = None
    """Trainers (`parameter_server` only)."""
    sync: v.Axis[v.Name] | None = None
    """Kind of updates with `parameter_server`: trainers wait for each other (`sync`), or do not
    wait (`async`, `half_async`, `geo`). Each line supports some of these."""
    batch_size_per_device: v.Axis[BatchSize]
    """Samples in a step of one trainer. With `max`, the run finds the largest batch that fits into
    memory."""
    shard: v.Axis[ShardCount] = (1,)
    """Number of devices over which `shard_stage` splits the training state; further devices have
    copies of it (HSDP). `devices`: all devices that `tensor` and `pipeline` do not use."""
    shard_stage: v.Axis[ShardStage] | None = None
    """State that `shard` splits. 1: the optimizer's states. 2: also gradients. 3: also parameters
    [default: 3]."""
    tensor: v.Axis[v.Count] = (1,)
    """Number of devices that split each matrix (tensor parallel). Together they compute the samples
    of all their batches."""
    context: v.Axis[v.Count] = (1,)
    """Number of devices that split each sequence (context parallel). They compute the samples of
    all their batches together, and may be part of a `shard`."""
    expert: v.Axis[v.Count] = (1,)
    """Number of devices that split the experts of each layer (expert parallel). Each of them
    computes its own samples."""
    pipeline: v.Axis[v.Count] = (1,)
    """Number of devices that split the layers, with one or two stages each (pipeline parallel).
    Together they compute the samples of all their batches."""
    schedule: v.Axis[v.Name] | None = None
    """Order in which micro-batches pass a `pipeline`: `1f1b` or `gpipe`, with one stage on each
    device; `interleaved` or `zero_bubble`, with two stages [default: `1f1b`]."""
    micro_batches: v.Axis[v.Count] = (1,)
    """Number of micro-batches of a step: parts of its batch that are computed one after another,
    through a `pipeline` or, without a pipeline, by gradient accumulation."""
    recompute: v.Axis[v.Name] = ("none",)
    """Activation checkpointing: what a layer keeps from its forward pass for the backward pass.
    `full`: only its input. `selective`: also products and attention. `none`: everything."""
    state_precision: v.Axis[v.Name] = ("fp32",)
    """Precision of the stored states of the optimizer (Adam's two means): `fp32` or `bf16`."""
    tuning: v.Axis[v.Name] = ("default",)
    """Named switches of a line that differ from its `default`, such as `ddp_static_graph`."""
    precision: v.Axis[v.Name] = ("fp32",)
    """Precision of the computation: `fp32`, `tf32`, `bf16` or `fp16`, if the line supports it."""
    compiler: v.Axis[v.Name] = ("none",)
    """Name of the line's compiler."""
    execution: v.Axis[v.Name] = ("default",)
    """Kind of execution, such as eager or graph; `default` is the default of the line."""
    layout: v.Axis[v.Name] = ("default",)
    """Memory layout of tensors; `default` is the default of the workload."""
    compression: v.Axis[v.Name] = ("none",)
    """Compression of the exchanged gradients."""
    link_bandwidth: v.Axis[v.Bandwidth] = ("full",)
    """Bandwidth of each node's link, such as `100mbit`. The cluster needs a `link.command`."""
    data: v.Axis[v.Name] = ("synthetic",)
    """Input of the model: `synthetic`, `sample` (a few examples in Nightbench's package), or a name
    from the cluster's `data`."""
    sequence_length: v.Axis[v.Count] | None = None
    """Number of tokens in a sequence, for workloads with sequences."""
    threads: v.Axis[v.Count] | None = None
    """Number of threads of each process [default: `cpus` of the case, or the `cpus` of the node in
    the cluster's file, divided by the processes on the node; otherwise 1]."""
    sparsity: v.Axis[v.Percentage] | None = None
    """Fraction of the gradients that `compression` does not exchange."""
    cpus: v.Axis[v.Count] | None = None
    """Number of exclusive cores for each process [default: processes share their node's cores]."""
    memory: v.Axis[v.Size] | None = None
    """Memory limit of each process, `5GB` [default: no limit]."""
    scale: v.Axis[v.Name] | None = None
    """Size of the workload [default: the suite's `scale`]."""
    priority: Annotated[int, Field(ge=0, le=9), v.Words("0 to 9")] = PRIORITY
    """Priority of the cases if the night is too short for all; higher values come first."""
    tables: v.Axis[TableName] = ()
    """Tables of the suite that contain these cases."""
    unsupported: Literal["refuse", "skip"] = "refuse"
    """Reaction to cases that a line, a workload or the cluster cannot run. `refuse`: the suite is
    invalid. `skip`: these cases are left out, and the tables state the reason."""


class BuildFile(v.StrictModel):
    """Build of a framework line that is measured. Give at most one of the first three keys."""

    version: v.Version | None = None
    """Version from the package index, instead of the version in the line's lock."""
    wheel: v.Text | None = None
    """Wheel file on the controller, which is copied to the nodes."""
    path: v.Text | None = None
    """Prefix (folder with `bin/python`) that an administrator prepared on the nodes."""
    variant: v.Name | None = None
    """Lock of the line: `cpu`, `cu126`, … [default: the variant of the cluster]."""


class TimeoutsFile(v.StrictModel):
    """Time limits of a repeat."""

    repeat: v.PositiveDuration = 1800.0
    """Time limit of a whole repeat."""
    progress: v.PositiveDuration = 300.0
    """Time after which a process that makes no step has failed."""


class SuiteFile(v.StrictModel):
    """A suite: `dags/suites/<suite>.yaml`."""

    suite: v.DagName
    """Name of the suite: the file's name without `.yaml`."""
    owner: v.Text
    """Owner of the suite and of its DAG."""
    cluster: v.DagName
    """Cluster that runs the suite: a file of `dags/clusters`."""
    description: str = ""
    """Purpose in a sentence."""
    schedule: Annotated[str, AfterValidator(_schedule), v.Words("cron expression")] | None = None
    """Schedule in UTC [default: on demand only]."""
    scale: v.Name = "full"
    """Size of the workloads, by the name of their scale."""
    protocol: ProtocolFile = ProtocolFile()
    """How cases are measured."""
    matrix: v.Some[BlockFile]
    """Blocks that define the cases."""
    tables: dict[v.Name, SuiteTable] = Field({})
    """Tables of cases, by name; blocks name their tables."""
    commands: dict[v.Name, CommandFile] = Field({})
    """External training scripts by name, for blocks with `command`. The name becomes part of the
    cases' names."""
    builds: dict[v.FrameworkName, BuildFile] = Field({})
    """Build of each framework line [default: the line's lock]."""
    reference: dict[v.FrameworkName, BuildFile] = Field({})
    """Pinned reference build of each framework line, which nights measure in addition
    (docs/reference-build.md)."""
    env: v.Env = Field({})
    """Environment variables of all processes."""
    role_env: dict[v.RoleName, v.Env] = Field({})
    """Environment variables for each role of processes (`trainer`, `pserver`, … as the lines name
    the roles)."""
    policy: RegressionPolicy = RegressionPolicy()
    """Rules for a regression."""
    alerts: v.Many[v.Url] = ()
    """Channels for alerts, as Apprise URLs."""
    routes: v.Many[Route] = ()
    """Owners and channels of alerts for some cases. The first matching route is used; without a
    match, the suite's `owner` and `alerts` are used."""
    untried: bool = False
    """Also measure configurations that never ran on this kind of device, and mark their results."""
    timeouts: TimeoutsFile = TimeoutsFile()
    """Time limits of a repeat."""
    night: NightPolicy = NightPolicy()
    """Hours and time budget of scheduled runs."""
    publish: Publication | None = None
    """Results that `nightbench publish` may make public [default: nothing]."""
