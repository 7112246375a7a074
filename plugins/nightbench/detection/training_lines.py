"""Says whether a case trains as the other lines that did the same work in a night. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from nightbench.core.model import Case, TrainingKind
from nightbench.detection.training import TrainingVerdict, shown
from nightbench.detection.training_night import Range
from nightbench.detection.training_tolerance import TrainingTraits

_LINE_AXES = (
    *("framework", "compiler", "execution", "layout", "tuning"),
    *("threads", "cpus", "memory_mb"),
)
"""Axes that leave the first loss as it is."""


def lines_that_differ(
    cases: Iterable[tuple[Case, Mapping[str, Range], TrainingTraits]],
) -> dict[str, TrainingVerdict]:
    """Compare the first losses of one night between lines; return what differs by case_id.

    The loss that most lines have counts as right: cases with another loss changed. If no loss has
    more lines than every other one, no case is comparable.
    Cases with dropout are left out, whose random numbers are each line's own, and those with
    asynchronous servers, whose trainers may begin after another's update.
    """
    groups: dict[tuple[object, ...], list[tuple[float, float, Case]]] = defaultdict(list)
    for case, losses, traits in cases:
        tolerance = traits.rounding("first", is_alike=False)
        is_own = traits.has_dropout or traits.is_asynchronous
        if "first" in losses and tolerance is not None and not is_own:
            first = (losses["first"][0] + losses["first"][1]) / 2
            axes = sorted(case.axes().items())
            work = tuple(str(value) for axis, value in axes if axis not in _LINE_AXES)
            # Lines also differ by the order in which their kernels add.
            groups[work].append((first, 2 * tolerance * max(1.0, abs(first)), case))
    found: dict[str, TrainingVerdict] = {}
    for members in groups.values():
        equal: list[tuple[float, list[Case]]] = []
        for first, tolerance, case in sorted(members, key=lambda member: member[0]):
            if not equal or first - equal[-1][0] > tolerance:
                equal.append((first, []))
            equal[-1][1].append(case)
        if len(equal) < 2 or len(_lines(case for _, _, case in members)) < 2:
            continue
        agreed, *others = sorted(equal, key=lambda each: -len(_lines(each[1])))
        if len(_lines(agreed[1])) > len(_lines(others[0][1])):
            verdicts = [(each, _unlike(*each, *agreed)) for each in others]
        else:
            found_by = (f"{first:.6g} on {' and '.join(_lines(x))}" for first, x in equal)
            sentence = f"Lines train differently: first loss {', '.join(found_by)}. "
            sentence += "It is unknown which one is right."
            verdicts = [(x, TrainingVerdict(TrainingKind.NOT_COMPARABLE, sentence)) for x in equal]
        found |= {case.case_id: verdict for (_, x), verdict in verdicts for case in x}
    return found


def _lines(cases: Iterable[Case]) -> list[str]:
    return sorted({case.framework for case in cases})


def _unlike(first: float, cases: list[Case], value: float, others: list[Case]) -> TrainingVerdict:
    mine = _lines(cases)
    names = " and ".join(line for line in _lines(others) if line not in mine)
    difference = f"first loss {shown(first, value)}, {shown(value, first)} on {names}"
    sentence = f"{' and '.join(mine)} trains differently from other lines: {difference}."
    return TrainingVerdict(TrainingKind.CHANGED, sentence, True, first, value, difference)
