"""Cases of a framework line that cannot be installed, measured with another line instead."""

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from nightbench.core.capabilities import refusal_of
from nightbench.core.model import LINE_AXES, Case, Catalog, Cluster, Strategy, Suite, series_key

MOST_PSERVERS = 4
"""Servers of a case that another line runs in place of a synchronisation that it lacks."""


def stand_in_lines(suite: Suite, line: str, cluster: Cluster, catalog: Catalog) -> list[str]:
    """Return the lines that can run all cases of a line of a suite.

    Lines outside the suite come first, among them those that support the newest Python: nodes most
    often have it.
    """
    own = {case.framework for case in suite.cases}
    able = [
        other
        for other, info in catalog.frameworks.items()
        if other != line and not info.for_tests and not info.commands
        if with_stand_in(suite, line, other, cluster, catalog) is not None
    ]

    def fitness(other: str) -> tuple[bool, tuple[int, ...]]:
        builds = catalog.frameworks[other].variants.values()
        series = (x for each in builds if each.device == cluster.device_kind for x in each.pythons)
        return other not in own, max(map(series_key, series), default=())

    return sorted(able, key=fitness, reverse=True)


def with_stand_in(
    suite: Suite, line: str, other: str, cluster: Cluster, catalog: Catalog
) -> tuple[Case, ...] | None:
    """Return the suite's cases with those of a line run by another; None if it cannot run all.

    The cases stay as many and distinct. A value of `sync` that the other line does not support
    becomes one that it supports, if need be with another number of servers.
    """
    taken = {case.case_id for case in suite.cases if case.framework != line}
    found = []
    for case in suite.cases:
        if case.framework == line:
            fitting = (
                each
                for each in _variations(replace(case, framework=other), catalog)
                if each.case_id not in taken and not _refused(each, suite, cluster, catalog)
            )
            chosen = next(fitting, None)
            if chosen is None:
                return None
            case = chosen
            taken.add(case.case_id)
        found.append(case)
    return tuple(found)


def _variations(case: Case, catalog: Catalog) -> Iterator[Case]:
    if case.strategy is not Strategy.PARAMETER_SERVER:
        yield case
        return
    others = [*catalog.frameworks[case.framework].axes.get("sync", [LINE_AXES["sync"]])]
    servers = range(case.pservers, max(case.pservers, MOST_PSERVERS) + 1)
    for pservers, sync in itertools.product(servers, dict.fromkeys([case.sync, *others])):
        yield replace(case, pservers=pservers, sync=str(sync))


def _refused(case: Case, suite: Suite, cluster: Cluster, catalog: Catalog) -> bool:
    if case.framework not in catalog.workloads[case.workload].frameworks:
        return True
    return refusal_of(case, catalog, cluster, suite.builds, untried=suite.untried) is not None


def changed_values(before: Sequence[Case], after: Collection[Case]) -> list[str]:
    """Return what else than the line differs between cases: "sync geo -> async"."""
    return list(
        dict.fromkeys(
            f"{axis} {getattr(old, axis)} -> {getattr(new, axis)}"
            for old, new in zip(before, after, strict=True)
            for axis in ("sync", "pservers")
            if getattr(old, axis) != getattr(new, axis)
        )
    )
