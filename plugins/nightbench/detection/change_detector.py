"""Judges one night of a series by its changes: the detector that verdicts come from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection.changes import (
    FEWEST,
    LOOK_BACK,
    TAIL,
    Change,
    changes_of_last_night,
)
from nightbench.detection.control_shift import ControlShift, control_shift
from nightbench.detection.detector import (
    Judgement,
    differ,
    segment,
    segment_before,
    start_of_segment,
)
from nightbench.detection.drift import drift_of
from nightbench.detection.evidence import REFERENCE
from nightbench.detection.levels import estimate_level
from nightbench.detection.power import smallest_slowdown
from nightbench.detection.releases import fingerprint_odds, release_odds
from nightbench.detection.robust import median
from nightbench.detection.series import Series, series_of


@dataclass(frozen=True)
class ChangeDetector:
    """Holds every recent night against the level before it, and asks what else it could be.

    Rests on the last `LOOK_BACK` comparable nights and on nothing else: judging the same night
    again gives the same judgement. See `docs/verdicts.md`.
    """

    with_smallest: bool = True
    """Work out the smallest slowdown and the drift too: most of the time, and no verdict rests on
    them."""

    controls: Mapping[str, float] = field(default_factory=dict)
    """Figure of the control measurements of the same nodes by run_id, above 0, higher is better.
    What they did is said of a change and stands in `Judgement.control`; the verdict stays."""

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        """See `Detector`."""
        nights = segment(history, tonight)
        needed = max(policy.min_history, FEWEST - 1)
        points = [*nights, tonight][-LOOK_BACK:]
        series = series_of(points)
        least = None
        if len(nights) >= needed:
            if self.with_smallest:
                least = smallest_slowdown(series.part(0, len(series) - 1))
            releases = release_odds(points)
            change = _of_tonight(changes_of_last_night(series, known=releases), series, policy)
            if change is not None:
                known = "for the new version", float(releases[change.first])
                return self._told(points, change, len(nights), least, known)
        turned = self._turned(history, nights, tonight, policy, least)
        if turned is not None:
            return turned
        if len(nights) < needed:
            return Judgement(
                VerdictKind.INSUFFICIENT_DATA,
                f"{len(nights)} comparable nights before this one; {needed} are needed.",
                history=len(nights),
            )
        return _usual(series, tonight, len(nights), least, with_drift=self.with_smallest)

    def _turned(
        self,
        history: Sequence[HistoryPoint],
        nights: Sequence[HistoryPoint],
        tonight: HistoryPoint,
        policy: RegressionPolicy,
        least: float | None,
    ) -> Judgement | None:
        """Return the change at the start of tonight's segment: other hardware, driver or kernel.

        Nothing else is read from the segment before: its level is no baseline of this one.
        """
        if len(nights) >= TAIL:
            return None
        before = segment_before(history, nights, tonight)
        if len(before) < max(policy.min_history, FEWEST - 1):
            return None
        points = [*before, *nights, tonight][-LOOK_BACK:]
        first = len(points) - len(nights) - 1
        recent = [*history, tonight][-LOOK_BACK:]
        turned = start_of_segment(history, nights) - (len(history) + 1 - len(recent))
        odds = release_odds(points)
        if turned >= 0:
            odds[first] = max(odds[first], fingerprint_odds(recent)[turned])
        series = series_of(points)
        changes = changes_of_last_night(series, known=odds)
        at_turn = [change for change in changes if change.first == first]
        change = _of_tonight(at_turn, series, policy)
        if change is None:
            return None
        known = "for the new hardware or driver", float(odds[first])
        return self._told(points, change, len(points) - 1, least, known)

    def _told(
        self,
        points: Sequence[HistoryPoint],
        change: Change,
        history: int,
        least: float | None,
        known: tuple[str, float],
    ) -> Judgement:
        tonight, first, last_good = points[-1], points[change.first], points[change.first - 1]
        control = self._control(points, change)
        said = f"; {control.sentence}" if control else ""
        return Judgement(
            VerdictKind.REGRESSED if change.falls else VerdictKind.IMPROVED,
            f"{tonight.value:.4g} is {_apart(tonight.value, change.baseline)}; "
            f"{why(change, *known)}, since {first.at:%Y-%m-%d}{_suspect(last_good, first)}{said}.",
            baseline=change.baseline,
            change=tonight.value / change.baseline - 1,
            history=history,
            since=first.at,
            last_good=last_good,
            first_bad=first,
            low=change.low,
            high=change.high,
            smallest_slowdown=least,
            control=control,
        )

    def _control(self, points: Sequence[HistoryPoint], change: Change) -> ControlShift | None:
        figures = [self.controls.get(point.run_id, math.nan) for point in points]
        return control_shift(
            np.log(np.array(figures, dtype=float)), change.first, math.log1p(change.change)
        )


def why(change: Change, known_of: str = "", known: float = 0.0) -> str:
    """What a change rests on, in half a sentence; `known` is what its first night adds to it."""
    seen = {0: "a level not seen before", 1: "a level visited once before"}.get(
        change.visits, f"a level visited {change.visits} times before"
    )
    return (
        f"{change.after} nights at {seen}, {change.change:+.1%} "
        f"({change.low:+.1%} to {change.high:+.1%}) against {change.reference} nights that vary by "
        f"{change.noise:.1%}; score {change.score:+.1f}"
        f"{f' ({known:+.1f} of it {known_of})' if known else ''}, told above 0"
    )


def _of_tonight(changes: list[Change], series: Series, policy: RegressionPolicy) -> Change | None:
    """The surest change that is large enough and that tonight itself still shows."""
    for change in changes:
        old = math.log(change.baseline)
        new = old + math.log1p(change.change)
        still = abs(series.level[-1] - new) < abs(series.level[-1] - old)
        if abs(change.change) >= policy.min_change and still:
            return change
    return None


def _usual(
    series: Series, tonight: HistoryPoint, history: int, least: float | None, *, with_drift: bool
) -> Judgement:
    past = estimate_level(series.part(0, len(series) - 1))
    level = past.values[past.base :][-REFERENCE:]
    baseline = math.exp(median(level))
    change = tonight.value / baseline - 1
    noise = max(past.step_noise, past.level_noise)
    sentence = (
        f"{tonight.value:.4g} is {_apart(tonight.value, baseline)} (median of {len(level)} "
        f"nights); nights vary by {noise:.1%}"
    )
    own = series.within[-1]
    known = series.within[np.isfinite(series.within)]
    if math.isfinite(own) and own > 2 * median(known):
        sentence += f", its own repeats by {own:.1%}, more than twice the usual"
    if abs(math.log1p(change)) > 4 * noise:
        sentence += "; one such night is watched, two are a change"
    # The longest stretch that creeps: the search for levels cuts a creep into small steps.
    drift = (drift_of(series) or drift_of(series, past.base)) if with_drift else None
    if drift is not None:
        sentence += (
            f"; drifts: {drift.change:+.1%} (± {2 * drift.error:.1%}) over {drift.nights} nights, "
            "of which none is a change"
        )
    return Judgement(
        VerdictKind.OK,
        f"{sentence}.",
        baseline=baseline,
        change=change,
        history=history,
        smallest_slowdown=least,
        drift=drift,
    )


def _apart(value: float, baseline: float) -> str:
    change = value / baseline - 1
    return f"{abs(change):.1%} {'below' if change < 0 else 'above'} the baseline of {baseline:.4g}"


def _suspect(last_good: HistoryPoint, first: HistoryPoint) -> str:
    """What else was new on the first night, as far as its points tell."""
    old, new = last_good.framework_version, first.framework_version
    suspects = [f"the framework went from {old} to {new}"] if old and new and old != new else []
    if differ(last_good.fingerprint_id, first.fingerprint_id):
        suspects.append("hardware, driver or kernel of the nodes changed")
    if not suspects:
        return ""
    one = "the prime suspect" if len(suspects) == 1 else "the prime suspects"
    return f", when {' and '.join(suspects)}: {one}"
