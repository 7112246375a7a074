"""A suite's night: which of its cases fit into the hours of suite and cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from nightbench.core.budget import (
    CaseHistory,
    NightPlan,
    NightPlanEntry,
    NightWindow,
    candidate,
    clock,
    fit,
    night_window,
)
from nightbench.core.capabilities import broken
from nightbench.core.errors import UserError
from nightbench.core.hours import Hours, Span, opening
from nightbench.core.model import Catalog, Cluster, Suite
from nightbench.core.placement import held_by, nodes_for
from nightbench.core.plan import definition_digest


def plan_night(
    suite: Suite, cluster: Cluster, catalog: Catalog, past: Mapping[str, CaseHistory], at: datetime
) -> NightPlan:
    """Return the plan of the current night of a suite, or of its next one.

    Args:
        suite: its window, budget and priorities count.
        cluster: its hours, and how many cases it takes at once.
        catalog: says how a case is defined now.
        past: durations of the cases in earlier runs, by case_id.
        at: with a time zone.

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
            held_by(nodes_for(case, cluster), cluster.lock),
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
    return NightPlan(made.window, (*made.entries, *unavailable))


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


def open_now(cluster: Cluster, at: datetime) -> Span | None:
    """Return until when a cluster may be measured on by whoever asks now; None: no limit.

    Raises:
        UserError: its hours do not hold now; says when they do.
    """
    if cluster.window is None:
        return None
    hours = Hours.parse(cluster.window)
    span = opening([hours], at)
    if span is not None and span.start <= at:
        return span
    there = at.astimezone(hours.zone)
    again = f"; the next begin at {clock(span.start)}" if span else ""
    raise UserError(
        f"cluster {cluster.name} may be measured on at {hours} only, and it is "
        f"{there:%H:%M} there{again}. Start then, or ask for it all the same: outside_hours in the "
        "form, --outside-hours on the command line"
    )
