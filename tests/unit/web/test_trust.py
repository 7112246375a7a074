"""What the API says of the verdicts: confirmed or not, noisy series, drifts, grades, labels."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.web.rows import START, Rows, alert, alert_event, client, row

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


def about(**changes: Any) -> Rows:
    return Rows([row(0), row(1)], [alert(**changes)], [alert_event()])


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


# --- causes -------------------------------------------------------------------------------

SEND = {"sec-fetch-site": "same-origin", "x-nightbench-request": "1"}


def of_one_cause(number: int = 3) -> Rows:
    alerts = [
        alert(alert_id=7 + n, case_id=f"case-{n}", change=-0.1 - n / 100, group_key="local/node/n1")
        for n in range(number)
    ]
    return Rows([row(0)], [*alerts, alert(alert_id=50, case_id="alone")])


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
    assert (answer.status_code, "no alert of the group" in answer.text) == (409, True)
