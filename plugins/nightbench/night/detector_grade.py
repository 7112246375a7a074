"""Grades the detector every night on synthetic series, without any effect on real verdicts."""

import logging
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from nightbench.core.model import HistoryPoint, RegressionPolicy
from nightbench.core.run_plan import RunPlan
from nightbench.detection import NIGHTS_READ, ChangeDetector, Detector
from nightbench.detection.grading import (
    FALSE_ALARMS,
    WATCHED,
    WINDOW,
    Grade,
    ShadowVerdict,
    false_alarm_grade,
    judge_fall,
    judge_quiet,
    power_grade,
)
from nightbench.detection.shadows import FALLS, QUIET, Shadow, SizeClass, plant, quiet_copy
from nightbench.warehouse import Warehouse, opened
from nightbench.warehouse.connection import Connect
from nightbench.warehouse.grades import Counts, GradeRepository, Progress

log = logging.getLogger(__name__)

Histories = Mapping[str, Sequence[HistoryPoint]]
"""Nights of series by case_id, oldest first."""

BUDGET_S = 60.0
"""Seconds that a night judges shadows; the remaining ones are judged on the next nights."""

STORED_AT_ONCE = 1000
"""Nights of shadows that are stored in one transaction."""

EARLIER = timedelta(days=180)
"""Length of the period before a grade's window with which its powers are compared."""


@dataclass(frozen=True)
class DetectorGrades:
    """The grades of the detector on one night."""

    grades: tuple[Grade, ...] = ()
    news: tuple[str, ...] = ()
    """Sentences about grades that miss their limits for the first time."""
    judged: int = 0
    """Nights of shadows that were judged."""
    waiting: int = 0
    """Shadows that are left for the next night."""
    problem: str | None = None
    """Why there is no grade."""

    def sentence(self) -> str:
        """Return the grades as one line, for a run's digest."""
        if self.problem:
            return self.problem
        powers = [
            f"{each.measure} {each.rate:.0%} of {each.trials}"
            for each in self.grades
            if each.rate is not None and each.measure != FALSE_ALARMS
        ]
        text = f"detected injected slowdowns: {', '.join(powers) or 'none yet'}"
        for each in self.grades:
            if each.measure == FALSE_ALARMS and each.rate is not None:
                text += f"; false alarms {each.rate:.1f} in 1,000 of {each.trials:,} nights"
        if self.waiting:
            text += f"; {self.waiting} synthetic series wait for the next night"
        return f"The detector: {text} (nightbench grade)"


def grade_detector(connect: Connect, plan: RunPlan, known: Histories) -> DetectorGrades:
    """Grade as `grade` does; errors are logged and returned as `problem`, never raised."""
    if plan.policy.metric != "throughput":
        return DetectorGrades(
            problem=f"The detector is graded on throughput only, not on {plan.policy.metric}."
        )
    try:
        return grade(connect, plan, known)
    except Exception as error:  # The night's verdicts and alerts must not depend on it.
        log.exception("the detector was not graded for run %s", plan.run.run_id)
        return DetectorGrades(problem=f"The detector was not graded: {error}")


