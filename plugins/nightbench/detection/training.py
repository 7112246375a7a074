"""Says whether a case still trains as before. Pure.

Every line starts a workload from the same weights and the same batches, so its losses show what it
computes. The same build on the same nodes, with as many threads, repeats them to the last bit,
unless its strategy is asynchronous or a kernel adds in a varying order. Other threads, instruction
sets and versions change them by rounding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from nightbench.core.model import TrainingKind, differ
from nightbench.detection.training_night import (
    FIGURES,
    Range,
    TrainingNight,
    comparable,
    range_of,
)
from nightbench.detection.training_tolerance import (
    EARLY,
    LOOSE,
    ROUNDING,
    SPREADS,
    TrainingTraits,
)

PROVED_NIGHTS = 5
"""Nights after which a change alerts, and losses that were equal to the last bit must stay so."""


@dataclass(frozen=True)
class TrainingVerdict:
    """The verdict on the losses of a night, with the evidence in a sentence."""

    kind: TrainingKind
    sentence: str
    is_proved: bool = False
    """Whether the series reproduced itself often enough for an alert."""
    value: float | None = None
    baseline: float | None = None
    """The loss that differs, tonight and before; None if none does."""
    difference: str = ""
    """The same as words: `first loss 6.848 -> 7.318 since 2.14.0`."""
    is_exact: bool = False
    """Whether the loss that differs must equal the earlier ones to the last bit."""
    varies: bool = False
    """Whether the earlier losses differ by more than rounding, so that all repeats must change."""
    speed: float | None = None
    """Relative change of the throughput, from the median of the compared nights."""
    figure: str | None = None
    """Key in `FIGURES` of the loss that differs."""

    @property
    def change(self) -> float | None:
        """Relative change of `value` from `baseline`."""
        if self.value is None or not self.baseline:
            return None
        return (self.value - self.baseline) / abs(self.baseline)


def judge_training(
    tonight: TrainingNight, past: Iterable[TrainingNight], traits: TrainingTraits
) -> TrainingVerdict:
    """Compare the losses of a night with those of the nights before.

    Args:
        tonight: the night.
        past: nights before it, in any order. Those of another definition or batch, without losses,
            or with a change that no user accepted are left out.
        traits: of the case.
    """
    if not tonight.losses:
        return _not_comparable("a rank recorded no loss, or one that is not finite")
    known = [night for night in past if night.trains_as_defined_by(tonight)]
    nights = [night for night in known if not night.is_changed]
    if not nights:
        still = _Comparison(tonight, known, traits)
        if known and still.verdict().kind is TrainingKind.SAME:
            what = f"the losses are those of {still.nights} whose change no user has accepted"
            return TrainingVerdict(TrainingKind.CHANGED, f"Training changed: {what}.")
        return _not_comparable("no earlier night has losses of the same definition and batch size")
    newest = max(nights, key=lambda night: night.at)
    # A change that lasts proves as much as earlier nights.
    changed = [night for night in known if night.is_changed and night.at > newest.at]
    if traits.is_asynchronous and len(nights) < PROVED_NIGHTS:
        return _not_comparable(
            f"the spread of asynchronous trainers needs {PROVED_NIGHTS} nights; found {len(nights)}"
        )
    alike = [night for night in nights if night.is_like(tonight)]
    exact = [night for night in alike if night.has_conditions_of(tonight)]
    has_conditions = "conditions" in tonight.losses
    # A night after a change must show that training is as before.
    has_new_conditions = has_conditions and bool(alike) and not exact and not changed
    if has_new_conditions:
        conditions = [night.losses.get("conditions") for night in alike]
        has_new_conditions = tonight.losses["conditions"] not in conditions
    if traits.has_dropout and has_conditions:
        alike = exact
    under = [night for night in nights if night.has_conditions_of(tonight)]
    if not any(newest.is_like(night) for night in under):
        under = nights  # Newer versions ran under other conditions only.
    # Those that are most like tonight, if there are enough.
    like = [alike] if traits.is_asynchronous else [exact, alike, under]
    reference = next((each for each in like if len(each) >= PROVED_NIGHTS), nights)
    is_alike = reference is exact or reference is alike
    is_exact = reference is exact and not traits.is_asynchronous
    verdict = _Comparison(
        tonight, reference, traits, is_alike, has_new_conditions, changed, is_exact
    ).verdict()
    if 1 < len(exact) < PROVED_NIGHTS and not traits.is_asynchronous:
        # The first nights of a version, or of conditions, do not differ from each other.
        own = _Comparison(tonight, exact, traits, is_alike=True, changed=changed).verdict()
        is_changed = own.kind is TrainingKind.CHANGED and not own.varies
        if is_changed and verdict.kind is TrainingKind.SAME:
            verdict = replace(own, is_proved=len(nights) >= PROVED_NIGHTS)
    is_new = traits.has_dropout and len(nights) < PROVED_NIGHTS
    if is_new and verdict.value is not None and not _has_same_draws(tonight, nights, traits):
        return _not_comparable(f"the spread of dropout needs {PROVED_NIGHTS} nights")
    return verdict


def newest_are_enough(
    tonight: TrainingNight, newest: Sequence[TrainingNight], traits: TrainingTraits, has_older: bool
) -> bool:
    """Return whether a night that trains as the newest nights does so with older ones, too.

    More nights then only widen the tolerance. `has_older`: an older night has tonight's build.
    """
    has_chance = traits.is_asynchronous or traits.has_dropout
    is_set_up_alike = all(map(tonight.is_like, newest)) or not (has_older or has_chance)
    return is_set_up_alike and all(map(tonight.runs_as, newest))


def _not_comparable(why: str) -> TrainingVerdict:
    return TrainingVerdict(TrainingKind.NOT_COMPARABLE, f"Training is not compared: {why}.")


def _has_same_draws(
    tonight: TrainingNight, nights: Sequence[TrainingNight], traits: TrainingTraits
) -> bool:
    """Return whether dropout draws as in all nights: other masks change the first loss."""
    seen = comparable("first", tonight, [tonight, *nights])
    low, high = range_of(seen or [(0.0, 0.0)])
    share = ROUNDING["fp32"]["third" if traits.rounding_grows else "first"]
    return high - low <= share * max(1.0, abs(low), abs(high))


@dataclass(frozen=True)
class _Comparison:
    """Tonight's losses beside those of the reference nights."""

    tonight: TrainingNight
    reference: Sequence[TrainingNight]
    traits: TrainingTraits
    is_alike: bool = False
    """Whether version, build and nodes of all of them are tonight's."""
    has_new_conditions: bool = False
    """Whether only the conditions are others than those of all of them."""
    changed: Sequence[TrainingNight] = ()
    """Nights since the newest of them that differed as well."""
    is_exact: bool = False
    """Whether their conditions are tonight's, too, and no trainer is asynchronous."""

    def verdict(self) -> TrainingVerdict:
        is_equal = all(night.losses == self.tonight.losses for night in self._distinct)
        if is_equal and self.traits.precision in ROUNDING:
            return TrainingVerdict(TrainingKind.SAME, self._equal, self._is_proved)
        tolerances = {
            figure: tolerance
            for figure in FIGURES
            if figure in self.tonight.losses
            and figure in self._ranges
            and (tolerance := self._tolerance(figure)) is not None
        }
        if not tolerances:
            return _not_comparable("tonight and the earlier nights have no metric in common")
        for figure, (allowed, varies) in tolerances.items():
            (low, high), seen = self._ends(figure)
            if varies:  # A busy node may delay the updates of one repeat. A fault changes all.
                low, high = high, low
            if not (seen[0] - allowed <= low and high <= seen[1] + allowed):
                found = self._changed(figure, allowed, varies=varies)
                if self.has_new_conditions and figure != "first":
                    why = "threads or instruction sets are new to the series, so rounding may grow"
                    return _not_comparable(f"{found.difference}; {why}")
                return found
        return TrainingVerdict(TrainingKind.SAME, self._same(list(tolerances)), self._is_proved)

    @property
    def _is_proved(self) -> bool:
        return len(self.reference) + len(self.changed) >= PROVED_NIGHTS

    @cached_property
    def _distinct(self) -> Sequence[TrainingNight]:
        """Nights of all losses: most nights share one mapping."""
        return list({id(night.losses): night for night in self.reference}.values())

    @cached_property
    def _ranges(self) -> Mapping[str, Range]:
        known = {figure: comparable(figure, self.tonight, self._distinct) for figure in FIGURES}
        return {figure: range_of(values) for figure, values in known.items() if values}

    @cached_property
    def _repeats_bits(self) -> bool:
        """Whether nothing has changed, and the losses of all reference nights are equal."""
        return self.is_exact and all(low == high for low, high in self._ranges.values())

    @cached_property
    def _has_same_draws(self) -> bool:
        return _has_same_draws(self.tonight, self.reference, self.traits)

    @property
    def _has_chance(self) -> bool:
        """Whether losses may vary by more than rounding between nights without a change."""
        unseeded = self.traits.has_dropout and not self._has_same_draws
        return self.traits.is_asynchronous or unseeded

    def _nights_with(self, figure: str) -> int:
        return len(comparable(figure, self.tonight, self.reference))

    def _ends(self, figure: str) -> tuple[Range, Range]:
        return self.tonight.losses[figure], self._ranges[figure]

    def _tolerance(self, figure: str) -> tuple[float, bool] | None:
        """Return by how much a value may be outside the earlier range.

        And whether the loss varies: chance changes it by more than rounding.
        """
        nights = self._nights_with(figure)
        if self._repeats_bits and nights >= PROVED_NIGHTS:
            return 0.0, False
        # Rounding errors grow with each step. In early steps, the updates of asynchronous servers
        # vary, and after the window, their number: trainers step until the last one has ended.
        varying = ("third", "early", "again")
        if figure in (varying if self.traits.is_asynchronous else ("long", "whole")):
            return None
        if self._has_chance and nights < min(PROVED_NIGHTS, len(self.reference)):
            return None  # The range of so few windows of one length is unknown.
        is_new = self.has_new_conditions and figure != "first"
        is_alike = is_new or self.is_alike or self._has_draws(figure)
        rounding = self.traits.rounding(figure, is_alike=is_alike)
        if rounding is None:
            return None
        if is_new:
            rounding = max(rounding, LOOSE)
        _, (low, high) = self._ends(figure)
        scale = max(1.0, abs(low), abs(high))
        allowed = rounding * scale
        for lowest, highest in comparable(figure, self.tonight, self.changed):
            # An alert ends with a night that is nearer to those before the change.
            tight = scale * (self.traits.rounding(figure, is_alike=True) or 0.0)
            allowed = min(allowed, max(tight, (low - highest) / 2, (lowest - high) / 2))
        chance = SPREADS * (high - low)
        if chance > allowed:
            chance = SPREADS * self._chance(figure)
        varies = self.traits.is_asynchronous or 0 < allowed <= chance
        return max(allowed, chance), varies

    def _chance(self, figure: str) -> float:
        """Return by how much chance changes a loss.

        It is the largest range of nights with one version, build, nodes and conditions. If a user
        has dismissed a false alarm, or a loss that varies has too few of such nights, it is the
        range of all nights.
        """
        groups = defaultdict[tuple[object, ...], list[TrainingNight]](list)
        for each in self.reference:
            conditions = each.losses.get("conditions")
            groups[each.version, each.build_id, each.fingerprint_id, conditions].append(each)
        known = [comparable(figure, self.tonight, nights) for nights in groups.values()]
        is_unknown = self._has_chance and max(map(len, known)) < PROVED_NIGHTS
        if is_unknown or any(night.is_false_alarm for night in self.reference):
            known = [comparable(figure, self.tonight, self.reference)]
        return max(high - low for low, high in map(range_of, filter(None, known)))

    def _has_draws(self, figure: str) -> bool:
        """Return whether an early loss has the random numbers and conditions of earlier nights."""
        conditions = self.tonight.losses.get("conditions")
        return (
            self.traits.has_dropout
            and figure in EARLY
            and not (self.traits.rounding_grows and figure != "first")
            and self._nights_with("first") >= PROVED_NIGHTS
            and any(night.losses.get("conditions") == conditions for night in self.reference)
            and self._has_same_draws
        )

    def _changed(self, figure: str, allowed: float, *, varies: bool) -> TrainingVerdict:
        found, (low, high) = self._ends(figure)
        # If there are several repeats, take the one with the largest difference.
        value = max(found, key=lambda each: abs(each - (low + high) / 2))
        earlier = comparable(figure, self.tonight, self.reference)
        baseline = median(end for each in earlier for end in each)
        first = min(night.at for night in self.reference)
        evidence = f"{self.nights} since {first:%Y-%m-%d} " + (
            f"allow {low - allowed:.6g} to {high + allowed:.6g}"
            if allowed
            else "with the same version, nodes and threads had the same losses to the last bit"
        )
        before = [night.throughput for night in self.reference if night.throughput]
        now = self.tonight.throughput
        difference = f"{FIGURES[figure]} {shown(baseline, value)} -> {shown(value, baseline)}"
        newest = max(self.reference, key=lambda night: night.at)
        if differ(newest.version, self.tonight.version):
            difference += f" since {self.tonight.version}"
        return TrainingVerdict(
            TrainingKind.CHANGED,
            f"Training changed: {difference}. {evidence}.",
            self._is_proved,
            value,
            baseline,
            difference,
            is_exact=not allowed,
            varies=varies,
            speed=now / median(before) - 1 if now and before else None,
            figure=figure,
        )

    @property
    def nights(self) -> str:
        """The number of the reference nights in words."""
        count = len(self.reference)
        return f"{count} night{'s' if count > 1 else ''}"

    @property
    def _equal(self) -> str:
        return f"Training is the same: all losses equal those of {self.nights} to the last bit."

    def _same(self, known: Sequence[str]) -> str:
        if self._repeats_bits and all(found == seen for found, seen in map(self._ends, known)):
            return self._equal
        words = f"Training is the same as in {self.nights}, within rounding and spread"
        if self.has_new_conditions:
            words += "; threads or instruction sets are new to the series, so rounding may grow"
        if self.traits.has_dropout and not self._has_same_draws:
            words += "; dropout draws other random numbers"
        return f"{words}."


def shown(value: float, other: float) -> str:
    """Return a loss with enough digits to differ from the other loss."""
    for digits in (4, 6, 9):
        if f"{value:.{digits}g}" != f"{other:.{digits}g}":
            return f"{value:.{digits}g}"
    return repr(value)
