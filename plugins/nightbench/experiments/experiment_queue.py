"""The queue of experiments: when nights leave room for them, and which one is measured next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nightbench.config.clusters import cluster_of
from nightbench.core.budget import clock
from nightbench.core.errors import UserError
from nightbench.core.expected_nights import LONGEST_RUN, expected_nights
from nightbench.core.experiment_queue import Shares, left_s, ordered
from nightbench.core.model import RunKind
from nightbench.core.model.experiments import NIGHT, Experiment, ExperimentKind
from nightbench.night.planning import open_now
from nightbench.night.scheduled_suites import ScheduledSuite
from nightbench.spool import Spool
from nightbench.spool.run import started_at
from nightbench.warehouse import opened
from nightbench.warehouse.connection import Connect
from nightbench.warehouse.repository import Row

ENDED = ("success", "failed", None)
"""States of a DAG run that measures no more."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Gap:
    """Whether experiments may begin on a cluster now, and until when."""

    until: datetime | None = None
    """No launch begins that cannot end by then."""
    why_not: str = ""


def gap(cluster: str, suites: Iterable[ScheduledSuite], spool: Spool, now: datetime) -> Gap:
    """Return the time before the next night of a cluster; nights go first.

    Raises:
        UserError: there is no such cluster.
    """
    where = cluster_of(cluster)
    for run in reversed(spool.runs()[-50:]):
        document, began = run.run() or {}, started_at(run)
        if (
            document.get("cluster") == cluster
            and document.get("run_kind") == RunKind.NIGHTLY
            and run.loaded() is None
            and began is not None
            and now - began < LONGEST_RUN
        ):
            return Gap(why_not=f"the night {run.run_id} is in progress")
    try:
        closes_at = open_now(where, now)
    except UserError as error:
        return Gap(why_not=str(error))
    ends = [closes_at] if closes_at else []
    for each in suites:
        if each.cluster == cluster and each.timetable is not None:
            nights = expected_nights(each.timetable, now, now + timedelta(days=2))
            ends += [night.scheduled_at for night in nights][:1]
    return Gap(min(ends, default=None))


def least_s(row: Row) -> float:
    """Return the seconds that an experiment needs at least to get anywhere: two launches."""
    if row["kind"] == ExperimentKind.COMPARE:
        whole_s: float = row["estimate_s"] or 0.0
        return float(whole_s / (row["rounds"] * max(1, len(row["cases"]))))
    return left_s(row) if row["kind"] == ExperimentKind.PROFILE else 0.0


def take(
    connect: Connect,
    spool: Spool,
    dag_run_id: str,
    dag_run_state: Callable[[str], str | None],
    suites: Callable[[], Iterable[ScheduledSuite]],
    *,
    night: str | None = None,
    but_not: Collection[str] = (),
) -> tuple[Experiment, Gap] | None:
    """Take the experiment that a DAG run measures next; None if there is none.

    It is the one that the DAG run has taken before, if that has not ended. Otherwise it is one
    whose DAG run has ended without it; else the next of the queue. A profile waits for its
    comparison. Requests of a night need no gap.

    Args:
        connect: opens the warehouse.
        spool: has the runs of nights.
        dag_run_id: of the DAG run that measures.
        dag_run_state: state of a DAG run of this DAG by its id.
        suites: all scheduled suites.
        night: a run; nothing is taken but what it requested.
        but_not: names of experiments that are left in the queue.
    """
    now = datetime.now(UTC)
    with opened(connect) as warehouse:
        rows = warehouse.experiments.find(states=("queued", "running"))
        running = [row for row in rows if row["state"] == "running" and row["dag_run_id"]]
        wanted = [
            row
            for row in rows
            if night is None or (row["priority"] == NIGHT and row["run_id"] == night)
        ]
        queued = [row for row in wanted if row["state"] == "queued" and row["name"] not in but_not]
        if not running and not queued:
            return None
        nights = list(suites())

        def gap_of(cluster: str) -> Gap:
            try:
                return gap(cluster, nights, spool, now)
            except UserError as error:  # its file is gone: its requests keep waiting
                return Gap(why_not=str(error))

        def taken(row: Row) -> tuple[Experiment, Gap]:
            found = warehouse.experiments.get(row["name"]) or row
            ours = Experiment.of(found)
            return ours, Gap(ours.until) if ours.priority == NIGHT else gap_of(ours.cluster)

        for row in sorted(running, key=lambda each: each["dag_run_id"] != dag_run_id):
            mine = row["dag_run_id"] == dag_run_id
            if mine or (
                row in wanted
                and dag_run_state(row["dag_run_id"]) in ENDED
                and warehouse.experiments.adopt(row["name"], row["dag_run_id"], dag_run_id)
            ):
                return taken(row)
        of = {row["of"] for row in queued if row["kind"] == ExperimentKind.PROFILE}
        done = {row["name"] for row in warehouse.experiments.find(names=list(of), states=["done"])}
        queued = [row for row in queued if row.get("of") is None or row["of"] in done]
        busy = {row["cluster"] for row in running}
        spent = warehouse.experiments.spent()
        for cluster in sorted({row["cluster"] for row in queued} - busy):
            here = {row["experiment_id"]: row for row in queued if row["cluster"] == cluster}
            found = gap_of(cluster)
            if found.why_not:
                log.info("%s: %d requests wait: %s", cluster, len(here), found.why_not)
                here = {number: row for number, row in here.items() if row["priority"] == NIGHT}
            if not here:
                continue
            policy = cluster_of(cluster).compare
            mine_of = {person: s for (where, person), s in spent.items() if where == cluster}
            for next_one in ordered(here.values(), Shares(policy, mine_of)):
                if next_one.place is None:
                    continue
                number = next_one.experiment_id
                row = here[number]
                until = row["until"] if row["priority"] == NIGHT else found.until
                if until and now + timedelta(seconds=least_s(row)) > until:
                    log.info("%s: request %d waits until after %s", cluster, number, clock(until))
                    continue
                if warehouse.experiments.begin(row["name"], dag_run_id):
                    return taken(row)
    return None
