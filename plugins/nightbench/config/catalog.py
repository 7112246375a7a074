"""Reads the framework lines and workloads that `benchmarks/` holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from nightbench.config import values as v
from nightbench.config.source import (
    ConfigError,
    Document,
    Key,
    Problem,
    any_of,
    describe,
    display,
    one_of,
    read_document,
)
from nightbench.config.validate import StrictModel, validate
from nightbench.core.code_digest import code_digest
from nightbench.core.errors import UserError
from nightbench.core.model import (
    LINE_AXES,
    Catalog,
    FrameworkInfo,
    Role,
    Strategy,
    Support,
    WorkloadInfo,
    digest_of,
)


def _one_of(known: Iterable[str]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in known:
            raise ValueError(one_of(value, known))
        return value

    return AfterValidator(check)


def _support(value: Any) -> Any:
    """True or a reason, or these by device kind."""
    answers = value.values() if isinstance(value, dict) and value else [value]
    if any(answer is not True and not (isinstance(answer, str) and answer) for answer in answers):
        raise ValueError(
            f"found {describe(value)}; expected true, the reason why not, or one of these for "
            'each device kind: {"gpu": true, "cpu": "why not"}'
        )
    return value


def _number(value: Any) -> Any:
    """A number of processes: at least 1, or the axis that says it."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (value in _COUNTS if isinstance(value, str) else whole and value >= 1):
        raise ValueError(
            f"found {describe(value)}; expected a whole number of at least 1, or "
            + any_of(_COUNTS).removeprefix("one of ")
        )
    return value


_COUNTS = ("nodes", "pservers", "trainers")
_Support = Annotated[Any, AfterValidator(_support), v.Words("true, or the reason why not")]
_Kind = Annotated[str, _one_of(("cpu", "gpu")), v.Words("device kind")]
_Axis = Annotated[str, _one_of(LINE_AXES), v.Words("axis")]
_Strategy = Annotated[str, _one_of([str(each) for each in Strategy]), v.Words("strategy")]
_RoleName = Annotated[v.Name, v.Words("role")]
_Variant = Annotated[v.Name, v.Words("variant")]


class IndexFile(StrictModel):
    """A package index that holds what the default index does not."""

    url: v.Text = Field(description="Its address, as for `--index-url`.")
    options: list[v.Text] = Field(
        default_factory=list,
        description="Options of `uv pip install` that take packages from it; `--index URL` unless "
        "given.",
    )


class VariantFile(StrictModel):
    """A build of a line for one kind of devices, with a lock `requirements-<variant>.lock`."""

    device: _Kind = Field(description="Devices that it is for: `cpu` or `gpu`.")
    index: IndexFile | None = Field(
        None,
        description="Where it comes from, unless the site has folders of wheels; the default index "
        "unless given.",
    )


class RoleFile(StrictModel):
    """The processes of one role in a gang: `trainer-0`, `trainer-1` and so on."""

    count: Annotated[Any, AfterValidator(_number), v.Words("whole number, or axis")] = Field(
        description="How many, or the axis of the case that says it: `trainers`, `pservers`, "
        "`nodes`."
    )
    place: Literal["spread", "fill", "lead"] = Field(
        "spread",
        description="Where: on the nodes in turn (`spread`), on a node's devices before the next "
        "node's (`fill`), on the first node (`lead`).",
    )
    measured: bool = Field(
        False,
        description="Its steps are timed, and it ends by itself. Others serve until all that are "
        "measured have ended; then the agent ends them.",
    )
    device: bool | None = Field(
        None, description="It gets a GPU of its own; as `measured` unless given."
    )


