"""Reads suite files: a matrix becomes cases, and every case is held against what can run it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nightbench.config import values
from nightbench.config.clusters import (
    find_clusters,
    lines_of,
    load_cluster,
    named_as_file,
    relative_to_file,
)
from nightbench.config.schema import BlockFile, BuildFile, SuiteFile
from nightbench.config.source import (
    ConfigError,
    Document,
    Key,
    Problem,
    display,
    one_of,
    read_document,
)
from nightbench.config.validate import validate
from nightbench.errors import UserError
from nightbench.model import (
    Build,
    Case,
    Catalog,
    Cluster,
    Protocol,
    RegressionPolicy,
    Strategy,
    Suite,
)
from nightbench.support import Refusal, unfit, unsupported, variant_of

T = TypeVar("T")

_MOST_CASES = 2000
_PS_ONLY = ("pservers", "trainers", "sync")


def find_suites(dags: Path) -> dict[str, Path]:
    """Return the suite files below a `dags` folder by the names of their suites."""
    return {path.stem: path for path in sorted((dags / "suites").glob("*.yaml"))}


def load_suite(path: Path, catalog: Catalog, *, cluster: Cluster | None = None) -> Suite:
    """Read a suite and hold every case against its framework line, workload and cluster.

    Args:
        path: the YAML file.
        catalog: what `benchmarks/` holds.
        cluster: run it on this cluster; the one that the suite names, from `clusters/` beside the
            suite's folder, when None.

    Raises:
        ConfigError: all that is wrong with the file.
        UserError: all that is wrong with the cluster's file.
    """
    document = read_document(path)
    context = lines_of(catalog)
    file, problems = validate(SuiteFile, document, context=context)
    problems += named_as_file(document, "suite")
    if cluster is None:
        cluster = _own_cluster(document, catalog, problems)
    cases = list(_cases(document, file, context, problems))
    builds = _builds(document, file, problems)
    _check_cases(document, cases, catalog, cluster, builds, problems)
    if file is None or problems or cluster is None:
        raise ConfigError(path, problems)
    return Suite(
        name=file.suite,
        owner=file.owner,
        cluster=cluster.name,
        cases=tuple(placed.case for placed in cases),
        protocol=Protocol(**file.protocol.model_dump()),
        description=file.description,
        schedule=file.schedule,
        builds=builds,
        env=dict(file.env),
        role_env={role: dict(env) for role, env in file.role_env.items()},
        policy=RegressionPolicy(**file.policy.model_dump()),
        alerts=tuple(file.alerts),
        repeat_timeout_s=file.timeouts.repeat,
        progress_timeout_s=file.timeouts.progress,
        source=str(path),
    )


@dataclass(frozen=True)
class _Placed:
    """A case and the block that it is from."""

    case: Case
    key: Key


def _own_cluster(document: Document, catalog: Catalog, problems: list[Problem]) -> Cluster | None:
    name = document.data.get("cluster")
    if not isinstance(name, str):
        return None
    files = find_clusters(document.path.absolute().parent.parent)
    if name not in files:
        problems.append(document.problem(("cluster",), one_of(name, files)))
        return None
    return load_cluster(files[name], catalog=catalog)


def _cases(
    document: Document, file: SuiteFile | None, context: dict[str, object], problems: list[Problem]
) -> Iterator[_Placed]:
    """Expand every block that is in order, also where the rest of the file is not."""
    blocks = document.data.get("matrix")
    scale = document.data.get("scale", "full")
    made = 0
    for position in range(len(blocks) if isinstance(blocks, list) else 0):
        key: Key = ("matrix", position)
        block = file.matrix[position] if file else validate(BlockFile, document, key, context)[0]
        if block is None:
            continue
        for case in expand(
            block, scale if isinstance(scale, str) else "full", document, key, problems
        ):
            made += 1
            if made > _MOST_CASES:
                message = f"the matrix makes more than {_MOST_CASES} cases; expected fewer"
                problems.append(document.problem(key, message))
                return
            yield _Placed(case, key)


def expand(
    block: BlockFile, scale: str, document: Document, key: Key, problems: list[Problem]
) -> Iterator[Case]:
    """Make the cases of a block: the product of its axes, in the order of the file's keys."""
    strategy = Strategy(block.strategy)
    sizes = list(_sizes(block, strategy, document, key, problems))
    for (
        workload,
        framework,
        size,
        batch,
        precision,
        compiler,
        length,
        threads,
        own,
    ) in itertools.product(
        block.workload,
        block.frameworks,
        sizes,
        block.batch_size_per_device,
        block.precision,
        block.compiler,
        _axis(block.sequence_length),
        _axis(block.threads),
        block.scale or [scale],
    ):
        yield Case(
            workload=workload,
            framework=framework,
            strategy=strategy,
            batch_size_per_device=batch,
            precision=precision,
            compiler=compiler,
            execution=block.execution,
            layout=block.layout,
            sequence_length=length,
            compression=block.compression,
            link_bandwidth=block.link_bandwidth,
            threads=threads,
            data=block.data,
            scale=own,
            **size,
        )


