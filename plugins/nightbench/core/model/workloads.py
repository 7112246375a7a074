"""Workloads, as `spec.json` says them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from nightbench.core.model import values as v
from nightbench.core.model.cases import Case, ReferenceLosses
from nightbench.core.model.catalog import Role, StrategyName


class Kept(v.StrictModel):
    """Smallest number of values that a device keeps for the backward pass, for one token."""

    layer: v.Text
    """Values that a layer keeps without recomputation."""
    products: v.Text
    """Values of a layer that keeps its input and the results of products and attention: `recompute:
    selective`, or a compiler that computes the rest again."""
    input: v.Text
    """Values of a layer that keeps only its input: `recompute: full`."""
    logits: v.Text
    """Values outside of the layers, in float32."""
    gathered: v.Text | None = None
    """Part of `layer`: the inputs of matrices that `tensor` splits; each device has all of them."""
    cast: v.Text | None = None
    """Values that a layer keeps in addition to `layer` if autocast leaves residuals in float32 and
    casts the input of each matrix (`keeps_casts`); counted in values of 16 bits."""
    matrices: v.Text | None = None
    """Weights of a layer that it also keeps in 16 bits if it keeps `cast`; not for each token."""

    def formulas(self) -> dict[str, str]:
        """Return those that are given."""
        return {name: formula for name, formula in dict(self).items() if formula is not None}


class Cost(v.StrictModel):
    """Model FLOPs, tokens and memory of an example."""

    source: v.Text
    """Operations that the formulas count and leave out, and the source of the formulas."""
    forward: Annotated[dict[v.Text, v.Text], Field(min_length=1)]
    """For each part of the model, the formula of its FLOPs in the forward pass of one example. A
    multiply-add of matrix products and convolutions counts 2. Formulas have numbers and parameters
    of the scale, `+ - * / **` and `sum(a list)`. Training needs three times the sum."""
    computed: dict[v.Text, Annotated[float, Field(ge=0)]] = Field({})
    """For each part of `forward`, how often a step computes it as matrix products and convolutions,
    if not once. Examples: 2 for attention that also computes its masked half, 2/3 without the
    gradient of images, 0 for sums. The check `work_done` compares counters with it."""
    tokens: v.Text | None = None
    """Formula of the number of tokens in one example of a language model."""
    kept: Kept | None = None
    """Memory that layers keep, to predict what fits into a device; `layers` and `sequence_length`
    are parameters of each scale. Without it only weights, gradients and optimizer states are
    counted."""


class Tensor(v.StrictModel):
    """Matrices that devices split, by the last part of the name of their module."""

    columns: v.Some[v.Text]
    """Matrices of which each device computes a part of the output."""
    rows: v.Some[v.Text]
    """Matrices of which each device uses a part of the input; then the results are summed."""
    norms: v.Some[v.Text]
    """Norms that each device computes for a part of every sequence."""
    divides: v.Some[v.Text]
    """Parameters of a scale that must be multiples of the number of devices."""


class Experts(v.StrictModel):
    """Experts that devices split. `experts` of each scale is the number of experts in a layer."""

    modules: v.Some[v.Text]
    """Modules whose weights have the experts as first dimension, by the last part of their name."""
    parameters: v.Text
    """Formula of the number of parameters in these modules, as in `cost`."""


class Stages(v.StrictModel):
    """Modules of the first and the last stage in addition to layers (`shards`), and their input."""

    first: v.Some[v.Text]
    """Modules of the first stage."""
    last: v.Some[v.Text]
    """Modules of the last stage."""
    parameters: v.Text = "0"
    """Formula of the number of parameters in the modules of the first or the last stage, as in
    `cost`: the smaller number."""
    input: v.Text
    """The part of a batch that the first stage reads."""
    target: v.Text
    """The part of a batch that the loss of the last stage reads."""


class WorkloadInfo(v.StrictModel):
    """A workload: `benchmarks/workloads/<workload>/spec.json`."""

    name: v.Name
    """Name of the workload: the folder's name."""
    title: v.Text
    """Full name, as users know it."""
    unit: v.Name
    """Unit of work that is counted, in the plural: `images`, `tokens`."""
    strategies: v.Some[StrategyName]
    """Strategies for which the workload is implemented."""
    scales: Annotated[dict[v.Name, dict[str, Any]], Field(min_length=1)]
    """For each scale, its parameters for the implementation (shapes, classes, hyper-parameters).
    `converges` marks a scale at which tests prove that the loss decreases. `units_per_example` is
    the number of units in one example of a batch [default: 1]. `by_sequence_length` has the
    parameters that depend on the axis `sequence_length`, for each of its values; without it every
    length is accepted."""
    shards: v.Name | None = None
    """Name of the network's list of layers, `layers`. With `shard`, each of these layers is
    gathered separately. Without this key no case uses `shard`."""
    tensor: Tensor | None = None
    """How `tensor` splits matrices; without this key no matrix is split."""
    context: v.Some[v.Text] | None = None
    """Tables of the network with a row for each position, which `context` splits like the
    sequences. Without this key no table is split."""
    expert: Experts | None = None
    """How `expert` splits the experts of layers; without this key no case uses `expert`."""
    pipeline: Stages | None = None
    """How `pipeline` splits the network; without this key no case uses `pipeline`."""
    frameworks: Annotated[tuple[str, ...], v.DERIVED] = ()
    """Lines for whose API the workload's folder has a model file."""
    digest: Annotated[str, v.DERIVED] = ""
    """Digest of what every case of it does: part of a case's definition."""
    problem: Annotated[str | None, v.DERIVED] = None
    """Problem of the workload's folder, for every line."""
    broken_models: Annotated[dict[str, str], v.DERIVED] = Field({})
    """API -> what is wrong with the model file for it."""
    roles: Annotated[tuple[Role, ...], v.DERIVED] = ()
    """Processes of a command; those of the line for the strategy if there are none."""
    parameters: v.Count | None = None
    """Number of trainable parameters, if the workload fixes it."""
    first_step_batch_size: v.Count | None = None
    """Batch size of the first step, by which tests compare the framework lines [default: 8]."""
    steady_batch_size: v.Count = 1
    """Smallest batch size per device at which rounding hardly changes the losses of the first 6
    steps at the smallest scale. For example, a batch norm of two examples may divide by a deviation
    of almost 0."""
    seed: v.Whole = 1
    """Seed of weights and data."""
    losses: ReferenceLosses | None = None
    """Reference for the first losses of every configuration of every line."""
    cost: Cost | None = None
    """Cost of an example; without it there is neither MFU nor tokens per second."""
    replaces: bool = False
    """In a project's folder, true replaces the built-in workload of the same name."""
    reads: v.Name | None = None
    """Format of real data that its `data.py` reads: a module of `benchmarks/readers`. Without it
    there is `data: synthetic` alone."""
    description: str = ""
    """Description and origin."""
    definition: dict[str, Any] = Field({})
    """Other properties that define the work (optimizer, initialisation, layers). A change starts a
    new segment of the history."""

    def increases_rounding(self, case: Case) -> bool:
        """Whether the batch of a case is smaller than `steady_batch_size`."""
        batch_size = case.batch_size_per_device
        return batch_size != "max" and batch_size < self.steady_batch_size

    def params_of(self, case: Case) -> dict[str, Any]:
        """The parameters that a case of this workload gets: its scale's, at its sequence length."""
        params = dict(self.scales.get(case.scale, {}))
        lengths = params.pop("by_sequence_length", {})
        if case.sequence_length is not None:
            params["sequence_length"] = case.sequence_length
            params.update(lengths.get(str(case.sequence_length), {}))
        return params
