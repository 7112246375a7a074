"""The measured work: a case with its axes, the protocol, the build of a framework."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from nightbench.core.model import values as v
from nightbench.core.model.words import Strategy

MAX_BATCH: Literal["max"] = "max"
"""In place of a batch size: the largest that fits."""


@dataclass(frozen=True)
class Protocol:
    """How a case is measured: the default is 20 steps ignored, 100 measured, 7 repeats."""

    warmup_steps: int = 20
    measured_steps: int = 100
    repeats: int = 7
    """With `confidence`: the most launches; otherwise exactly so many."""
    min_seconds: float = 0.0
    """The window continues after `measured_steps` until it is at least this long."""
    min_repeats: int | None = None
    """Adaptive: good repeats before the interval is looked at, at least 5."""
    confidence: float | None = None
    """Adaptive: no more repeats once the relative 95 % half-width is at most this."""

    @property
    def adaptive(self) -> bool:
        """Whether the number of repeats follows from their spread."""
        return self.confidence is not None


@dataclass(frozen=True)
class Case:
    """A case: everything that changes the work, and nothing else.

    A key at its default never appears in `case_id`, and defaults never change, so that slugs never
    change (see `docs/adr/`). The warehouse has a column for each, with these words.
    """

    workload: str
    """Workload that is trained."""
    framework: str
    """Framework line that trains it."""
    strategy: Strategy
    """single, collective (data parallel) or parameter_server."""
    nodes: int = 1
    """Nodes with trainers."""
    devices_per_node: int = 1
    """Devices that are used on each node."""
    trainers: int = 1
    """Ranks: nodes x devices for `collective`, the trainers of a parameter server."""
    pservers: int = 0
    """Parameter servers; 0 without."""
    batch_size_per_device: int | Literal["max"] = 1
    """Samples in a step of one trainer; if several trainers compute the same samples, the part of
    this trainer. `max` (null in the warehouse): the largest batch that fits, found by the run."""
    shard: int = 1
    """Devices that share a copy of what `shard_stage` splits; the copies are replicas (HSDP)."""
    shard_stage: int | None = None
    """Sharded parts: 1 optimizer states, 2 gradients as well, 3 parameters as well; null: none."""
    tensor: int = 1
    """Devices that split each matrix; all of them compute the same samples: the samples of all
    their batches."""
    context: int = 1
    """Devices that split each sequence; they compute the same samples, too. Each device has all
    weights or a shard of the weights; shards may be on devices of one context."""
    expert: int = 1
    """Devices that split the experts of each layer; each computes samples of its own."""
    pipeline: int = 1
    """Devices that split the layers, one or two stages each; they compute the same samples, too."""
    schedule: str | None = None
    """Order in which parts of a batch go through a pipeline, such as 1f1b; null without one."""
    micro_batches: int = 1
    """Parts of a step's batch, one after another; their gradients are summed up."""
    recompute: str = "none"
    """Part of a layer's forward pass that its backward computes again: none, selective, full."""
    state_precision: str = "fp32"
    """Precision of the optimizer's states between steps: fp32, as parameters, or bf16."""
    tuning: str = "default"
    """Name of a setting of switches that only this line has; default: the line's defaults."""
    precision: str = "fp32"
    """fp32, tf32, bf16 or fp16."""
    sync: str = "sync"
    """How parameter servers are updated: sync, async, half_async, geo; null without servers."""
    compiler: str = "none"
    """none, xla, inductor, cinn."""
    execution: str = "default"
    """Way of execution; default: the framework line chooses (eager or graph)."""
    layout: str = "default"
    """Memory layout of activations; default: the framework's."""
    sequence_length: int | None = None
    """Tokens of a sample; null if it has none."""
    compression: str = "none"
    """Compression of gradients: none, or dgc."""
    link_bandwidth: str = "full"
    """Limit of the network links, such as 1gbit; full: no limit."""
    threads: int | None = None
    """Threads of each process; null: see `threads` of a suite."""
    sparsity: float | None = None
    """Percent of the gradients that a compression leaves out of an exchange."""
    cpus: int | None = None
    """Exclusive cores of each process; null: processes share the cores of their node."""
    memory_mb: int | None = None
    """Megabytes (10^6 bytes) that each process may use; null: no limit."""
    data: str = "synthetic"
    """synthetic, or what is read."""
    scale: str = "full"
    """full, as published; smoke, small enough for two cores."""

    @property
    def case_id(self) -> str:
        """Readable slug, for example `resnet50_v1.5-pytorch-collective-2x1-bs2-smoke`."""
        strategy = "ps" if self.strategy is Strategy.PARAMETER_SERVER else self.strategy.value
        parts = [self.workload, self.framework, strategy]
        if self.strategy is Strategy.PARAMETER_SERVER:
            parts.append(f"{self.pservers}ps{self.trainers}tr")
            if (self.nodes, self.devices_per_node) != (self.trainers, 1):
                parts.append(f"{self.nodes}x{self.devices_per_node}")
        else:
            parts.append(f"{self.nodes}x{self.devices_per_node}")
        parts.append(f"bs{self.batch_size_per_device}")
        for axis, prefix in _OPTIONAL_AXES:
            value = getattr(self, axis)
            if value != _AXIS_DEFAULTS[axis]:
                written = f"{value:g}" if isinstance(value, float) else value
                parts.append(f"{prefix}{written}")
        return "-".join(parts)

    @property
    def mode(self) -> str:
        """The features that a line must support for it: its strategy, then non-default axes.

        `single bf16 xla`, `collective shard2`.
        """
        axes = (axis for axis, default in LINE_AXES.items() if getattr(self, axis) != default)
        words = {"data": "", **{axis: word or "" for axis, (_, word) in _SPLITS.items()}}
        found = (words.get(axis, "{}").format(getattr(self, axis)) for axis in axes)
        return " ".join(filter(None, found))

    def axes(self) -> dict[str, Any]:
        """All axes by name, as JSON values."""
        return {k: (str(v) if isinstance(v, StrEnum) else v) for k, v in vars(self).items()}

    def defining_axes(self) -> dict[str, Any]:
        """The axes that a definition's digest covers.

        Axes at their defaults are left out, so that a new axis cuts no history.
        """
        return {k: v for k, v in self.axes().items() if v != _AXIS_DEFAULTS[k]}

    @classmethod
    def from_axes(cls, axes: Mapping[str, Any]) -> Case:
        """The inverse of `axes`."""
        return cls(**{**axes, "strategy": Strategy(axes["strategy"])})