def _axis(values: Sequence[T] | None) -> list[T | None]:
    """The values of an axis; the default alone where it is not given."""
    return [None] if values is None else list(values)


def _sizes(
    block: BlockFile, strategy: Strategy, document: Document, key: Key, problems: list[Problem]
) -> Iterator[dict[str, Any]]:
    """Numbers of nodes, devices and processes, and the updates of parameter servers."""
    if strategy is not Strategy.PARAMETER_SERVER:
        for name in _PS_ONLY:
            if getattr(block, name) is not None:
                message = f"is for parameter_server only; found it with {strategy}"
                problems.append(document.problem((*key, name), message))
        for nodes, devices in block.devices or [(1, 1)]:
            if strategy is Strategy.SINGLE and (nodes, devices) != (1, 1):
                message = f'found "{nodes}x{devices}" with single; expected 1x1, or collective'
                problems.append(document.problem((*key, "devices"), message))
            yield {"nodes": nodes, "devices_per_node": devices, "trainers": nodes * devices}
        return
    if block.trainers is None:
        line = document.problem(key, "").line
        message = "is missing; expected: numbers of trainers, for parameter_server"
        problems.append(Problem(line, f"matrix[{key[-1]}].trainers", message))
        return
    for pservers, trainers, given, sync in itertools.product(
        block.pservers or [1], block.trainers, _axis(block.devices), block.sync or ["sync"]
    ):
        nodes, devices = given or (trainers, 1)
        if trainers > nodes * devices:
            message = f"found {trainers}; expected no more than the devices of {nodes}x{devices}"
            problems.append(document.problem((*key, "trainers"), message))
        yield {
            "nodes": nodes,
            "devices_per_node": devices,
            "pservers": pservers,
            "trainers": trainers,
            "sync": sync,
        }


def _builds(
    document: Document, file: SuiteFile | None, problems: list[Problem]
) -> dict[str, Build]:
    builds: dict[str, Build] = {}
    for line, entry in (file.builds if file else {}).items():
        key: Key = ("builds", line)
        given = [name for name in ("version", "wheel", "path") if getattr(entry, name) is not None]
        if len(given) > 1:
            message = f"found {' and '.join(given)}; expected one of version, wheel, path"
            problems.append(document.problem(key, message))
            continue
        location = entry.path
        if entry.wheel is not None:
            found = relative_to_file(document.path, entry.wheel)
            if found is None or not found.is_file() or found.suffix != ".whl":
                message = f'found "{entry.wheel}"; expected a wheel file (.whl) that is there'
                problems.append(document.problem((*key, "wheel"), message))
                continue
            location = str(found)
        builds[line] = make_build(line, entry, location)
    return builds


def make_build(line: str, entry: BuildFile, location: str | None) -> Build:
    """Put together a build; a wheel's digest is taken when a case is resolved."""
    source = "wheel" if entry.wheel else "path" if entry.path else "index"
    version = entry.version
    if entry.wheel and location:
        version = wheel_version(Path(location))
    return Build(line, entry.variant or "", source, version, location)


def wheel_version(path: Path) -> str | None:
    """Return the version that a wheel's file name says: `name-VERSION-tags.whl`."""
    parts = path.stem.split("-")
    return parts[1] if len(parts) >= 5 else None


_KEYS = {"framework": "frameworks", "nodes": "devices", "devices_per_node": "devices"}


