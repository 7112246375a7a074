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


def _enough(value: int) -> int:
    if value < 5:
        raise ValueError(
            f"found {value}; expected at least 5: fewer repeats may have a narrow interval by "
            "chance, which would stop the case too early"
        )
    return value


class RepeatsFile(v.StrictModel):
    """As many launches as it takes: until the interval of their median is narrow enough."""

    min: Annotated[int, AfterValidator(_enough), v.Words("whole number, at least 5")] = 5
    """Good repeats before the interval is looked at."""
    max: v.Count = 15
    """Largest number of repeats: the case then ends, however wide its interval is."""
    confidence: v.Percentage | None = None
    """No more repeats once the relative 95 % half-width is at most this; always to be given."""

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
    """Steps before the window; they are not counted."""
    measured_steps: v.Count = 100
    """Steps in the window, at least."""
    repeats: Repeats = Field(
        default_factory=lambda: RepeatsFile.model_construct(min=7, max=7, confidence=None)
    )
    """Launches of the gang; their median counts. A mapping: until its interval is narrow enough."""
    min_seconds: v.Duration = 0.0
    """The window continues after `measured_steps` until it is this long."""


class BlockFile(v.StrictModel):
    """One block of the matrix: a list is an axis, a scalar is fixed; all combinations are cases."""

    workload: v.Axis[v.WorkloadName] | None = None
    """Workload to train: a folder of `benchmarks/workloads`."""
    frameworks: v.Axis[v.FrameworkName] | None = None
    """Framework lines: folders of `benchmarks/frameworks`."""
    command: v.Axis[CommandName] | None = None
    """Instead of `workload` and `frameworks`: external scripts, by their names in the suite's
    `commands`."""
    strategy: Literal["single", "collective", "parameter_server"]
    """How the work of a step is spread over processes."""
    devices: v.Axis[v.Shape] | None = None
    """Nodes x devices on each, `2x1`. `fit`: one node with one device for each trainer. On a
    smaller cluster `fit` puts several trainers on each node, as evenly as possible (20 on four
    nodes: `4x5`). [default for `parameter_server`: one node for each trainer]"""
    pservers: v.Axis[PserverCount] | None = None
    """Number of parameter servers (only for `parameter_server`) [default: 1]; `trainers`: as many
    as trainers."""
    trainers: v.Axis[v.Count] | None = None
    """Trainers (`parameter_server` only)."""
    sync: v.Axis[v.Name] | None = None
    """Updates of `parameter_server`, as the line supports them: trainers wait for each other
    (`sync`), or do not (`async`, `half_async`, `geo`)."""
    batch_size_per_device: v.Axis[BatchSize]
    """Samples in a step of one trainer; `max`: the run finds the largest batch that fits into
    memory."""
    shard: v.Axis[ShardCount] = (1,)
    """Devices over which `shard_stage` splits the training; further devices have copies of it
    (HSDP). `devices`: all that `tensor` and `pipeline` leave."""
    shard_stage: v.Axis[ShardStage] | None = None
    """Parts that `shard` splits: 1 the optimiser's states, 2 gradients as well, 3 parameters as
    well [default: 3]."""
    tensor: v.Axis[v.Count] = (1,)
    """Devices that split each matrix (tensor parallel), and compute the batches of all of them
    together."""
    context: v.Axis[v.Count] = (1,)
    """Devices that split each sequence (context parallel), and compute the batches of all of them
    together; they may be part of a `shard`."""
    expert: v.Axis[v.Count] = (1,)
    """Devices that split the experts of each layer (expert parallel), and compute samples of their
    own."""
    pipeline: v.Axis[v.Count] = (1,)
    """Devices that split the layers, a stage or two each, and compute the batches of all of them
    together."""
    schedule: v.Axis[v.Name] | None = None
    """Order in which the parts of a batch pass a `pipeline`: `1f1b`, `gpipe`, and with two stages
    on each device `interleaved`, `zero_bubble` [default: `1f1b`]."""
    micro_batches: v.Axis[v.Count] = (1,)
    """Parts of a step's batch that are computed one after another, through a `pipeline` or, without
    one, by summing up gradients."""
    recompute: v.Axis[v.Name] = ("none",)
    """Part of a layer's forward pass that is computed again for its backward pass: `full` keeps
    only its input, `selective` also products and attention, `none` everything."""
    state_precision: v.Axis[v.Name] = ("fp32",)
    """Precision of the stored states of the optimiser (Adam's two means): `fp32` or `bf16`."""
    tuning: v.Axis[v.Name] = ("default",)
    """Switches of one line, set in another way than its `default`: a name that the line has, such
    as `ddp_static_graph`."""
    precision: v.Axis[v.Name] = ("fp32",)
    """`fp32`, `tf32`, `bf16` or `fp16`, as the line has it."""
    compiler: v.Axis[v.Name] = ("none",)
    """Compiler of the line, by name."""
    execution: v.Axis[v.Name] = ("default",)
    """Kind of execution; `default` is the line's own."""
    layout: v.Axis[v.Name] = ("default",)
    """Layout of tensors; `default` is the workload's own."""
    compression: v.Axis[v.Name] = ("none",)
    """Compression of gradients."""
    link_bandwidth: v.Axis[v.Bandwidth] = ("full",)
    """Bandwidth of each node's link, `100mbit`; the cluster needs a `link.command`."""
    data: v.Axis[v.Name] = ("synthetic",)
    """Input of the model: `synthetic`, `sample` (a few examples that ship with Nightbench), or a
    set that the cluster's `data` names."""
    sequence_length: v.Axis[v.Count] | None = None
    """Tokens in a sequence, for workloads that have them."""
    threads: v.Axis[v.Count] | None = None
    """Threads of each process [default: the number of its cores]."""
    sparsity: v.Axis[v.Percentage] | None = None
    """Part of the gradients that `compression` leaves out of an exchange."""
    cpus: v.Axis[v.Count] | None = None
    """Exclusive cores of each process [default: the processes share the cores of their node]."""
    memory: v.Axis[v.Size] | None = None
    """Memory limit of each process, `5GB` [default: no limit]."""
    scale: v.Axis[v.Name] | None = None
    """Size of the workload [default: the suite's `scale`]."""
    priority: Annotated[int, Field(ge=0, le=9), v.Words("0 to 9")] = PRIORITY
    """If the night is too short, cases with a higher priority come first."""
    tables: v.Axis[TableName] = ()
    """The suite's tables that the cases stand in."""
    unsupported: Literal["refuse", "skip"] = "refuse"
    """Cases that a line, a workload or the cluster cannot run: the suite is wrong (`refuse`), or
    they are left out, and tables say why (`skip`)."""


