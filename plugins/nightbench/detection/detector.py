"""What every detector is: a history, tonight's point and a policy in, a judgement out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection.control_shift import ControlShift
from nightbench.detection.drift import Drift

APART = 30
"""Nights of other work or on other nodes in a row, at most, between nights that are compared."""


@dataclass(frozen=True)
class Judgement:
    """What a detector says of tonight's value, and what it rests on."""

    kind: VerdictKind
    """ok, regressed, improved or insufficient_data."""
    sentence: str
    baseline: float | None = None
    """The level that tonight is compared with, in the series' unit."""
    change: float | None = None
    """value / baseline - 1."""
    history: int = 0
    """Nights of the segment before tonight."""
    since: datetime | None = None
    """First night at the new level, for regressed and improved."""
    last_good: HistoryPoint | None = None
    """Last night before `since`."""
    first_bad: HistoryPoint | None = None
    """The night of `since`."""
    low: float | None = None
    high: float | None = None
    """95 % interval of the level's relative change."""
    smallest_slowdown: float | None = None
    """Relative fall that the series would tell within a week in nine of ten cases."""
    control: ControlShift | None = None
    """What the nodes' own control measurements did where it changed, as far as they are known."""
    drift: Drift | None = None
    """Of an ok series: the creep of its present level, where there clearly is one. It is no
    change: no night of it is a regression."""


class Detector(Protocol):
    """Judges one night of one series; higher values are better."""

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        """Judge `tonight` by the nights before it.

        Args:
            history: good nights before tonight, oldest first, all in tonight's unit.
            tonight: the night to judge; its value is positive and finite.
            policy: what the suite wants to hear of.
        """
        ...


def segment(history: Sequence[HistoryPoint], tonight: HistoryPoint) -> list[HistoryPoint]:
    """The nights that can be compared with tonight: of the same work on the same kind of nodes.

    Another `definition_digest` means other work, another `fingerprint_id` other hardware or
    software of the node. Such nights are passed over, so that a case that goes back and forth has
    a history on each; more than `APART` of them in a row end it. A night that does not know one of
    the two (imported results) is compared all the same.
    """
    comparable: list[HistoryPoint] = []
    others = 0
    for point in reversed(history):
        if differ(point.definition_digest, tonight.definition_digest) or differ(
            point.fingerprint_id, tonight.fingerprint_id
        ):
            others += 1
            if others > APART:
                break
        else:
            others = 0
            comparable.append(point)
    return comparable[::-1]


def segment_before(
    history: Sequence[HistoryPoint], nights: Sequence[HistoryPoint], tonight: HistoryPoint
) -> list[HistoryPoint]:
    """The segment that tonight's took over from, where only the hardware or software was another.

    Args:
        history: as in `segment`.
        nights: what `segment` made of it.
        tonight: the night to judge.

    Returns:
        Nights of the same work, oldest first; none where the work changed too, or nothing did.
    """
    older = history[: start_of_segment(history, nights)]
    if not older or differ(older[-1].definition_digest, tonight.definition_digest):
        return []
    return [*segment(older[:-1], older[-1]), older[-1]]


def start_of_segment(history: Sequence[HistoryPoint], nights: Sequence[HistoryPoint]) -> int:
    """Index in the history of a segment's first night; of tonight where it is the first."""
    if not nights:
        return len(history)
    return next(i for i, point in enumerate(history) if point is nights[0])


def differ(one: str | None, other: str | None) -> bool:
    """Whether two names are two things; a name that is not known is none."""
    return bool(one) and bool(other) and one != other
