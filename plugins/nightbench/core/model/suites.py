"""What is asked for: suites with their policies, and the catalog that they choose from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from nightbench.core.model.cases import Build, Case, Protocol, ReferenceLosses
from nightbench.core.model.clusters import Cluster
from nightbench.core.model.metrics import METRICS, JudgedMetric, MetricInfo
from nightbench.core.model.words import Strategy, VerdictKind


@dataclass(frozen=True)
class NightPolicy:
    """Which part of a day the cases of a suite may take: `night` of its file (`config.schema`)."""

    window: str | None = None
    budget_s: float | None = None
    deadline: str | None = None


@dataclass(frozen=True)
class RegressionPolicy:
    """When a suite wants to hear of a change."""

    min_change: float | Literal["auto"] = "auto"
    """Relative change below which nothing is reported; auto: what a series shows at the detector's
    rate of false alarms."""
    min_history: int = 10
    """Nights needed before a verdict other than insufficient_data."""
    max_spread: float = 0.10
    """A series whose nights or repeats vary by more is noisy: it runs on and alerts no more."""
    urgent: float = 0.20
    """A fall of this size is told at once, apart from the night's message."""
    confirm_s: float = 3600.0
    """How long a night may take to measure its suspects again before it tells; 0: not at all."""
    metric: JudgedMetric = "throughput"
    """Figure that is judged."""

    @property
    def judged(self) -> MetricInfo:
        """The figure that is judged, with its unit and direction."""
        return METRICS[self.metric]

    @property
    def reported_from(self) -> float:
        """Relative size from which a change of level is reported."""
        return 0.01 if self.min_change == "auto" else self.min_change

    @property
    def clear_change(self) -> float:
        """Relative size from which a fall grows, a drift is news and another series moved, too."""
        return 0.03 if self.min_change == "auto" else self.min_change


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
class Publication:
    """What of a suite may leave the house; an empty selection means all cases."""

    frameworks: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    nodes: bool = False
    owner: bool = False
    notes: bool = False


TableMetric = Literal[
    "throughput", "minibatches", "speedup", "efficiency", "tokens_per_device", "mfu", "tflops"
]
"""What stands in the cells of a table."""

TABLE_AXES = (
    "devices",
    *(x for x in Case.__annotations__ if x not in ("devices_per_node", "scale")),
)
"""What makes rows and columns of a table; `devices` is nodes x devices on each."""


