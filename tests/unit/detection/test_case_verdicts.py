"""One run of which every planned case gets another of the six verdicts."""

import math
import random
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from histories import FIRST, nights

from nightbench.core.model import (
    Build,
    Case,
    CaseStatus,
    CheckResult,
    Measurement,
    Reason,
    ReasonCode,
    RegressionPolicy,
    Run,
    RunKind,
    Severity,
    Strategy,
    VerdictKind,
)
from nightbench.detection import judge_cases, point_of, siblings_of_cases
from nightbench.detection.series import series_from
from nightbench.detection.siblings import siblings_of

RUN = Run("demo-20260301T010000-0000", "demo", "local", RunKind.NIGHTLY, FIRST + timedelta(days=59))
POLICY = RegressionPolicy()
EXITED = Reason(ReasonCode.PROCESS_EXITED, "n2", "trainer-1", "code 1", "code 0")
SPREAD = CheckResult("measurement", None, "spread", Severity.FAIL, False, "30.0%", "10 % or less")


def measurement(value, **changes):
    made = Measurement(RUN.run_id, Case("sleep", "fake", Strategy.SINGLE), "local", Build("fake"),
                       "samples", (), 3, value)  # fmt: skip
    return replace(made, **changes)


HISTORY = nights(*[100] * 20)
FALLEN = nights(*[100] * 20, *[90] * 4)
RISEN = nights(*[100] * 20, *[110] * 4)
PLANNED = {
    "steady": measurement(100.2),
    "slower": measurement(90.0),
    "faster": measurement(110.0),
    "young": measurement(100.0),
    "broken": measurement(None, status=CaseStatus.FAILED, reasons=(EXITED,)),
    "doubtful": measurement(100.0, checks=(SPREAD,)),
    "away": measurement(None, status=CaseStatus.UNAVAILABLE, reasons=(EXITED,)),
    "plunged": measurement(10.0),
    "absent": None,
    "cancelled": measurement(
        None,
        status=CaseStatus.CANCELLED,
        reasons=(Reason(ReasonCode.CANCELLED, observed="by ada"),),
    ),
}
EXPECTED = {
    "steady": VerdictKind.OK,
    "slower": VerdictKind.REGRESSED,
    "faster": VerdictKind.IMPROVED,
    "young": VerdictKind.INSUFFICIENT_DATA,
    "broken": VerdictKind.FAILED,
    "doubtful": VerdictKind.FAILED,
    "away": VerdictKind.UNAVAILABLE,
    "plunged": VerdictKind.WATCHED,
    "absent": VerdictKind.MISSING,
    "cancelled": VerdictKind.MISSING,
}


def judged(**histories):
    measured = {name: m for name, m in PLANNED.items() if m is not None}
    series = {name: HISTORY for name in PLANNED} | {"young": HISTORY[:3]}
    series |= {"slower": FALLEN, "faster": RISEN} | histories
    return {v.case_id: v for v, _ in judge_cases(RUN, list(PLANNED), measured, series, POLICY)}


def test_every_verdict():
    verdicts = judged()
    assert {name: v.kind for name, v in verdicts.items()} == EXPECTED
    assert {v.kind for v in verdicts.values()} == set(VerdictKind)
    assert list(verdicts) == list(PLANNED)


def test_verdicts_bring_their_evidence():
    verdicts = judged()
    assert verdicts["slower"].change == pytest.approx(-0.1, abs=0.01)
    assert verdicts["slower"].value == 90.0
    assert verdicts["slower"].history == 24
    assert 0 < verdicts["steady"].smallest_slowdown < 0.06
    assert verdicts["broken"].sentence == "n2: trainer-1 exited with code 1"
    assert verdicts["doubtful"].sentence == "Quarantined: spread: 30.0%, expected 10 % or less"
    assert verdicts["cancelled"].sentence == "cancelled: by ada"
    assert {(v.run_id, v.cluster) for v in verdicts.values()} == {(RUN.run_id, "local")}


def test_red_warning_does_not_fail_a_case():
    warned = measurement(100.0, checks=(replace(SPREAD, severity=Severity.WARN),))
    ((verdict, _),) = judge_cases(RUN, ["a"], {"a": warned}, {"a": HISTORY}, POLICY)
    assert verdict.kind is VerdictKind.OK


