"""Grades a detector by its verdicts on synthetic series.

Power is the share of injected slowdowns that are detected within `WATCHED` nights. A false alarm is
an alert that opens on a null copy. Delay counts from the first slow night: a slowdown that is
detected on that night has a delay of 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median
from typing import Any

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection.detector import Detector
from nightbench.detection.synthetic_series import WATCHED, SyntheticSeries

EARLY = 5
"""Nights by which a detected slowdown may be dated too early."""

APART = 14
"""Nights around an injected slowdown in which the real series must not change."""

WINDOW = timedelta(days=90)
"""Period that a grade covers."""

FALSE_ALARMS = "false alarms"
"""Name of the grade from null copies."""

FEWEST = 20
"""Fewest slowdowns for which a power is compared with a limit."""

POWER_LIMITS = {"2-4 noise": 0.60, "over 4 noise": 0.90}
"""Smallest power by size class. Shares of the level have none, since the power at 3 % depends on
the series' noise; they are compared with their earlier values."""

FALSE_ALARM_LIMIT = 2.0
"""Largest rate of false alarms, in 1,000 nights."""

DELAY_LIMIT = 5.0
"""Largest median delay, in nights."""


@dataclass
class Trials:
    """Outcomes of slowdowns of one size class."""

    delays: list[int] = field(default_factory=list)
    """Delays of each detected slowdown, in nights."""
    missed: int = 0
    spoiled: int = 0
    """The real series changed around the slowdown, or began a new segment: not counted."""

    def add(
        self,
        slowed: SyntheticSeries,
        real: Sequence[HistoryPoint],
        policy: RegressionPolicy,
        detector: Detector,
    ) -> None:
        """Judge a slowdown, injected into a real series, night by night until it is detected."""
        first, detected = slowed.first, False
        for index in range(first, first + WATCHED):
            judgement = detector.judge(slowed.points[:index], slowed.points[index], policy)
            if judgement.kind is VerdictKind.INSUFFICIENT_DATA:
                self.spoiled += 1
                return
            since = judgement.since if judgement.kind is VerdictKind.REGRESSED else None
            detected = since is not None and since >= real[max(0, first - EARLY)].at
            if detected:
                break
        plain = detector.judge(real[:index], real[index], policy)
        changed = plain.kind in (VerdictKind.REGRESSED, VerdictKind.IMPROVED)
        if changed and plain.since and plain.since >= real[max(0, first - APART)].at:
            self.spoiled += 1
        elif detected:
            self.delays.append(index - first)
        else:
            self.missed += 1


@dataclass(frozen=True)
class Grade:
    """One metric of a detector's grade."""

    measure: str
    """A size class, or `FALSE_ALARMS`."""
    trials: int
    """Slowdowns without spoiled ones; or nights of null copies."""
    hits: int
    """Detected slowdowns; or false alarms."""
    rate: float | None
    """hits / trials; false alarms in 1,000 nights. None without trials."""
    low: float | None = None
    high: float | None = None
    """95 % interval of `rate` (Wilson; false alarms: Garwood's of a Poisson count)."""
    median_delay: float | None = None
    """Median delay of detected slowdowns, in nights."""
    spoiled: int = 0
    limit_value: float | None = None
    """Smallest power, or largest rate of false alarms; None without a limit."""
    below: str = ""
    """Why it misses its limit, in a sentence; empty if it does not."""


def power_grade(measure: str, trials: Trials, earlier: Mapping[str, Any] | None = None) -> Grade:
    """Return the power of a size class; it must not be below the `earlier` grade, a stored row."""
    caught, limit = len(trials.delays), POWER_LIMITS.get(measure)
    count, spoiled = caught + trials.missed, trials.spoiled
    if not count:
        return Grade(measure, 0, 0, None, spoiled=spoiled, limit_value=limit)
    median_delay = median(trials.delays) if trials.delays else None
    low, high = wilson(caught, count)
    below = ""
    if count >= FEWEST:
        found = f"{caught} of {count} injected slowdowns ({measure}) were detected within two weeks"
        if limit is not None and high < limit:
            below = f"{found}; the 95% interval ends at {high:.0%}; expected {limit:.0%} at least."
        elif earlier and earlier["low"] is not None and high < earlier["low"]:
            below = f"{found}; before, {earlier['hits']} of {earlier['trials']} were."
        elif limit is not None and median_delay is not None and median_delay > DELAY_LIMIT:
            below = (
                f"Injected slowdowns ({measure}) are detected after {median_delay:g} nights in the "
                f"median; at most {DELAY_LIMIT:g} are expected."
            )
    return Grade(
        measure, count, caught, caught / count, low, high, median_delay, spoiled, limit, below
    )


def false_alarm_grade(nights: int, alarms: int) -> Grade:
    """Return the grade of false alarms in 1,000 nights of null copies."""
    limit = FALSE_ALARM_LIMIT
    if not nights:
        return Grade(FALSE_ALARMS, 0, 0, None, limit_value=limit)
    low, high = (1000 * bound / nights for bound in poisson(alarms))
    rate = 1000 * alarms / nights
    below = ""
    if low > limit:
        below = (
            f"{alarms} false alarms in {nights:,} nights of copies without a change: {rate:.1f} "
            f"in 1,000; the 95% interval begins at {low:.1f}; expected {limit:g} at most."
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
