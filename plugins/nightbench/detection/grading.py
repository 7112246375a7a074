"""Grades a detector by its verdicts on shadow series.

Power is the share of planted falls that are detected within `WATCHED` nights. A false alarm is an
alert that a quiet copy would have opened. Delay counts from the first slow night: a fall that is
detected on that night has a delay of 0.
"""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from nightbench.core.model import RegressionPolicy, VerdictKind
from nightbench.detection.detector import Detector, Judgement
from nightbench.detection.shadows import ShadowSeries

WATCHED = 14
"""Nights within which a planted fall must be detected."""

EARLY = 5
"""Nights by which a detected fall may be dated too early."""

APART = 14
"""Nights around a planted fall in which the real series must not change; days after which another
alarm of a quiet copy counts."""

WINDOW = timedelta(days=90)
"""Period that a grade covers."""

FALSE_ALARMS = "false alarms"
"""Name of the grade from quiet copies."""

FEWEST = 20
"""Fewest decided falls for which a power is compared with a limit."""

POWER_LIMITS = {"2-4 noise": 0.60, "over 4 noise": 0.90}
"""Smallest power by size class. Shares of the level have none, since the power at 3 % depends on
the series' noise; they are compared with their earlier values."""

FALSE_ALARM_LIMIT = 2.0
"""Largest rate of false alarms, in 1,000 nights."""

DELAY_LIMIT = 5.0
"""Largest median delay, in nights."""


class TrialOutcome(StrEnum):
    """Outcome of a shadow on the night that decided it."""

    CAUGHT = "caught"
    MISSED = "missed"
    SPOILED = "spoiled"
    """The real series changed around the planted fall, or began a new segment: not counted."""
    ALARM = "alarm"
    """A quiet copy would have opened an alert."""


@dataclass(frozen=True)
class ShadowVerdict:
    """Verdict on one night of one shadow."""

    night: int
    """From 0: since the first slow night, or since the first judged night of a quiet copy."""
    at: datetime
    run_id: str
    """Of the real night."""
    kind: VerdictKind
    change: float | None
    since: datetime | None
    outcome: TrialOutcome | None = None


def judge_fall(
    fall: ShadowSeries, night: int, policy: RegressionPolicy, detector: Detector
) -> ShadowVerdict:
    """Judge one night of a planted fall, knowing nothing of later ones.

    `night` counts from the first slow one, and no earlier one was detected.
    """
    index = fall.first + night
    real = [*fall.points[: fall.first], *fall.nights]
    judgement = detector.judge(fall.points[:index], fall.points[index], policy)
    detected = (
        judgement.kind is VerdictKind.REGRESSED
        and judgement.since is not None
        and judgement.since >= real[max(0, fall.first - EARLY)].at
    )
    outcome = None
    if judgement.kind is VerdictKind.INSUFFICIENT_DATA:
        outcome = TrialOutcome.SPOILED
    elif detected or night == WATCHED - 1:
        plain = detector.judge(real[:index], real[index], policy)
        outcome = TrialOutcome.CAUGHT if detected else TrialOutcome.MISSED
        moved = plain.kind in (VerdictKind.REGRESSED, VerdictKind.IMPROVED)
        if moved and plain.since and plain.since >= real[max(0, fall.first - APART)].at:
            outcome = TrialOutcome.SPOILED
    return _verdict(fall, night, judgement, outcome)


def judge_quiet(
    copy: ShadowSeries,
    night: int,
    policy: RegressionPolicy,
    detector: Detector,
    regressed_at: datetime | None,
) -> ShadowVerdict:
    """Judge one night of a quiet copy, counted from the first that is judged.

    `regressed_at` is the latest earlier night of the copy that was `regressed`.
    """
    index = copy.first + night
    judgement = detector.judge(copy.points[:index], copy.points[index], policy)
    outcome = None
    if judgement.kind is VerdictKind.REGRESSED:
        before, at = copy.points[index - 1], copy.points[index].at
        if night == 0:
            # A copy that was regressed before its first counted night raises no alarm.
            earlier = detector.judge(copy.points[: index - 1], before, policy)
            regressed_at = before.at if earlier.kind is VerdictKind.REGRESSED else regressed_at
        if regressed_at is None or at - regressed_at > timedelta(days=APART):
            outcome = TrialOutcome.ALARM
    return _verdict(copy, night, judgement, outcome)


