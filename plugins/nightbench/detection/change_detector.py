"""The detector behind all verdicts: judges one night of a series by its changes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind, differ
from nightbench.detection.changes import (
    FEWEST,
    LOOK_BACK,
    TAIL,
    Change,
    changes_of_last_night,
    examine_last_night,
)
from nightbench.detection.control_shift import control_shift
from nightbench.detection.detector import (
    Judgement,
    new_state_odds,
    release_odds,
    segment,
    segment_before,
    segment_start,
)
from nightbench.detection.drift import drift_of
from nightbench.detection.evidence import REFERENCE
from nightbench.detection.levels import LevelEstimate, estimate_level
from nightbench.detection.power import smallest_slowdown
from nightbench.detection.robust import Z_90, median
from nightbench.detection.series import Series, series_of
from nightbench.detection.siblings import YOUNG, Siblings

WATCHED_NOISE = 4.0
"""A night is `watched` that lies farther off the baseline than so many times the nights' noise."""


@dataclass(frozen=True)
class ChangeDetector:
    """Judges a night by the evidence that a lasting change began in one of the last nights.

    It reads the last `LOOK_BACK` comparable nights and nothing else: judging the same night again
    gives the same judgement. See `docs/verdicts.md`.
    """

    with_smallest: bool = True
    """Compute the smallest slowdown and the drift too. They take most of the time and affect no
    verdict."""

    controls: Mapping[str, float] = field(default_factory=dict)
    """run_id -> figure of the nodes' control measurements, above 0, higher is better. They become
    `Judgement.control` of a change and do not affect the verdict."""

    siblings: Siblings | None = None
    """What they say of the spread of a young series."""

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        """See `Detector`."""
        nights = segment(history, tonight)
        needed = max(policy.min_history, FEWEST - 1)
        points = [*nights, tonight][-LOOK_BACK:]
        lower = policy.judged.lower_is_better
        series = series_of(points, lower_is_better=lower)
        siblings = self.siblings if len(nights) < YOUNG else None
        least, examined = None, None
        if len(nights) >= needed:
            if self.with_smallest:
                past = series.part(0, len(series) - 1)
                least = smallest_slowdown(past, policy.reported_from, siblings)
            releases = release_odds(points)
            examined = examine_last_night(series, releases, siblings)
            change = _of_tonight(examined.changes, series, policy) if examined else None
            if change is not None:
                known = "for the new version", float(releases[change.first])
                return self._changed(points, change, len(nights), least, known, policy)
        with_nodes = self._changed_with_nodes(history, nights, tonight, policy, least)
        if with_nodes is not None:
            return with_nodes
        if len(nights) < needed:
            return Judgement(
                VerdictKind.INSUFFICIENT_DATA,
                f"{len(nights)} comparable nights before this one; {needed} are needed.",
                history=len(nights),
            )
        described = examined.past if examined and self.with_smallest else None
        return _unchanged(series, tonight, len(nights), least, policy, described)

    def _changed_with_nodes(
        self,
        history: Sequence[HistoryPoint],
        nights: Sequence[HistoryPoint],
        tonight: HistoryPoint,
        policy: RegressionPolicy,
        least: float | None,
    ) -> Judgement | None:
        """Return the change at the start of tonight's segment: other hardware, driver or kernel.

        Only this step is taken from the segment before: its level is no baseline of this one.
        """
        if len(nights) >= TAIL:
            return None
        before = segment_before(history, nights, tonight)
        if len(before) < max(policy.min_history, FEWEST - 1):
            return None
        points = [*before, *nights, tonight][-LOOK_BACK:]
        first = len(points) - len(nights) - 1
        recent = [*history, tonight][-LOOK_BACK:]
        boundary = segment_start(history, nights) - (len(history) + 1 - len(recent))
        odds = release_odds(points)
        if boundary >= 0:
            new_nodes = new_state_odds([point.fingerprint_id for point in recent])
            odds[first] = max(odds[first], new_nodes[boundary])
        series = series_of(points, lower_is_better=policy.judged.lower_is_better)
        changes = changes_of_last_night(series, known=odds)
        at_boundary = [change for change in changes if change.first == first]
        change = _of_tonight(at_boundary, series, policy)
        if change is None:
            return None
        known = "for the new hardware or driver", float(odds[first])
        return self._changed(points, change, len(points) - 1, least, known, policy)

    def _changed(
        self,
        points: Sequence[HistoryPoint],
        change: Change,
        history: int,
        least: float | None,
        known: tuple[str, float],
        policy: RegressionPolicy,
    ) -> Judgement:
        tonight, first, last_good = points[-1], points[change.first], points[change.first - 1]
        figures = [self.controls.get(point.run_id, math.nan) for point in points]
        control = control_shift(
            np.log(np.array(figures, dtype=float)), change.first, math.log1p(change.change)
        )
        kind = VerdictKind.REGRESSED if change.falls else VerdictKind.IMPROVED
        if policy.judged.lower_is_better:
            change = change.inverted()
        since = f"since {first.at:%Y-%m-%d}{_coincidence(last_good, first)}"
        evidence = f"{change_evidence(change, *known)}, {since}"
        if self.siblings is not None and history < YOUNG:
            evidence += f"; {self.siblings.count} siblings lend their spread"
        if control:
            evidence += f"; {control.sentence}"
        return Judgement(
            kind,
            f"{_distance(tonight.value, change.baseline, policy)}; {evidence}.",
            baseline=change.baseline,
            change=tonight.value / change.baseline - 1,
            level_change=change.change,
            history=history,
            since=first.at,
            last_good=last_good,
            first_bad=first,
            low=change.low,
            high=change.high,
            smallest_slowdown=least,
            control=control,
        )


