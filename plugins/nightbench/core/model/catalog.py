"""Framework lines and their builds, as `framework.json` describes them; suites select them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from nightbench.core.complaints import any_of, describe
from nightbench.core.model import values as v
from nightbench.core.model.cases import LINE_AXES
from nightbench.core.model.words import Strategy


@dataclass(frozen=True)
class Untried:
    """A configuration that a line supports and that was never run; measured only on request."""

    why: str


def series_key(series: str) -> tuple[int, ...]:
    """Return what sorts series of Python by age: "3.9" is older than "3.10"."""
    return tuple(map(int, series.split(".")))


def _support(value: Any) -> Any:
    """None if it runs, the reason why not, or why nobody has tried it; or these by device kind.

    A file says true if it runs.
    """
    by_kind = isinstance(value, dict) and value and "untried" not in value
    if not all(map(_is_answer, value.values() if by_kind else [value])):
        raise ValueError(
            f"found {describe(value)}; expected true, the reason why not, "
            '{"untried": "why it was never run"}, or one of these for each device kind: '
            '{"gpu": true, "cpu": "why not"}'
        )
    return {kind: _answer(each) for kind, each in value.items()} if by_kind else _answer(value)


def _is_answer(value: Any) -> bool:
    if isinstance(value, dict) and list(value) == ["untried"]:
        value = value["untried"] or None
        return isinstance(value, str)
    return value is True or (isinstance(value, str) and value != "")


def _answer(written: Any) -> Untried | str | None:
    if written is True:
        return None
    return Untried(written["untried"]) if isinstance(written, dict) else str(written)


def _by_kind(axes: dict[str, dict[str, Any]], info: ValidationInfo) -> dict[str, dict[str, Any]]:
    """Axis -> value -> device kind -> None if it runs, else the reason.

    An answer for all kinds becomes one for each that the line, or its variant, runs on.
    """
    devices = info.data.get("devices", {info.data.get("device"): None})
    kinds = [kind for kind, answer in devices.items() if not isinstance(answer, str)]
    return {
        axis: {
            value: answer if isinstance(answer, dict) else dict.fromkeys(kinds, answer)
            for value, answer in values.items()
        }
        for axis, values in axes.items()
    }


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
    v.written(_support),
    v.Words("true, the reason why not, or `untried` with why it was never run"),
]
_Kind = Annotated[str, v.among(("cpu", "gpu")), v.Words("device kind")]
_Axis = Annotated[str, v.among(LINE_AXES), v.Words("axis")]
_Axes = Annotated[dict[_Axis, dict[v.Name, _Support]], AfterValidator(_by_kind)]
StrategyName = Annotated[str, v.among([str(each) for each in Strategy]), v.Words("strategy")]
_RoleName = Annotated[v.Name, v.Words("role")]
_Variant = Annotated[v.Name, v.Words("variant")]


class Index(v.StrictModel):
    """A package index with packages that the default index does not have."""

    url: v.Text
    """Address of the index, as for `--index-url`."""
    options: v.Many[v.Text] = ()
    """Options of `uv pip install` that take packages from it [default: `--index URL`]."""


class Role(v.StrictModel):
    """The processes of one role in a gang: `trainer-0`, `trainer-1` and so on."""

    name: Annotated[str, v.DERIVED] = ""
    """The key that it has among the roles of a strategy."""
    measured_ranks: Annotated[Literal["first", "last", "all"], v.DERIVED] = "all"
    """Which of its processes are measured, if it is."""

    count: Annotated[Any, AfterValidator(_number), v.Words("whole number, or axis")]
    """Number of processes, or the axis that gives it: `trainers`, `pservers`, `nodes`."""
    place: Literal["spread", "fill", "lead"] = "spread"
    """Place of the processes: on each node in turn (`spread`), on all devices of a node before the
    next node (`fill`), or on the first node (`lead`)."""
    measured: bool = False
    """The process's steps are timed, and it ends by itself. Other processes serve until all
    measured processes have ended; then the agent ends them."""
    device: bool | None = None
    """Whether each process gets its own GPU [default: the value of `measured`]."""


MACHINES: tuple[Literal["x86_64"], ...] = ("x86_64",)
"""CPU architectures of a lock that names none."""


class Variant(v.StrictModel):
    """A build of a line for one kind of devices, with a lock `requirements-<variant>.lock`."""

    device: _Kind
    """Kind of devices for which the variant is built: `cpu` or `gpu`."""
    pythons: Annotated[v.Many[v.Series], AfterValidator(_ascending)] = ()
    """Series of Python that its lock supports, ascending: `["3.11", "3.12"]`. A node uses the
    newest of them that it has, or one that uv downloads. Without this key the variant has no
    environment: the agent's own interpreter runs it."""
    index: Index | None = None
    """Package index of the variant, if the site has no folders of wheels [default: the default
    index]."""
    package: v.Name | None = None
    """Name of the variant's main package, if it is not the line's."""
    version: v.Text | None = None
    """Version that its lock installs, if it is not the line's."""
    unlocked: v.Text | None = None
    """Reason why Nightbench has no lock of this variant, and how a site gets one. Users see it
    until a lock exists."""
    versions: Annotated[tuple[str, ...], v.DERIVED] = ()
    """Versions of its main package, the newest last; the others are for older Pythons."""
    problem: Annotated[str | None, v.DERIVED] = None
    """Problem of its lock: the cases that are run from it are unavailable."""
    cuda: v.Text | None = None
    """Version of CUDA with which the variant is built, such as `13.0`."""
    driver: v.Text | None = None
    """Oldest driver with which the variant works. A node with an older driver, or without one, is
    refused before anything is built."""
    compute_capabilities: v.Many[v.Text] = ()
    """Compute capabilities of the GPUs on which it works, for example `8.0` [default: any]. A node
    with another GPU is refused before anything is built."""
    machines: v.Some[Literal["x86_64", "aarch64"]] = MACHINES
    """CPU architectures that its lock has wheels for, as `uname -m` prints them."""
    size_bytes: v.Whole | None = None
    """Disk space of its environment [default: the line's]."""
    axes: _Axes = Field({})
    """Values of axes that this build supports differently from the line; each entry replaces the
    entry of the line."""


