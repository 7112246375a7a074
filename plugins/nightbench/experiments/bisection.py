"""Which version to test next, and what the tests so far say: the search of a bisect. Pure.

Versions stand in their order, the good one first and the bad one last. Every state follows from the
steps alone, so that whoever reads the same steps decides the same: a bisect that was killed goes on
where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a step is for."""

    CHECK = "check"
    """The bad version beside the good one: whether there is a fall to look for at all."""
    SEARCH = "search"
    """A version between beside the good one."""
    VERIFY = "verify"
    """The first bad version beside the one right before it: whether the fall is all there."""


class Result(StrEnum):
    """What a test says of a version."""

    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"
    """Its interval holds both answers: it is tested once more, with more rounds, then skipped."""
    SKIPPED = "skipped"
    """It cannot be installed or run."""


class End(StrEnum):
    """How a search ends."""

    FOUND = "found"
    RANGE = "range"
    """Versions that could not be tested lie between the last good and the first bad one."""
    SPREAD = "spread"
    """No single version holds the fall: the first bad one is hardly slower than the one before."""
    NOT_REPRODUCED = "not_reproduced"
    """The bad version is not slower than the good one."""
    UNTESTABLE = "untestable"
    """Good and bad could not be told apart."""


@dataclass(frozen=True)
class Trial:
    """A version that is to be held against another one."""

    kind: Kind
    version: str
    against: str
    again: bool = False
    """It was unsure: this time with more rounds."""


@dataclass(frozen=True)
class Step:
    """A test that has ended."""

    kind: Kind
    version: str
    against: str
    result: Result


@dataclass(frozen=True)
class State:
    """Where a search stands."""

    next: Trial | None
    """None where it has ended."""
    end: End | None
    last_good: str
    first_bad: str
    """Lowest version that is known to be bad; the answer where the end is `found`."""
    suspects: tuple[str, ...]
    """Versions that may be the first bad one, in their order; `first_bad` is the last of them."""
    skipped: tuple[str, ...]
    steps_left: int
    """Tests that are still needed at most, as long as none is skipped."""
    notes: tuple[str, ...]
    """Results that contradict each other."""
    sentence: str


