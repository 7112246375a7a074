"""Reads a suite stage by stage: its file at a scale, validated, expanded into cases, checked."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nightbench.config import locations
from nightbench.config.builds import read_builds
from nightbench.config.case_checks import MOST_CASES, check_cases, check_hours, check_reference
from nightbench.config.clusters import load_cluster
from nightbench.config.commands import read_commands
from nightbench.config.locations import cluster_file, find_suites
from nightbench.config.matrix import WrittenCase, expand
from nightbench.config.scales import at_scale, scales_of
from nightbench.config.schema import ProtocolFile, SuiteFile
from nightbench.config.source import Document
from nightbench.config.suite_heads import command_lines, workload_scales
from nightbench.config.validate import alike
from nightbench.config.written_suite import validate_suite
from nightbench.core.budget import PRIORITY
from nightbench.core.complaints import Complaint
from nightbench.core.errors import ItemErrors, UserError
from nightbench.core.model import Catalog, Cluster, Protocol, Suite, SuiteTable


def load_suite(
    path: Path,
    catalog: Catalog,
    *,
    cluster: Cluster | None = None,
    scale: str | None = None,
) -> Suite:
    """Return the suite of `suite_and_cluster`."""
    return suite_and_cluster(path, catalog, cluster=cluster, scale=scale)[0]


def readable_suites(files: Mapping[str, Path], catalog: Catalog) -> dict[str, Suite]:
    """Return the suites of these files by name; the log says what is wrong with the others."""
    found, errors = dict[str, Suite](), ItemErrors()
    for name, path in files.items():
        with errors.of(f"suite {name} is left out"):
            found[name] = load_suite(path, catalog)
    return found


def suite_and_cluster(
    path: Path,
    catalog: Catalog,
    *,
    cluster: Cluster | None = None,
    scale: str | None = None,
    untried: bool = False,
) -> tuple[Suite, Cluster]:
    """Read a suite and check every case against its framework line, workload and cluster.

    Without `cluster` and `scale` it is those that the suite names, the cluster from `clusters/`
    next to the suite or its folder `suites/`, or of the project. `untried` also plans
    configurations that were never run on such devices yet, whatever the suite says.

    Raises:
        ConfigError: all that is wrong with the file.
        UserError: all that is wrong with the cluster's file.
    """
    document = at_scale(path, scale, scales_of(catalog))
    file = validate_suite(document, catalog)
    cluster = cluster or _own_cluster(document, file, catalog)
    lines = tuple(each.line for each in catalog.frameworks.values() if each.commands)
    cases = expand(file, lines, len(cluster.nodes), MOST_CASES + 1)
    made = [each.case for each in cases]
    complaints: list[Complaint] = []
    commands = read_commands(file.commands, catalog, made, complaints)
    catalog = replace(catalog, workloads={**commands, **catalog.workloads})
    builds = read_builds(path, "builds", file.builds, complaints)
    reference = read_builds(path, "reference", file.reference, complaints, least=1)
    untried = untried or file.untried
    skipped = check_cases(cases, catalog, cluster, builds, complaints, untried=untried)
    check_reference(file, cases, catalog, cluster, builds, reference, complaints)
    check_hours(file, cluster, complaints)
    document.add(complaints)
    if document.problems:
        raise document.error
    measured = [each for each in cases if each.case.case_id not in skipped]
    own: dict[str, Any] = {
        "name": file.suite,
        "cluster": cluster.name,
        "cases": tuple(dict.fromkeys(each.case for each in measured)),
        "protocol": _protocol(file.protocol),
        "builds": builds,
        "reference": reference,
        "untried": untried,
        "repeat_timeout_s": file.timeouts.repeat,
        "progress_timeout_s": file.timeouts.progress,
        "source": str(path),
        "scale": file.scale,
        "commands": commands,
        "tables": tuple(_table(name, each, cases) for name, each in file.tables.items()),
        "skipped": skipped,
        "priorities": {
            each.case.case_id: each.block.priority
            for each in measured
            if each.block.priority != PRIORITY
        },
    }
    return Suite(**alike(file, Suite) | own), cluster


def _table(name: str, table: SuiteTable, cases: Iterable[WrittenCase]) -> SuiteTable:
    named = tuple(each.case for each in cases if name in each.block.tables)
    return table.model_copy(update={"name": name, "cases": named})


def _protocol(file: ProtocolFile) -> Protocol:
    repeats = file.repeats
    own: dict[str, Any] = {
        "repeats": repeats.max,
        "min_repeats": repeats.min if repeats.confidence is not None else None,
        "confidence": repeats.confidence,
    }
    return Protocol(**alike(file, Protocol) | own)


def _own_cluster(document: Document, file: SuiteFile, catalog: Catalog | None) -> Cluster:
    """Return the cluster that a suite names; None if there is none of this name."""
    try:
        path = cluster_file(file.cluster, beside=document.path)
    except UserError as error:
        document.complain(("cluster",), str(error).removeprefix("cluster: "))
        raise document.error from None
    return load_cluster(path, catalog=catalog)


MOST_NAMES = 500
"""Number of case_ids that a form offers; a longer list does not help."""


def case_names(dags: Path, suites: Iterable[str]) -> list[str]:
    """Return the case_ids of suites, each once, in the order of the suites and their files.

    A suite that cannot be read contributes none: its run says what is wrong, with the line.
    """
    files, benchmarks = find_suites(dags), locations.benchmarks_folder()
    lines = command_lines(benchmarks, dags)
    scales = {scale for each in workload_scales(benchmarks, dags).values() for scale in each}
    read = [_case_ids(files[each], lines, scales) for each in suites if each in files]
    found = itertools.chain.from_iterable(read)
    return list(dict.fromkeys(found))[:MOST_NAMES]


def _case_ids(path: Path, lines: tuple[str, ...], scales: Collection[str]) -> list[str]:
    try:
        document = at_scale(path, None, scales)
        file = validate_suite(document, None)
        nodes = len(_own_cluster(document, file, None).nodes)
    except UserError:
        return []
    return [each.case.case_id for each in expand(file, lines, nodes, MOST_NAMES)]