@dataclass(frozen=True)
class SuiteTable:
    """Which cases of a suite make a table, and how."""

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    metric: TableMetric = "throughput"
    chart: str = "bars"
    document: str | None = None
    """`source` of the published figures."""
    figures: tuple[str, ...] = ()
    published_only: Mapping[str, str] = field(default_factory=dict)
    """`framework` of published figures -> why nothing of it can be measured."""
    cases: tuple[Case, ...] = ()


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
    reference: Mapping[str, Build] = field(default_factory=dict)
    """Framework line -> build that nights measure beside theirs; none where absent."""
    untried: bool = False
    """Measure also what no one has run on such devices yet."""
    private_builds: frozenset[str] = frozenset()
    """Lines whose build was named for one run, and is not the one that the file says."""
    env: Mapping[str, str] = field(default_factory=dict)
    role_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    policy: RegressionPolicy = field(default_factory=RegressionPolicy)
    alerts: tuple[str, ...] = ()
    repeat_timeout_s: float = 1800.0
    progress_timeout_s: float = 300.0
    source: str = ""
    """Path of the YAML file."""
    scale: str = "full"
    """Size of the workloads."""
    commands: Mapping[str, WorkloadInfo] = field(default_factory=dict)
    """Scripts of others, as workloads of the lines that run commands."""
    tables: tuple[SuiteTable, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    """case_id of the cases that its file lets be skipped and that cannot run there -> why."""
    night: NightPolicy = field(default_factory=NightPolicy)
    priorities: Mapping[str, int] = field(default_factory=dict)
    """case_id -> 0 to 9, the higher first; 5 where absent."""
    routes: tuple[Route, ...] = ()
    """Whose alerts are whose: the first that matches counts, else the suite's owner and alerts."""
    publish: Publication | None = None
    """What a site for everybody may show of it; None: nothing."""


@dataclass(frozen=True)
class Role:
    """What the processes of one role are in a strategy of a framework line."""

    name: str
    """`trainer`, `pserver`, `scheduler`: processes are called `<role>-<number>`."""
    count: int | str
    """How many, or the axis of the case that says it (`trainers`, `pservers`, `nodes`)."""
    place: str = "spread"
    """`spread`: on the nodes in turn; `fill`: a node's devices before the next node's; `lead`: on
    the first node."""
    measured: bool = False
    """It trains, and its steps are timed; a process that is not measured serves until it is ended.
    """
    measured_ranks: Literal["first", "last", "all"] = "all"
    """Which of its ranks are measured."""
    device: bool = False
    """It computes: on GPU clusters it gets a device of its own."""


TRAINERS = (Role("trainer", "trainers", "fill", measured=True, device=True),)
"""The roles of a strategy for which a line names none."""


@dataclass(frozen=True)
class Untried:
    """Why nobody has run what a line is written for: it is measured where that is asked for."""

    why: str


Support = Mapping[str, Untried | str | None]
"""Device kind -> None where it runs there, else why it does not, or was never tried."""


def series_key(series: str) -> tuple[int, ...]:
    """Return what sorts series of Python by age: "3.9" is older than "3.10"."""
    return tuple(map(int, series.split(".")))


@dataclass(frozen=True)
class Variant:
    """A build of a framework line, with a lock of its own."""

    device: str
    """Kind of the devices that it is for."""
    pythons: tuple[str, ...] = ()
    """Series of Python that its lock supports ("3.11"); none: the agent's own interpreter."""
    compute_capabilities: tuple[str, ...] = ()
    """Of the GPUs that it is built for; any where empty."""
    driver: str | None = None
    """Least driver that it works with."""
    versions: tuple[str, ...] = ()
    """Of the main package in its lock, the newest last; older ones are for older Pythons."""
    machines: tuple[str, ...] = ("x86_64",)
    """CPU architectures that its lock has wheels for, as `uname -m` prints them."""
    axes: Mapping[str, Mapping[str, Support]] = field(default_factory=dict)
    """Axes of which it has other values than the line."""
    problem: str | None = None
    """What is wrong with its lock: the cases that are run from it are unavailable."""
    unlocked: str | None = None
    """Why it has no lock here, and where to get one: they are unavailable too, and no error."""


@dataclass(frozen=True)
class Combination:
    """Values that a line runs each, but not together."""

    when: Mapping[str, tuple[str, ...]]
    """Axis or another property of a case, as `workload`, `pipeline` or `device` -> values."""
    refused: str
    """Why the line does not run a case that has one of the values of every key."""


@dataclass(frozen=True)
class FrameworkInfo:
    """What the control plane knows of a framework line: its `framework.json`, as data."""

    line: str
    title: str
    version: str
    api: str
    """Which model file of a workload this line runs: `<api>.py`."""
    devices: Support
    variants: Mapping[str, Variant]
    axes: Mapping[str, Mapping[str, Support]]
    """Axis -> value -> where it runs. Axes that are not here have their default alone."""
    roles: Mapping[Strategy, tuple[Role, ...]] = field(default_factory=dict)
    """Processes of a gang, in the order of launch; see `roles_of`."""
    refused_workloads: Mapping[str, str] = field(default_factory=dict)
    """Workload that has a model file of the line's API -> why the line does not run it."""
    refused_combinations: tuple[Combination, ...] = ()
    launcher_env: frozenset[str] = frozenset()
    """Environment variables that the line's launcher sets: no file may."""
    commands: bool = False
    """It runs the commands of suites, and no workload of the catalog."""
    shares_ends: bool = False
    """Of a pipeline every device computes what stands before and after the layers."""
    whole_weights: bool = False
    """At `shard_stage: 2` every device keeps whole parameters."""
    keeps_casts: bool = False
    """Replicas keep what autocast has made of matrices and of their inputs until the backward."""
    drill_workload: str | None = None
    """What a drill measures that is given no suite."""
    for_tests: bool = False
    size_bytes: int = 0
    """Disk that the environment takes."""
    problem: str | None = None
    """What is wrong with the line's folder, a line for each problem: its cases are unavailable."""

    @property
    def oldest_python(self) -> str | None:
        """The oldest series of Python that runs the line; None: the agent's Python may run it."""
        each = [variant.pythons for variant in self.variants.values()]
        return min((p[0] for p in each), key=series_key) if each and all(each) else None

    def versions_of(self, variant: str) -> tuple[str, ...]:
        """The versions that the lock of one of its builds installs, the newest last."""
        known = self.variants.get(variant)
        return (known and known.versions) or (self.version,)

    def with_axes_of(self, variant: str) -> FrameworkInfo:
        """The line with the axes of one of its builds."""
        if variant not in self.variants:
            return self
        axes = dict(self.axes)
        for axis, values in self.variants[variant].axes.items():
            axes[axis] = {**axes.get(axis, {}), **values}
        return replace(self, axes=axes)

    def roles_of(self, strategy: Strategy) -> tuple[Role, ...]:
        """The roles of a strategy's processes: trainers alone unless the line says more."""
        return self.roles.get(strategy, TRAINERS)


@dataclass(frozen=True)
class WorkloadInfo:
    """What the control plane knows of a workload: its `spec.json`, as data."""

    name: str
    title: str
    unit: str
    """Unit of work counted, in the plural: images, samples, tokens."""
    frameworks: tuple[str, ...]
    """Lines for whose API the workload's folder has a model file."""
    strategies: tuple[Strategy, ...]
    scales: Mapping[str, Mapping[str, Any]]
    """Scale -> parameters (shapes, classes, vocabulary). `converges` marks a scale whose loss is
    proved to fall; `units_per_example` says how many units one example counts, 1 when absent.
    `by_sequence_length` has what depends on the axis of that name: length -> parameters."""
    parameters: int | None = None
    """Trainable parameters, where the workload fixes them."""
    seed: int = 1
    reads: str | None = None
    """Format of the real data that it can train on."""
    shards: str | None = None
    """List of the network's layers that `shard` gathers one by one; None: no case has it."""
    losses: ReferenceLosses | None = None
    """What the first steps' losses have to be; None where nobody states them."""
    tensor: tuple[str, ...] | None = None
    """Parameters of a scale that `tensor` has to divide; None: no case has it."""
    context: bool = False
    expert: str | None = None
    """Formula of the parameters that `expert` splits; None: no case has it."""
    pipeline: str | None = None
    """Formula of the parameters that the first and the last stage have each beside layers; None: no
    case has stages."""
    tokens: str | None = None
    """Formula of the tokens of an example, from the parameters; None for no language model."""
    forward_flops: Mapping[str, str] = field(default_factory=dict)
    """What is computed -> formula of its FLOPs in the forward pass of an example; empty where the
    workload states none (`core.model_flops`)."""
    computed_flops: Mapping[str, float] = field(default_factory=dict)
    """Of `forward_flops` -> how many times a trainer's step computes it, where that is not once."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """What of a layer or beyond -> formula of the values of a token that a device keeps at least
    for the backward pass; empty where the workload states none (`core.model_memory`)."""
    digest: str = ""
    """Digest of the spec: part of a case's definition."""
    problem: str | None = None
    """What is wrong with the workload's folder, for every line."""
    roles: tuple[Role, ...] = ()
    """Processes of a command; those of the line for the strategy where there are none."""
    broken_models: Mapping[str, str] = field(default_factory=dict)
    """API -> what is wrong with the model file for it."""

    def params_of(self, case: Case) -> dict[str, Any]:
        """The parameters that a case of this workload gets: its scale's, at its sequence length."""
        params = dict(self.scales.get(case.scale, {}))
        lengths = params.pop("by_sequence_length", {})
        if case.sequence_length is not None:
            params["sequence_length"] = case.sequence_length
            params.update(lengths.get(str(case.sequence_length), {}))
        return params


Accepted = Mapping[tuple[str, str], str | None]
"""Line and mode that a cluster's acceptance passed -> why that is due again, None if it holds."""


@dataclass(frozen=True)
class Catalog:
    """All framework lines and workloads that `benchmarks/` holds."""

    frameworks: Mapping[str, FrameworkInfo]
    workloads: Mapping[str, WorkloadInfo]
    code_digest: str
    """Digest of every file that is shipped to the nodes."""
    log_formats: tuple[str, ...] = ()
    """Names of the logs that the nodes can read."""
    accepted: Callable[[Cluster], Accepted] = lambda cluster: {}
    """What the acceptance of a cluster has shown of its own builds."""

    def roles_of(self, case: Case) -> tuple[Role, ...]:
        """The roles of a case's processes: a command has its own, else the line says them."""
        own = self.workloads[case.workload].roles
        return own or self.frameworks[case.framework].roles_of(case.strategy)

    def with_commands(self, suite: Suite) -> Catalog:
        """The catalog with the commands of a suite among the workloads."""
        if not suite.commands:
            return self
        return replace(self, workloads={**self.workloads, **suite.commands})

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong with a folder, with file and line."""
        found: list[str | None] = []
        for line in self.frameworks.values():
            found += [line.problem, *(variant.problem for variant in line.variants.values())]
        for workload in self.workloads.values():
            found += [workload.problem, *workload.broken_models.values()]
        said = (words for text in found if text for words in text.splitlines())
        return tuple(dict.fromkeys(said))
