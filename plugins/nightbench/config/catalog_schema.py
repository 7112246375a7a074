"""What `framework.json` and `spec.json` may say. The reference pages come from these classes."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from nightbench.core.complaints import any_of, describe
from nightbench.core.model import LINE_AXES, Combination, ReferenceLosses, Strategy, series_key
from nightbench.core.model import values as v


def _support(value: Any) -> Any:
    """True, a reason or why nobody has tried it; or these by device kind."""
    by_kind = isinstance(value, dict) and value and "untried" not in value
    if not all(map(_is_answer, value.values() if by_kind else [value])):
        raise ValueError(
            f"found {describe(value)}; expected true, the reason why not, "
            '{"untried": "why nobody has run it"}, or one of these for each device kind: '
            '{"gpu": true, "cpu": "why not"}'
        )
    return value


def _is_answer(value: Any) -> bool:
    if isinstance(value, dict) and list(value) == ["untried"]:
        value = value["untried"] or None
        return isinstance(value, str)
    return value is True or (isinstance(value, str) and value != "")


def _number(value: Any) -> Any:
    """A number of processes: at least 1, or the axis that says it."""
    if not (value in _COUNTS if isinstance(value, str) else type(value) is int and value >= 1):
        raise ValueError(
            f"found {describe(value)}; expected a whole number of at least 1, or "
            + any_of(_COUNTS).removeprefix("one of ")
        )
    return value


def _ascending(pythons: tuple[str, ...]) -> tuple[str, ...]:
    expected = tuple(sorted(set(pythons), key=series_key))
    if pythons != expected:
        raise ValueError(f"found {', '.join(pythons)}; expected {', '.join(expected)}")
    return pythons


_COUNTS = ("nodes", "pservers", "trainers")
_Support = Annotated[
    Any,
    AfterValidator(_support),
    v.Words("true, the reason why not, or `untried` with the reason"),
]
_Kind = Annotated[str, v.among(("cpu", "gpu")), v.Words("device kind")]
_Axis = Annotated[str, v.among(LINE_AXES), v.Words("axis")]
_Strategy = Annotated[str, v.among([str(each) for each in Strategy]), v.Words("strategy")]
_RoleName = Annotated[v.Name, v.Words("role")]
_Variant = Annotated[v.Name, v.Words("variant")]


class IndexFile(v.StrictModel):
    """A package index that holds what the default index does not."""

    url: v.Text
    """Its address, as for `--index-url`."""
    options: v.Many[v.Text] = ()
    """Options of `uv pip install` that take packages from it; `--index URL` unless given."""


class VariantFile(v.StrictModel):
    """A build of a line for one kind of devices, with a lock `requirements-<variant>.lock`."""

    device: _Kind
    """Devices that it is for: `cpu` or `gpu`."""
    pythons: Annotated[v.Many[v.Series], AfterValidator(_ascending)] = ()
    """Series of Python that its lock supports, ascending: `["3.11", "3.12"]`. A node uses the
    newest of them that it has, or one that uv downloads. Without this key the variant has no
    environment: the agent's own interpreter runs it."""
    index: IndexFile | None = None
    """Where it comes from, unless the site has folders of wheels; the default index unless given.
    """
    package: v.Name | None = None
    """Name of its main package where it is not the line's."""
    version: v.Text | None = None
    """Version that its lock installs, if it is not the line's."""
    unlocked: v.Text | None = None
    """Why no lock of it ships, and where a site gets one: the reason for users as long as there is
    none."""
    cuda: v.Text | None = None
    """CUDA that it is built with, `13.0` say."""
    driver: v.Text | None = None
    """Least driver that it works with. A node with an older one, or with none, is told so before
    anything is built."""
    compute_capabilities: v.Many[v.Text] = ()
    """Compute capabilities of the GPUs that it works on, `8.0` say; any unless given. A node with
    another GPU is told so before anything is built."""
    machines: v.Some[Literal["x86_64", "aarch64"]] = ("x86_64",)
    """CPU architectures that its lock has wheels for, as `uname -m` prints them."""
    size_bytes: v.Whole | None = None
    """Disk that its environment takes; the line's unless given."""
    axes: dict[_Axis, dict[v.Name, _Support]] = Field({})
    """What this build has and the line has not, or the other way round: it stands for the line's
    answer to the same value of the same axis."""


