"""The search of a bisect: which version is tested next, and what the tests so far mean. Pure.

Versions are in ascending order, the good one first and the bad one last. The state of a search
depends on its ended steps alone, so that a bisect that was killed continues where it was.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from enum import StrEnum


class StepKind(StrEnum):
    """The purpose of a step."""

    CHECK = "check"
    """The bad version against the good one: whether there is a change at all."""
    SEARCH = "search"
    """A version between them against the good one."""
    VERIFY = "verify"
    """The first bad version against the one before it: whether that step is the whole drop."""


class VersionResult(StrEnum):
    """The result of testing a version."""

    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"
    """Its interval holds both answers: it is tested once more, with more rounds, then skipped."""
    SKIPPED = "skipped"
    """It cannot be installed or run."""


class SearchEnd(StrEnum):
    """How a search ends."""

    FOUND = "found"
    RANGE = "range"
    """Versions that could not be tested are between the last good and the first bad one."""
    SPREAD = "spread"
    """No version explains the drop: the first bad one is hardly slower than its predecessor."""
    NOT_REPRODUCED = "not_reproduced"
    """The bad version is not slower than the good one."""
    UNTESTABLE = "untestable"
    """Good and bad could not be distinguished."""


@dataclass(frozen=True)
class SearchWords:
    """Words for the change that is searched for."""

    change: str
    not_reproduced: str
    """Between the bad and the good version."""
    spread: str
    """Sentence about the first bad version and the one before it, for `str.format`."""


SPEED = SearchWords(
    "the slowdown",
    "is not slower than",
    "no single version caused the whole slowdown: {first} is the first with more than half of it, "
    "but its predecessor {last} is almost as slow",
)
TRAINING = SearchWords(
    "the change of training",
    "trains the same as",
    "no single version changes the training beyond rounding: {first} is the first that differs "
    "from the good version, but it trains the same as its predecessor {last}",
)


@dataclass(frozen=True)
class SearchStep:
    """A version that is to be compared with another one."""

    kind: StepKind
    version: str
    against: str
    again: bool = False
    """It was unsure: this time with more rounds."""


@dataclass(frozen=True)
class EndedStep:
    """A step that has ended."""

    kind: StepKind
    version: str
    against: str
    result: VersionResult


@dataclass(frozen=True)
class SearchState:
    """The state of a search after some steps."""

    left: tuple[str, ...]
    """From the last good version to the first bad one, with the untested ones between."""
    sentence: str
    next: SearchStep | None = None
    """None if it has ended."""
    end: SearchEnd | None = None
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Results that contradict each other."""
    steps_left: int = 0
    """Tests that are still needed at most, as long as none is skipped."""

    @property
    def last_good(self) -> str:
        """The highest good version below the first bad one."""
        return self.left[0]

    @property
    def first_bad(self) -> str:
        """The lowest version that is known to be bad; the answer if the end is `found`."""
        return self.left[-1]

    @property
    def suspects(self) -> tuple[str, ...]:
        """Versions that may be the first bad one, in their order; `first_bad` is the last."""
        return self.left[1:]


