"""Grades the detector once a week on synthetic series, without any effect on real verdicts."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import product

from nightbench.alerts.replay import replay
from nightbench.core.model import HistoryPoint, RegressionPolicy
from nightbench.core.run_plan import RunPlan
from nightbench.detection import NIGHTS_READ, ChangeDetector, Detector
from nightbench.detection.grading import (
    FALSE_ALARMS,
    WINDOW,
    Grade,
    Trials,
    false_alarm_grade,
    power_grade,
)
from nightbench.detection.synthetic_series import SLOWDOWNS, inject, null_copy, seeded
from nightbench.warehouse import opened
from nightbench.warehouse.connection import Connect
from nightbench.warehouse.repository import Row

log = logging.getLogger(__name__)

WEEK = timedelta(days=6, hours=12)
"""Least time from one grade to the next: a week, as nights begin at different hours."""

SERIES = 40
"""Most series that are copied for a grade: some 28,000 judgements, which take a minute or two."""

COPIES = range(1, 6)
"""Null copies of every series."""

INJECTED = range(1, 4)
"""Slowdowns of each size class that are injected into every series."""


def grades_sentence(grades: Iterable[Grade]) -> str:
    """Return grades as one line, for a run's digest."""
    rated = [each for each in grades if each.rate is not None]
    powers = [
        f"{each.measure} {each.rate:.0%} of {each.trials}"
        for each in rated
        if each.measure != FALSE_ALARMS
    ]
    text = f"detected share of injected slowdowns: {', '.join(powers) or 'none yet'}"
    for each in rated:
        if each.measure == FALSE_ALARMS:
            text += f"; false alarms {each.rate:.1f} in 1,000 of {each.trials:,} nights"
    return f"The detector: {text} (nightbench grade)"


def grade_detector(connect: Connect, plan: RunPlan) -> str | None:
    """Grade as `grade` does and return the grades in one line; errors are logged, not raised."""
    if plan.policy.metric != "throughput":
        return f"The detector is graded on throughput only, not on {plan.policy.metric}."
    try:
        grades = grade(connect, plan)
    except Exception as error:  # The night's verdicts and alerts must not depend on it.
        log.exception("the detector was not graded for run %s", plan.run.run_id)
        return f"The detector was not graded: {error}"
    return None if grades is None else grades_sentence(grades)


def grade(
    connect: Connect, plan: RunPlan, *, detector: Detector | None = None
) -> list[Grade] | None:
    """Judge synthetic series of a nightly run's suite and store the suite's grade.

    None if the suite was graded in the week before the run. The run, the suite and the series seed
    the random numbers, so that a run that is judged again gets the same grade.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    # Skip the smallest slowdown: it takes most of the time and affects no verdict.
    chosen = detector or ChangeDetector(with_smallest=False)
    run, until = plan.run, plan.run.started_at + timedelta(microseconds=1)
    with opened(connect) as warehouse:
        repository = warehouse.grades
        last, earlier = (
            {row["measure"]: row for row in repository.latest(run.suite, run.cluster, before)}
            for before in (run.started_at, run.started_at - WINDOW)
        )
        if any(run.started_at - row["started_at"] < WEEK for row in last.values()):
            return None
        case_ids = sorted(case.planned.case_id for case in plan.cases)
        order = seeded(run.run_id).permutation(len(case_ids))
        drawn = [case_ids[int(place)] for place in order[:SERIES]]
        histories = warehouse.series.histories(
            drawn, run.cluster, before=until, max_nights=NIGHTS_READ
        )
        grades = judge_synthetic(
            histories, run.started_at, run.run_id, plan.policy, chosen, earlier
        )
        was_below = {measure for measure, row in last.items() if row["below"]}
        repository.store_grades(
            run.run_id,
            [(each, bool(each.below) and each.measure not in was_below) for each in grades],
        )
    return grades


def judge_synthetic(
    histories: Mapping[str, Sequence[HistoryPoint]],
    until: datetime,
    seed: str,
    policy: RegressionPolicy,
    detector: Detector,
    earlier: Mapping[str, Row],
) -> list[Grade]:
    """Return the grades of a detector on synthetic copies of series. Pure.

    Args:
        histories: nights of each series up to the graded one, oldest first.
        until: the graded night.
        seed: of the random numbers, with the names of the series.
        policy: of the suite.
        detector: the one that is graded.
        earlier: grades to compare with, by measure.
    """
    since = until - WINDOW
    trials = {sizes.name: Trials() for sizes in SLOWDOWNS}
    nights = alarms = 0
    for case_id, points in histories.items():
        for sizes, number in product(SLOWDOWNS, INJECTED):
            random = seeded(seed, case_id, sizes.name, str(number))
            slowed = inject(random, sizes, points, since)
            if slowed is not None:
                trials[sizes.name].add(slowed, points, policy, detector)
        for number in COPIES:
            copy = null_copy(seeded(seed, case_id, FALSE_ALARMS, str(number)), points, since)
            if copy is not None:
                begins = copy.points[copy.first].at
                nights += len(copy.points) - copy.first
                alarms += len(replay((case_id, ""), copy.points, policy, detector, begins))
    powers = [power_grade(name, found, earlier.get(name)) for name, found in trials.items()]
    return [*powers, false_alarm_grade(nights, alarms)]
