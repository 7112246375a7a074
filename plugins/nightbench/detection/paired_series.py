"""Nights beside a reference build as a series: the paired ratio, less what the machine did. Pure.

A night's ratio to the build that ran in turn with it holds what the build did; the reference's own
throughput holds what the machine did. Both become series like any other, in the unit of the work:
the ratio times the reference's usual throughput is what the night would have brought on a usual
machine.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from statistics import median

from nightbench.core.model import HistoryPoint, PairNight


def rebased(nights: Iterable[PairNight]) -> dict[str, PairNight]:
    """Return nights by run_id as if all were beside the newest reference.

    A night that measured two references says how many times as fast one is as the other. What
    cannot be converted so is left out.

    Args:
        nights: the newest first; of each run the reference first, and then the one before.
    """
    found: dict[str, PairNight] = {}
    factors: dict[str, float] = {}
    """build_id -> its throughput as a multiple of the newest reference's."""
    for run_id, group in itertools.groupby(nights, attrgetter("run_id")):
        both = list(group)
        factors = factors or {both[0].reference: 1.0}
        known = next((each for each in both if each.reference in factors), None)
        if known is None:
            continue
        factor = factors[known.reference]
        for each in both:
            factors.setdefault(each.reference, known.ratio * factor / each.ratio)
        found[run_id] = replace(known, ratio=known.ratio * factor, level=known.level / factor)
    return found


def paired_series(
    history: Sequence[HistoryPoint], beside: Mapping[str, PairNight]
) -> tuple[list[HistoryPoint], list[HistoryPoint]]:
    """Return the nights that were measured next to a reference: by their ratio, and the reference.

    Args:
        history: good nights, oldest first, tonight last.
        beside: run_id -> the night with its reference, see `rebased`.
    """
    kept = [(point, beside[point.run_id]) for point in history if point.run_id in beside]
    usual = median([night.level for _, night in kept]) if kept else 1.0
    by_ratio = [
        replace(point, value=night.ratio * usual, n=night.n, spread=night.spread)
        for point, night in kept
    ]
    reference = [
        replace(point, value=night.level, n=night.n, spread=None, framework_version=None)
        for point, night in kept
    ]
    return by_ratio, reference