def state(versions: Sequence[str], steps: Sequence[Step]) -> State:
    """Say where a search stands after some steps.

    The next version is the middle one of those that can still be the first bad one, so that `m`
    versions between need `ceil(log2(m + 1))` tests and one more for each that is skipped, beside
    the check and the verification. Versions that were skipped are not tested again.

    Args:
        versions: ascending, without repetition; the good one first, the bad one last.
        steps: in the order in which they ended. Of a test that was made twice the later result
            counts.

    Raises:
        ValueError: fewer than two versions, one twice, or a step of a version that is not there.
    """
    if len(versions) < 2 or len({*versions}) < len(versions):
        raise ValueError(f"found {list(versions)}; expected two versions or more, each once")
    place = {version: number for number, version in enumerate(versions)}
    unknown = [step.version for step in steps if step.version not in place]
    if unknown:
        raise ValueError(f"found a step of {unknown[0]}, which is not among {list(versions)}")
    good, bad = versions[0], versions[-1]
    unsure = _unsure(steps)
    if unsure is not None and unsure.kind is Kind.CHECK:
        left = _tests_for(len(versions) - 2) + 1 + (len(versions) > 2)
        return _open(unsure, versions, (), left, ())
    checks = [step.result for step in steps if step.kind is Kind.CHECK]
    if not checks:
        left = _tests_for(len(versions) - 2) + 1 + (len(versions) > 2)
        return _open(Trial(Kind.CHECK, bad, good), versions, (), left, ())
    if checks[-1] is not Result.BAD:
        return _nothing_to_find(versions, checks[-1])

    found = {step.version: step.result for step in steps if step.kind is Kind.SEARCH}
    found |= {good: Result.GOOD, bad: Result.BAD}
    goods = [place[version] for version, result in found.items() if result is Result.GOOD]
    high = min(place[version] for version, result in found.items() if result is Result.BAD)
    low = max(number for number in goods if number < high)
    notes = tuple(
        f"{versions[number]} is good although the older {versions[high]} is bad: the fall comes "
        "and goes, and this is where it came first among the versions that were tested"
        for number in sorted(goods)
        if number > high
    )
    between = versions[low + 1 : high]
    told = (Result.GOOD, Result.BAD, None)
    skipped = tuple(version for version in versions if found.get(version) not in told)
    untested = [version for version in between if version not in found]
    if unsure is not None:
        left = _tests_for(len(untested)) + 2
        return _open(unsure, versions[low : high + 1], skipped, left, notes)
    if untested:
        middle = untested[(len(untested) - 1) // 2]
        left = _tests_for(len(untested)) + 1
        return _open(
            Trial(Kind.SEARCH, middle, good), versions[low : high + 1], skipped, left, notes
        )
    return _narrow(versions[low : high + 1], good, steps, skipped, notes)


def _unsure(steps: Sequence[Step]) -> Trial | None:
    """The test that was unsure just now, for the first time."""
    if not steps or steps[-1].result is not Result.UNSURE:
        return None
    last = steps[-1]
    same = [s for s in steps if (s.kind, s.version, s.against) == astuple(last)[:3]]
    return Trial(last.kind, last.version, last.against, again=True) if len(same) == 1 else None


def _tests_for(between: int) -> int:
    """Tests that tell which of `between` versions, or the bad one after them, is the first bad."""
    return between.bit_length()


def _open(
    test: Trial,
    left: Sequence[str],
    skipped: tuple[str, ...],
    steps_left: int,
    notes: tuple[str, ...],
) -> State:
    """A search that goes on between the first and the last of the versions that are left."""
    said = (
        f"the first bad version is one of {len(left) - 1} after {left[0]} up to {left[-1]}; "
        f"at most {steps_left} more tests"
    )
    return State(test, None, left[0], left[-1], tuple(left[1:]), skipped, steps_left, notes, said)


def _nothing_to_find(versions: Sequence[str], result: Result) -> State:
    good, bad = versions[0], versions[-1]
    if result is Result.GOOD:
        end, said = End.NOT_REPRODUCED, f"{bad} is not slower than {good}: no version is to blame"
    else:
        end, said = End.UNTESTABLE, f"{bad} and {good} could not be told apart"
    return State(None, end, good, bad, (bad,), (), 0, (), said)


def _narrow(
    left: Sequence[str],
    good: str,
    steps: Sequence[Step],
    skipped: tuple[str, ...],
    notes: tuple[str, ...],
) -> State:
    """All that could be tested has been: one version, or several that nobody can tell apart."""
    last, first = left[0], left[-1]
    if len(left) > 2:
        untold = left[1:-1]
        said = (
            f"the first bad version is one of {', '.join(left[1:])}: {', '.join(untold)} could not "
            f"be tested; {last} is good, {first} is bad"
        )
        return State(None, End.RANGE, last, first, tuple(left[1:]), skipped, 0, notes, said)
    verified = [
        step.result
        for step in steps
        if step.kind is Kind.VERIFY and (step.version, step.against) == (first, last)
    ]
    said = f"{first} is the first bad version; {last} before it is good"
    if last != good:
        if not verified:
            return State(
                Trial(Kind.VERIFY, first, last),
                None,
                last,
                first,
                (first,),
                skipped,
                1,
                notes,
                said,
            )
        if verified[-1] is Result.GOOD:
            said = (
                f"no single version holds the fall: {first} is the first that lies below half of "
                f"it, but beside {last} right before it it is not that much slower"
            )
            return State(None, End.SPREAD, last, first, (first,), skipped, 0, notes, said)
        if verified[-1] is not Result.BAD:
            notes = (*notes, f"{first} beside {last} right before it could not be told apart")
    return State(None, End.FOUND, last, first, (first,), skipped, 0, notes, said)
