"""An alert opens once, lives while its series says the same, and ends when the series recovers."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nightbench.alerts import AlertChanges, LiveAlert, alerts_for
from nightbench.core.model import (
    CaseStatus,
    HistoryPoint,
    MeasuredCase,
    RegressionPolicy,
    Run,
    RunKind,
    Verdict,
    VerdictKind,
)
from nightbench.detection import judge_cases

FALL = Verdict("a", "local", "r1", VerdictKind.REGRESSED, "10 % below", 90.0, 100.0, -0.1, 20)
ALERT = LiveAlert("a", "local", VerdictKind.REGRESSED, 90.0, 100.0)
FAILURE = replace(FALL, kind=VerdictKind.FAILED, value=None, baseline=None, change=None)
FAILED = LiveAlert("a", "local", VerdictKind.FAILED)
OK = replace(FALL, kind=VerdictKind.OK, value=100.0, change=0.0)


AT = datetime(2026, 2, 1, tzinfo=UTC)


def opens(verdict):
    return AlertChanges(to_open=[verdict])


def continues(verdict):
    return AlertChanges(to_continue=[verdict])


def resolves(alert, *news):
    return AlertChanges(to_open=list(news), to_resolve=[alert])


def watches(alert, suspect):
    return AlertChanges(to_watch=[(alert, suspect)])


def seen_before(alert, suspect, run_id="r0"):
    """The same alert after a night that made something likely."""
    return replace(alert, suspect=suspect, suspect_run_id=run_id, suspect_at=AT - timedelta(days=1))


BACK = seen_before(ALERT, "recovered")
DISMISSED = replace(ALERT, is_dismissed=True)
SUNK = seen_before(DISMISSED, "worse")
DEEPER = replace(FALL, value=85.0, change=-0.15)
NOTHING = AlertChanges()
NOTIFIED = replace(ALERT, notified_change=-0.1, notified_low=-0.11)
DEEP = seen_before(NOTIFIED, "worse")


@pytest.mark.parametrize(
    ("live", "verdict", "changes"),
    [
        pytest.param([], FALL, opens(FALL), id="a fall opens"),
        pytest.param([], FAILURE, opens(FAILURE), id="a failure opens"),
        pytest.param([], OK, NOTHING, id="ok does not"),
        pytest.param([], replace(OK, kind=VerdictKind.IMPROVED), NOTHING, id="improved does not"),
        pytest.param([ALERT], FALL, continues(FALL), id="the same fall"),
        pytest.param(
            [NOTIFIED],
            DEEPER,
            AlertChanges(to_continue=[DEEPER], to_watch=[(NOTIFIED, "worse")]),
            id="one night further down",
        ),
        pytest.param(
            [DEEP], DEEPER, AlertChanges(to_continue=[DEEPER], to_grow=[DEEP]), id="two of them"
        ),
        pytest.param(
            [replace(DEEP, notified_low=-0.13)],
            DEEPER,
            continues(DEEPER),
            id="further down by less than the smallest change",
        ),
        pytest.param([ALERT], OK, watches(ALERT, "recovered"), id="one good night"),
        pytest.param([BACK], OK, resolves(BACK), id="two good nights"),
        pytest.param(
            [replace(BACK, suspect_run_id="r1")], OK, NOTHING, id="the same night judged again"
        ),
        pytest.param(
            [replace(BACK, suspect_at=AT + timedelta(days=1))], OK, NOTHING, id="an older night"
        ),
        pytest.param(
            [BACK], replace(OK, value=91.0), watches(BACK, None), id="one good night, then none"
        ),
        pytest.param([DISMISSED], FALL, NOTHING, id="dismissed and still that"),
        pytest.param([DISMISSED], DEEPER, watches(DISMISSED, "worse"), id="one worse night"),
        pytest.param(
            [SUNK], DEEPER, AlertChanges(to_reopen=[(SUNK, DEEPER)]), id="two worse nights"
        ),
        pytest.param([SUNK], FALL, watches(SUNK, None), id="one worse night only"),
        pytest.param([DISMISSED], OK, watches(DISMISSED, "recovered"), id="dismissed, better"),
        pytest.param(
            [replace(BACK, is_dismissed=True)],
            OK,
            resolves(replace(BACK, is_dismissed=True)),
            id="dismissed and over",
        ),
        pytest.param([DISMISSED], FAILURE, opens(FAILURE), id="dismissed fall, then failing"),
        pytest.param(
            [replace(FAILED, is_dismissed=True)], FAILURE, NOTHING, id="dismissed failure"
        ),
        pytest.param(
            [ALERT], replace(OK, value=90.5, baseline=90.0), NOTHING, id="the baseline followed"
        ),
        pytest.param(
            [ALERT],
            replace(FALL, value=81.0, baseline=90.0),
            resolves(ALERT, replace(FALL, value=81.0, baseline=90.0)),
            id="a second fall",
        ),
        pytest.param(
            [FAILED],
            replace(FAILURE, kind=VerdictKind.MISSING),
            continues(replace(FAILURE, kind=VerdictKind.MISSING)),
            id="still no result",
        ),
        pytest.param([FAILED], OK, watches(FAILED, "recovered"), id="measured again"),
        pytest.param([FAILED], FALL, resolves(FAILED, FALL), id="measured again, slower"),
        pytest.param([ALERT], FAILURE, resolves(ALERT, FAILURE), id="slower, then failing"),
        pytest.param(
            [replace(ALERT, cluster="other")], FALL, opens(FALL), id="another cluster's alert"
        ),
    ],
)
def test_what_a_verdict_does(live, verdict, changes):
    assert alerts_for([verdict], live, AT) == changes


@pytest.mark.parametrize(
    ("live", "verdict", "changes"),
    [
        pytest.param([], FALL, NOTHING, id="a fall opens nothing"),
        pytest.param([ALERT], FALL, NOTHING, id="an alert is not continued"),
        pytest.param([BACK], OK, watches(BACK, None), id="nor resolved"),
        pytest.param([SUNK], DEEPER, NOTHING, id="nor reopened"),
        pytest.param([], FAILURE, opens(FAILURE), id="a failure opens"),
        pytest.param([ALERT], FAILURE, resolves(ALERT, FAILURE), id="a failure takes over"),
        pytest.param([FAILED], FALL, watches(FAILED, "recovered"), id="a value ends a failure"),
        pytest.param(
            [seen_before(FAILED, "recovered")],
            FALL,
            resolves(seen_before(FAILED, "recovered")),
            id="two values end a failure, and no fall follows",
        ),
    ],
)
def test_what_a_verdict_on_a_noisy_series_does(live, verdict, changes):
    assert alerts_for([verdict], live, AT, noisy={"a"}) == changes
    assert alerts_for([verdict], live, AT, noisy={"b"}) == alerts_for([verdict], live, AT)


def test_live_alert_is_read_from_its_row():
    row = {"case_id": "a", "cluster": "local", "kind": "regressed", "value": 90.0,
           "baseline": 100.0, "is_dismissed": False, "alert_id": 0, "suspect": None,
           "suspect_run_id": None, "suspect_at": None,
           "notified_change": None, "notified_low": None}  # fmt: skip
    assert LiveAlert.from_row(row) == ALERT


def nightly(values):
    """Judge and alert night by night, as a scheduled suite does; the nights that alerted."""
    rng = random.Random(1)
    history, live, alerted = [], {}, []
    for night, value in enumerate(values):
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=night)
        run = Run(f"r{night}", "demo", "local", RunKind.NIGHTLY, at)
        measured = {}
        if value is not None:
            value *= 1 + rng.gauss(0, 0.005)
            point = HistoryPoint(at, value, run.run_id, 3)
            measured["a"] = MeasuredCase("a", CaseStatus.OK, (), (), point)
        verdicts, _ = judge_cases(run, ["a"], measured, {"a": history}, RegressionPolicy())
        changes = alerts_for(verdicts, live.values(), at)
        for alert, suspect in changes.to_watch:
            live[alert.case_id] = replace(
                alert, suspect=suspect, suspect_run_id=run.run_id, suspect_at=at
            )
        for alert in changes.to_resolve:
            del live[alert.case_id]
        for verdict in changes.to_open:
            alerted.append((night, verdict.kind))
            live[verdict.case_id] = LiveAlert(
                verdict.case_id, "local", verdict.kind, verdict.value, verdict.baseline
            )
        if value is not None:
            history.append(HistoryPoint(at, value, run.run_id))
    return alerted, list(live)


def falls_at(alerted, *nights, within=4):
    """Each fall is told once, soon, but not at once: one slow night alone is no regression."""
    assert [kind for _, kind in alerted] == [VerdictKind.REGRESSED] * len(nights)
    return all(0 < told - fell <= within for (told, _), fell in zip(alerted, nights, strict=True))


def test_ten_percent_drop_alerts_once_however_long_it_stays():
    alerted, live = nightly([100] * 20 + [90] * 40)
    assert falls_at(alerted, 20)
    assert live == ["a"]


def test_drop_that_heals_closes_its_alert_and_the_next_one_is_news():
    alerted, live = nightly([100] * 20 + [90] * 12 + [100] * 12 + [85] * 20)
    # It has healed once by itself: the next one has to last to be believed.
    assert falls_at(alerted, 20, 44, within=20)
    assert live == ["a"]


def test_second_drop_from_the_lower_level_is_news():
    alerted, _ = nightly([100] * 20 + [90] * 30 + [80] * 8)
    assert falls_at(alerted, 20, 50)


def test_one_slow_night_is_no_alert():
    assert nightly([100] * 20 + [80] + [100] * 10) == ([], [])


def test_missing_nights_alert_once_and_close():
    alerted, live = nightly([100] * 15 + [None] * 3 + [100] * 3)
    assert alerted == [(15, VerdictKind.MISSING)]
    assert live == []