class FrameworkFile(StrictModel):
    """A framework line: `benchmarks/frameworks/<line>/framework.json`."""

    line: v.Name = Field(description="Name of the line: the folder's name.")
    title: v.Text = Field(description="How people call it.")
    version: v.Text = Field(description="Version that the locks install.")
    package: v.Name | None = Field(
        None, description="Name of its wheel on the index; null where there is none."
    )
    api: v.Name = Field(
        description="Which file of a workload's folder holds the network for this line: "
        "`<api>.py`. Lines that speak one language share it."
    )
    python: v.Text | None = Field(
        description='Interpreter series of its environment ("3.11"); null: the agent\'s own.'
    )
    devices: Annotated[dict[_Kind, _Support], Field(min_length=1)] = Field(
        description="Device kinds that its runtime knows."
    )
    variants: Annotated[dict[_Variant, VariantFile], Field(min_length=1)] = Field(
        description="Its builds; the first for a cluster's devices is taken unless another is "
        "named."
    )
    axes: dict[_Axis, dict[v.Name, _Support]] = Field(
        description="Axis: its values, each with true where the line really honours it, else with "
        "the reason for users, or with a mapping of device kinds to these. An axis that is left "
        "out has its default alone; `strategy` has none."
    )
    roles: dict[_Strategy, dict[_RoleName, RoleFile]] = Field(
        default_factory=dict,
        description="Strategy: the roles of its processes, in the order of launch. Unless given, "
        "trainers alone, which fill the nodes.",
    )
    launcher_env: list[v.Text] = Field(
        default_factory=list,
        description="Environment variables that `launch.py` sets from case and cluster: no file "
        "may set them.",
    )
    controls: dict[_Kind, v.Text] = Field(
        default_factory=dict,
        description="Device kind: script of this folder that measures the speed of all devices of "
        "a node, run by the line's interpreter (see benchmarks/README.md).",
    )
    drill_workload: v.Name | None = Field(
        None, description="Workload that `nightbench drill` slows down where no suite is named."
    )
    for_tests: bool = Field(False, description="No framework, but a stand-in for tests.")
    size_bytes: v.Whole = Field(0, description="Disk that the environment takes.")


def _truly(value: Any) -> Any:
    """A parameter of a scale: any JSON value."""
    return value


class SpecFile(StrictModel):
    """A workload: `benchmarks/workloads/<workload>/spec.json`."""

    name: v.Name = Field(description="Name of the workload: the folder's name.")
    title: v.Text = Field(description="How people call it.")
    unit: v.Name = Field(
        description="Unit of work that is counted, in the plural: `images`, `tokens`."
    )
    strategies: Annotated[list[_Strategy], Field(min_length=1)] = Field(
        description="Strategies that it is written for."
    )
    scales: Annotated[
        dict[v.Name, dict[str, Annotated[Any, AfterValidator(_truly)]]], Field(min_length=1)
    ] = Field(
        description="Scale: its parameters (shapes, classes, hyper-parameters), handed to the "
        "implementation; `converges` marks a scale at which the loss is proved to fall."
    )
    parameters: v.Count | None = Field(
        None, description="Trainable parameters, where the workload fixes them."
    )
    seed: v.Whole = Field(1, description="Seed of weights and data.")
    description: str = Field("", description="What it is and where it is from.")
    definition: dict[str, Any] = Field(
        default_factory=dict,
        description="What else defines the work (optimiser, initialisation, layers), for people "
        "and for the digest that starts a new segment of the history when it changes.",
    )


def load_catalog(benchmarks: Path) -> Catalog:
    """Read all framework lines and workloads.

    Args:
        benchmarks: the folder that is shipped to the nodes.

    Raises:
        UserError: a description is missing or wrong; the message holds all problems.
    """
    complaints: list[str] = []
    frameworks: dict[str, FrameworkInfo] = {}
    workloads: dict[str, WorkloadInfo] = {}
    for path in _descriptions(benchmarks / "frameworks", "framework.json"):
        try:
            info = _framework(path)
            frameworks[info.line] = info
        except UserError as error:
            complaints.append(str(error))
    for path in _descriptions(benchmarks / "workloads", "spec.json"):
        try:
            workload = _workload(path, frameworks)
            workloads[workload.name] = workload
        except UserError as error:
            complaints.append(str(error))
    if complaints:
        raise UserError("\n".join(complaints))
    return Catalog(frameworks, workloads, code_digest(benchmarks))


def _descriptions(folder: Path, name: str) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"{display(folder)}: no such folder; expected the shipped benchmarks/ tree")
    return sorted(each / name for each in folder.iterdir() if (each / name).is_file())


def _named(document: Document, key: str) -> list[Problem]:
    name, folder = document.data.get(key), document.path.parent.name
    if isinstance(name, str) and name != folder:
        message = f'found {describe(name)}; expected the name of its folder, "{folder}"'
        return [document.problem((key,), message)]
    return []


def _framework(path: Path) -> FrameworkInfo:
    document = read_document(path)
    file, problems = validate(FrameworkFile, document)
    problems += _named(document, "line")
    if file is None:
        raise ConfigError(path, problems)
    devices = _by_kind(file.devices, file.devices)
    kinds = [kind for kind, reason in devices.items() if reason is None]
    for key, message in _contradictions(file, path.parent, kinds):
        problems.append(document.problem(key, message))
    if problems:
        raise ConfigError(path, problems)
    return FrameworkInfo(
        line=file.line,
        title=file.title,
        version=file.version,
        api=file.api,
        python=file.python,
        devices=devices,
        variants={name: variant.device for name, variant in file.variants.items()},
        axes={
            axis: {value: _by_kind(support, kinds) for value, support in values.items()}
            for axis, values in file.axes.items()
        },
        roles={
            Strategy(strategy): tuple(_role(name, role) for name, role in roles.items())
            for strategy, roles in file.roles.items()
        },
        launcher_env=frozenset(file.launcher_env),
        drill_workload=file.drill_workload,
        for_tests=file.for_tests,
        size_bytes=file.size_bytes,
    )