class BuildFile(v.StrictModel):
    """Which build of a framework line is measured; give at most one of the first three keys."""

    version: v.Version | None = None
    """Another version than the line's lock, from the index."""
    wheel: v.Text | None = None
    """A wheel file on the controller, shipped to the nodes."""
    path: v.Text | None = None
    """A prefix that the site prepared on its nodes (`bin/python` below it)."""
    variant: v.Name | None = None
    """Lock of the line: `cpu`, `cu126`, … [default: that of the cluster]."""


class TimeoutsFile(v.StrictModel):
    """When a repeat is given up."""

    repeat: v.PositiveDuration = 1800.0
    """A repeat as a whole."""
    progress: v.PositiveDuration = 300.0
    """A process that makes no step."""


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
    """The cases, in blocks."""
    tables: dict[v.Name, SuiteTable] = Field({})
    """Name: a table of cases, which blocks name."""
    commands: dict[v.Name, CommandFile] = Field({})
    """Name: a script of others, for blocks with `command`. The name becomes part of the cases'
    names."""
    builds: dict[v.FrameworkName, BuildFile] = Field({})
    """Framework line: build [default: the line's lock]."""
    reference: dict[v.FrameworkName, BuildFile] = Field({})
    """Framework line: pinned reference build that nights measure in addition
    (docs/reference-build.md)."""
    env: v.Env = Field({})
    """Environment of all processes."""
    role_env: dict[v.RoleName, v.Env] = Field({})
    """Role of a process (`trainer`, `pserver`, …, as the lines name them): environment of its
    processes."""
    policy: RegressionPolicy = RegressionPolicy()
    """Rules for a regression."""
    alerts: v.Many[v.Url] = ()
    """Channels for alerts, as Apprise URLs."""
    routes: v.Many[Route] = ()
    """Owners and channels of alerts: the first route that matches counts, else the suite's `owner`
    and `alerts`."""
    untried: bool = False
    """Also measure configurations that were never run on such devices; their results are marked."""
    timeouts: TimeoutsFile = TimeoutsFile()
    """When a repeat is given up."""
    night: NightPolicy = NightPolicy()
    """Time of a night for scheduled runs."""
    publish: Publication | None = None
    """Content that `nightbench publish` may make public [default: nothing]."""
