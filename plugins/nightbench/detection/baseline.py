"""A robust baseline that follows the level of a series, and judges each night against it.

All arithmetic is on logarithms, so that a change is a ratio and a fall weighs as much as a rise.
The state is advanced night by night with what was known that night; a judgement of tonight is
therefore the same whether history is replayed from the start or continued.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection.detector import Judgement, segment

WINDOW = 30
"""Nights of the present level that its median and its noise are taken from."""

MIN_REFERENCE = 5
"""Nights at a level before another night is compared with it."""

CLEAR = 6.0
"""Noise scales, divided by the root of its nights, that a row of nights has to deviate by."""

LEAST = 1.5
"""Noise scales that a row of any length has to deviate by."""

LONGEST_ROW = 14
"""Nights that are looked at together, at most."""

TOGETHER = 0.8
"""Share of a row's nights that lie beyond half of its shift."""

SIMILAR_DEPTH = 0.7
"""An earlier excursion of this share of a deviation's depth counts as having been as deep."""

LONE_DEPTH = 0.3
"""The same for one night alone: it convinces where nothing like it was ever seen."""

FOLLOW = 7
"""Nights after which a new level is the baseline: a week's fall is a fact, no longer news."""

NOISE_FLOOR = 0.002
"""No series is believed to repeat itself better than this, relatively."""

_MAD_TO_SIGMA = 1.4826
_RANGE_TO_SIGMA = {2: 1.128, 3: 1.693, 4: 2.059, 5: 2.326, 6: 2.534, 7: 2.704, 8: 2.847, 9: 2.970}
"""Expected range of n normal values, in standard deviations (the d2 of control charts)."""


@dataclass(frozen=True)
class BaselineDetector:
    """Compares a night with the median of its level, in units of the night-to-night noise.

    The last night, the last two, and so on are each held against the level before them. A row
    of nights is reported when its median exceeds the policy's `min_change` and the noise, and
    when it has lasted longer than every earlier excursion of its depth: a series that has had
    single slow nights needs two in a row. See `docs/verdicts.md`.
    """

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        """See `Detector`."""
        nights = segment(history, tonight)
        level = Level(policy.min_change)
        for point in nights:
            level.advance(point)
        if len(nights) < max(policy.min_history, MIN_REFERENCE):
            return Judgement(
                VerdictKind.INSUFFICIENT_DATA,
                f"{len(nights)} comparable nights before this one; "
                f"{max(policy.min_history, MIN_REFERENCE)} are needed.",
                history=len(nights),
            )
        finding = level.advance(tonight)
        baseline = math.exp(finding.baseline)
        change = tonight.value / baseline - 1
        points = [*nights, tonight]
        first = len(points) - finding.lasted
        evidence = (
            f"{tonight.value:.4g} is {abs(change):.1%} {'below' if change < 0 else 'above'} the "
            f"baseline of {baseline:.4g} (median of {finding.reference} nights); "
            f"{_noise_in_words(finding, tonight)}, {_limit_in_words(finding, change)} counts"
        )
        if not finding.lasted:
            kind, sentence = VerdictKind.OK, f"{evidence}."
        elif not finding.outlasts:
            kind = VerdictKind.OK
            sentence = (
                f"{evidence}; night {finding.lasted} in a row, which is watched: this level has "
                f"had {finding.excursion} such in a row before."
            )
        else:
            kind = VerdictKind.REGRESSED if change < 0 else VerdictKind.IMPROVED
            since = points[first].at
            sentence = f"{evidence}; night {finding.lasted} in a row, since {since:%Y-%m-%d}."
        told = kind in (VerdictKind.REGRESSED, VerdictKind.IMPROVED)
        return Judgement(
            kind,
            sentence,
            baseline=baseline,
            change=change,
            history=len(nights),
            since=points[first].at if told else None,
            last_good=points[first - 1] if told and first else None,
        )


@dataclass(frozen=True)
class Finding:
    """One night held against the level before it; figures are logarithmic unless said otherwise."""

    baseline: float
    scale: float
    """Standard deviation from night to night."""
    limit: float
    """Deviation that counts."""
    reference: int
    """Nights that the baseline is the median of."""
    lasted: int = 0
    """Nights in a row that deviate to the same side, this one included; 0 for a usual night."""
    excursion: int = 0
    """Longest earlier row of nights that deviated as far."""

    @property
    def outlasts(self) -> bool:
        """True where the deviation has lasted longer than any earlier one of its depth."""
        return self.lasted > self.excursion


