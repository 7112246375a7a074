"""What the first task of a run does on a worker: choose, fit it into the night, store the plan."""

from __future__ import annotations

import logging
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING

from nightbench.core.errors import UserError
from nightbench.core.timetable import LONGEST_WAIT
from nightbench.orchestration import places
from nightbench.orchestration.runs import connect

if TYPE_CHECKING:
    from nightbench.core.budget import Night
    from nightbench.orchestration.wishes import Wish

log = logging.getLogger(__name__)


class NotTonight(UserError):
    """The next night is another run's."""


def opens_at(wish: Wish, now: datetime) -> datetime | None:
    """When the night of a wish begins; None where it goes on, or nothing limits it.

    Raises:
        NotTonight: it begins later than anybody waits.
        UserError: see `wishes.choose`.
    """
    from nightbench.core.budget import clock
    from nightbench.night.window import next_night
    from nightbench.orchestration.wishes import choose

    if not wish.night:
        return None
    suite, cluster, _ = choose(wish)
    room = next_night(suite, cluster, now)
    if room.start <= now:
        return None
    if room.start - now > LONGEST_WAIT:
        hours = LONGEST_WAIT.total_seconds() / 3600
        raise NotTonight(
            f"suite {suite.name} on cluster {cluster.name}: the next night begins at "
            f"{clock(room.start)}, more than {hours:.0f} h from now: this run comes too late for "
            "its night, or the suite's schedule does not belong to its hours"
        )
    return room.start


def plan_run(
    wish: Wish,
    run_id: str,
    started_at: datetime,
    requested_by: str = "",
    dag_id: str | None = None,
    dag_run_id: str | None = None,
) -> list[str]:
    """Store the plan of a run, in the spool and, where it answers, in the warehouse.

    Returns:
        The cases that are measured, in their order; those that the night has no room for are
        stored with their reason and are not among them.

    Raises:
        UserError: see `wishes.choose`; or the cluster's hours do not hold, and nobody asked for it
            all the same.
    """
    from nightbench.core.run_plan import make_plan
    from nightbench.night.past import past_of
    from nightbench.night.window import open_now, plan_night
    from nightbench.orchestration.jobs import PlannedJob, save_job
    from nightbench.orchestration.nodes import save_cluster
    from nightbench.orchestration.wishes import choose
    from nightbench.spool.plans import store_plan
    from nightbench.warehouse import Loader, WarehouseRefused, WarehouseUnavailable

    suite, cluster, catalog = choose(wish)
    past = past_of(cluster.name, connect, places.spool())
    night = deadline = None
    if wish.night:
        night = plan_night(suite, cluster, catalog, past, started_at)
        tell(night)
    elif not wish.outside_hours and (span := open_now(cluster, started_at)):
        deadline = span.end
    plan = make_plan(
        suite,
        cluster,
        catalog,
        run_kind=wish.run_kind,
        requested_by=requested_by,
        run_id=run_id,
        started_at=started_at,
        dag_id=dag_id,
        dag_run_id=dag_run_id,
        night=night,
        deadline=deadline,
        past=past,
    )
    folder = store_plan(plan, places.spool())
    save_cluster(folder, cluster)
    for job in plan.jobs:
        save_job(folder, PlannedJob.of(job, cluster, outside_hours=wish.outside_hours))
    try:
        with closing(connect()) as connection:
            Loader(connection).plan_run(plan.run, [case.planned for case in plan.cases], cluster)
    except (WarehouseUnavailable, WarehouseRefused) as error:
        # The night is measured all the same: the ingest stores the plan with its results.
        log.warning("The plan waits in the spool: %s", error)
    return [job.case.case_id for job in plan.jobs]


def tell(night: Night) -> None:
    """Say in the log what a night holds."""
    from nightbench.core.budget import clock, duration

    for entry in night.entries:
        if entry.start is not None:
            about = "perhaps" if entry.guessed else "about"
            said = (clock(entry.start), entry.case_id, about, duration(entry.seconds))
            log.info("%s  %s, %s %s", *said)
    for case_id, reason in night.left_out.items():
        log.warning("left out: %s: %s", case_id, reason)
    if night.room.end is not None:
        log.info("the night ends at %s (%s)", clock(night.room.end), night.room.why)
