"""Workloads, as `spec.json` says them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from nightbench.core.model import values as v
from nightbench.core.model.cases import Case, ReferenceLosses
from nightbench.core.model.catalog import Role, StrategyName


def _truly(value: Any) -> Any:
    """A parameter of a scale: any JSON value."""
    return value


class Kept(v.StrictModel):
    """Values that a device keeps for the backward pass at least: formulas, each of one token."""

    layer: v.Text
    """Values of a layer that computes nothing again."""
    products: v.Text
    """Values of a layer that keeps its input and the results of products and attention: `recompute:
    selective`, or a compiler that computes the rest again."""
    input: v.Text
    """Values of a layer that keeps only its input: `recompute: full`."""
    logits: v.Text
    """Beyond the layers, in float32."""
    gathered: v.Text | None = None
    """Part of `layer`: the inputs of matrices that `tensor` splits; each device has all of them."""
    cast: v.Text | None = None
    """Values that a layer keeps in addition to `layer` if autocast leaves residuals in float32 and
    casts the input of each matrix (`keeps_casts`); counted in values of 16 bits."""
    matrices: v.Text | None = None
    """Weights of a layer, of all tokens, that it then keeps in 16 bits, too."""

    def formulas(self) -> dict[str, str]:
        """Return those that are given."""
        return {name: formula for name, formula in dict(self).items() if formula is not None}


class Cost(v.StrictModel):
    """Model FLOPs, tokens and memory of an example."""

    source: v.Text
    """Operations that the formulas count and leave out, and the source of the formulas."""
    forward: Annotated[dict[v.Text, v.Text], Field(min_length=1)]
    """Part of the model: formula of its FLOPs in the forward pass of one example. A multiply-add of
    matrix products and convolutions counts 2. Formulas have numbers and parameters of the scale, `+
    - * / **` and `sum(a list)`. Training needs three times the sum."""
    computed: dict[v.Text, Annotated[float, Field(ge=0)]] = Field({})
    """Part of `forward`: how often a step computes it as matrix products and convolutions, if not
    once. Examples: 2 for attention that also computes its masked half, 2/3 without the gradient of
    images, 0 for sums. The check `work_done` compares counters with it."""
    tokens: v.Text | None = None
    """Formula of the tokens of one example, of a language model."""
    kept: Kept | None = None
    """Memory that layers keep, to predict what fits into a device; `layers` and `sequence_length`
    are parameters of each scale. Without it only weights, gradients and optimiser states are
    counted."""


class Tensor(v.StrictModel):
    """Matrices that devices split, by the last name of the module that holds them."""

    columns: v.Some[v.Text]
    """Each device computes a part of what comes out."""
    rows: v.Some[v.Text]
    """Each device takes a part of what goes in; sums follow."""
    norms: v.Some[v.Text]
    """Norms, of which each device has a part of every sequence."""
    divides: v.Some[v.Text]
    """Parameters of a scale that the number of devices has to divide."""


class Experts(v.StrictModel):
    """Experts that devices split; `experts`, a parameter of each scale, is how many a layer has."""

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
    """Formula of the parameters in the modules of either, as in `cost`: the lesser, where they
    differ."""
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
    scales: Annotated[
        dict[v.Name, dict[str, Annotated[Any, AfterValidator(_truly)]]], Field(min_length=1)
    ]
    """Scale: its parameters for the implementation (shapes, classes, hyper-parameters). `converges`
    marks a scale at which tests prove that the loss decreases. `units_per_example` is the number of
    units in one example of a batch [default: 1]. `by_sequence_length` has the parameters that
    depend on the axis `sequence_length`, for each of its values; without it every length is
    accepted."""
    shards: v.Name | None = None
    """List of the network's layers, `layers`, each of which is gathered by itself where `shard`
    splits training over devices. Without it the workload is never split."""
    tensor: Tensor | None = None
    """How `tensor` splits matrices; without this key no matrix is split."""
    context: v.Some[v.Text] | None = None
    """Tables of the network by position, which `context` cuts as it cuts sequences; without it
    none are cut."""
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
    """Processes of a command; those of the line for the strategy where there are none."""
    parameters: v.Count | None = None
    """Trainable parameters, where the workload fixes them."""
    first_step_batch_size: v.Count | None = None
    """Samples of the one step that compares the lines [default: 8]."""
    seed: v.Whole = 1
    """Seed of weights and data."""
    losses: ReferenceLosses | None = None
    """Reference for the first losses of every configuration of every line."""
    cost: Cost | None = None
    """Cost of an example; without it there is neither MFU nor tokens per second."""
    replaces: bool = False
    """In a project's folder: replaces the built-in one of the same name."""
    reads: v.Name | None = None
    """Format of real data that its `data.py` reads: a module of `benchmarks/readers`. Without it
    there is `data: synthetic` alone."""
    description: str = ""
    """Description and origin."""
    definition: dict[str, Any] = Field({})
    """Other properties that define the work (optimiser, initialisation, layers). A change starts a
    new segment of the history."""

    def params_of(self, case: Case) -> dict[str, Any]:
        """The parameters that a case of this workload gets: its scale's, at its sequence length."""
        params = dict(self.scales.get(case.scale, {}))
        lengths = params.pop("by_sequence_length", {})
        if case.sequence_length is not None:
            params["sequence_length"] = case.sequence_length
            params.update(lengths.get(str(case.sequence_length), {}))
        return params
