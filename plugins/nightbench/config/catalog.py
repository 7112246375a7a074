"""Reads the framework lines and workloads that `benchmarks/` holds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nightbench.config import locations
from nightbench.config.authored_code import (
    DATA_NAMES,
    LINE_NAMES,
    MODEL_NAMES,
    code_errors,
    complain_of_formulas,
    complain_of_parameters,
    complain_of_unread,
    oldest_of,
    versions_in,
    words_of_code,
)
from nightbench.config.catalog_schema import FrameworkFile, RoleFile, SpecFile
from nightbench.config.source import (
    ConfigError,
    Document,
    Key,
    any_of,
    display,
    one_of,
    read_document,
)
from nightbench.config.validate import validate
from nightbench.core.code_digest import code_digest, layers
from nightbench.core.errors import UserError
from nightbench.core.model import (
    LINE_AXES,
    SEVERAL,
    Catalog,
    Combination,
    FrameworkInfo,
    ReferenceLosses,
    Role,
    Strategy,
    Support,
    Untried,
    Variant,
    WorkloadInfo,
    digest_of,
)

LINE_FILE = "framework.json"
SPEC_FILE = "spec.json"
LOG_FORMATS = "logs/formats"
_DEFINING = ("name", "unit", "parameters", "seed", "definition")
"""Keys of a spec that say what every case of the workload does. Prose may be mended and a scale
added without a new segment of the history; what a case takes of its own scale is part of the case's
digest (`run_plan.definition_digest`)."""


def load_catalog(benchmarks: Path | None = None, project: Path | None = None) -> Catalog:
    """Read all framework lines and workloads; without arguments those of this deployment.

    One broken folder takes nothing else with it: what is wrong stands in its `problem`, and
    `Catalog.problems` has all of it.

    Raises:
        UserError: the tree itself is missing.
    """
    if benchmarks is None:
        benchmarks, project = locations.benchmarks_folder(), locations.dags_folder()
    for kind in ("frameworks", "workloads"):
        if not (folder := benchmarks / kind).is_dir():
            said = "no such folder; expected the shipped benchmarks/ tree"
            raise UserError(f"{display(folder)}: {said}")
    lines = layers("frameworks", benchmarks, project)
    tree = _Tree(benchmarks, layers("workloads", benchmarks, project))
    frameworks = {name: _framework(folders[-1], tree) for name, folders in lines.items()}
    shared = [
        *benchmarks.glob("*.py"),
        *benchmarks.glob("apis/*/*.py"),
        *benchmarks.glob("readers/*.py"),
    ]
    own = (path for folders in lines.values() for path in folders[-1].glob("*.py"))
    words = words_of_code([*shared, *own])
    return Catalog(
        frameworks,
        {name: _workload(name, frameworks, words, tree) for name in tree.workloads},
        code_digest(benchmarks, project),
        tuple(
            sorted(
                each.stem
                for each in (benchmarks / LOG_FORMATS).glob("[!_.]*")
                if each.suffix in (".py", ".json")
            ),
        ),
    )


@dataclass(frozen=True)
class _Tree:
    """What the folder of a line or workload refers to."""

    benchmarks: Path
    workloads: Mapping[str, Sequence[Path]]
    """Name -> its folders; all but the last are added to by a project."""

    def model(self, workload: str, api: str) -> Path | None:
        """The file of a workload for the lines that speak an API."""
        folders = reversed(self.workloads.get(workload, ()))
        return next((x for each in folders if (x := each / f"{api}.py").is_file()), None)

    def complain_of_shadow(self, document: Document, kind: str, replaces: bool) -> None:
        """Complain of a name that a built-in folder has too, unless that is meant."""
        path = document.path
        built_in = self.benchmarks / kind / path.parent.name / path.name
        shadows = built_in != path and built_in.is_file()
        if shadows and not replaces:
            said = f'found the name of the built-in {display(built_in)}; expected "replaces": true '
            document.complain((), f"{said}where it is to take its place, or another name")
        if replaces and not shadows:
            document.complain(("replaces",), "found true; there is none of this name to replace")


def _complain_of_absent(document: Document, *expected: str) -> None:
    folder = document.path.parent
    for name in expected:
        if not (folder / name).is_file():
            said = f"found no {name} in {display(folder)}; expected it beside this file"
            document.complain((), said)


def _framework(folder: Path, tree: _Tree) -> FrameworkInfo:
    path = folder / LINE_FILE
    try:
        document = read_document(path)
    except UserError as error:
        return _broken_line(path, error)
    file = validate(FrameworkFile, document)
    document.complain_of_name("line", path.parent.name, "its folder")
    _complain_of_absent(document, "launch.py")
    if document.data.get("commands") is not True:
        _complain_of_absent(document, "runtime.py", "trainer.py")
    if file is None:
        return _broken_line(path, document.error)
    devices = _by_kind(file.devices, file.devices)
    kinds = [kind for kind, answer in devices.items() if not isinstance(answer, str)]
    for key, message in _contradictions(file, folder, kinds, tree):
        document.complain(key, message)
    tree.complain_of_shadow(document, "frameworks", file.replaces)
    shared = tree.benchmarks / "apis" / file.api
    variants = {name: _variant(name, file, document) for name in file.variants}
    found = file.to(
        FrameworkInfo,
        line=path.parent.name,
        devices=devices,
        variants=variants,
        axes=_axes(file.axes, kinds),
        roles={
            Strategy(strategy): tuple(_role(name, role) for name, role in roles.items())
            for strategy, roles in file.roles.items()
        },
        refused_combinations=tuple(each.to(Combination) for each in file.refused_combinations),
        launcher_env=frozenset(file.launcher_env),
    )
    complaints = [str(document.error)] if document.problems else []
    oldest = found.oldest_python
    complaints += code_errors(sorted(path.parent.glob("[!.]*.py")), oldest, LINE_NAMES)
    complaints += code_errors(sorted(shared.glob("[!.]*.py")), oldest, {})
    return replace(found, problem="\n".join(complaints) or None)


def _variant(name: str, file: FrameworkFile, document: Document) -> Variant:
    """Return a variant, and why it lacks its lock; without `pythons` it needs none."""
    written, lock, folder = file.variants[name], f"requirements-{name}.lock", document.path.parent
    problem = unlocked = None
    versions: tuple[str, ...] = ()
    if written.pythons and not (folder / lock).is_file():
        if written.unlocked:
            unlocked = f"{folder.name} has no lock for its variant {name}: {written.unlocked}"
        else:
            said = f"found no {lock} in this folder; expected the lock"
            said += f" (`nightbench lock {folder.name} {name}`)"
            problem = str(ConfigError(document.path, [document.problem(("variants", name), said)]))
    elif written.pythons:
        package, stated = written.package or file.package or file.line, written.version
        versions = versions_in(folder / lock, package)
        if versions and versions[-1] != (stated or file.version):
            said = f'found "{stated or file.version}", but {lock} pins {package} {versions[-1]}'
            key = ("variants", name, "version") if stated else ("version",)
            document.complain(key, f"{said}; expected the same")
    axes = _axes(written.axes, [written.device])
    return written.to(Variant, axes=axes, versions=versions, problem=problem, unlocked=unlocked)


def _broken_line(path: Path, error: UserError) -> FrameworkInfo:
    """A line of which nothing is known but its name and what is wrong with it."""
    name = path.parent.name
    return FrameworkInfo(name, name, "", "", {}, {}, {}, problem=str(error))


def _axes(written: Mapping[str, Mapping[str, Any]], kinds: Sequence[str]) -> dict[str, Any]:
    return {
        axis: {value: _by_kind(support, kinds) for value, support in values.items()}
        for axis, values in written.items()
    }


def _by_kind(support: Any, kinds: Iterable[str]) -> Support:
    """Device kind -> None where it runs, else the reason."""
    answers = support if _is_by_kind(support) else dict.fromkeys(kinds, support)
    return {kind: _answer(answer) for kind, answer in answers.items()}


def _is_by_kind(support: Any) -> bool:
    return isinstance(support, dict) and "untried" not in support


def _answer(written: Any) -> Untried | str | None:
    if written is True:
        return None
    return Untried(written["untried"]) if isinstance(written, dict) else str(written)


def _role(name: str, file: RoleFile) -> Role:
    return file.to(Role, name=name, device=file.measured if file.device is None else file.device)


def _contradictions(
    file: FrameworkFile, folder: Path, kinds: Sequence[str], tree: _Tree
) -> Iterator[tuple[Key, str]]:
    """Key and message of what in a line's file does not hold together."""
    if not kinds:
        yield ("devices",), "found no device kind with true; expected one that the line runs on"
        return
    yield from _wrong_axes(("axes",), file.axes, kinds)
    for name, variant in file.variants.items():
        yield from _wrong_axes(("variants", name, "axes"), variant.axes, [variant.device])
    strategies = file.axes.get("strategy", {})
    served = _by_kind(strategies.get("parameter_server", ""), kinds)
    if (
        not all(isinstance(x, str) for x in served.values())
        and "parameter_server" not in file.roles
    ):
        said = "found true; expected `roles.parameter_server` as well: which processes there are"
        yield ("axes", "strategy", "parameter_server"), said
    answers = [each for x in strategies.values() for each in _by_kind(x, kinds).values()]
    if all(isinstance(answer, str) for answer in answers):
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
    for kind, script in file.controls.items():
        if not (folder / script).is_file():
            said = f'found "{script}", which is not in this folder; expected a script'
            yield ("controls", kind), said
    drilled = file.drill_workload
    for refused in file.refused_workloads:
        if tree.model(refused, file.api) is None:
            said = f"found {refused}, which has no {file.api}.py; expected one that has"
            yield ("refused_workloads", refused), said
    for number, combination in enumerate(file.refused_combinations):
        for name, values in combination.when.items():
            known = _known_values(file, name, tree)
            for value in values:
                if known is not None and value not in known:
                    yield ("refused_combinations", number, "when", name), one_of(value, known)
    if drilled is not None and drilled not in tree.workloads:
        yield ("drill_workload",), one_of(drilled, tree.workloads)