def grade(
    connect: Connect,
    plan: RunPlan,
    read: Histories | None = None,
    *,
    detector: Detector | None = None,
    budget_s: float = BUDGET_S,
) -> DetectorGrades:
    """Judge the synthetic series of a nightly run's series and store the suite's grade.

    Shadows of the last months that are not judged yet are judged too, within the budget: a suite
    with a history has a grade after its first night.

    `read` holds the nights before the run, of series whose histories are known already.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    end = time.monotonic() + budget_s
    # Without the smallest slowdown, which takes most of the time and affects no verdict.
    chosen = detector or ChangeDetector(with_smallest=False)
    run = plan.run
    judged = waiting = 0
    with opened(connect) as warehouse:
        repository = warehouse.grades
        histories = _histories(warehouse, plan, read or {})
        months = _months(run.started_at)
        unstored: list[tuple[Shadow, float | None, Sequence[ShadowVerdict]]] = []
        progress = repository.progress(run.suite, run.cluster, months[-1])
        for shadow, sizes in _shadows(run.suite, run.cluster, list(histories), months):
            known = progress.get((shadow.case_id, shadow.month, shadow.name))
            points = histories[shadow.case_id]
            if not _is_open(shadow, sizes, known, points):
                continue
            if time.monotonic() > end:
                waiting += 1
                continue
            size, verdicts = _judge(shadow, sizes, known, points, plan.policy, chosen)
            unstored.append((shadow, size, verdicts))
            judged += len(verdicts)
            if sum(len(each) for _, _, each in unstored) >= STORED_AT_ONCE:
                repository.store_verdicts(unstored)
                unstored = []
        repository.store_verdicts(unstored)
        grades = _grades(repository, run.suite, run.cluster, run.started_at)
        was = {
            row["measure"]: row["below"]
            for row in repository.latest(run.suite, run.cluster, before=run.started_at)
        }
        news = [each for each in grades if each.below and not was.get(each.measure)]
        repository.store_grades(run.run_id, [(each, each in news) for each in grades])
    return DetectorGrades(tuple(grades), tuple(each.below for each in news), judged, waiting)


def _histories(
    warehouse: Warehouse, plan: RunPlan, known: Histories
) -> dict[str, list[HistoryPoint]]:
    """Return the histories of a plan's series, the run's own night included."""
    case_ids = [case.planned.case_id for case in plan.cases]
    at = plan.run.started_at

    def read(chosen: Sequence[str], max_nights: int) -> dict[str, list[HistoryPoint]]:
        return warehouse.series.histories(
            chosen, plan.run.cluster, before=at + timedelta(microseconds=1), max_nights=max_nights
        )

    found = read([each for each in case_ids if each not in known], NIGHTS_READ)
    for case_id, newest in read([each for each in case_ids if each in known], 1).items():
        tonight = [point for point in newest if point.at == at]
        found[case_id] = [*known[case_id], *tonight][-NIGHTS_READ:]
    return {case_id: found[case_id] for case_id in case_ids}


def _months(at: datetime) -> list[date]:
    """Return the first days of the months whose shadows count on a night, the newest first."""
    month, oldest = at.date().replace(day=1), (at - WINDOW).date().replace(day=1)
    found = []
    while month >= oldest:
        found.append(month)
        month = (month - timedelta(days=1)).replace(day=1)
    return found


def _shadows(
    suite: str, cluster: str, case_ids: Sequence[str], months: Sequence[date]
) -> Iterator[tuple[Shadow, SizeClass | None]]:
    """Yield all shadows with their size, the newest month first; quiet copies have no size."""
    kinds = [*((sizes.name, sizes) for sizes in FALLS), *((name, None) for name in QUIET)]
    for month in months:
        for name, sizes in kinds:
            for case_id in case_ids:
                yield Shadow(suite, cluster, case_id, month, name), sizes


def _is_open(
    shadow: Shadow,
    sizes: SizeClass | None,
    known: Progress | None,
    points: Sequence[HistoryPoint],
) -> bool:
    """Return whether a night of the shadow may be left to judge."""
    if known is not None and known.is_decided:
        return False
    # A suite may have thousands of series with years of nights each.
    count = len(points)
    if sizes is None:
        count = bisect_left(points, shadow.ends, key=lambda point: point.at)
    if count == 0 or (sizes is None and points[count - 1].at < shadow.begins):
        return False
    return known is None or known.judged_at < points[count - 1].at


def _judge(
    shadow: Shadow,
    sizes: SizeClass | None,
    known: Progress | None,
    points: Sequence[HistoryPoint],
    policy: RegressionPolicy,
    detector: Detector,
) -> tuple[float | None, list[ShadowVerdict]]:
    """Return the planted size and the verdicts on the nights that were not judged yet."""
    night = known.night + 1 if known else 0
    verdicts: list[ShadowVerdict] = []
    if sizes is not None:
        fall = plant(shadow, sizes, points)
        if fall is None:
            return None, []
        while fall.first + night < len(points) and night < WATCHED:
            verdicts.append(judge_fall(fall, night, policy, detector))
            night += 1
            if verdicts[-1].outcome is not None:
                break
        return fall.size, verdicts
    copy = quiet_copy(shadow, points)
    if copy is None:
        return None, []
    regressed_at = known.regressed_at if known else None
    for each in range(night, len(copy.nights)):
        verdict = judge_quiet(copy, each, policy, detector, regressed_at)
        if verdict.kind == "regressed":
            regressed_at = verdict.at
        verdicts.append(verdict)
    return None, verdicts


def _grades(repository: GradeRepository, suite: str, cluster: str, at: datetime) -> list[Grade]:
    since = at - WINDOW
    now = repository.counts(suite, cluster, since, at)
    before = repository.counts(suite, cluster, since - EARLIER, since)
    powers = [_power(sizes.name, now, _power(sizes.name, before)) for sizes in FALLS]
    quiet = now.get("quiet", Counts())
    return [*powers, false_alarm_grade(quiet.nights, quiet.alarms)]


def _power(measure: str, counts: Mapping[str, Counts], earlier: Grade | None = None) -> Grade:
    found = counts.get(measure, Counts())
    return power_grade(
        measure, found.caught, found.missed, found.spoiled, found.median_delay, earlier
    )