def test_run_is_not_its_own_baseline():
    slower = measurement(90.0)
    own = replace(HISTORY[-1], at=RUN.started_at, run_id=RUN.run_id, value=90.0)
    later = replace(own, at=RUN.started_at + timedelta(days=1), run_id="later")
    ((alone, _),) = judge_cases(RUN, ["a"], {"a": slower}, {"a": HISTORY}, POLICY)
    ((again, _),) = judge_cases(RUN, ["a"], {"a": slower}, {"a": [*HISTORY, own, later]}, POLICY)
    assert again == alone


def test_judgement_says_since_when():
    ((_, judgement), (_, nothing)) = judge_cases(
        RUN, ["a", "b"], {"a": measurement(90.0)}, {"a": FALLEN}, POLICY
    )
    assert judgement.since == FALLEN[20].at
    assert judgement.last_good == FALLEN[19]
    assert nothing is None


def test_point_keeps_what_segments_a_history():
    point = point_of(RUN, measurement(5.0, definition_digest="d", fingerprint_id="f", spread=0.1))
    assert (point.value, point.n, point.spread) == (5.0, 3, 0.1)
    assert (point.definition_digest, point.fingerprint_id) == ("d", "f")
    with pytest.raises(ValueError, match="has no throughput"):
        point_of(RUN, measurement(None))


def test_the_siblings_of_a_young_series_lend_it_their_spread():
    rng = random.Random(3)
    levels = {"young": [100] * 12 + [95] * 2, **{f"sibling{n}": [50 * n] * 60 for n in range(1, 5)}}
    histories = {
        case_id: nights(*(level * math.exp(rng.gauss(0, 0.01)) for level in each))
        for case_id, each in levels.items()
    }
    run = replace(RUN, started_at=max(each[-1].at for each in histories.values()) + timedelta(1))
    measured = {case_id: measurement(each[-1]) for case_id, each in levels.items()}
    lent = siblings_of_cases(run, measured, histories, POLICY)
    assert set(lent) == {"young"}

    def kind(siblings):
        cases = judge_cases(run, ["young"], measured, histories, POLICY, siblings=siblings)
        return cases[0][0].kind, cases[0][0].sentence

    assert kind({})[0] is not VerdictKind.REGRESSED
    told, sentence = kind(lent)
    assert told is VerdictKind.REGRESSED
    assert "4 siblings lend their spread" in sentence
    # Series of another line or workload are none.
    others = {
        case_id: each
        if case_id == "young"
        else replace(each, case=replace(each.case, workload="other"))
        for case_id, each in measured.items()
    }
    assert siblings_of_cases(run, others, histories, POLICY) == {}


def test_where_lower_is_better_siblings_lend_their_visits_to_a_higher_level():
    rng = random.Random(3)
    visited = [100] * 20 + [112] * 5 + [100] * 20 + [112] * 5 + [100] * 10
    levels = {"young": [100] * 12, **{f"sibling{n}": visited for n in range(1, 5)}}
    histories = {
        case_id: nights(*(level * math.exp(rng.gauss(0, 0.01)) for level in each))
        for case_id, each in levels.items()
    }
    run = replace(RUN, started_at=max(each[-1].at for each in histories.values()) + timedelta(1))
    measured = {case_id: measurement(each[-1]) for case_id, each in levels.items()}
    times = siblings_of_cases(run, measured, histories, replace(POLICY, metric="joules_per_unit"))[
        "young"
    ]
    rates = siblings_of_cases(run, measured, histories, POLICY)["young"]
    assert times.visits.count >= 2 > 0.5 > rates.visits.count


def test_siblings_that_differ_much_or_go_to_another_level_lend_less():
    rng = np.random.default_rng(1)

    def lend(noises, visit=0.0):
        logs = [noise * rng.standard_normal(90) for noise in noises]
        for each in logs:
            each[20:24] += visit
            each[60:65] += visit
        times = range(0, 90 * 86400, 86400)
        return siblings_of([series_from(times, np.exp(each))[0] for each in logs])

    alike, apart, visited = (
        lend([0.01] * 5),
        lend([0.003, 0.01, 0.03, 0.05]),
        lend([0.01] * 5, -0.1),
    )
    assert alike.nights > 20 > 5 > apart.nights
    assert alike.moderate(0.02, 12) < 0.016 < 0.019 < apart.moderate(0.02, 12)
    assert alike.visits.count < 0.5
    assert visited.visits.count >= 2
    assert lend([0.01, 0.01]) is None
