"""What the pages say of the verdicts: confirmed or not, noisy series, drifts, grades, labels."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.web.rows import START, VIEWER, Rows, alert, alert_event, client, row, token

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
}
BISECT = {
    "bisect_id": "b1",
    "line": "pytorch",
    "good": "2.11.0",
    "bad": "2.13.0",
    "versions": ["2.11.0", "2.12.0", "2.13.0"],
    "state": "ended",
    "outcome": "found",
    "first_bad": None,
    "last_good": None,
    "ended_at": None,
    "sentence": "2.13.0 is the first bad version",
    "notes": [],
    "budget_s": 7200.0,
    "spent_s": 1800.0,
    "started_at": START,
    "tests": [TEST],
}


def about(**changes: Any) -> Rows:
    return Rows([row(0), row(1)], [alert(**changes)], [alert_event()])


@pytest.mark.parametrize(
    ("state", "outcome", "badge"),
    [
        ("ended", "confirmed", "confirmed"),
        ("ended", "not_confirmed", "not confirmed"),
        ("ended", "inconclusive", "inconclusive"),
        ("running", None, "being measured again"),
        ("wanted", None, "being measured again"),
    ],
)
def test_what_measuring_again_said_stands_beside_the_verdict(
    state: str, outcome: str | None, badge: str
) -> None:
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
    assert f">{badge}</span>" in app.get("/alerts").text
    page = app.get("/alerts/7").text
    assert f">{badge}</span>" in page
    assert "6 pairs on n1 and n2: slower" in page
    assert ("ratio 0.880, 95 % interval 0.860 to 0.900" in page) == (outcome is not None)


def test_an_alert_that_nobody_measured_again_has_no_badge() -> None:
    assert 'class="badge' not in client(about()).get("/alerts/7").text


def test_a_bisect_is_shown_with_its_tests() -> None:
    rows = about()
    rows.known = {"bisects": [BISECT]}
    page = client(rows).get("/alerts/7").text
    for text in ("2.13.0 is the first bad version", "30 of 120 minutes", "0.951 (0.940 to 0.960)"):
        assert text in page
    assert "slower &lt;for sure&gt;" in page
    (told,) = client(rows).get("/api/alerts/7").json()["bisects"]
    assert (told["sentence"], len(told["tests"])) == (BISECT["sentence"], 1)


def test_an_alert_says_that_its_series_is_noisy() -> None:
    rows = about()
    rows.known = {"noisy": [NOISY | {"case_id": "other"}]}
    assert "This series is noisy" not in client(rows).get("/alerts/7").text
    rows.known = {"noisy": [NOISY]}
    assert "This series is noisy" in client(rows).get("/alerts/7").text


def test_grades_noisy_series_and_labels_have_a_page() -> None:
    rows = about()
    low = GRADE | {"below": "power 55 % is below 60 %"}
    known = {"noisy": [NOISY], "drifts": [DRIFT], "grades": [low, ALARMS], "labels": [LABELS]}
    rows.known = known
    page = client(rows).get("/trust").text
    for text in (
        "slowdowns of 2-4 noise",
        "46 % to 64 %",
        "2.5 nights",
        "power 55 % is below 60 %",
        "0.10 to 1.20",
        "from night to night by 21.0 %",
        "1 (10 % of those closed)",
        "-7.3 % (± 0.8 %)",
    ):
        assert text in page, text
    five = GRADE | {"measure": "5%", "rate": 0.91, "low": 0.86, "high": 0.95, "trials": 1163}
    rows.known["grades"] = [five, low, ALARMS]
    rows.rows = [dict(each) | {"noisy": NOISY["sentence"]} for each in rows.rows]
    start = client(rows).get("/").text
    assert "1 noisy series, 1 of the detector's grades too low" in start
    assert 'title="from night to night by 21.0 %">noisy</span>' in start
    assert (
        "demo on local: the detector found 91 % (86 % to 95 %) of 1,163 planted slowdowns of "
        "5 % within two weeks, after 2.5 nights in the median; 0.4 false alarms in 1,000 nights "
        "(0.1 to 1.2)." in start
    )
    assert '<p class="note wrong">power 55 % is below 60 %</p>' in start


def test_a_grade_that_is_not_known_yet_says_nothing() -> None:
    rows = about()
    unknown = GRADE | {"measure": "5%", "rate": None, "low": None, "high": None}
    rows.known = {"grades": [unknown, ALARMS | {"rate": None}]}
    assert "<h2>Trust</h2>" not in client(rows).get("/").text
    assert client(rows).get("/trust").status_code == 200


@pytest.mark.parametrize("address", ["/", "/alerts"])
def test_nights_that_brought_nothing_are_told(address: str) -> None:
    rows = about()
    assert "Nights without results" not in client(rows).get(address).text
    night = {"suite": "demo", "cluster": "local", "scheduled_at": START, "sentence": "no <run>"}
    rows.known = {"nights": [night]}
    assert "demo on local, 2026-11-01 01:00 UTC: no &lt;run&gt;" in client(rows).get(address).text


def test_a_run_marks_its_noisy_series() -> None:
    page = client(Rows([row(0, noisy="varies by 21 %"), row(1)])).get("/?run=demo-night-0").text
    assert 'title="varies by 21 %">noisy</span>' in page


def test_without_any_of_it_the_page_says_so() -> None:
    page = client(Rows([])).get("/trust")
    assert page.status_code == 200
    assert "No grade yet" in page.text
    assert "No alert in the last 365 days" in page.text


# --- causes -------------------------------------------------------------------------------

CAUSE = {
    "cause": "framework_version",
    "cause_suspect": "pytorch 2.13.0 -> 2.14.0",
    "cause_sentence": "The version changed on the first bad night.",
    "evidence": [
        CauseEvidence("paddle is steady").to_json(),
        CauseEvidence("<one> other series did not move", is_against=True).to_json(),
    ],
    "group_key": "local/framework_version/pytorch",
}
SEND = {"sec-fetch-site": "same-origin"}


def of_one_cause(number: int = 3) -> Rows:
    alerts = [
        alert(alert_id=7 + n, case_id=f"case-{n}", change=-0.1 - n / 100, **CAUSE)
        for n in range(number)
    ]
    return Rows([row(0)], [*alerts, alert(alert_id=50, case_id="alone")])


def test_a_cause_is_shown_with_what_speaks_for_and_against_it() -> None:
    page = client(of_one_cause()).get("/alerts/7").text
    assert "framework version: pytorch 2.13.0 -&gt; 2.14.0" in page
    assert "The version changed on the first bad night." in page
    assert 'href="/airflow/dags/nightbench_bisect/trigger"' in page
    assert "nightbench_bisect" not in client(of_one_cause(), VIEWER).get("/alerts/7").text
    assert "<li>Paddle is steady.</li>" in page
    assert '<li class="against">Against it: &lt;one&gt; other' in page


def test_alerts_of_one_cause_are_one_row_and_all_stand_on_the_page_of_each() -> None:
    app = client(of_one_cause(40))
    page = app.get("/alerts").text
    assert page.count("<tr>") == 1 + 2
    assert "40 series" in page
    # The one that fell the furthest stands for all.
    assert 'href="./alerts/46"' in page
    assert page.count(">case-") == 1
    assert app.get("/").text.count(">Alert ") == 2
    shown = app.get("/alerts/7").text
    assert "All of this cause: 40 series" in shown
    assert shown.count('data-label="State"') == 40
    assert "All of this cause" not in app.get("/alerts/50").text
    assert 'name="group"' not in app.get("/alerts/50").text


@pytest.mark.parametrize("whole", [True, False])
def test_a_whole_group_is_moved_when_asked_for(whole: bool) -> None:
    rows = of_one_cause()
    rows._alerts[1]["state"] = "resolved"
    form = {"token": token(), "why": "known", **({"group": "1"} if whole else {})}
    assert client(rows).post("/alerts/7/acknowledge", data=form, headers=SEND).status_code == 303
    assert [done[2] for done in rows.done] == ([7, 9] if whole else [7])
    rows.done = []
    sent = {"why": "known", "group": whole}
    bearer = {"authorization": "Bearer abc"}
    answer = client(rows).post("/api/alerts/7/acknowledge", json=sent, headers=bearer)
    assert answer.status_code == 200
    assert [done[2] for done in rows.done] == ([7, 9] if whole else [7])


def test_a_group_goes_on_where_somebody_was_faster_and_tells_when_nothing_is_left() -> None:
    rows = of_one_cause()
    rows.faster = {7}
    form = {"token": token(), "group": "1"}
    app = client(rows)
    assert app.post("/alerts/7/acknowledge", data=form, headers=SEND).status_code == 303
    assert [done[2] for done in rows.done] == [8, 9]
    rows.faster = {7, 8, 9}
    answer = app.post("/alerts/7/acknowledge", data=form, headers=SEND)
    assert answer.status_code == 409
    assert "was moved by somebody" in answer.text
    for each in rows._alerts:
        each["state"] = "resolved"
    answer = app.post("/alerts/7/acknowledge", data=form, headers=SEND)
    assert (answer.status_code, "No alert of the group" in answer.text) == (409, True)