class RoleFile(v.StrictModel):
    """The processes of one role in a gang: `trainer-0`, `trainer-1` and so on."""

    count: Annotated[Any, AfterValidator(_number), v.Words("whole number, or axis")]
    """How many, or the axis of the case that says it: `trainers`, `pservers`, `nodes`."""
    place: Literal["spread", "fill", "lead"] = "spread"
    """Where: on the nodes in turn (`spread`), on a node's devices before the next node's (`fill`),
    on the first node (`lead`)."""
    measured: bool = False
    """Its steps are timed, and it ends by itself. Others serve until all that are measured have
    ended; then the agent ends them."""
    device: bool | None = None
    """It gets a GPU of its own; as `measured` unless given."""


class FrameworkFile(v.StrictModel):
    """A framework line: `benchmarks/frameworks/<line>/framework.json`."""

    line: v.Name
    """Name of the line: the folder's name."""
    title: v.Text
    """How people call it."""
    version: v.Text
    """Version that the locks install."""
    package: v.Name | None = None
    """Name of its wheel on the index; null where there is none."""
    api: v.Name
    """Which file of a workload's folder holds the network for this line: `<api>.py`. Lines that
    speak one language share it."""
    commands: bool = False
    """It runs the `commands` of suites, by `launch.py` alone, and no workload."""
    devices: Annotated[dict[_Kind, _Support], Field(min_length=1)]
    """Device kinds that its runtime knows."""
    variants: Annotated[dict[_Variant, VariantFile], Field(min_length=1)]
    """Its builds; the first for a cluster's devices is taken unless another is named."""
    axes: dict[_Axis, dict[v.Name, _Support]]
    """Axis: its values, each with true where the line really honours it, else with the reason for
    users, or with a mapping of device kinds to these. An axis that is left out has its default
    alone; `strategy` has none."""
    roles: dict[_Strategy, dict[_RoleName, RoleFile]] = Field({})
    """Strategy: the roles of its processes, in the order of launch. Unless given, trainers alone,
    which fill the nodes."""
    refused_workloads: dict[v.Name, v.Text] = Field({})
    """Workload with a model file of the line's API that the line does not run: the reason for
    users."""
    refused_combinations: v.Many[Combination] = ()
    """Values that the line runs each, but not together: a suite that asks for them is refused, or
    skips these cases where it may."""
    launcher_env: v.Many[v.Text] = ()
    """Environment variables that `launch.py` sets from case and cluster: no file may set them."""
    controls: dict[_Kind, v.Text] = Field({})
    """Device kind: script of this folder that measures the speed of all devices of a node, run by
    the line's interpreter (see benchmarks/README.md)."""
    shares_ends: bool = False
    """Of a `pipeline` every device computes what stands before and after the layers, for samples of
    its own; else the first and the last stage do. For the memory that a case needs."""
    whole_weights: bool = False
    """At `shard_stage: 2` every device keeps whole parameters; else they are split, too, and
    gathered once a step. For the memory that a case needs."""
    keeps_casts: bool = False
    """In bf16 and fp16 replicas keep until the backward what autocast has made of matrices and of
    their inputs. For the memory that a case needs."""
    drill_workload: v.Name | None = None
    """Workload that `nightbench drill` slows down where no suite is named."""
    replaces: bool = False
    """In a project's folder: it takes the place of the built-in one of the same name."""
    for_tests: bool = False
    """No framework, but a stand-in for tests."""
    size_bytes: v.Whole = 0
    """Disk that the environment takes."""
    libraries: dict[v.Text, v.Text] = Field({})
    """Shared libraries that the wheels need and do not bring, `libgomp.so.1` say: name -> where a
    package of the lock has it, a path with wildcards below site-packages. The environment's
    interpreter loads them when it starts."""


def _truly(value: Any) -> Any:
    """A parameter of a scale: any JSON value."""
    return value


class KeptFile(v.StrictModel):
    """Values that a device keeps for the backward pass at least: formulas, each of one token."""

    layer: v.Text
    """Of a layer of which nothing is computed again."""
    products: v.Text
    """Of a layer that keeps its input and what products and attention gave: `recompute:
    selective`, or a compiler that computes the rest again."""
    input: v.Text
    """Of a layer that keeps its input alone: `recompute: full`."""
    logits: v.Text
    """Beyond the layers, in float32."""
    gathered: v.Text | None = None
    """Of `layer`, the inputs of matrices that `tensor` splits: each device has those of all."""
    cast: v.Text | None = None
    """What a layer keeps beyond `layer` where autocast leaves residuals in float32 and casts the
    input of each matrix (`keeps_casts`); counted in values of 16 bits."""
    matrices: v.Text | None = None
    """Weights of a layer, of all tokens, that it then keeps in 16 bits, too."""

    def formulas(self) -> dict[str, str]:
        """Return those that are given."""
        return {name: formula for name, formula in dict(self).items() if formula is not None}


