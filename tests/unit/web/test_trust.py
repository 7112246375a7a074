"""What the pages say of the verdicts themselves: confirmed or not, noisy series, grades, labels."""

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


def test_an_alert_says_that_its_series_is_noisy() -> None:
    rows = about()
    rows.known = {"noisy": [NOISY | {"case_id": "other"}]}
    assert "This series is noisy" not in client(rows).get("/alerts/7").text
    rows.known = {"noisy": [NOISY]}
    assert "This series is noisy" in client(rows).get("/alerts/7").text


def test_grades_noisy_series_and_labels_have_a_page() -> None:
    rows = about()
    low = GRADE | {"below": "power 55 % is below 60 %"}
    rows.known = {"noisy": [NOISY], "grades": [low, ALARMS], "labels": [LABELS]}
    page = client(rows).get("/trust").text
    for text in (
        "slowdowns of 2-4 noise",
        "46 % to 64 %",
        "2.5 nights",
        "power 55 % is below 60 %",
        "0.10 to 1.20",
        "from night to night by 21.0 %",
        "1 (10 % of those closed)",
    ):
        assert text in page, text
    start = client(rows).get("/").text
    assert "1 noisy series" in start
    assert "1 of the detector&#39;s grades too low" in start or "1 of the detector's" in start


def test_without_any_of_it_the_page_says_so() -> None:
    page = client(Rows([])).get("/trust")
    assert page.status_code == 200
    assert "No grade yet" in page.text
    assert "No alert in the last 365 days" in page.text
