"""The detector behind all verdicts: judges one night of a series by its changes."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection import verdict_sentences as sentences
from nightbench.detection.changes import FEWEST, LOOK_BACK, TAIL, Change
from nightbench.detection.control_shift import control_shift
from nightbench.detection.detector import (
    Judgement,
    new_state_odds,
    release_odds,
    segment,
    segment_before,
    segment_start,
)
from nightbench.detection.night_analysis import (
    Level,
    NightAnalysis,
    NightNumbers,
    Window,
    analyse_night,
)
from nightbench.detection.node_modes import node_change
from nightbench.detection.process_pool import spread
from nightbench.detection.robust import Z_90, median
from nightbench.detection.series import Series, series_of

WATCHED_NOISE = 4.0
"""A night is `watched` that is farther from the baseline than so many times the nights' noise."""

PROCESSES = 4
"""Most processes that judge a night: each needs 60 to 70 MiB and its histories."""


@dataclass(frozen=True)
class ChangeDetector:
    """Judges a night by the evidence that a lasting change began in one of the last nights.

    It reads the last `LOOK_BACK` comparable nights and nothing else: judging the same night again
    gives the same judgement. See `docs/detector.md`.
    """

    with_smallest: bool = True
    """Compute the smallest slowdown and the drift too. They take most of the time and affect no
    verdict."""

    controls: Mapping[str, float] = field(default_factory=dict)
    """run_id -> value of the nodes' control measurements, above 0, higher is better. They become
    `Judgement.control` of a change and do not affect the verdict."""

    by_releases: bool = True
    """A change that begins with a new version is likelier."""

    nodes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """As of `modes_of`: a change with a run on other nodes is pending until that has lasted."""

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        """See `Detector`."""
        night = self._night(history, tonight, policy)
        return self._judgement(night, analyse_night(night.numbers), policy)

    def _night(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> "_Night":
        lower = policy.judged.lower_is_better

        def window(points: Sequence[HistoryPoint]) -> Window:
            known = release_odds(points) if self.by_releases else np.zeros(len(points))
            return Window(series_of(points, lower_is_better=lower), known)

        nights = segment(history, tonight)
        needed = max(policy.min_history, FEWEST - 1)
        points, comparable = [*nights, tonight][-LOOK_BACK:], None
        if len(nights) >= needed:
            comparable = window(points)
        joined, joined_points, boundary = None, list[HistoryPoint](), 0
        before = segment_before(history, nights, tonight) if len(nights) < TAIL else []
        if len(before) >= needed:
            joined_points = [*before, *nights, tonight][-LOOK_BACK:]
            boundary = len(joined_points) - len(nights) - 1
            recent = [*history, tonight][-LOOK_BACK:]
            place = segment_start(history, nights) - (len(history) + 1 - len(recent))
            joined = window(joined_points)
            if place >= 0:
                new_nodes = new_state_odds([point.fingerprint_id for point in recent])
                joined.known[boundary] = max(joined.known[boundary], new_nodes[place])
        numbers = NightNumbers(
            comparable,
            joined,
            boundary,
            policy.reported_from,
            self.with_smallest,
            node_change(points, self.nodes) if self.nodes else None,
        )
        return _Night(tonight, len(nights), points, joined_points, numbers)

    def _judgement(
        self, night: "_Night", found: NightAnalysis, policy: RegressionPolicy
    ) -> Judgement:
        numbers, least = night.numbers, found.smallest
        if found.change is not None and numbers.comparable is not None:
            known = "new version", float(numbers.comparable.known[found.change.first])
            return self._changed(night.points, found.change, night.history, least, known, policy)
        if found.change_at_boundary is not None and numbers.joined is not None:
            known = "new hardware or driver", float(numbers.joined.known[numbers.boundary])
            points, change = night.joined, found.change_at_boundary
            return self._changed(points, change, len(points) - 1, least, known, policy)
        if found.level is None or numbers.comparable is None:
            needed = max(policy.min_history, FEWEST - 1)
            return Judgement(
                VerdictKind.INSUFFICIENT_DATA,
                sentences.too_few(night.history, needed),
                history=night.history,
            )
        held = ""
        if found.held is not None and numbers.stay is not None:
            change = found.held.inverted() if policy.judged.lower_is_better else found.held
            stay = numbers.stay
            held = sentences.pending(
                change.change,
                night.points[stay.first].at,
                stay.before,
                stay.place,
                len(night.points) - stay.first,
            )
        return _unchanged(numbers.comparable.series, night, least, policy, found.level, held)

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
        figures = [self.controls.get(point.run_id) for point in points]
        control = control_shift(figures, change.first, math.log1p(change.change))
        kind = VerdictKind.REGRESSED if change.is_drop else VerdictKind.IMPROVED
        if policy.judged.lower_is_better:
            change = change.inverted()
        why, prior = known
        said = (
            sentences.level_change(change, first.at, policy.judged.text(change.baseline))
            + sentences.tonight(tonight.value, change.baseline, policy.judged)
            + sentences.log_odds(change.score, prior, why)
            + sentences.coincidence(last_good, first)
            + sentences.controls(control)
        )
        return Judgement(
            kind,
            said,
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


@dataclass(frozen=True)
class _Night:
    """A night with its points; all calculations use `numbers`."""

    tonight: HistoryPoint
    history: int
    """Comparable nights before it."""
    points: Sequence[HistoryPoint]
    """The last of them, and tonight."""
    joined: Sequence[HistoryPoint]
    """Those of the segment before too, if the change may be between the two."""
    numbers: NightNumbers


def judge_nights(
    nights: Iterable[tuple[ChangeDetector, Sequence[HistoryPoint], HistoryPoint]],
    number: int,
    policy: RegressionPolicy,
) -> Iterator[Judgement]:
    """Yield what detectors judge, in their order; many nights are judged on several processors.

    Args:
        nights: a detector each, with history and tonight's point; taken as they are needed.
        number: of the nights.
        policy: of the suite.

    Raises:
        UserError: a process was ended from outside.
    """
    begun = deque[tuple[ChangeDetector, _Night]]()

    def numbers() -> Iterator[NightNumbers]:
        for detector, history, tonight in nights:
            begun.append((detector, detector._night(history, tonight, policy)))
            yield begun[-1][1].numbers

    for found in spread(analyse_night, numbers(), [1] * number, PROCESSES):
        detector, night = begun.popleft()
        yield detector._judgement(night, found, policy)


def _unchanged(
    series: Series,
    night: _Night,
    least: float | None,
    policy: RegressionPolicy,
    level: Level,
    held: str,
) -> Judgement:
    """Return the judgement of a night without a change, or with a pending one."""
    tonight, noise = night.tonight, level.noise
    baseline = math.exp(-level.middle if policy.judged.lower_is_better else level.middle)
    change = tonight.value / baseline - 1
    said = sentences.unchanged(tonight.value, baseline, policy.judged, level.nights, noise)
    # Error of a night plus error of the median, which is sqrt(pi / 2) times that of a mean.
    width = Z_90 * noise * math.sqrt(1 + math.pi / 2 / level.nights)
    own = series.within[-1]
    known = series.within[np.isfinite(series.within)]
    if math.isfinite(own) and own > 2 * median(known):
        said += sentences.noisy_repeats(own)
    far = abs(math.log1p(change)) > WATCHED_NOISE * noise
    watched = far and abs(change) >= policy.reported_from
    if held:
        said += held
    elif watched:
        said += sentences.WATCHED
    drift = level.drift
    if drift is not None:
        if policy.judged.lower_is_better:
            drift = drift.inverted()
        said += sentences.drifting(drift)
    return Judgement(
        VerdictKind.WATCHED if watched else VerdictKind.OK,
        said,
        baseline=baseline,
        change=change,
        level_change=change,
        history=night.history,
        low=math.exp(math.log1p(change) - width) - 1,
        high=math.exp(math.log1p(change) + width) - 1,
        smallest_slowdown=least,
        drift=drift,
    )
