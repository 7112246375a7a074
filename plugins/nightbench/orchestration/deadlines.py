"""What the check of deadlines does on a worker: read the suites, ask for their DAGs, tell."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nightbench.core.errors import UserError
from nightbench.core.hours import Hours
from nightbench.core.timetable import UNCHECKED, Clock, Timetable, unchecked
from nightbench.orchestration import places
from nightbench.orchestration.channels import channel_url
from nightbench.orchestration.heads import SuiteHead, suite_heads
from nightbench.orchestration.runs import connect

if TYPE_CHECKING:
    from nightbench.core.model import Catalog
    from nightbench.night.missing import Promise

log = logging.getLogger(__name__)


def promises() -> Iterator[Promise]:
    """All suites with a schedule; of a broken file what can be read of it, and why it is broken."""
    from nightbench.config import load_catalog

    catalog = load_catalog(places.benchmarks_folder())
    for head in suite_heads(places.dags_folder()):
        if head.schedule or head.problem:
            yield _promise(head, catalog)


def _promise(head: SuiteHead, catalog: Catalog) -> Promise:
    from nightbench.config import find_clusters, load_cluster, load_suite
    from nightbench.night.missing import Promise

    dags = places.dags_folder()
    dag_id = f"nightly_{head.name}"
    broken = Promise(head.name, head.cluster, head.owner, None, dag_id=dag_id, problem=head.problem)
    if head.problem or not head.schedule:
        return broken
    try:
        suite = load_suite(dags / "suites" / f"{head.name}.yaml", catalog)
        cluster = load_cluster(find_clusters(dags)[suite.cluster], catalog=catalog)
    except UserError as error:
        # Its plan fails with the same words: that is why nothing will come of it.
        return dataclasses.replace(broken, problem=f"its file is refused: {error}")
    hours = [Hours.parse(text) for text in (cluster.window, suite.night.window) if text]
    deadline = Clock.parse(suite.night.deadline) if suite.night.deadline else None
    return Promise(
        suite.name,
        suite.cluster,
        suite.owner,
        Timetable(head.schedule, tuple(hours), suite.night.budget_s, deadline),
        suite.alerts,
        dag_id=dag_id,
    )


def check(is_paused: Callable[[str], bool | None]) -> str:
    """Check all deadlines; returns a line of summary.

    Args:
        is_paused: whether a DAG is switched off; None where Airflow knows no such DAG.

    Raises:
        UserError: the warehouse is away, or no channel took a message.
    """
    from airflow.sdk.configuration import conf

    from nightbench.night.deadlines import check_deadlines, refuse

    found = []
    for promise in promises():
        paused = is_paused(promise.dag_id)
        problem = promise.problem
        if paused is None:
            problem = problem or f"Airflow knows no DAG {promise.dag_id}"
        found.append(dataclasses.replace(promise, is_paused=bool(paused), problem=problem))
    checked = check_deadlines(
        found,
        places.spool(),
        connect,
        datetime.now(UTC),
        resolve=channel_url,
        base_url=conf.get("api", "base_url"),
    )
    for delivery in checked.deliveries:
        if not delivery.sent:
            log.warning("%s took no message: %s", delivery.channel, delivery.error)
    refuse(checked)
    return checked.sentence()


def complain_if_unchecked() -> None:
    """Say so where nobody would hear of a missing night.

    Raises:
        UserError: nobody has checked deadlines for an hour, or the warehouse is away.
    """
    from nightbench.warehouse.deadlines import NightBook

    with closing(connect()) as connection:
        book = NightBook(connection)
        last, first = book.last_check(), book.first_run()
    now = datetime.now(UTC)
    if last is None and (first is None or now - first <= UNCHECKED):
        return  # A deployment that has just begun: the first check is on its way.
    problem = unchecked(last["checked_at"] if last else None, now)
    if problem is not None:
        raise UserError(problem)
