"""Plans a run: which cases fit into the hours of suite and cluster; stored before any launch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from nightbench.config.run_request import RunRequest, resolve_request
from nightbench.core.budget import (
    CaseHistory,
    NightPlan,
    NightPlanEntry,
    NightWindow,
    candidate,
    clock,
    duration,
    fit,
    night_window,
)
from nightbench.core.capabilities import broken
from nightbench.core.errors import UserError, WarehouseRefused, WarehouseUnavailable
from nightbench.core.expected_nights import LONGEST_WAIT
from nightbench.core.hours import Hours, opening
from nightbench.core.model import Catalog, Cluster, Suite
from nightbench.core.placement import resources_of
from nightbench.core.run_plan import definition_digest, make_plan, nodes_of
from nightbench.core.sentences import sentence
from nightbench.night.reference_plan import pair_text, plan_pairs
from nightbench.spool import Spool
from nightbench.spool.plans import PlannedJob, save_job, store_plan

if TYPE_CHECKING:
    from nightbench.warehouse.connection import Connect

log = logging.getLogger(__name__)


def case_histories(cluster: str, connect: Connect) -> dict[str, CaseHistory]:
    """Return case_id -> durations and last try of the cases on a cluster.

    Empty if the warehouse is away: the planner then guesses the durations.
    """
    # Imported here: a machine that only plans has no driver of PostgreSQL.
    from nightbench.warehouse import opened

    try:
        with opened(connect) as warehouse:
            return warehouse.runs.case_past(cluster)
    except (WarehouseUnavailable, WarehouseRefused) as error:
        log.warning("Durations are guessed: %s", error)
        return {}


def plan_night(
    suite: Suite, cluster: Cluster, catalog: Catalog, past: Mapping[str, CaseHistory], at: datetime
) -> NightPlan:
    """Return the plan of the current night of a suite, or of its next one.

    Raises:
        UserError: the hours of suite and cluster do not overlap in the coming days.
    """
    tonight = next_night(suite, cluster, at)
    catalog = catalog.with_commands(suite)
    problems = {
        case.case_id: problem
        for case in suite.cases
        if (problem := broken(case, suite, cluster, catalog)) is not None
    }
    cases = [
        candidate(
            case.case_id,
            suite,
            past.get(case.case_id, CaseHistory()).of(
                definition_digest(case, catalog.workloads[case.workload], suite.protocol)
            ),
            resources_of(nodes_of(case, suite, cluster, catalog), cluster.lock),
            tonight,
        )
        for case in suite.cases
        if case.case_id not in problems
    ]
    made = fit(cases, tonight, cluster.parallel_cases)
    unavailable = (
        NightPlanEntry(case_id, 0.0, guessed=False, problem=problem)
        for case_id, problem in problems.items()
    )
    pairs = plan_pairs(suite, cluster, catalog, made, past)
    return NightPlan(made.window, (*made.entries, *unavailable), pairs)


def next_night(suite: Suite, cluster: Cluster, at: datetime) -> NightWindow:
    """Return the window of a suite's current night, or of its next one.

    Raises:
        UserError: the hours of suite and cluster do not overlap in the coming days.
    """
    hours = [Hours.parse(text) for text in (cluster.window, suite.night.window) if text]
    found = night_window(hours, suite.night.budget_s, at)
    if found is None:
        said = " and ".join(map(str, hours))
        raise UserError(
            f"suite {suite.name} on cluster {cluster.name}: the hours {said} do not overlap "
            f"in the days after {clock(at)}; change night.window of the suite or limits.hours of "
            "the cluster"
        )
    return found


def open_now(cluster: Cluster, at: datetime) -> datetime | None:
    """Return until when a cluster may be measured on now; None: no limit.

    Raises:
        UserError: its hours do not hold now; says when they do.
    """
    if cluster.window is None:
        return None
    hours = Hours.parse(cluster.window)
    span = opening([hours], at)
    if span is not None and span.start <= at:
        return span.end
    there = at.astimezone(hours.zone)
    again = f"; the next hours begin at {clock(span.start)}" if span else ""
    raise UserError(
        f"cluster {cluster.name} allows measuring only at {hours}; it is {there:%H:%M} "
        f"there{again}. Start within these hours, or measure outside these hours: outside_hours in "
        "the form, --outside-hours on the command line"
    )


class TooLateForNight(UserError):
    """The night of a run is over, and the next one begins later than `LONGEST_WAIT` from now."""


def night_start(request: RunRequest, now: datetime, catalog: Catalog) -> datetime | None:
    """Return when the night of a request begins; None if it has begun or none is requested.

    Raises:
        TooLateForNight: it begins more than `LONGEST_WAIT` from now.
        UserError: see `resolve_request`.
    """
    if not request.night:
        return None
    suite, cluster, _ = resolve_request(request, catalog)
    window = next_night(suite, cluster, now)
    if window.start <= now:
        return None
    if window.start - now > LONGEST_WAIT:
        hours = LONGEST_WAIT.total_seconds() / 3600
        raise TooLateForNight(
            f"suite {suite.name} on cluster {cluster.name}: the next night begins at "
            f"{clock(window.start)}, more than {hours:.0f} h from now. Either this run started too "
            "late for its night, or the suite's schedule does not match its hours"
        )
    return window.start


def plan_run(
    request: RunRequest,
    run_id: str,
    started_at: datetime,
    spool: Spool,
    connect: Connect,
    catalog: Catalog,
    *,
    requested_by: str = "",
    dag_id: str | None = None,
    dag_run_id: str | None = None,
    most_cases: int | None = None,
) -> list[str]:
    """Store the plan of a run, in the spool and, if it answers, in the warehouse.

    `most_cases` is how many cases can be measured in one run.

    Returns:
        case_ids that are measured, in their order; those that do not fit into the night are
        stored with the reason and are not among them.

    Raises:
        UserError: see `resolve_request`; or the cluster's hours do not hold, and the request does
            not say `outside_hours`.
    """
    from nightbench.night.code_snapshot import keep_code
    from nightbench.warehouse import opened

    suite, cluster, catalog = resolve_request(request, catalog)
    past = case_histories(cluster.name, connect)
    night = deadline = None
    if request.night:
        night = plan_night(suite, cluster, catalog, past, started_at)
        _log_night(night)
    elif not request.outside_hours:
        deadline = open_now(cluster, started_at)
    plan = make_plan(
        suite,
        cluster,
        catalog,
        run_kind=request.run_kind,
        requested_by=requested_by,
        run_id=run_id,
        started_at=started_at,
        dag_id=dag_id,
        dag_run_id=dag_run_id,
        night=night,
        deadline=deadline,
        past=past,
    )
    if most_cases is not None and len(plan.jobs) > most_cases:
        raise UserError(
            f"suite {suite.name}: found {len(plan.jobs):,} cases to measure; expected "
            f"{most_cases:,} at most, Airflow's limit of tasks in one run ([core] "
            "max_map_length). Raise the limit for all of Airflow's processes, or select fewer cases"
        )
    folder = store_plan(plan, spool)
    keep_code(folder, catalog.code_digest)
    for job in plan.jobs:
        save_job(folder, PlannedJob.of(job, cluster, outside_hours=request.outside_hours))
    try:
        with opened(connect) as warehouse:
            warehouse.runs.plan(plan.run, [case.planned for case in plan.cases], cluster)
    except (WarehouseUnavailable, WarehouseRefused) as error:
        # The run is still measured: the ingest stores the plan with its results.
        log.warning("The plan waits in the spool: %s", error)
    return [job.case.case_id for job in plan.jobs]


def _log_night(night: NightPlan) -> None:
    for entry in night.entries:
        if entry.start is not None:
            about = "perhaps" if entry.guessed else "about"
            said = (clock(entry.start), entry.case_id, about, duration(entry.seconds))
            log.info("%s  %s, %s %s", *said)
    for case_id, reason in night.left_out.items():
        log.warning("left out: %s: %s", case_id, sentence(reason))
    for entry in night.entries:
        if entry.problem is not None:
            log.warning("unavailable: %s: %s", entry.case_id, entry.problem)
    for pair in night.pairs:
        if pair.left_out is None:
            log.info("%s, about %s", pair_text(pair), duration(pair.seconds))
        else:
            why = sentence(pair.left_out)
            log.warning("not compared with its reference: %s: %s", pair.case_id, why)
    if night.window.end is not None:
        log.info("the night ends at %s (%s)", clock(night.window.end), night.window.why)