def _wrong_axes(
    key: Key, written: Mapping[str, Mapping[str, Any]], kinds: Sequence[str]
) -> Iterator[tuple[Key, str]]:
    for axis, values in written.items():
        for value, support in values.items():
            if _is_by_kind(support) and set(support) != set(kinds):
                found, expected = ", ".join(support), ", ".join(kinds)
                said = f"found an answer for {found}; expected one for each of {expected}"
                yield (*key, axis, value), said
    for name in written.get("strategy", {}):
        if name not in set(Strategy):
            yield (*key, "strategy", name), one_of(name, Strategy)


def _known_values(file: FrameworkFile, key: str, tree: _Tree) -> list[str] | None:
    """What a combination may name under a key; None where that is anything."""
    if key == "workload":
        return list(tree.workloads)
    if key == "device":
        return list(file.devices)
    if key == "replicas":
        return [SEVERAL]
    if key not in LINE_AXES:
        return None
    default = LINE_AXES[key]
    return sorted({*file.axes.get(key, {}), *([str(default)] if default else [])})


def _workload(
    name: str, frameworks: Mapping[str, FrameworkInfo], trainers: Set[str], tree: _Tree
) -> WorkloadInfo:
    """Return a workload; `trainers` are the words of the code that trains it."""
    folder, *added = tree.workloads[name]
    path = folder / SPEC_FILE
    try:
        document = read_document(path)
    except UserError as error:
        return _broken_workload(path, error)
    file = validate(SpecFile, document)
    document.complain_of_name("name", path.parent.name, "its folder")
    _complain_of_absent(document, "data.py")
    written = {each.stem for own in (folder, *added) for each in own.glob("[!.]*.py")}
    if file is None:
        return _broken_workload(path, document.error)
    tree.complain_of_shadow(document, "workloads", file.replaces)
    _complain_of_spec(document, file, added, tree.benchmarks / "readers")
    wrong_data = code_errors(path.parent.glob("data.py"), None, {"data": DATA_NAMES})
    models = {
        api: "\n".join(wrong)
        for api in sorted(written)
        if (model := tree.model(name, api)) and (wrong := _model_errors(model, api, frameworks))
    }
    if not (document.problems or wrong_data or models):
        words = trainers | _words_of(tree.workloads[name])
        # Workloads of one network in several sizes share its files.
        for other in words & tree.workloads.keys():
            words |= _words_of(tree.workloads[other])
        for scale, parameters in file.scales.items():
            complain_of_unread(document, scale, parameters, words)
    complaints = ([str(document.error)] if document.problems else []) + wrong_data
    defining = {key: x for key, x in document.data.items() if key in _DEFINING}
    return file.to(
        WorkloadInfo,
        name=name,
        frameworks=tuple(
            sorted(
                line
                for line, info in frameworks.items()
                if info.api in written and name not in info.refused_workloads
            )
        ),
        strategies=tuple(Strategy(name) for name in file.strategies),
        losses=file.losses and file.losses.to(ReferenceLosses),
        tensor=file.tensor and tuple(file.tensor.divides),
        context=file.context is not None,
        expert=file.expert and file.expert.parameters,
        pipeline=file.pipeline and file.pipeline.parameters,
        tokens=file.cost and file.cost.tokens,
        forward_flops=file.cost.forward if file.cost else {},
        computed_flops=file.cost.computed if file.cost else {},
        kept=file.cost.kept.formulas() if file.cost and file.cost.kept else {},
        digest=digest_of(defining),
        problem="\n".join(complaints) or None,
        broken_models=models,
    )


