"""Reads suite files: a matrix becomes cases, each checked against line, workload and cluster."""

import dataclasses
import itertools
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from nightbench.config import locations
from nightbench.config.builds import read_builds
from nightbench.config.clusters import clusters_for, lines_of, load_cluster
from nightbench.config.commands import read_commands
from nightbench.config.matrix import WrittenCase, read_cases
from nightbench.config.scales import at_scale, own_scale, scales_of
from nightbench.config.schema import ProtocolFile, SuiteFile, TableFile
from nightbench.config.source import Document, Key, display, read_document
from nightbench.config.suite_heads import command_lines, find_suites, workload_scales
from nightbench.config.validate import validate
from nightbench.core.budget import PRIORITY
from nightbench.core.capabilities import refusal_of
from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.hours import Hours, meet
from nightbench.core.model import (
    Build,
    Case,
    Catalog,
    Cluster,
    Protocol,
    Suite,
    SuiteTable,
)
from nightbench.core.variants import Refusal, variant_of


def load_suite(
    path: Path,
    catalog: Catalog,
    *,
    cluster: Cluster | None = None,
    scale: str | None = None,
    untried: bool = False,
) -> Suite:
    """Read a suite and check every case against its framework line, workload and cluster.

    Without `cluster` and `scale` it is those that the suite names, the cluster from `clusters/`
    beside the suite or its folder `suites/`, or of the project. `untried` plans also what nobody
    has run on such devices yet, whatever the suite says.

    Raises:
        ConfigError: all that is wrong with the file.
        UserError: all that is wrong with the cluster's file.
    """
    scales = scales_of(catalog)
    plain = read_document(path)
    own_of_file = plain.data.get("scale")
    if isinstance(own_of_file, str) and own_of_file not in scales and scale in (None, own_of_file):
        plain.complain(("scale",), one_of(own_of_file, scales))
        raise plain.error
    if scale is not None and scale not in scales:
        raise UserError(f"scale: {one_of(scale, scales)}")
    document = at_scale(plain, scale, scales)
    context = {
        **lines_of(catalog),
        **{name: _names(document.data.get(name)) for name in ("tables", "commands")},
        "command_lines": tuple(x.line for x in catalog.frameworks.values() if x.commands),
    }
    file = validate(SuiteFile, document, context=context)
    document.complain_of_name("suite", path.stem)
    if cluster is None:
        cluster = _own_cluster(document, catalog)
    nodes = len(cluster.nodes) if cluster else None
    written = list(read_cases(document, file, context, nodes))
    commands = file.commands if file else {}
    own = read_commands(document, commands, catalog, [each.case for each in written])
    catalog = dataclasses.replace(catalog, workloads={**own, **catalog.workloads})
    # A command that is not in order has been complained of, and its cases are not known.
    written = [each for each in written if each.case.workload in catalog.workloads]
    builds = read_builds(document, file.builds if file else {})
    reference = read_builds(document, file.reference if file else {}, "reference", least=1)
    untried = untried or (file is not None and file.untried)
    skipped = _check_cases(document, written, catalog, cluster, builds, untried=untried)
    _check_reference(document, file, written, catalog, cluster, builds, reference)
    _check_hours(document, file, cluster)
    if file is None or document.problems or cluster is None:
        raise document.error
    cases = [each for each in written if each.case.case_id not in skipped]
    return Suite(
        name=file.suite,
        owner=file.owner,
        cluster=cluster.name,
        scale=own_scale(document),
        commands=own,
        cases=tuple(dict.fromkeys(placed.case for placed in cases)),
        skipped=skipped,
        description=file.description,
        schedule=file.schedule,
        env=file.env,
        role_env=file.role_env,
        alerts=file.alerts,
        untried=untried,
        tables=tuple(_table(name, each, written) for name, each in file.tables.items()),
        protocol=_protocol(file.protocol),
        builds=builds,
        reference=reference,
        policy=file.policy,
        repeat_timeout_s=file.timeouts.repeat,
        progress_timeout_s=file.timeouts.progress,
        source=str(path),
        night=file.night,
        publish=file.publish,
        priorities={
            placed.case.case_id: placed.priority for placed in cases if placed.priority != PRIORITY
        },
        routes=file.routes,
    )


