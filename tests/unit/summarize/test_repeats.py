"""A repeat's figures against what a person works out by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_ranks import ASYNC, COLLECTIVE, rank, record

from nightbench.core.model import RankResult, Reason, ReasonCode
from nightbench.core.sentences import sentences
from nightbench.core.summarize import repeat_record, steps_within, summarize_repeat


def test_collective_counts_all_samples_over_the_slowest_window() -> None:
    summary = summarize_repeat(
        record(rank(0, [0.1] * 10, wall=1.02), rank(1, [0.11] * 10, wall=1.12)), COLLECTIVE
    )
    assert summary.problem is None
    assert summary.samples == 40
    assert summary.window_s == 1.12
    assert summary.throughput == pytest.approx(40 / 1.12)
    assert summary.step_throughput == pytest.approx(40 / 1.1)
    assert summary.overlap is None
    assert summary.time_to_first_step_s == 4.0
    assert summary.peak_resident_bytes == 1001
    assert summary.sent_bytes_per_step == 501
    assert summary.data_wait_s == 0.25
    assert (summary.loss_first, summary.loss_median) == (7.0, 6.0)


def test_what_scripts_print_is_the_median_of_the_ranks_that_state_it() -> None:
    ranks = [rank(number, [0.1] * 10) for number in (0, 1)]
    assert summarize_repeat(record(*ranks), COLLECTIVE).reported is None
    said = [dataclasses.replace(r, reported={"mfu_percent": 31.0 + r.rank}) for r in ranks]
    assert summarize_repeat(record(*said), COLLECTIVE).reported == {"mfu_percent": 31.5}
    assert summarize_repeat(record(said[0], ranks[1]), COLLECTIVE).reported == {"mfu_percent": 31.0}


def test_power_is_that_of_all_nodes_and_of_one_machine_s_packages_once() -> None:
    def result(source: str, mean_w: float | None, boot_id: str | None) -> dict[str, object]:
        absent = None if mean_w else "the counter cannot be read"
        power = {"source": source, "mean_w": mean_w, "samples": 9, "absent": absent}
        return {"processes": [], "power": power, "boot_id": boot_id}

    def power(**results: object) -> tuple[float | None, str | None]:
        made = repeat_record({"repeat": 1, "status": "ok"}, results)
        return made.power_w, made.power_absent

    one = result("rapl", 100.0, "a")
    assert power(n1=one, n2=result("rapl", 150.0, "b")) == (250.0, None)
    assert power(n1=one, n2=result("rapl", 101.0, "a")) == (100.0, None)
    gpu = result("nvidia-smi", 600.0, "a")
    assert power(n1=gpu, n2=gpu) == (1200.0, None)
    silent = result("rapl", None, "b")
    assert power(n1=one, n2=silent) == (None, "n2: the counter cannot be read")
    older = {"processes": []}
    assert power(n1=one, n2=older) == (None, "n2: power was not recorded")


def test_drift_compares_the_thirds_of_the_window() -> None:
    laps = [0.1] * 4 + [0.3] * 4 + [0.15] * 4
    summary = summarize_repeat(record(rank(0, laps), rank(1, laps)), COLLECTIVE)
    assert summary.drift == pytest.approx(0.5)


def test_asynchronous_counts_the_common_interval_on_the_controllers_clock() -> None:
    # n1's clock is 1000 s ahead. n0 has its window from 100 to 110, n1 from 102 to 106 (its own
    # 1102 to 1106) and goes on stepping; the common interval is 102 to 106.
    fast = rank(1, [0.5] * 8, opened=1102.0, before=[0.5] * 2, after=[0.5] * 10)
    slow = rank(0, [1.0] * 10, opened=100.0, before=[1.0])
    summary = summarize_repeat(record(slow, fast, clocks={"n0": 0.0, "n1": 1000.0}), ASYNC)
    assert summary.window_s == pytest.approx(4.0)
    assert summary.samples == pytest.approx(2 * 4 + 2 * 8)
    assert summary.throughput == pytest.approx(24 / 4)
    assert summary.step_throughput == pytest.approx(24 / 4)
    assert summary.overlap == pytest.approx(1.0)


def test_steps_across_the_ends_of_the_interval_count_for_their_part() -> None:
    # n1's window begins in the middle of a step of n0 and ends in the middle of another.
    slow = rank(0, [1.0] * 10, opened=100.0, after=[1.0] * 2)
    late = rank(1, [1.0] * 10, opened=100.5)
    summary = summarize_repeat(record(slow, late), ASYNC)
    assert summary.window_s == pytest.approx(9.5)
    assert summary.samples == pytest.approx(2 * 9.5 * 2)
    assert summary.overlap == pytest.approx(0.95)


def test_windows_that_never_meet_are_no_measurement() -> None:
    first, second = rank(0, [0.1] * 10), rank(1, [0.1] * 10, opened=105.0)
    summary = summarize_repeat(record(first, second), ASYNC)
    assert summary.throughput is None
    assert summary.overlap == 0.0
    assert summary.problem
    assert summary.problem.code is ReasonCode.NO_COMMON_INTERVAL


def test_without_a_clock_offset_windows_are_not_compared() -> None:
    summary = summarize_repeat(
        record(rank(0, [0.1] * 10), rank(1, [0.1] * 10), clocks={"n0": 0.0}), ASYNC
    )
    assert summary.throughput is None
    assert summary.problem == Reason(ReasonCode.NO_CLOCK_OFFSET, "n1")


def test_a_synchronous_parameter_server_needs_no_clocks() -> None:
    case = dataclasses.replace(ASYNC, sync="sync")
    summary = summarize_repeat(record(rank(0, [0.1] * 10), rank(1, [0.1] * 10), clocks={}), case)
    assert summary.throughput == pytest.approx(40)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((rank(0, [0.1] * 10),), "1 trainers reported results, expected 2"),
        (
            (rank(0, [0.1]), RankResult("trainer-1", "trainer", 1, "n1")),
            "n1: trainer-1 reported no steps",
        ),
        (
            (rank(0, [0.1]), rank(1, [0.1], wall=0.0)),
            "n1: trainer-1 reported a measurement window of 0.0 s",
        ),
        ((rank(0, [0.1]), rank(1, [0.1], wall=float("nan"))), "a measurement window of nan s"),
    ],
)
def test_incomplete_repeats_say_what_is_missing(ranks: tuple[RankResult, ...], said: str) -> None:
    summary = summarize_repeat(record(*ranks), COLLECTIVE)
    assert summary.throughput is None
    assert said in sentences([summary.problem] if summary.problem else [])


def test_a_failed_repeat_keeps_its_reason() -> None:
    failed = dataclasses.replace(
        record(),
        status="failed",
        reasons=(Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-1", "code 137"),),
    )
    assert summarize_repeat(failed, COLLECTIVE).problem == failed.reasons[0]


laps = st.lists(st.floats(0.01, 2.0), min_size=1, max_size=30)


@given(laps, st.floats(0, 1), st.floats(0, 1))
def test_parts_of_an_interval_add_up_to_the_whole(
    steps: list[float], cut: float, end: float
) -> None:
    spans, now = [], 0.0
    for lap in steps:
        spans.append((now, now + lap))
        now += lap
    middle = now * cut
    whole = steps_within(spans, 0.0, now)
    assert whole == pytest.approx(len(steps))
    parts = steps_within(spans, 0.0, middle) + steps_within(spans, middle, now)
    assert parts == pytest.approx(whole)
    assert 0 <= steps_within(spans, middle, now * end) <= whole + 1e-9


@given(laps, laps, st.floats(-0.5, 0.5), st.floats(-1e6, 1e6))
def test_a_nodes_clock_has_no_say_in_the_throughput(
    one: list[float], other: list[float], late: float, offset: float
) -> None:
    there = rank(1, other, opened=100.0 + late, after=[1.0] * 5)
    plain = summarize_repeat(record(rank(0, one, after=[1.0] * 5), there), ASYNC)
    moved = rank(1, other, opened=100.0 + late + offset, after=[1.0] * 5)
    ahead = record(rank(0, one, after=[1.0] * 5), moved, clocks={"n0": 0.0, "n1": offset})
    shifted = summarize_repeat(ahead, ASYNC)
    if plain.window_s is not None and plain.window_s > 1e-3:
        assert shifted.throughput == pytest.approx(plain.throughput, rel=1e-3)
