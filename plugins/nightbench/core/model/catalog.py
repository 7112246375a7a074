"""What suites choose from: framework lines with their builds, and workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from nightbench.core.model import values as v
from nightbench.core.model.cases import LINE_AXES, Case, ReferenceLosses
from nightbench.core.model.words import Strategy


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


_PLACES = ("trainers", "nodes", "devices_per_node", "pipeline")
_KEYS = (*LINE_AXES, *_PLACES, "workload", "optimizer", "device", "replicas")


def _values(value: Any) -> tuple[str, ...]:
    """One value, or a list of them, as text."""
    values = value if isinstance(value, list | tuple) else [value]
    if not values or not all(isinstance(x, str | int) and not isinstance(x, bool) for x in values):
        raise ValueError(f"found {value!r}; expected a value, or a list of values")
    return tuple(str(each) for each in values)


def _several(when: dict[str, Any]) -> dict[str, Any]:
    if len(when) < 2:
        found = ", ".join(when) or "nothing"
        raise ValueError(f"found {found}; expected several axes: a single value stands in `axes`")
    return when


_Of = Annotated[str, v.among(_KEYS), v.Words("axis")]
_Values = Annotated[Any, AfterValidator(_values), v.Words("value or list of values")]


class Combination(v.StrictModel):
    """Values of several axes that a line runs each, but not together."""

    when: Annotated[dict[_Of, _Values], AfterValidator(_several)]
    """Axis, `workload`, `trainers`, `nodes`, `devices_per_node`, `pipeline`, `optimizer` (the
    workload's), `device` (its kind) or `replicas` (`several` where `shard`, `tensor` and `pipeline`
    leave copies of a model): its value, or a list of values of which one is enough. All keys have
    to hold. Of real data the value is the format.
    """
    refused: v.Text
    """The reason for users."""


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
