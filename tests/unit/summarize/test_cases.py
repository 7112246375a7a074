"""The median over repeats, and scaling against the run's own baseline."""

from __future__ import annotations

import dataclasses
import math

import pytest
from measured_ranks import COLLECTIVE, rank, record

from nightbench.core.model import (
    Build,
    Case,
    CaseStatus,
    CheckResult,
    Measurement,
    Reason,
    ReasonCode,
    RepeatSummary,
    Severity,
    Strategy,
)
from nightbench.core.scaling import scale
from nightbench.core.sentences import sentences
from nightbench.core.statistics import describe
from nightbench.core.summarize import summarize_case

BUILD = Build("fake")


SILENT = Reason(ReasonCode.NODE_UNREACHABLE, "n1", observed="no answer for 60 s")


def repeat(number: int, throughput: float | None, problem: Reason | None = None) -> RepeatSummary:
    return RepeatSummary(
        number,
        throughput,
        1.0,
        10.0,
        throughput,
        problem=problem,
        time_to_first_step_s=float(number),
        peak_resident_bytes=number,
        sent_bytes_per_step=10 * number,
        data_wait_s=0.25 * number,
    )


def measurement(case: Case, throughput: float | None, build: Build = BUILD) -> Measurement:
    return Measurement(
        "r",
        case,
        "c",
        build,
        "images",
        (),
        3 if throughput else 0,
        throughput,
        status=CaseStatus.OK if throughput else CaseStatus.FAILED,
    )


def collective(nodes: int, devices: int = 1, **axes: object) -> Case:
    return dataclasses.replace(
        COLLECTIVE, nodes=nodes, devices_per_node=devices, trainers=nodes * devices, **axes
    )


def summarise(*repeats: RepeatSummary, **changes: object) -> Measurement:
    fields: dict[str, object] = {
        "run_id": "r",
        "case": COLLECTIVE,
        "cluster": "c",
        "build": BUILD,
        "unit": "images",
        "repeats": repeats,
    }
    return summarize_case(**{**fields, **changes})


def test_the_median_and_what_stands_beside_it() -> None:
    made = summarise(repeat(1, 10.0), repeat(2, 12.0), repeat(3, 11.0))
    assert (made.n, made.throughput, made.minimum, made.maximum) == (3, 11.0, 10.0, 12.0)
    assert made.mad == 1.0
    assert made.spread == pytest.approx(2 / 11)
    assert made.time_to_first_step_s == 2.0
    assert made.peak_resident_bytes == 3
    assert made.sent_bytes_per_step == 30
    assert made.data_wait_s == 0.5
    logs = [math.log(x) for x in (10, 12, 11)]
    mean = sum(logs) / 3
    deviation = math.sqrt(sum((x - mean) ** 2 for x in logs) / 2)
    assert made.half_width == pytest.approx(math.exp(4.302653 * deviation / math.sqrt(3)) - 1)


def test_what_scripts_print_is_the_median_of_the_repeats_that_state_it() -> None:
    printed = [{"mfu_percent": 31.0}, None, {"mfu_percent": 33.0, "tflops_per_device": 253.4}]
    made = summarise(
        *(dataclasses.replace(repeat(n, 10.0), reported=each) for n, each in enumerate(printed, 1)),
        dataclasses.replace(repeat(4, None), reported={"mfu_percent": 99.0}),
    )
    assert made.reported == {"mfu_percent": 32.0, "tflops_per_device": 253.4}
    assert summarise(repeat(1, 10.0)).reported is None


def test_energy_is_power_over_throughput_and_says_why_it_is_absent() -> None:
    powers = [
        dataclasses.replace(repeat(n, x), power_w=w)
        for n, x, w in [(1, 10.0, 200.0), (2, 12.0, 252.0), (3, 11.0, 242.0)]
    ]
    made = summarise(*powers)
    assert (made.power_w, made.joules_per_unit, made.energy_absent) == (242.0, 21.0, None)
    silent = dataclasses.replace(repeat(1, 10.0), power_absent="n1: power was not recorded")
    assert summarise(silent, powers[1]).joules_per_unit == 21.0
    made = summarise(silent, repeat(2, None))
    assert (made.joules_per_unit, made.energy_absent) == (None, "n1: power was not recorded")


