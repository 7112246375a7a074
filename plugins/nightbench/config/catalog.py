"""Reads the framework lines and workloads that `benchmarks/` holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from nightbench.config import values as v
from nightbench.config.source import (
    ConfigError,
    Document,
    Problem,
    describe,
    display,
    read_document,
)
from nightbench.config.validate import Strict, validate
from nightbench.core.code_digest import code_digest
from nightbench.core.errors import UserError
from nightbench.core.model import Catalog, FrameworkInfo, Strategy, WorkloadInfo, digest_of

StrategyName = Literal["single", "collective", "parameter_server"]


class FrameworkFile(Strict):
    """A framework line: `benchmarks/frameworks/<line>/framework.json`."""

    line: v.Name = Field(description="Name of the line: the folder's name.")
    title: v.Text = Field(description="How people call it.")
    version: v.Text = Field(description="Version that the locks install.")
    package: v.Name | None = Field(
        None, description="Name of its wheel on the index; null where there is none."
    )
    python: v.Text | None = Field(
        description='Interpreter series of its environment ("3.11"); null: the agent\'s own.'
    )
    variants: Annotated[list[v.Name], Field(min_length=1)] = Field(
        description="Names of its locks: `requirements-<variant>.lock`."
    )
    strategies: Annotated[list[StrategyName], Field(min_length=1)] = Field(
        description="Strategies that truly run."
    )
    sync_modes: list[Literal["sync", "async", "half_async", "geo"]] = Field(
        default_factory=list, description="Parameter-server updates that truly run."
    )
    precisions: dict[Literal["cpu", "gpu"], list[v.Name]] = Field(
        description="Device kind: precisions that truly run there."
    )
    compilers: list[v.Name] = Field(
        default_factory=lambda: ["none"], description="Compilers that truly run."
    )
    remarks: dict[str, v.Text] = Field(
        default_factory=dict,
        description="Axis, or value of an axis: why it is not supported. Shown to people.",
    )
    for_tests: bool = Field(False, description="No framework, but a stand-in for tests.")
    size_bytes: v.Whole = Field(0, description="Disk that the environment takes.")


def _truly(value: Any) -> Any:
    """A parameter of a scale: any JSON value."""
    return value


class SpecFile(Strict):
    """A workload: `benchmarks/workloads/<workload>/spec.json`."""

    name: v.Name = Field(description="Name of the workload: the folder's name.")
    title: v.Text = Field(description="How people call it.")
    unit: Literal["images", "samples", "sequences", "tokens", "words"] = Field(
        description="Unit of work that is counted."
    )
    strategies: Annotated[list[StrategyName], Field(min_length=1)] = Field(
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
    if file is None or problems:
        raise ConfigError(path, problems)
    return FrameworkInfo(
        line=file.line,
        title=file.title,
        version=file.version,
        python=file.python,
        variants=tuple(file.variants),
        strategies=tuple(Strategy(name) for name in file.strategies),
        sync_modes=tuple(file.sync_modes),
        precisions={kind: tuple(names) for kind, names in file.precisions.items()},
        compilers=tuple(file.compilers),
        remarks=dict(file.remarks),
        for_tests=file.for_tests,
        size_bytes=file.size_bytes,
    )


def _workload(path: Path, frameworks: Mapping[str, FrameworkInfo]) -> WorkloadInfo:
    document = read_document(path)
    file, problems = validate(SpecFile, document)
    problems += _named(document, "name")
    written = {each.stem for each in path.parent.glob("*.py") if not each.stem.startswith("_")}
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
        frameworks=tuple(sorted(written & set(frameworks))),
        strategies=tuple(Strategy(name) for name in file.strategies),
        scales={name: dict(parameters) for name, parameters in file.scales.items()},
        parameters=file.parameters,
        seed=file.seed,
        digest=digest_of(defining),
    )


_NOT_DEFINING = frozenset({"title", "description", "strategies", "scales"})
