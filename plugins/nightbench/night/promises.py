"""What the schedules of the suites' files promise."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from nightbench.config import find_clusters, load_catalog, load_cluster, load_suite, locations
from nightbench.config.suite_heads import SuiteHead, suite_heads
from nightbench.core.errors import UserError
from nightbench.core.hours import Hours
from nightbench.core.model import Catalog
from nightbench.core.timetable import Clock, Timetable
from nightbench.night.missing import Promise


def promises() -> Iterator[Promise]:
    """All suites with a schedule; of a broken file what can be read of it, and why it is broken."""
    catalog = load_catalog(locations.benchmarks_folder())
    for head in suite_heads(locations.dags_folder()):
        if head.schedule or head.problem:
            yield _promise(head, catalog)


def _promise(head: SuiteHead, catalog: Catalog) -> Promise:
    dags = locations.dags_folder()
    broken = Promise(
        head.name, head.cluster, head.owner, None, dag_id=head.dag_id, problem=head.problem
    )
    if head.problem or not head.schedule:
        return broken
    try:
        suite = load_suite(dags / "suites" / f"{head.name}.yaml", catalog)
        cluster = load_cluster(find_clusters(dags)[suite.cluster], catalog=catalog)
    except UserError as error:
        # Planning its run fails with the same message: that is why nothing will come of it.
        return dataclasses.replace(broken, problem=f"its file is refused: {error}")
    hours = [Hours.parse(text) for text in (cluster.window, suite.night.window) if text]
    deadline = Clock.parse(suite.night.deadline) if suite.night.deadline else None
    return Promise(
        suite.name,
        suite.cluster,
        suite.owner,
        Timetable(head.schedule, tuple(hours), suite.night.budget_s, deadline),
        suite.alerts,
        dag_id=head.dag_id,
    )