def test_two_repeats_have_no_half_width() -> None:
    assert describe([1.0, 2.0])["half_width"] is None
    assert describe([]) == {"n": 0, "throughput": None}


def test_only_good_repeats_count() -> None:
    made = summarise(repeat(1, 10.0), repeat(2, 99.0), repeat(3, None, SILENT), good={1})
    assert (made.n, made.throughput, made.status) == (1, 10.0, CaseStatus.OK)
    assert len(made.repeats) == 3


def test_without_a_good_repeat_the_case_has_failed_and_says_why() -> None:
    made = summarise(repeat(1, None, SILENT), repeat(2, 5.0), good=set())
    assert (made.status, made.throughput, made.n) == (CaseStatus.FAILED, None, 0)
    assert made.reasons == (SILENT,)
    (checks,) = summarise(repeat(1, 5.0), good=set()).reasons
    assert checks.code is ReasonCode.NO_GOOD_REPEAT
    refused = Reason(ReasonCode.CHECK_FAILED, subject="steps", observed="4", expected="5")
    reasons = summarise(repeat(1, 5.0), good=set(), refusals=[refused]).reasons
    assert sentences(reasons) == "no good repeat: steps: 4, expected: 5"


def test_version_and_fingerprint_come_from_the_records() -> None:
    both = record(rank(0, [0.1]), rank(1, [0.1]))
    same = dataclasses.replace(both, fingerprints={"n0": "f-a", "n1": "f-a"})
    assert summarise(repeat(1, 5.0), records=[same]).fingerprint_id == "f-a"
    assert summarise(repeat(1, 5.0), records=[both]).framework_version == "1.0"
    mixed = summarise(repeat(1, 5.0), records=[both]).fingerprint_id
    turned = dataclasses.replace(both, fingerprints={"n0": "f-n1", "n1": "f-n0"})
    assert mixed not in ("f-n0", "f-n1", "")
    assert summarise(repeat(1, 5.0), records=[turned]).fingerprint_id == mixed
    assert summarise(repeat(1, 5.0), records=[both]).python is None
    newer, older = (
        dataclasses.replace(both.ranks[0], versions={"python": each})
        for each in ("3.13.5", "3.11.7")
    )
    pythons = [record(newer, older), record(newer, newer)]
    assert summarise(repeat(1, 5.0), records=pythons).python == "3.11.7 and 3.13.5"


def test_speed_up_and_efficiency_against_the_smallest_case() -> None:
    one, two, four = scale(
        [
            measurement(collective(1), 10.0),
            measurement(collective(2), 19.0),
            measurement(collective(2, 2), 30.0),
        ]
    )
    assert (one.speedup, one.efficiency) == (1.0, 1.0)
    assert (two.speedup, two.efficiency) == (1.9, 0.95)
    assert (four.speedup, four.efficiency) == (3.0, 0.75)
    assert {m.baseline_case_id for m in (one, two, four)} == {one.case.case_id}


def test_what_is_split_is_held_against_the_device_that_holds_all() -> None:
    split = [collective(n, shard=s, shard_stage=3) for n, s in ((2, 2), (4, 2), (4, 4))]
    cases = [collective(1), collective(2), *split]
    made = scale([measurement(case, 10.0 * case.trainers) for case in cases])
    assert {(m.efficiency, m.baseline_case_id) for m in made} == {(1.0, cases[0].case_id)}
    kept = [collective(4, recompute="full"), collective(4, state_precision="bf16")]
    made = scale(
        [measurement(case, 10.0) for case in (cases[0], collective(4, tensor=2, pipeline=2), *kept)]
    )
    assert [m.baseline_case_id for m in made] == [cases[0].case_id] * 2 + [None] * 2
    alone = scale([measurement(case, 10.0) for case in cases[1:4]])
    assert [m.baseline_case_id for m in alone] == [
        case.case_id for case in (cases[1], cases[2], cases[2])
    ]


def test_a_larger_baseline_divides_by_its_own_size() -> None:
    eight, sixteen = scale(
        [measurement(collective(1, 8), 80.0), measurement(collective(2, 8), 120.0)]
    )
    assert (eight.speedup, eight.efficiency) == (1.0, 1.0)
    assert (sixteen.speedup, sixteen.efficiency) == (1.5, 0.75)


