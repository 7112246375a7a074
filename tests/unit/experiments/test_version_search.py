"""The search for the first bad version: by hand, and for any versions that fall somewhere."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from nightbench.experiments.version_search import (
    TRAINING,
    EndedStep,
    SearchEnd,
    SearchState,
    SearchStep,
    StepKind,
    VersionResult,
    search_state,
)

GOOD, BAD, UNSURE, SKIPPED = (
    VersionResult.GOOD,
    VersionResult.BAD,
    VersionResult.UNSURE,
    VersionResult.SKIPPED,
)


def search(
    versions: list[str], answer: dict[str, VersionResult]
) -> tuple[SearchState, list[EndedStep]]:
    """Ask for each test until none is left; versions that are not in `answer` are bad."""
    steps: list[EndedStep] = []
    while True:
        now = search_state(versions, steps)
        if now.next is None:
            return now, steps
        assert len(steps) < 2 * len(versions) + 4, "the search does not end"
        test = now.next
        # Against its predecessor the first bad version shows the fall as well.
        said = BAD if test.kind is StepKind.VERIFY else answer.get(test.version, BAD)
        steps.append(EndedStep(test.kind, test.version, test.against, said))


@given(data=st.data(), n=st.integers(2, 200))
def test_any_fall_is_found_in_as_few_tests_as_halving_needs(data: st.DataObject, n: int) -> None:
    versions = [f"{number}.0" for number in range(n)]
    first = data.draw(st.integers(1, n - 1), "first bad")
    skip = data.draw(st.sets(st.integers(1, max(n - 2, 1)), max_size=8), "skipped") - {n - 1}
    answer = {v: GOOD if k < first else BAD for k, v in enumerate(versions)}
    answer |= {versions[k]: SKIPPED for k in skip}
    found, steps = search(versions, answer)
    searched = [step for step in steps if step.kind is StepKind.SEARCH]
    skips = sum(step.result is SKIPPED for step in searched)
    # n - 1 versions can be the first bad one.
    assert len(searched) <= math.ceil(math.log2(n - 1) if n > 2 else 0) + skips
    assert len({step.version for step in searched}) == len(searched), "one was tested twice"
    # The truth is among the suspects, and those beside it were skipped.
    assert versions[first] in found.suspects
    assert all(answer[v] is SKIPPED for v in found.suspects[:-1])
    assert found.end is (SearchEnd.FOUND if len(found.suspects) == 1 else SearchEnd.RANGE)
    if not skip:
        assert found.first_bad == versions[first]
    # What is said to be left at most is right at every point, as long as nothing is skipped.
    for done in range(len(steps)):
        rest = steps[done:]
        left = search_state(versions, steps[:done]).steps_left
        assert len(rest) <= left + sum(step.result is SKIPPED for step in rest)


@given(data=st.data(), n=st.integers(2, 40))
def test_any_results_end_and_name_a_version_that_is_bad(data: st.DataObject, n: int) -> None:
    versions = [f"{number}.0" for number in range(n)]
    any_result = st.sampled_from([GOOD, BAD, UNSURE, SKIPPED])
    answer = {v: data.draw(any_result, v) for v in versions[1:-1]}
    found, steps = search(versions, answer)
    results = {s.version: s.result for s in steps if s.kind is StepKind.SEARCH}
    assert found.first_bad == versions[-1] or results[found.first_bad] is BAD
    assert found.last_good == versions[0] or results[found.last_good] is GOOD
    between = versions[versions.index(found.last_good) + 1 : versions.index(found.first_bad)]
    assert all(results[v] in (SKIPPED, UNSURE) for v in between)


def test_what_is_unsure_is_tested_once_more_and_then_skipped() -> None:
    versions = ["1", "2", "3"]
    steps = [EndedStep(StepKind.CHECK, "3", "1", UNSURE)]
    again = SearchStep(StepKind.CHECK, "3", "1", again=True)
    assert search_state(versions, steps).next == again
    assert search_state(versions, [*steps, *steps]).end is SearchEnd.UNTESTABLE
    steps += [
        EndedStep(StepKind.CHECK, "3", "1", BAD),
        EndedStep(StepKind.SEARCH, "2", "1", UNSURE),
    ]
    assert search_state(versions, steps).next == SearchStep(StepKind.SEARCH, "2", "1", again=True)
    good = search_state(versions, [*steps, EndedStep(StepKind.SEARCH, "2", "1", GOOD)])
    assert good.next == SearchStep(StepKind.VERIFY, "3", "2")
    skipped = search_state(versions, [*steps, steps[-1]])
    assert (skipped.end, skipped.suspects) == (SearchEnd.RANGE, ("2", "3"))


def test_the_fall_itself_is_tested_first() -> None:
    first = search_state(["1", "2", "3"], []).next
    assert first is not None
    assert (first.kind, first.version, first.against) == (StepKind.CHECK, "3", "1")
    same = search_state(["1", "2", "3"], [EndedStep(StepKind.CHECK, "3", "1", GOOD)])
    assert (same.next, same.end) == (None, SearchEnd.NOT_REPRODUCED)
    unsure = search_state(["1", "2", "3"], [EndedStep(StepKind.CHECK, "3", "1", SKIPPED)])
    assert (unsure.next, unsure.end) == (None, SearchEnd.UNTESTABLE)


def test_a_range_is_told_where_the_versions_between_could_not_be_tested() -> None:
    found, _ = search(["1", "2", "3", "4"], {"2": SKIPPED, "3": SKIPPED})
    assert found.end is SearchEnd.RANGE
    assert found.suspects == ("2", "3", "4")
    assert "2, 3 could not be tested" in found.sentence


def test_results_that_come_and_go_are_said() -> None:
    checked = EndedStep(StepKind.CHECK, "9", "1", BAD)
    steps = [
        checked,
        EndedStep(StepKind.SEARCH, "3", "1", BAD),
        EndedStep(StepKind.SEARCH, "5", "1", GOOD),
    ]
    now = search_state(["1", "3", "5", "9"], steps)
    assert now.first_bad == "3"
    assert any("5 is good although the older version 3 is bad" in note for note in now.notes)


def test_a_fall_in_small_steps_is_no_version_of_its_own() -> None:
    versions = ["1", "2", "3", "4"]
    steps = [
        EndedStep(StepKind.CHECK, "4", "1", BAD),
        EndedStep(StepKind.SEARCH, "2", "1", GOOD),
        EndedStep(StepKind.SEARCH, "3", "1", BAD),
    ]
    verify = search_state(versions, steps).next
    assert verify is not None
    assert (verify.kind, verify.version, verify.against) == (StepKind.VERIFY, "3", "2")
    spread = search_state(versions, [*steps, EndedStep(StepKind.VERIFY, "3", "2", GOOD)])
    assert (spread.end, spread.first_bad) == (SearchEnd.SPREAD, "3")
    unsure = search_state(versions, [*steps, EndedStep(StepKind.VERIFY, "3", "2", SKIPPED)])
    assert unsure.end is SearchEnd.FOUND
    assert unsure.notes


def test_a_search_for_a_change_of_training_speaks_of_training() -> None:
    def after(*results: VersionResult) -> str:
        kinds = (StepKind.CHECK, StepKind.SEARCH, StepKind.VERIFY)
        pairs = (("3.0", "1.0"), ("2.0", "1.0"), ("3.0", "2.0"))
        steps = [
            EndedStep(kind, *pair, result)
            for kind, pair, result in zip(kinds, pairs, results, strict=False)
        ]
        return search_state(["1.0", "2.0", "3.0"], steps, TRAINING).sentence

    assert after(GOOD) == "3.0 trains the same as 1.0, so no version is the cause"
    assert after(BAD, GOOD, BAD) == "3.0 is the first bad version; 2.0 before it is good"
    assert "it trains the same as its predecessor 2.0" in after(BAD, GOOD, GOOD)