TRAINERS = (Role(name="trainer", count="trainers", place="fill", measured=True),)
"""The roles of a strategy for which a line names none."""


_PLACES = ("trainers", "nodes", "devices_per_node", "pipeline")
_KEYS = (*LINE_AXES, *_PLACES, "workload", "optimizer", "device", "replicas")


def _values(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    if not values or not all(isinstance(x, str | int) and not isinstance(x, bool) for x in values):
        raise ValueError(f"found {value!r}; expected a value, or a list of values")
    return tuple(str(each) for each in values)


def _several(when: dict[str, Any]) -> dict[str, Any]:
    if len(when) < 2:
        found = ", ".join(when) or "nothing"
        raise ValueError(f"found {found}; expected several axes: write a single value into `axes`")
    return when


_Of = Annotated[str, v.among(_KEYS), v.Words("axis")]
_Values = Annotated[Any, AfterValidator(_values), v.Words("value or list of values")]


class Combination(v.StrictModel):
    """Values of several axes that a line supports separately, but not together."""

    when: Annotated[dict[_Of, _Values], AfterValidator(_several)]
    """For each condition, a value or a list of values, of which one is enough. All conditions must
    be met. A key is an axis, `workload`, `trainers`, `nodes`, `devices_per_node`, `pipeline`,
    `optimizer` (of the workload), `device` (its kind) or `replicas` (`several` if the model has
    copies after `shard`, `tensor` and `pipeline`). The value of real data is their format."""
    refused: v.Text
    """The reason for users."""


def _named(roles: dict[str, Role]) -> dict[str, Role]:
    return {name: role.model_copy(update={"name": name}) for name, role in roles.items()}


_Roles = Annotated[dict[_RoleName, Role], AfterValidator(_named)]


class FrameworkInfo(v.StrictModel):
    """A framework line: `benchmarks/frameworks/<line>/framework.json`."""

    line: v.Name
    """Name of the line: the folder's name."""
    title: v.Text
    """Full name, as users know it."""
    version: v.Text
    """Version that the locks install."""
    package: v.Name | None = None
    """Name of the line's main package on the package index; null if there is none."""
    api: v.Name
    """Name of the model file that this line uses in each workload's folder: `<api>.py`. Lines with
    the same API share these files."""
    commands: bool = False
    """The line only runs the `commands` of suites, by its `launch.py`, and no workload."""
    devices: Annotated[dict[_Kind, _Support], Field(min_length=1)]
    """Kinds of devices on which the line can run."""
    variants: Annotated[dict[_Variant, Variant], Field(min_length=1)]
    """Builds of the line. The first one for the cluster's devices is used if no other is named."""
    axes: _Axes
    """For each axis, its values: true if the line supports the value, otherwise the reason for
    users, or a mapping of device kinds to these. If an axis is absent, the line supports only its
    default; `strategy` has no default."""
    roles: dict[StrategyName, _Roles] = Field({})
    """For each strategy, the roles of its processes in the order of launch [default: only trainers,
    which fill the nodes]."""
    refused_workloads: dict[v.Name, v.Text] = Field({})
    """Workloads that have a model file for the line's API but do not run on the line, each with the
    reason for users."""
    refused_combinations: v.Many[Combination] = ()
    """Values that the line supports separately, but not together. A suite with such cases is
    refused, or skips them if it has `unsupported: skip`."""
    launcher_env: v.Many[v.Text] = ()
    """Environment variables that `launch.py` sets. Suites and clusters must not set them."""
    controls: dict[_Kind, v.Text] = Field({})
    """For each device kind, a script of this folder that measures the speed of all devices of a
    node. The line's interpreter runs it (docs/add-a-framework.md)."""
    shares_ends: bool = False
    """With a `pipeline`, every device computes the parts before and after the layers for its own
    samples; otherwise the first and the last stage do. Needed to compute the memory of a case."""
    whole_weights: bool = False
    """At `shard_stage: 2` every device keeps whole parameters; otherwise they are split too, and
    gathered once a step. Needed to compute the memory of a case."""
    keeps_casts: bool = False
    """In bf16 and fp16, replicas keep the matrices and inputs that autocast has cast until the
    backward pass. Needed to compute the memory of a case."""
    replaces: bool = False
    """In a project's folder, true replaces the built-in line of the same name."""
    for_tests: bool = False
    """The line is not a framework, but a stand-in for tests."""
    size_bytes: v.Whole = 0
    """Disk space of the environment, in bytes."""
    problem: Annotated[str | None, v.DERIVED] = None
    """Problems of the line's folder, a line for each problem: its cases are unavailable."""
    libraries: dict[v.Text, v.Text] = Field({})
    """Shared libraries that the wheels need and do not contain, for example `libgomp.so.1`: name ->
    its path in a package of the lock, with wildcards, below site-packages. The environment's
    interpreter loads them when it starts."""

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
        return self.model_copy(update={"axes": axes})

    def roles_of(self, strategy: Strategy) -> tuple[Role, ...]:
        """The roles of a strategy's processes: trainers alone unless the line says more."""
        return tuple(self.roles[strategy].values()) if strategy in self.roles else TRAINERS