def _verdict(
    copy: ShadowSeries, night: int, judgement: Judgement, outcome: TrialOutcome | None
) -> ShadowVerdict:
    real = copy.nights[night]
    return ShadowVerdict(
        night, real.at, real.run_id, judgement.kind, judgement.change, judgement.since, outcome
    )


@dataclass(frozen=True)
class Grade:
    """One figure of a detector's grade."""

    measure: str
    """A size class, or `FALSE_ALARMS`."""
    trials: int
    """Decided falls without spoiled ones; or nights of quiet copies."""
    hits: int
    """Detected falls; or false alarms."""
    rate: float | None
    """hits / trials; false alarms in 1,000 nights. None without trials."""
    low: float | None = None
    high: float | None = None
    """95 % interval of `rate` (Wilson; false alarms: Garwood's of a Poisson count)."""
    median_delay: float | None = None
    """Of detected falls, in nights."""
    spoiled: int = 0
    limit_value: float | None = None
    """Smallest power, or largest rate of false alarms; None without a limit."""
    below: str = ""
    """Why it misses its limit, in a sentence; empty where it does not."""


def power_grade(
    measure: str,
    caught: int,
    missed: int,
    spoiled: int,
    median_delay: float | None,
    earlier: Grade | None = None,
) -> Grade:
    """Return the power of one size class; it must not be below the `earlier` grade."""
    trials, limit = caught + missed, POWER_LIMITS.get(measure)
    if not trials:
        return Grade(measure, 0, 0, None, spoiled=spoiled, limit_value=limit)
    low, high = wilson(caught, trials)
    below = ""
    if trials >= FEWEST:
        found = f"{caught} of {trials} planted slowdowns ({measure}) were detected within two weeks"
        if limit is not None and high < limit:
            below = (
                f"{found}, at most {high:.0%} by their number; at least {limit:.0%} are expected."
            )
        elif earlier and earlier.low is not None and high < earlier.low:
            below = f"{found}; before, {earlier.hits} of {earlier.trials} were."
        elif limit is not None and median_delay is not None and median_delay > DELAY_LIMIT:
            below = (
                f"Planted slowdowns ({measure}) are detected after {median_delay:g} nights in the "
                f"median; at most {DELAY_LIMIT:g} are expected."
            )
    return Grade(
        measure, trials, caught, caught / trials, low, high, median_delay, spoiled, limit, below
    )


def false_alarm_grade(nights: int, alarms: int) -> Grade:
    """Return the grade of false alarms in 1,000 nights of quiet copies."""
    limit = FALSE_ALARM_LIMIT
    if not nights:
        return Grade(FALSE_ALARMS, 0, 0, None, limit_value=limit)
    low, high = (1000 * bound / nights for bound in poisson(alarms))
    rate = 1000 * alarms / nights
    below = ""
    if low > limit:
        below = (
            f"{alarms} false alarms in {nights:,} nights of copies without a change: {rate:.1f} in "
            f"1,000, at least {low:.1f} by their number; at most {limit:g} are expected."
        )
    return Grade(FALSE_ALARMS, nights, alarms, rate, low, high, limit_value=limit, below=below)


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson, 1927); (0, 1) without trials."""
    if not trials:
        return 0.0, 1.0
    z = 1.959964
    share, square = hits / trials, z * z / trials
    middle = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / trials + square / trials / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def poisson(events: int) -> tuple[float, float]:
    """Return the exact 95 % interval of the expectation of a count (Garwood, 1936)."""
    # scipy takes half a second to import; most who import this module only read results.
    from scipy.special import gammaincinv

    low = float(gammaincinv(events, 0.025)) if events else 0.0
    return low, float(gammaincinv(events + 1, 0.975))