def _names(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _table(name: str, file: TableFile, written: Iterable[WrittenCase]) -> SuiteTable:
    published = file.published
    return SuiteTable(
        name=name,
        title=file.title,
        rows=file.rows,
        columns=file.columns,
        metric=file.metric,
        chart=file.chart,
        document=published.document if published else None,
        figures=published.figures if published else (),
        published_only=published.only if published else {},
        cases=tuple(each.case for each in written if name in each.tables),
    )


def _protocol(file: ProtocolFile) -> Protocol:
    repeats = file.repeats
    return Protocol(
        warmup_steps=file.warmup_steps,
        measured_steps=file.measured_steps,
        min_seconds=file.min_seconds,
        repeats=repeats.max,
        min_repeats=repeats.min if repeats.confidence is not None else None,
        confidence=repeats.confidence,
    )


def _check_hours(document: Document, file: SuiteFile | None, cluster: Cluster | None) -> None:
    """Complain of a window that the cluster's own hours never meet."""
    if file is None or cluster is None or not (file.night.window and cluster.window):
        return
    hours = [Hours.parse(text) for text in (file.night.window, cluster.window)]
    if not meet(hours):
        message = (
            f'found "{file.night.window}", which never meets the hours of cluster {cluster.name}, '
            f"{cluster.window}"
        )
        document.complain(("night", "window"), message)


def _check_reference(
    document: Document,
    file: SuiteFile | None,
    cases: Iterable[WrittenCase],
    catalog: Catalog,
    cluster: Cluster | None,
    builds: dict[str, Build],
    reference: dict[str, Build],
) -> None:
    """Complain of reference builds that no case could be measured beside."""
    lines = sorted({each.case.framework for each in cases})
    if file and file.reference and file.policy.metric != "throughput":
        message = f"is for the metric throughput; found policy.metric {file.policy.metric}"
        document.complain(("reference",), message)
    for line, build in reference.items():
        if line not in lines:
            message = f"the suite has no case of {line}; expected one of {', '.join(lines)}"
            document.complain(("reference", line), message)
        elif build == builds.get(line):
            message = "is the build that the nights measure; expected another one"
            document.complain(("reference", line), message)
        elif cluster is not None:
            variant = variant_of(catalog.frameworks[line], cluster, {**builds, line: build})
            if isinstance(variant, Refusal):
                document.complain(("reference", line), variant.message)


def _own_cluster(document: Document, catalog: Catalog | None) -> Cluster | None:
    name = document.data.get("cluster")
    if not isinstance(name, str):
        return None
    files, folders = clusters_for(document.path, locations.dags_folder())
    if name not in files:
        looked = ", ".join(display(folder) for folder in folders)
        message = f"{one_of(name, files)}; looked in {looked}"
        document.complain(("cluster",), message)
        return None
    return load_cluster(files[name], catalog=catalog)


_KEYS = {"framework": "frameworks", "nodes": "devices", "devices_per_node": "devices"}


def _check_cases(
    document: Document,
    cases: list[WrittenCase],
    catalog: Catalog,
    cluster: Cluster | None,
    builds: dict[str, Build],
    *,
    untried: bool,
) -> dict[str, str]:
    """case_id -> why, of the cases that cannot run and may be skipped; all others are problems."""
    first: dict[str, WrittenCase] = {}
    skipped: dict[str, str] = {}
    for placed in cases:
        case, key = placed.case, placed.key
        before = first.setdefault(case.case_id, placed)
        # Two tables may hold the same case; it is measured once.
        if before is not placed and not (before.tables and placed.tables):
            line = document.lines[before.key]
            message = f"makes the case {case.case_id} again (first from line {line})"
            document.complain(key, message)
        refusal = _refusal(case, catalog, cluster, builds, untried)
        if refusal is not None and placed.skip:
            skipped[case.case_id] = refusal.message.removeprefix(f"{case.case_id} ")
        elif refusal is not None:
            document.complain(_place_of(document, placed, refusal), refusal.message)
    return skipped


def _refusal(
    case: Case, catalog: Catalog, cluster: Cluster | None, builds: dict[str, Build], untried: bool
) -> Refusal | None:
    refusal = refusal_of(case, catalog, cluster, builds, untried=untried)
    if refusal is not None or cluster is None:
        return refusal
    variant = variant_of(catalog.frameworks[case.framework], cluster, builds)
    return variant if isinstance(variant, Refusal) else None


def _place_of(document: Document, placed: WrittenCase, refusal: Refusal) -> Key:
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


MOST_NAMES = 500
"""Case_ids that are offered; a list that is longer helps nobody in a form."""


def case_names(dags: Path, suites: Iterable[str]) -> list[str]:
    """Return the case_ids of suites, each once, in the order of the suites and their files.

    A suite that cannot be read contributes none: its run says what is wrong, with the line.
    """
    files, benchmarks = find_suites(dags), locations.benchmarks_folder()
    context: dict[str, object] = {"command_lines": command_lines(benchmarks, dags)}
    scales = {scale for each in workload_scales(benchmarks, dags).values() for scale in each}
    read = [_case_ids(files[each], context, scales) for each in suites if each in files]
    found = itertools.chain.from_iterable(read)
    return list(dict.fromkeys(found))[:MOST_NAMES]


def _case_ids(path: Path, context: dict[str, object], scales: Collection[str]) -> list[str]:
    try:
        document = at_scale(read_document(path), None, scales)
        file = validate(SuiteFile, document)
        cluster = _own_cluster(document, None)
        nodes = len(cluster.nodes) if cluster else None
        return [each.case.case_id for each in read_cases(document, file, context, nodes)]
    except UserError:
        return []


def customise(
    suite: Suite,
    catalog: Catalog,
    cluster: Cluster,
    *,
    repeats: int | None = None,
    builds: dict[str, Build] | None = None,
) -> Suite:
    """Return the suite with what one run overrides: cluster, repeats, builds.

    Raises:
        UserError: a case cannot run that way.
    """
    catalog = catalog.with_commands(suite)
    chosen = {**suite.builds, **(builds or {})}
    if repeats is not None and repeats < 1:
        raise UserError(f"repeats: found {repeats}; expected a whole number of at least 1")
    for line in chosen:
        if line not in catalog.frameworks:
            raise UserError(f"build: {one_of(line, catalog.frameworks)}")
    refusals: list[str] = []
    for case in suite.cases:
        refusal = _refusal(case, catalog, cluster, chosen, suite.untried)
        if refusal is not None and refusal.message not in refusals:
            refusals.append(refusal.message)
    if refusals:
        raise UserError("\n".join(f"{display(Path(suite.source))}: {each}" for each in refusals))
    protocol = suite.protocol
    if repeats is not None:
        # A number means exactly that number, also where the suite lets the spread decide.
        protocol = dataclasses.replace(protocol, repeats=repeats, min_repeats=None, confidence=None)
    return dataclasses.replace(
        suite,
        cluster=cluster.name,
        protocol=protocol,
        builds=chosen,
        private_builds=frozenset(
            line for line in builds or {} if chosen[line] != suite.builds.get(line)
        ),
    )
