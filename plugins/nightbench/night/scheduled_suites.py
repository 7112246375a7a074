"""Reads the suites with a schedule."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from nightbench.config import find_suites, load_catalog, locations
from nightbench.config.suite_heads import SuiteHead, suite_heads
from nightbench.config.suites import suite_and_cluster
from nightbench.core.errors import UserError
from nightbench.core.expected_nights import NightSchedule
from nightbench.core.model import Catalog, Route


@dataclass(frozen=True)
class ScheduledSuite:
    """A suite with a schedule, which implies a result for each night."""

    suite: str
    cluster: str
    owner: str
    timetable: NightSchedule | None
    """None if its file is unreadable: then the last known one holds."""
    channels: tuple[str, ...] | None = None
    """Channels of the suite; None if unreadable: then those of its last run."""
    routes: tuple[Route, ...] = ()
    """Owners and channels of its missing nights, if others than the suite's."""
    is_paused: bool = False
    """True if its DAG is paused."""
    problem: str | None = None
    """Why it cannot run; empty if no reason is known."""
    dag_id: str = ""


def scheduled_suites() -> Iterator[ScheduledSuite]:
    """Return all suites with a schedule; a broken file as far as it is readable, with the error."""
    catalog = load_catalog()
    for head in suite_heads(locations.dags_folder()):
        if head.schedule or head.problem:
            yield _scheduled_suite(head, catalog)


def _scheduled_suite(head: SuiteHead, catalog: Catalog) -> ScheduledSuite:
    dags = locations.dags_folder()
    broken = ScheduledSuite(
        head.name, head.cluster, head.owner, None, dag_id=head.dag_id, problem=head.problem
    )
    if head.problem or not head.schedule:
        return broken
    try:
        suite, cluster = suite_and_cluster(find_suites(dags)[head.name], catalog)
    except UserError as error:
        # Planning its run fails with the same message, so there will be no result.
        return dataclasses.replace(broken, problem=f"its file has an error: {error}")
    hours = tuple(text for text in (cluster.window, suite.night.window) if text)
    return ScheduledSuite(
        suite.name,
        suite.cluster,
        suite.owner,
        NightSchedule(head.schedule, hours, suite.night.budget_s, suite.night.deadline),
        suite.alerts,
        suite.routes,
        dag_id=head.dag_id,
    )