def change_evidence(change: Change, known_of: str = "", known: float = 0.0) -> str:
    """Return the evidence of a change as a clause; `known` is the part of the score from priors."""
    seen = {0: "a level not seen before", 1: "a level visited once before"}.get(
        change.visits, f"a level visited {change.visits} times before"
    )
    return (
        f"{change.after} nights at {seen}, {change.change:+.1%} "
        f"({change.low:+.1%} to {change.high:+.1%}) against {change.reference} nights that vary by "
        f"{change.noise:.1%}; score {change.score:+.1f}"
        f"{f' ({known:+.1f} of it {known_of})' if known else ''}, accepted above 0"
    )


def _of_tonight(changes: list[Change], series: Series, policy: RegressionPolicy) -> Change | None:
    """Return the first change that is large enough and that tonight still shows, or None."""
    for change in changes:
        old = math.log(change.baseline)
        new = old + math.log1p(change.change)
        still = abs(series.level[-1] - new) < abs(series.level[-1] - old)
        if change.may_reach(policy.reported_from) and still:
            return change
    return None


def _unchanged(
    series: Series,
    tonight: HistoryPoint,
    history: int,
    least: float | None,
    policy: RegressionPolicy,
    described: LevelEstimate | None,
) -> Judgement:
    """Return the judgement of a night without a change.

    `described` is what `estimate_level` says of all nights; None where no drift is looked for.
    """
    past = estimate_level(series.part(0, len(series) - 1))
    level = past.values[past.base :][-REFERENCE:]
    baseline = math.exp(-median(level) if policy.judged.lower_is_better else median(level))
    change = tonight.value / baseline - 1
    noise = past.noise
    sentence = (
        f"{_distance(tonight.value, baseline, policy)} (median of {len(level)} "
        f"nights); nights vary by {noise:.1%}"
    )
    # Of one night, and of a median whose error is that of a mean times sqrt(pi / 2).
    width = Z_90 * noise * math.sqrt(1 + math.pi / 2 / len(level))
    own = series.within[-1]
    known = series.within[np.isfinite(series.within)]
    if math.isfinite(own) and own > 2 * median(known):
        sentence += f", its own repeats by {own:.1%}, more than twice the usual"
    far = abs(math.log1p(change)) > WATCHED_NOISE * noise
    watched = far and abs(change) >= policy.reported_from
    if watched:
        sentence += "; one such night is watched, two are a change"
    # The longest drift first: the search for levels cuts a drift into small steps.
    drift = drift_of(series, described=described) if described else None
    if described and drift is None and past.base:
        drift = drift_of(series, past.base)
    if drift is not None:
        if policy.judged.lower_is_better:
            drift = drift.inverted()
        sentence += (
            f"; drifts: {drift.change:+.1%} (± {2 * drift.error:.1%}) over {drift.nights} nights, "
            "of which none is a change"
        )
    return Judgement(
        VerdictKind.WATCHED if watched else VerdictKind.OK,
        f"{sentence}.",
        baseline=baseline,
        change=change,
        level_change=change,
        history=history,
        low=math.exp(math.log1p(change) - width) - 1,
        high=math.exp(math.log1p(change) + width) - 1,
        smallest_slowdown=least,
        drift=drift,
    )


def _distance(value: float, baseline: float, policy: RegressionPolicy) -> str:
    change, text = value / baseline - 1, policy.judged.text
    return (
        f"{text(value)} is {abs(change):.1%} {'below' if change < 0 else 'above'} "
        f"the baseline of {text(baseline)}"
    )


def _coincidence(last_good: HistoryPoint, first: HistoryPoint) -> str:
    """Return a clause about what else changed on the first night; empty where nothing did."""
    old, new = last_good.framework_version, first.framework_version
    suspects = [f"the framework went from {old} to {new}"] if old and new and old != new else []
    if differ(last_good.fingerprint_id, first.fingerprint_id):
        suspects.append("hardware, driver or kernel of the nodes changed")
    if not suspects:
        return ""
    one = "the prime suspect" if len(suspects) == 1 else "the prime suspects"
    return f", when {' and '.join(suspects)}: {one}"
