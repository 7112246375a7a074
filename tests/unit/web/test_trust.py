"""What the API says of the verdicts: confirmed or not, noisy series, drifts, grades, labels."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.web.rows import START, Rows, alert, alert_event, client, row

from nightbench.core.documents import to_document
from nightbench.core.model.alerts import CauseEvidence

CASE = row(0)["case_id"]
NOISY = {
    "case_id": CASE,
    "cluster": "local",
    "suite": "demo",
    "since_run_id": "demo-night-1",
    "since_at": START,
    "spread": 0.21,
    "max_spread": 0.1,
    "sentence": "from night to night by 21.0 %",
}
DRIFT = {
    "case_id": CASE,
    "cluster": "local",
    "suite": "demo",
    "change": -0.0729,
    "error": 0.0041,
    "nights": 150,
    "since": START,
    "seen_run_id": "demo-night-1",
    "seen_at": START,
}
GRADE = {
    "suite": "demo",
    "cluster": "local",
    "measure": "2-4 noise",
    "trials": 120,
    "rate": 0.55,
    "low": 0.46,
    "high": 0.64,
    "median_delay": 2.5,
    "limit_value": 0.6,
    "below": "",
    "run_id": "demo-night-1",
    "started_at": START,
}
ALARMS = GRADE | {"measure": "false alarms", "rate": 0.4, "low": 0.1, "high": 1.2}
LABELS = {
    "cluster": "local",
    "alerts": 12,
    "live": 2,
    "resolved": 6,
    "intended": 2,
    "wont_fix": 1,
    "false_alarms": 1,
}
TEST = {
    "number": 1,
    "kind": "check",
    "version": "2.13.0",
    "against": "2.11.0",
    "status": "ended",
    "result": "bad",
    "why": "slower <for sure>",
    "ratio": 0.951,
    "low": 0.94,
    "high": 0.96,
    "rounds": 6,
    "wanted_rounds": 6,
    "spent_s": 90.0,
    "comparison_id": "b1-1",
}
BISECT = {
    "name": "b1",
    "state": "done",
    "request": {"good": "2.11.0", "bad": "2.13.0"},
    "budget_s": 7200.0,
    "spent_s": 1800.0,
    "started_at": START,
    "ended_at": None,
    "result": {
        "line": "pytorch",
        "versions": ["2.11.0", "2.12.0", "2.13.0"],
        "outcome": "found",
        "first_bad": None,
        "last_good": None,
        "sentence": "2.13.0 is the first bad version",
        "suspects": [],
        "notes": [],
        "steps": [TEST],
    },
}


def about(**changes: Any) -> Rows:
    return Rows([row(0), row(1)], [alert(**changes)], [alert_event()])


@pytest.mark.parametrize(
    ("state", "outcome"), [("done", "confirmed"), ("done", "not_confirmed"), ("running", None)]
)
def test_what_measuring_again_said_comes_with_the_alert(state: str, outcome: str | None) -> None:
    again = {
        "confirmation_state": state,
        "confirmation": outcome,
        "confirmation_sentence": "6 pairs on n1 and n2: slower",
        "confirmation_ratio": 0.88 if outcome else None,
        "confirmation_low": 0.86,
        "confirmation_high": 0.9,
        "confirmation_rounds": 6,
    }
    app = client(about(**again))
    (listed,) = app.get("/api/alerts").json()["alerts"]
    shown = app.get("/api/alerts/7").json()
    for key, value in again.items():
        assert listed[key] == shown[key] == value


def test_a_bisect_is_shown_with_its_tests() -> None:
    rows = about()
    rows.known = {"bisects": [BISECT]}
    (bisect,) = client(rows).get("/api/alerts/7").json()["bisects"]
    assert (bisect["sentence"], bisect["spent_s"]) == ("2.13.0 is the first bad version", 1800.0)
    (test,) = bisect["tests"]
    assert (test["ratio"], test["low"], test["high"]) == (0.951, 0.94, 0.96)
    assert test["why"] == "slower <for sure>"


def test_trust_has_grades_noisy_and_drifting_series_and_labels() -> None:
    rows = about()
    five = GRADE | {"measure": "5%", "rate": 0.91, "low": 0.86, "high": 0.95, "trials": 1163}
    low = GRADE | {"below": "power 55 % is below 60 %"}
    rows.known = {
        "noisy": [NOISY],
        "drifts": [DRIFT],
        "grades": [five, low, ALARMS],
        "page_labels": [LABELS],
    }
    trust = client(rows).get("/api/trust").json()
    assert [grade["below"] for grade in trust["grades"]] == ["", low["below"], ""]
    assert trust["noisy"][0]["sentence"] == "from night to night by 21.0 %"
    assert (trust["drifting"][0]["change"], trust["labels"]) == (-0.0729, [LABELS])


def test_the_morning_tells_what_is_missing_noisy_and_graded_too_low() -> None:
    rows = about()
    night = {"suite": "demo", "cluster": "local", "scheduled_at": START, "sentence": "no <run>"}
    low = GRADE | {"below": "power 55 % is below 60 %"}
    rows.known = {"nights": [night], "noisy": [NOISY], "drifts": [DRIFT], "grades": [GRADE, low]}
    morning = client(rows).get("/api/morning").json()
    assert [each["sentence"] for each in morning["missing"]] == ["no <run>"]
    assert (len(morning["noisy"]), len(morning["drifting"])) == (1, 1)
    assert morning["grades_too_low"] == ["demo on local: power 55 % is below 60 %"]


def test_a_run_marks_its_noisy_series() -> None:
    rows = Rows([row(0, noisy="varies by 21 %"), row(1)])
    (case,) = client(rows).get("/api/runs/demo-night-0").json()["cases"]
    assert case["noisy"] == "varies by 21 %"


# --- causes -------------------------------------------------------------------------------

CAUSE = {
    "cause": "framework_version",
    "cause_suspect": "pytorch 2.13.0 -> 2.14.0",
    "cause_sentence": "The version changed on the first bad night.",
    "evidence": [
        to_document(CauseEvidence("paddle is steady")),
        to_document(CauseEvidence("<one> other series did not move", is_against=True)),
    ],
    "group_key": "local/framework_version/pytorch",
}
SEND = {"sec-fetch-site": "same-origin", "x-nightbench-request": "1"}


def of_one_cause(number: int = 3) -> Rows:
    alerts = [
        alert(alert_id=7 + n, case_id=f"case-{n}", change=-0.1 - n / 100, **CAUSE)
        for n in range(number)
    ]
    return Rows([row(0)], [*alerts, alert(alert_id=50, case_id="alone")])


def test_a_cause_is_shown_with_what_speaks_for_and_against_it() -> None:
    shown = client(of_one_cause()).get("/api/alerts/7").json()
    assert (shown["cause"], shown["cause_suspect"]) == (CAUSE["cause"], CAUSE["cause_suspect"])
    assert shown["cause_sentence"] == "The version changed on the first bad night."
    assert shown["evidence_sentences"] == [
        "Paddle is steady.",
        "Against it: <one> other series did not move.",
    ]


def test_alerts_of_one_cause_are_one_of_the_morning_and_all_stand_with_each() -> None:
    app = client(of_one_cause(40))
    group, alone = sorted(
        app.get("/api/morning").json()["alerts"], key=lambda each: -each["alerts_of_cause"]
    )
    # The one that fell the furthest stands for all.
    assert (group["alert_id"], group["alerts_of_cause"]) == (46, 40)
    assert (alone["alert_id"], alone["alerts_of_cause"]) == (50, 1)
    assert len(app.get("/api/alerts/7").json()["group"]) == 40
    assert app.get("/api/alerts/50").json()["group"] == []


@pytest.mark.parametrize("whole", [True, False])
def test_a_whole_group_is_moved_when_asked_for(whole: bool) -> None:
    rows = of_one_cause()
    rows._alerts[1]["state"] = "resolved"
    sent = {"why": "known", "group": whole}
    answer = client(rows).post("/api/alerts/7/acknowledge", json=sent, headers=SEND)
    assert answer.status_code == 200
    assert [done[2] for done in rows.done] == ([7, 9] if whole else [7])


def test_a_group_goes_on_where_somebody_was_faster_and_tells_when_nothing_is_left() -> None:
    rows = of_one_cause()
    rows.faster = {7}
    whole = {"group": True}
    app = client(rows)
    assert app.post("/api/alerts/7/acknowledge", json=whole, headers=SEND).status_code == 200
    assert [done[2] for done in rows.done] == [8, 9]
    rows.faster = {7, 8, 9}
    answer = app.post("/api/alerts/7/acknowledge", json=whole, headers=SEND)
    assert answer.status_code == 409
    assert "was moved by somebody" in answer.text
    for each in rows._alerts:
        each["state"] = "resolved"
    answer = app.post("/api/alerts/7/acknowledge", json=whole, headers=SEND)
    assert (answer.status_code, "No alert of the group" in answer.text) == (409, True)