@dataclass
class Level:
    """The present level of a series: advanced by one night at a time, knows only the past."""

    min_change: float
    values: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    """Of each night's own median, from the spread of its repeats."""
    start: int = 0
    """First night of the level."""

    def advance(self, point: HistoryPoint) -> Finding:
        """Add a night; what it and the nights just before it look like from the level before."""
        self.values.append(math.log(point.value))
        self.errors.append(_error_of_median(point))
        rows = [
            self._look(nights)
            for nights in range(1, LONGEST_ROW + 1)
            if len(self.values) - nights - self.start >= MIN_REFERENCE
        ]
        if not rows:
            level = self.values[self.start :]
            return Finding(median(level), 0.0, math.inf, len(level))
        deviating = [row for row in rows if row.lasted]
        # The longest row wins of those that outlast: it dates the change best.
        clear = [row for row in deviating if row.outlasts]
        finding = (clear or deviating or rows[:1])[-1]
        if finding.outlasts and finding.lasted >= FOLLOW:
            self.start = len(self.values) - finding.lasted
        return finding

    def _look(self, nights: int) -> Finding:
        """Hold the last `nights` nights against the level before them."""
        end = len(self.values) - nights
        reference = range(max(self.start, end - WINDOW), end)
        baseline = median(self.values[i] for i in reference)
        scale = self._scale(reference, baseline)
        row = [value - baseline for value in self.values[end:]]
        shift = median(row)
        side = -1 if shift < 0 else 1
        scales = max(LEAST, CLEAR / math.sqrt(nights))
        limit = max(abs(math.log1p(side * self.min_change)), scales * scale)
        together = min(side * row[0], side * row[-1]) > abs(shift) / 2 and (
            sum(side * d > abs(shift) / 2 for d in row) >= TOGETHER * nights
        )
        if abs(shift) <= limit or not together:
            return Finding(baseline, scale, limit, len(reference))
        depth = abs(shift) * (SIMILAR_DEPTH if nights > 1 else LONE_DEPTH)
        excursion = self._excursion(baseline, side, depth, end)
        return Finding(baseline, scale, limit, len(reference), nights, excursion)

    def _scale(self, reference: range, baseline: float) -> float:
        """Noise between nights, with room for a night whose own repeats disagree unusually."""
        # Differences do not see a slow drift or the steps between levels; distances from the
        # baseline see weekly patterns and two-humped noise. The larger is the noise.
        recent = self.values[max(0, reference.stop - 2 * WINDOW) : reference.stop]
        steps = [abs(b - a) for a, b in itertools.pairwise(recent)]
        distances = [abs(self.values[i] - baseline) for i in reference]
        nightly = _MAD_TO_SIGMA * max(median(steps) / math.sqrt(2), median(distances))
        usual = median(self.errors[i] for i in reference)
        excess = max(0.0, self.errors[-1] ** 2 - usual**2)
        return max(NOISE_FLOOR, math.hypot(nightly, math.sqrt(excess)))

    def _excursion(self, baseline: float, side: int, depth: float, end: int) -> int:
        """Longest row of earlier nights that lay as far off and came back within a week."""
        longest = row = 0
        for value in self.values[:end]:
            if side * (value - baseline) > depth:
                row += 1
                continue
            if row < FOLLOW:  # A longer one was a level, to which a series may fall again.
                longest = max(longest, row)
            row = 0
        return longest


def _noise_in_words(finding: Finding, tonight: HistoryPoint) -> str:
    """Where most of the noise comes from: the nights, or the repeats of this one."""
    own = _error_of_median(tonight)
    if tonight.spread is not None and own**2 > finding.scale**2 / 2:
        return f"its own repeats differ by {tonight.spread:.1%}"
    return f"nights vary by {finding.scale:.1%}"


def _limit_in_words(finding: Finding, change: float) -> str:
    """The limit as a ratio: on logarithms a fall could be one of more than 100 %."""
    if change < 0:
        return f"a fall of {-math.expm1(-finding.limit):.1%}"
    return f"a rise of {math.expm1(finding.limit):.1%}"


def _error_of_median(point: HistoryPoint) -> float:
    """Relative standard error of a night's median of n repeats; 0 where it is not known."""
    if point.spread is None or point.n is None or point.n < 2:
        return 0.0
    sigma = point.spread / _RANGE_TO_SIGMA[min(point.n, max(_RANGE_TO_SIGMA))]
    return math.sqrt(math.pi / 2) * sigma / math.sqrt(point.n)