def _complain_of_spec(
    document: Document, file: SpecFile, added: Sequence[Path], readers: Path
) -> None:
    """Complain of what a workload's file says, and of files that a project adds to its folder."""
    for each in (each for own in added for each in own.glob("[!.]*")):
        if (document.path.parent / each.name).exists():
            said = f"{display(each)} has the name of a file here; expected model files for lines"
            document.complain((), f"{said} that this workload has none for")
    for scale, parameters in file.scales.items():
        complain_of_parameters(document, scale, parameters)
    if file.cost is not None:
        complain_of_formulas(document, file, file.cost)
    if file.reads is not None and not (readers / f"{file.reads}.py").is_file():
        message = f'found "{file.reads}"; expected a module of {display(readers)}'
        document.complain(("reads",), message)


def _words_of(folders: Iterable[Path]) -> set[str]:
    return words_of_code(path for folder in folders for path in folder.glob("[!.]*.py"))


def _model_errors(path: Path, api: str, frameworks: Mapping[str, FrameworkInfo]) -> list[str]:
    """What is wrong in a model file for the oldest line that speaks its API."""
    speaking = [info.oldest_python for info in frameworks.values() if info.api == api]
    return code_errors([path], oldest_of(speaking), {api: MODEL_NAMES}) if speaking else []


def _broken_workload(path: Path, error: UserError) -> WorkloadInfo:
    name = path.parent.name
    return WorkloadInfo(name, name, "units", (), (), {}, problem=str(error))