def search_state(
    versions: Sequence[str], steps: Sequence[EndedStep], words: SearchWords = SPEED
) -> SearchState:
    """Return the state of a search after some steps.

    The next version is the middle one of those that can still be the first bad one. So `m`
    versions between need `ceil(log2(m + 1))` tests and one more for each that is skipped, plus the
    check and the verification. Versions that were skipped are not tested again. Versions ascend,
    the good one first, the bad one last. If a test was made twice, its later result counts.
    """
    place = {version: number for number, version in enumerate(versions)}
    good, bad = versions[0], versions[-1]
    again = _repeat_of_unsure(steps)
    checks = [step.result for step in steps if step.kind is StepKind.CHECK]
    if not checks or (again is not None and again.kind is StepKind.CHECK):
        check = again or SearchStep(StepKind.CHECK, bad, good)
        needed = _tests_for(len(versions) - 2) + 1 + (len(versions) > 2)
        return _unfinished_search(SearchState(tuple(versions), ""), check, needed)
    if checks[-1] is not VersionResult.BAD:
        return _nothing_to_find(good, bad, checks[-1], words)

    found = {step.version: step.result for step in steps if step.kind is StepKind.SEARCH}
    found |= {good: VersionResult.GOOD, bad: VersionResult.BAD}
    goods = [place[version] for version, result in found.items() if result is VersionResult.GOOD]
    high = min(place[version] for version, result in found.items() if result is VersionResult.BAD)
    low = max(number for number in goods if number < high)
    notes = tuple(
        f"{versions[number]} is good although the older version {versions[high]} is bad. So "
        f"{words.change} appears and disappears; {versions[high]} is the first tested version with "
        "it"
        for number in sorted(goods)
        if number > high
    )
    left = tuple(versions[low : high + 1])
    decided = (VersionResult.GOOD, VersionResult.BAD, None)
    skipped = tuple(version for version in versions if found.get(version) not in decided)
    untested = [version for version in left[1:-1] if version not in found]
    known = SearchState(left, "", skipped=skipped, notes=notes)
    if again is not None:
        return _unfinished_search(known, again, _tests_for(len(untested)) + 2)
    if untested:
        middle = SearchStep(StepKind.SEARCH, untested[(len(untested) - 1) // 2], good)
        return _unfinished_search(known, middle, _tests_for(len(untested)) + 1)
    if len(left) > 2:
        sentence = (
            f"the first bad version is one of {', '.join(left[1:])}: {', '.join(left[1:-1])} could "
            f"not be tested; {left[0]} is good, {left[-1]} is bad"
        )
        return replace(known, sentence=sentence, end=SearchEnd.RANGE)
    return _verify(known, good, steps, words)


def _repeat_of_unsure(steps: Sequence[EndedStep]) -> SearchStep | None:
    """Return the last step if it was unsure for the first time, to repeat it."""
    if not steps or steps[-1].result is not VersionResult.UNSURE:
        return None
    last = steps[-1]
    same = [s for s in steps if (s.kind, s.version, s.against) == astuple(last)[:3]]
    return SearchStep(last.kind, last.version, last.against, again=True) if len(same) == 1 else None


def _tests_for(between: int) -> int:
    """Return how many tests find the first bad one of `between` versions and the bad one after."""
    return between.bit_length()


def _unfinished_search(known: SearchState, following: SearchStep, steps_left: int) -> SearchState:
    """Return the state of a search that goes on between the first and the last version left."""
    sentence = (
        f"the first bad version is one of {len(known.suspects)} after {known.last_good} up to "
        f"{known.first_bad}; at most {steps_left} more tests"
    )
    return replace(known, sentence=sentence, next=following, steps_left=steps_left)


def _nothing_to_find(good: str, bad: str, result: VersionResult, words: SearchWords) -> SearchState:
    if result is VersionResult.GOOD:
        sentence = f"{bad} {words.not_reproduced} {good}, so no version is the cause"
        return SearchState((good, bad), sentence, end=SearchEnd.NOT_REPRODUCED)
    sentence = f"{bad} and {good} could not be distinguished"
    return SearchState((good, bad), sentence, end=SearchEnd.UNTESTABLE)


def _verify(
    known: SearchState, good: str, steps: Sequence[EndedStep], words: SearchWords
) -> SearchState:
    """Return the state of a search that has come down to one version."""
    last, first = known.left
    sentence = f"{first} is the first bad version; {last} before it is good"
    found = replace(known, sentence=sentence, end=SearchEnd.FOUND)
    if last == good:  # the check or the search has compared just these two
        return found
    verified = [
        step.result
        for step in steps
        if step.kind is StepKind.VERIFY and (step.version, step.against) == (first, last)
    ]
    if not verified:
        verification = SearchStep(StepKind.VERIFY, first, last)
        return replace(known, sentence=sentence, next=verification, steps_left=1)
    if verified[-1] is VersionResult.GOOD:
        sentence = words.spread.format(first=first, last=last)
        return replace(known, sentence=sentence, end=SearchEnd.SPREAD)
    if verified[-1] is not VersionResult.BAD:
        note = f"{first} and its predecessor {last} could not be distinguished"
        found = replace(found, notes=(*found.notes, note))
    return found
