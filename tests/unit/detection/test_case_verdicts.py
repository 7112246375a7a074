"""One run of which every planned case gets another of the six verdicts."""

from dataclasses import replace
from datetime import timedelta

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
from nightbench.detection import case_verdicts, point_of

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


def judge_cases(names, measurements, histories):
    measured = {name: case_verdicts.measured_case(RUN, m) for name, m in measurements.items()}
    return case_verdicts.judge_cases(RUN, names, measured, histories, POLICY)


def judged(**histories):
    measured = {name: m for name, m in PLANNED.items() if m is not None}
    series = {name: HISTORY for name in PLANNED} | {"young": HISTORY[:3]}
    series |= {"slower": FALLEN, "faster": RISEN} | histories
    return {v.case_id: v for v in judge_cases(list(PLANNED), measured, series)[0]}


def test_every_verdict():
    verdicts = judged()
    assert {name: v.kind for name, v in verdicts.items()} == EXPECTED
    assert {v.kind for v in verdicts.values()} == {*VerdictKind} - {VerdictKind.TRAINING_CHANGED}
    assert list(verdicts) == list(PLANNED)


def test_verdicts_bring_their_evidence():
    verdicts = judged()
    assert verdicts["slower"].change == pytest.approx(-0.1, abs=0.01)
    assert verdicts["slower"].value == 90.0
    assert verdicts["slower"].history == 24
    assert 0 < verdicts["steady"].smallest_slowdown < 0.06
    assert verdicts["broken"].sentence == "n2: trainer-1 exited with code 1"
    assert verdicts["doubtful"].sentence == "Quarantined: spread: 30.0%, expected: 10 % or less"
    assert verdicts["cancelled"].sentence == "cancelled: by ada"
    assert {(v.run_id, v.cluster) for v in verdicts.values()} == {(RUN.run_id, "local")}


def test_red_warning_does_not_fail_a_case():
    warned = measurement(100.0, checks=(replace(SPREAD, severity=Severity.WARN),))
    (verdict,), _ = judge_cases(["a"], {"a": warned}, {"a": HISTORY})
    assert verdict.kind is VerdictKind.OK


def test_run_is_not_its_own_baseline():
    slower = measurement(90.0)
    own = replace(HISTORY[-1], at=RUN.started_at, run_id=RUN.run_id, value=90.0)
    later = replace(own, at=RUN.started_at + timedelta(days=1), run_id="later")
    (alone,), _ = judge_cases(["a"], {"a": slower}, {"a": HISTORY})
    (again,), _ = judge_cases(["a"], {"a": slower}, {"a": [*HISTORY, own, later]})
    assert again == alone


def test_judgement_says_since_when():
    _, judgements = judge_cases(["a", "b"], {"a": measurement(90.0)}, {"a": FALLEN})
    assert judgements["a"].since == FALLEN[20].at
    assert judgements["a"].last_good == FALLEN[19]
    assert judgements.keys() == {"a"}


def test_point_keeps_what_segments_a_history():
    point = point_of(RUN, measurement(5.0, definition_digest="d", fingerprint_id="f", spread=0.1))
    assert (point.value, point.n, point.spread) == (5.0, 3, 0.1)
    assert (point.definition_digest, point.fingerprint_id) == ("d", "f")
    with pytest.raises(ValueError, match="has no throughput"):
        point_of(RUN, measurement(None))
