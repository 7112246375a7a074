"""Reads the framework lines and workloads that `benchmarks/` holds."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    oldest_of,
    versions_in,
)
from nightbench.config.source import ConfigError, Document, display, read_document
from nightbench.config.validate import validate
from nightbench.core.code_digest import code_digest, layers
from nightbench.core.complaints import Key, any_of, one_of
from nightbench.core.errors import UserError
from nightbench.core.model import (
    LINE_AXES,
    SEVERAL,
    Catalog,
    FrameworkInfo,
    Strategy,
    Variant,
    WorkloadInfo,
    digest_of,
)

LINE_FILE = "framework.json"
SPEC_FILE = "spec.json"
LOG_FORMATS = "logs/formats"
_DEFINING = ("name", "unit", "parameters", "seed", "definition")
"""Keys of a spec that say what every case of the workload does. Prose may be corrected and a scale
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
            said = "found no such folder; expected the folder benchmarks/ of the package"
            raise UserError(f"{display(folder)}: {said}")
    lines = layers("frameworks", benchmarks, project)
    tree = _Tree(benchmarks, layers("workloads", benchmarks, project))
    frameworks = {name: _framework(folders[-1], tree) for name, folders in lines.items()}
    return Catalog(
        frameworks,
        {name: _workload(name, frameworks, tree) for name in tree.workloads},
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
            document.complain((), f"{said}to replace it, or another name")
        if replaces and not shadows:
            document.complain(("replaces",), "found true; expected a built-in to replace")


def _complain_of_absent(document: Document, *expected: str) -> None:
    folder = document.path.parent
    for name in expected:
        if not (folder / name).is_file():
            said = f"found no {name} in {display(folder)}; expected it in the folder of this file"
            document.complain((), said)


def _framework(folder: Path, tree: _Tree) -> FrameworkInfo:
    try:
        document = read_document(folder / LINE_FILE)
        _complain_of_absent(document, "launch.py")
        if document.data.get("commands") is not True:
            _complain_of_absent(document, "runtime.py", "trainer.py")
        file = validate(FrameworkInfo, document, named="line")
    except UserError as error:
        name = folder.name
        nothing: dict[str, Any] = {"devices": {}, "variants": {}, "axes": {}}
        return FrameworkInfo.model_construct(
            line=name, title=name, version="", api="", **nothing, problem=str(error)
        )
    for key, message in _contradictions(file, folder, tree):
        document.complain(key, message)
    tree.complain_of_shadow(document, "frameworks", file.replaces)
    shared = tree.benchmarks / "apis" / file.api
    variants = {name: _variant(name, file, document) for name in file.variants}
    found = file.model_copy(update={"line": folder.name, "variants": variants})
    complaints = [str(document.error)] if document.problems else []
    oldest = found.oldest_python
    complaints += code_errors(sorted(folder.glob("[!.]*.py")), oldest, LINE_NAMES)
    complaints += code_errors(sorted(shared.glob("[!.]*.py")), oldest, {})
    return found.model_copy(update={"problem": "\n".join(complaints) or None})


def _contradictions(file: FrameworkInfo, folder: Path, tree: _Tree) -> Iterator[tuple[Key, str]]:
    """Yield key and message of what in a line's file does not go together."""
    kinds = [kind for kind, answer in file.devices.items() if not isinstance(answer, str)]
    if not kinds:
        yield ("devices",), "found no device kind with true; expected one that the line runs on"
        return
    yield from _wrong_axes(("axes",), file.axes, kinds)
    for name, variant in file.variants.items():
        yield from _wrong_axes(("variants", name, "axes"), variant.axes, [variant.device])
    strategies = file.axes.get("strategy", {})
    served = strategies.get("parameter_server", {})
    if (
        not all(isinstance(x, str) for x in served.values())
        and "parameter_server" not in file.roles
    ):
        said = "found true; expected also `roles.parameter_server`, which lists the processes"
        yield ("axes", "strategy", "parameter_server"), said
    answers = [each for x in strategies.values() for each in x.values()]
    if all(isinstance(answer, str) for answer in answers):
        key = ("axes", "strategy") if strategies else ("axes",)
        yield key, f"found no strategy with true; expected {any_of(sorted(Strategy))}"
    for strategy, roles in file.roles.items():
        if not any(role.measured for role in roles.values()):
            said = "found no role with measured: true; expected at least one that trains"
            yield ("roles", strategy), said
    for name, variant in file.variants.items():
        if variant.device not in kinds:
            said = f"found {variant.device}, which the line does not support; expected " + any_of(
                kinds
            )
            yield ("variants", name, "device"), said
    for kind, script in file.controls.items():
        if not (folder / script).is_file():
            said = f'found "{script}", which is not in this folder; expected a script'
            yield ("controls", kind), said
    for refused in file.refused_workloads:
        if tree.model(refused, file.api) is None:
            said = f"found {refused}, which has no {file.api}.py; expected one with this file"
            yield ("refused_workloads", refused), said
    for number, combination in enumerate(file.refused_combinations):
        for name, values in combination.when.items():
            known = _known_values(file, name, tree.workloads)
            for value in values:
                if known is not None and value not in known:
                    yield ("refused_combinations", number, "when", name), one_of(value, known)


def _wrong_axes(
    key: Key, written: Mapping[str, Mapping[str, Any]], kinds: Sequence[str]
) -> Iterator[tuple[Key, str]]:
    for axis, values in written.items():
        for value, support in values.items():
            if set(support) != set(kinds):
                found, expected = ", ".join(support), ", ".join(kinds)
                said = f"found an answer for {found}; expected one for each of {expected}"
                yield (*key, axis, value), said
    for name in written.get("strategy", {}):
        if name not in set(Strategy):
            yield (*key, "strategy", name), one_of(name, Strategy)


def _known_values(file: FrameworkInfo, key: str, workloads: Collection[str]) -> list[str] | None:
    """What a combination may name under a key; None if that is anything."""
    if key == "workload":
        return list(workloads)
    if key == "device":
        return list(file.devices)
    if key == "replicas":
        return [SEVERAL]
    if key not in LINE_AXES:
        return None
    default = LINE_AXES[key]
    return sorted({*file.axes.get(key, {}), *([str(default)] if default else [])})


def _variant(name: str, file: FrameworkInfo, document: Document) -> Variant:
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
        try:
            versions = versions_in(folder / lock, package)
        except UserError as error:
            problem = str(error)
        if versions and versions[-1] != (stated or file.version):
            said = f'found "{stated or file.version}", but {lock} pins {package} {versions[-1]}'
            key = ("variants", name, "version") if stated else ("version",)
            document.complain(key, f"{said}; expected the same")
    found = {"versions": versions, "problem": problem, "unlocked": unlocked}
    return written.model_copy(update=found)


def _workload(name: str, frameworks: Mapping[str, FrameworkInfo], tree: _Tree) -> WorkloadInfo:
    """Return a workload: its file, its own code, and code that a project adds."""
    folder, *added = tree.workloads[name]
    try:
        document = read_document(folder / SPEC_FILE)
        _complain_of_absent(document, "data.py")
        file = validate(WorkloadInfo, document, named="name")
    except UserError as error:
        return WorkloadInfo.model_construct(
            name=name, title=name, unit="units", strategies=(), scales={}, problem=str(error)
        )
    written = {each.stem for own in (folder, *added) for each in own.glob("[!.]*.py")}
    tree.complain_of_shadow(document, "workloads", file.replaces)
    _complain_of_spec(document, file, added, tree.benchmarks / "readers")
    wrong_data = code_errors(folder.glob("data.py"), None, {"data": DATA_NAMES})
    models = {
        api: "\n".join(wrong)
        for api in sorted(written)
        if (model := tree.model(name, api)) and (wrong := _model_errors(model, api, frameworks))
    }
    complaints = ([str(document.error)] if document.problems else []) + wrong_data
    defining = {key: x for key, x in document.data.items() if key in _DEFINING}
    frameworks_of = sorted(
        line
        for line, info in frameworks.items()
        if info.api in written and name not in info.refused_workloads
    )
    return file.model_copy(
        update={
            "name": name,
            "frameworks": tuple(frameworks_of),
            "digest": digest_of(defining),
            "problem": "\n".join(complaints) or None,
            "broken_models": models,
        }
    )


def _complain_of_spec(
    document: Document, file: WorkloadInfo, added: Sequence[Path], readers: Path
) -> None:
    for each in (each for own in added for each in own.glob("[!.]*")):
        if (document.path.parent / each.name).exists():
            said = f"{display(each)} has the name of an existing file; expected model files"
            document.complain((), f"{said} for lines that this workload has none for")
    for scale, parameters in file.scales.items():
        complain_of_parameters(document, scale, parameters)
    if file.cost is not None:
        complain_of_formulas(document, file, file.cost)
    if file.reads is not None and not (readers / f"{file.reads}.py").is_file():
        message = f'found "{file.reads}"; expected a module of {display(readers)}'
        document.complain(("reads",), message)


def _model_errors(path: Path, api: str, frameworks: Mapping[str, FrameworkInfo]) -> list[str]:
    """What is wrong in a model file for the oldest line that speaks its API."""
    speaking = [info.oldest_python for info in frameworks.values() if info.api == api]
    return code_errors([path], oldest_of(speaking), {api: MODEL_NAMES}) if speaking else []