class CostFile(v.StrictModel):
    """Model FLOPs, tokens and memory of an example."""

    source: v.Text
    """What the formulas count and leave out, and where they are from."""
    forward: Annotated[dict[v.Text, v.Text], Field(min_length=1)]
    """What is computed: formula of its FLOPs in the forward pass of one example, 2 for each
    multiply-add of matrix products and convolutions, from numbers and parameters of the scale with
    `+ - * / **` and `sum(a list)`. Training takes three times the sum."""
    computed: dict[v.Text, Annotated[float, Field(ge=0)]] = Field({})
    """Of `forward`: how many times a step computes it as matrix products and convolutions, forward
    and backward, where that is not once: 2 for attention whose masked half is computed too, 2/3
    without the gradient of images, 0 for sums. The check `work_done` compares counters with it."""
    tokens: v.Text | None = None
    """Formula of the tokens of one example, of a language model."""
    kept: KeptFile | None = None
    """What layers keep, for what fits into a device; `layers` and `sequence_length` are parameters
    of each scale. Without it weights, gradients and optimiser states are counted alone."""


class TensorFile(v.StrictModel):
    """Matrices that devices split, by the last name of the module that holds them."""

    columns: v.Some[v.Text]
    """Each device computes a part of what comes out."""
    rows: v.Some[v.Text]
    """Each device takes a part of what goes in; sums follow."""
    norms: v.Some[v.Text]
    """Norms, of which each device has a part of every sequence."""
    divides: v.Some[v.Text]
    """Parameters of a scale that the number of devices has to divide."""


class ExpertsFile(v.StrictModel):
    """Experts that devices split; `experts`, a parameter of each scale, is how many a layer has."""

    modules: v.Some[v.Text]
    """Modules whose weights have experts in their first dimension, by their last name."""
    parameters: v.Text
    """Formula of the parameters in them, as in `cost`."""


class StagesFile(v.StrictModel):
    """What the first and the last stage have next to layers (`shards`), and what they take."""

    first: v.Some[v.Text]
    """Modules of the first stage."""
    last: v.Some[v.Text]
    """Modules of the last one."""
    parameters: v.Text = "0"
    """Formula of the parameters in the modules of either, as in `cost`: the lesser, where they
    differ."""
    input: v.Text
    """What of a batch the first takes."""
    target: v.Text
    """What of a batch the last one's loss takes."""


class SpecFile(v.StrictModel):
    """A workload: `benchmarks/workloads/<workload>/spec.json`."""

    name: v.Name
    """Name of the workload: the folder's name."""
    title: v.Text
    """How people call it."""
    unit: v.Name
    """Unit of work that is counted, in the plural: `images`, `tokens`."""
    strategies: v.Some[_Strategy]
    """Strategies that it is written for."""
    scales: Annotated[
        dict[v.Name, dict[str, Annotated[Any, AfterValidator(_truly)]]], Field(min_length=1)
    ]
    """Scale: its parameters (shapes, classes, hyper-parameters), handed to the implementation;
    `converges` marks a scale at which the loss is proved to fall; `units_per_example` says how many
    units one example of a batch counts (1 when absent); `by_sequence_length` has for each value of
    the axis `sequence_length` the parameters that depend on it (without it, any length is taken).
    """
    shards: v.Name | None = None
    """List of the network's layers, `layers`, each of which is gathered by itself where `shard`
    splits training over devices. Without it the workload is never split."""
    tensor: TensorFile | None = None
    """How `tensor` splits matrices; without it none is."""
    context: v.Some[v.Text] | None = None
    """Tables of the network by position, which `context` cuts as it cuts sequences; without it
    none are cut."""
    expert: ExpertsFile | None = None
    """How `expert` splits the experts of layers; without it no case has it."""
    pipeline: StagesFile | None = None
    """How `pipeline` splits the network; without it no case has it."""
    parameters: v.Count | None = None
    """Trainable parameters, where the workload fixes them."""
    first_step_batch_size: v.Count | None = None
    """Samples of the one step by which lines are held against each other; 8 unless given."""
    seed: v.Whole = 1
    """Seed of weights and data."""
    losses: ReferenceLosses | None = None
    """What the first losses of every mode of every line are held against."""
    cost: CostFile | None = None
    """What an example costs; without it there is neither MFU nor tokens per second."""
    replaces: bool = False
    """In a project's folder: it takes the place of the built-in one of the same name."""
    reads: v.Name | None = None
    """Format of real data that its `data.py` reads: a module of `benchmarks/readers`. Without it
    there is `data: synthetic` alone."""
    description: str = ""
    """What it is and where it is from."""
    definition: dict[str, Any] = Field({})
    """What else defines the work (optimiser, initialisation, layers), for people and for the digest
    that starts a new segment of the history when it changes."""