@pytest.mark.parametrize(
    "other",
    [
        measurement(collective(1, batch_size_per_device=4), 10.0),
        measurement(collective(1, precision="bf16"), 10.0),
        measurement(collective(1, workload="other"), 10.0),
        measurement(collective(1, framework="else"), 10.0),
        measurement(collective(1), 10.0, Build("fake", version="2.0")),
    ],
)
def test_nothing_else_is_a_baseline(other: Measurement) -> None:
    two = scale([other, measurement(collective(2), 19.0)])[1]
    assert (two.speedup, two.efficiency, two.baseline_case_id) == (None, None, None)


def test_a_baseline_that_found_another_batch_is_none() -> None:
    ranks = [collective(n, batch_size_per_device="max") for n in (1, 2, 3)]
    found = [
        dataclasses.replace(measurement(case, 10.0), found_batch_size=size)
        for case, size in zip(ranks, (64, 64, 60), strict=True)
    ]
    assert [m.speedup for m in scale(found)] == [1.0, 1.0, None]


def test_a_failed_baseline_is_not_replaced_by_a_larger_one() -> None:
    made = scale(
        [
            measurement(collective(1), None),
            measurement(collective(2), 19.0),
            measurement(collective(2, 2), 30.0),
        ]
    )
    assert [m.speedup for m in made] == [None, None, None]


def test_a_quarantined_baseline_is_none() -> None:
    check = CheckResult("measurement", None, "spread", Severity.FAIL, False, "9", "1")
    bad = dataclasses.replace(measurement(collective(1), 10.0), checks=(check,))
    assert scale([bad, measurement(collective(2), 19.0)])[1].speedup is None


def served(trainers: int, sync: str = "sync", pservers: int = 1) -> Case:
    return Case(
        "net",
        "fake",
        Strategy.PARAMETER_SERVER,
        nodes=trainers,
        trainers=trainers,
        pservers=pservers,
        sync=sync,
    )


def test_parameter_servers_scale_by_trainers() -> None:
    one, four, lone = scale(
        [
            measurement(served(1), 10.0),
            measurement(served(4), 30.0),
            measurement(served(2, "async"), 25.0),
        ]
    )
    assert (one.speedup, four.speedup, four.efficiency) == (1.0, 3.0, 0.75)
    assert (lone.speedup, lone.efficiency) == (None, None)


def test_parameter_servers_are_held_against_a_single_process_whatever_their_number() -> None:
    single = Case("net", "fake", Strategy.SINGLE)
    alone, one, three, six = scale(
        [
            measurement(single, 10.0),
            measurement(served(1), 8.0),
            measurement(served(4, pservers=3), 20.0),
            measurement(served(4, "async", pservers=6), 30.0),
        ]
    )
    assert (one.speedup, three.speedup, six.speedup) == (0.8, 2.0, 3.0)
    assert (three.efficiency, six.efficiency) == (0.5, 0.75)
    assert {m.baseline_case_id for m in (alone, one, three, six)} == {single.case_id}
    failed = scale([measurement(single, None), measurement(served(1), 8.0)])[1]
    assert failed.speedup is None


def test_a_single_process_of_another_batch_size_is_no_baseline_of_parameter_servers() -> None:
    single = Case("net", "fake", Strategy.SINGLE, batch_size_per_device=4)
    assert scale([measurement(single, 10.0), measurement(served(2), 8.0)])[1].speedup is None


def test_a_single_process_is_a_baseline_where_there_is_no_other() -> None:
    single = dataclasses.replace(collective(1), strategy=Strategy.SINGLE)
    alone, two = scale([measurement(single, 10.0), measurement(collective(2), 19.0)])
    assert two.speedup == 1.9
    both = scale(
        [
            measurement(single, 10.0),
            measurement(collective(1), 9.5),
            measurement(collective(2), 19.0),
        ]
    )
    assert both[2].baseline_case_id == collective(1).case_id
    assert alone.speedup == 1.0


def test_one_value_has_no_spread() -> None:
    alone = summarise(repeat(1, 10.0))
    assert (alone.n, alone.throughput, alone.minimum, alone.maximum) == (1, 10.0, 10.0, 10.0)
    assert (alone.mad, alone.spread, alone.half_width) == (None, None, None)