def _by_kind(support: Any, kinds: Iterable[str]) -> Support:
    """Device kind -> None where it runs, else the reason."""
    answers = support if isinstance(support, dict) else dict.fromkeys(kinds, support)
    return {kind: None if answer is True else answer for kind, answer in answers.items()}


def _role(name: str, file: RoleFile) -> Role:
    device = file.measured if file.device is None else file.device
    return Role(name, file.count, file.place, file.measured, device)


def _contradictions(
    file: FrameworkFile, folder: Path, kinds: Sequence[str]
) -> Iterator[tuple[Key, str]]:
    """Key and message of what in a line's file does not hold together."""
    if not kinds:
        yield ("devices",), "found no device kind with true; expected one that the line runs on"
        return
    for axis, values in file.axes.items():
        for value, support in values.items():
            if isinstance(support, dict) and set(support) != set(kinds):
                found, expected = ", ".join(support), ", ".join(kinds)
                said = f"found an answer for {found}; expected one for each of {expected}"
                yield ("axes", axis, value), said
    strategies = file.axes.get("strategy", {})
    for name in strategies:
        if name not in set(Strategy):
            yield ("axes", "strategy", name), one_of(name, Strategy)
    served = strategies.get("parameter_server")
    if served is True and "parameter_server" not in file.roles:
        said = "found true; expected `roles.parameter_server` as well: which processes there are"
        yield ("axes", "strategy", "parameter_server"), said
    if not any(True in _answers(support) for support in strategies.values()):
        key = ("axes", "strategy") if strategies else ("axes",)
        yield key, f"found no strategy with true; expected {any_of(sorted(Strategy))}"
    for strategy, roles in file.roles.items():
        if not any(role.measured for role in roles.values()):
            said = "found no role with measured: true; expected at least one that trains"
            yield ("roles", strategy), said
    for name, variant in file.variants.items():
        if variant.device not in kinds:
            said = f"found {variant.device}, on which the line does not run; expected " + any_of(
                kinds
            )
            yield ("variants", name, "device"), said
        lock = f"requirements-{name}.lock"
        if file.python is not None and not (folder / lock).is_file():
            yield ("variants", name), f"found no {lock} in this folder; expected the lock"
    for kind, script in file.controls.items():
        if not (folder / script).is_file():
            said = f'found "{script}", which is not in this folder; expected a script'
            yield ("controls", kind), said
    drilled = file.drill_workload
    workloads = folder.parent.parent / "workloads"
    if drilled is not None and not (workloads / drilled / "spec.json").is_file():
        yield ("drill_workload",), one_of(drilled, [each.name for each in workloads.iterdir()])


def _answers(support: Any) -> list[Any]:
    return list(support.values()) if isinstance(support, dict) else [support]


def _workload(path: Path, frameworks: Mapping[str, FrameworkInfo]) -> WorkloadInfo:
    document = read_document(path)
    file, problems = validate(SpecFile, document)
    problems += _named(document, "name")
    written = {each.stem for each in path.parent.glob("*.py")}
    for scale, parameters in (file.scales if file else {}).items():
        if not isinstance(parameters.get("converges", False), bool):
            key = ("scales", scale, "converges")
            found = describe(parameters["converges"])
            problems.append(document.problem(key, f"found {found}; expected true or false"))
    if file is None or problems:
        raise ConfigError(path, problems)
    # Prose may be mended and a scale added without a new segment of the history; what a case
    # takes of its own scale is part of the case's digest (see plan.definition_digest).
    defining = {k: x for k, x in document.data.items() if k not in _NOT_DEFINING}
    return WorkloadInfo(
        name=file.name,
        title=file.title,
        unit=file.unit,
        frameworks=tuple(sorted(line for line, info in frameworks.items() if info.api in written)),
        strategies=tuple(Strategy(name) for name in file.strategies),
        scales={name: dict(parameters) for name, parameters in file.scales.items()},
        parameters=file.parameters,
        seed=file.seed,
        digest=digest_of(defining),
    )


_NOT_DEFINING = frozenset({"title", "description", "strategies", "scales"})