def _check_cases(
    document: Document,
    cases: list[_Placed],
    catalog: Catalog,
    cluster: Cluster | None,
    builds: dict[str, Build],
    problems: list[Problem],
) -> None:
    first: dict[str, Key] = {}
    for placed in cases:
        case, key = placed.case, placed.key
        if case.case_id in first:
            line = document.lines[first[case.case_id]]
            message = f"makes the case {case.case_id} again (first from line {line})"
            problems.append(document.problem(key, message))
        first.setdefault(case.case_id, key)
        refusal = unsupported(case, catalog)
        if refusal is None and cluster is not None:
            framework = catalog.frameworks[case.framework]
            refusal = unfit(case, cluster, framework)
            if refusal is None:
                variant = variant_of(framework, cluster, builds)
                refusal = variant if isinstance(variant, Refusal) else None
        if refusal is not None:
            problems.append(document.problem(_place_of(document, placed, refusal), refusal.message))


def _place_of(document: Document, placed: _Placed, refusal: Refusal) -> Key:
    """The key, and the item of its list, that a refusal is about."""
    name = _KEYS.get(refusal.axis, refusal.axis)
    if name == "devices" and (*placed.key, name) not in document.lines:
        name = "trainers"
    key = (*placed.key, name)
    if key not in document.lines:
        return (name,) if (name,) in document.lines else key
    written: Any = document.data["matrix"][placed.key[-1]][name]
    value: Any = getattr(placed.case, refusal.axis, None)
    if name == "devices":
        value = f"{placed.case.nodes}x{placed.case.devices_per_node}"
    if isinstance(written, list) and value in written:
        return (*key, written.index(value))
    return key


def customise(
    suite: Suite,
    catalog: Catalog,
    cluster: Cluster,
    *,
    scale: str | None = None,
    repeats: int | None = None,
    builds: dict[str, Build] | None = None,
) -> Suite:
    """Return the suite as somebody wants it once: another cluster, scale, repeats or builds.

    Raises:
        UserError: a case cannot run that way.
    """
    cases = suite.cases
    if scale is not None:
        cases = tuple(dict.fromkeys(dataclasses.replace(case, scale=scale) for case in cases))
    chosen = {**suite.builds, **(builds or {})}
    if repeats is not None and repeats < 1:
        raise UserError(f"repeats: found {repeats}; expected a whole number of at least 1")
    for line in chosen:
        if line not in catalog.frameworks:
            raise UserError(f"build: {one_of(line, catalog.frameworks)}")
    refusals: list[str] = []
    for case in cases:
        framework = catalog.frameworks[case.framework]
        refusal = unsupported(case, catalog) or unfit(case, cluster, framework)
        variant = variant_of(framework, cluster, chosen)
        if refusal is None and isinstance(variant, Refusal):
            refusal = variant
        if refusal is not None and refusal.message not in refusals:
            refusals.append(refusal.message)
    if refusals:
        raise UserError("\n".join(f"{display(Path(suite.source))}: {each}" for each in refusals))
    protocol = suite.protocol
    if repeats is not None:
        protocol = dataclasses.replace(protocol, repeats=repeats)
    return dataclasses.replace(
        suite, cluster=cluster.name, cases=cases, protocol=protocol, builds=chosen
    )


def parse_build(text: str) -> Build:
    """Read a build from a command line: `pytorch=2.13.0`, `paddle3=/some/file.whl`, `x=/prefix`.

    Raises:
        UserError: the text is no build, or the wheel is not there.
    """
    line, separator, value = text.partition("=")
    if not (separator and line and value):
        raise UserError(
            f'build: found "{text}"; expected LINE=VERSION, LINE=FILE.whl or LINE=/PREFIX'
        )
    if value.endswith(".whl"):
        path = Path(value).expanduser().absolute()
        if not path.is_file():
            raise UserError(f'build: found "{value}", which is not there; expected a wheel file')
        return Build(line, "", "wheel", wheel_version(path), str(path))
    if value.startswith(("/", "~")):
        return Build(line, "", "path", None, value)
    try:
        return Build(line, "", "index", values.version(value))
    except ValueError as error:
        raise UserError(f"build: {line}: {error}, FILE.whl or /PREFIX") from None