_SPLITS: Mapping[str, tuple[str, str | None]] = {
    "shard": ("shard", None),
    "shard_stage": ("stage", "shard{}"),
    "tensor": ("tensor", "tensor"),
    "context": ("context", "context"),
    "expert": ("expert", "expert"),
    "pipeline": ("pipeline", None),
    "schedule": ("", "{}"),
    "micro_batches": ("micro", "micro_batches"),
    "recompute": ("recompute_", "recompute_{}"),
    "state_precision": ("states_", "states_{}"),
    "tuning": ("", "{}"),
}
"""Axis -> text before its value in slugs, and name of a configuration with it; None: lines declare
nothing of it. `test_equal_axes` and its neighbours say where else an axis has to be."""
SPLIT_AXES = tuple(_SPLITS)
"""How work is split, what of it is kept, and switches of a line."""

_OPTIONAL_AXES: tuple[tuple[str, str], ...] = (
    *((axis, prefix) for axis, (prefix, _) in _SPLITS.items()),
    ("sequence_length", "seq"),
    ("precision", ""),
    ("sync", ""),
    ("compiler", ""),
    ("execution", ""),
    ("layout", ""),
    ("compression", ""),
    ("link_bandwidth", "link"),
    ("threads", "threads"),
    ("sparsity", "sparsity"),
    ("cpus", "cpus"),
    ("memory_mb", "memory"),
    ("data", ""),
    ("scale", ""),
)


_AXIS_DEFAULTS: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(Case)}

_DECLARED = (
    *("sync", "precision", "compiler", "execution", "layout", "compression", "data"),
    *(axis for axis, (_, word) in _SPLITS.items() if word),
)
LINE_AXES: Mapping[str, str | int | None] = {
    "strategy": None,
    **{axis: _AXIS_DEFAULTS[axis] for axis in _DECLARED},
}
"""Axes whose values a framework line declares -> the value that every line has. For a number, a
line declares whether it supports more than one: `several`."""
SEVERAL = "several"


def _pair(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) != 2:
        raise ValueError(f"found {len(values)} losses; expected two: of the first and third step")
    return values


_Pair = Annotated[v.Many[float], AfterValidator(_pair)]


class ReferenceLosses(v.StrictModel):
    """Losses of the first and third step in float32 on a CPU, without dropout."""

    scale: v.Name
    """Scale at which these losses were computed."""
    batch_size_per_device: v.Count
    """Samples of a step."""
    first: v.Some[float]
    """Loss of the initial weights on the first batch of rank 0, 1, ..."""
    third: Annotated[dict[v.Name, v.Some[float]], Field(min_length=1)]
    """For each number of ranks, the loss of each rank's third step, after two updates."""
    together: dict[v.Name, _Pair] = Field({})
    """For each number of ranks that compute the samples of all of them together (`tensor`,
    `context`, `pipeline`), the loss of the first and of the third step."""

    def of(self, case: Case) -> ReferenceLosses | None:
        """Return them if they are those of a case, else None."""
        same = (case.scale, case.batch_size_per_device) == (self.scale, self.batch_size_per_device)
        if not same or case.data != Case.data or case.sequence_length is not None:
            return None
        ranks = case.tensor * case.context * case.pipeline
        if ranks == 1:
            return self
        shared = self.together.get(str(ranks))
        if shared is None or ranks != case.trainers:
            return None
        first, third = ((loss,) * ranks for loss in shared)
        return self.model_copy(update={"first": first, "third": {str(ranks): third}})


@dataclass(frozen=True)
class Build:
    """Which build of a framework line is run: an attribute of a run, never of a case."""

    line: str
    variant: str = "cpu"
    """Which lock of the line's folder: `cpu`, `cu126`, ..."""
    source: str = "index"
    """`index` (the line's lock), `wheel` (a file that the controller ships), `path` (a prefix
    that the site prepared on its nodes) or `image`."""
    version: str | None = None
    """Another version than the lock's (`index`), or what the wheel says of itself."""
    location: str | None = None
    """The wheel's path on the controller, the prefix on the nodes, or the image."""
    digest: str | None = None
    """sha256 of the wheel or of the image."""

    @property
    def build_id(self) -> str:
        """Readable and unique: `pytorch-cpu-index-2.13.0`, `paddle3-cpu-wheel-1a2b3c4d`."""
        tail = self.digest[:8] if self.digest else (self.version or "locked")
        if self.source == "path" and self.location:
            tail = hashlib.sha256(self.location.encode()).hexdigest()[:8]
        return f"{self.line}-{self.variant}-{self.source}-{tail}"
