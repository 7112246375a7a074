"""The pages, with rows handed in: what they show, and what they never let through."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from tests.unit.web.rows import START, Rows, alert, alert_event, client, row

from nightbench.core.errors import UserError
from nightbench.core.model import Reason, ReasonCode

WEIGHTS = Reason(ReasonCode.CHECK_FAILED, None, "weights_agree", "2", "1")
EXITED = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1", "code 0")


def test_the_latest_median_stands_in_the_table() -> None:
    page = client(Rows([row(0, 90.0), row(1, 123.456)])).get("/").text
    assert "123.5 images/s" in page
    assert "90.00 images/s</td>" not in page
    assert "2.1 %" in page


def test_a_quarantined_result_is_marked_and_the_median_before_it_stands() -> None:
    bad = row(1, 999.0, quarantined=True, quarantine_reasons=[WEIGHTS.to_json()])
    page = client(Rows([row(0, 90.0), bad])).get("/").text
    # The row is the newest run's; the last median stands beside it with its own date and run.
    assert "images/s</td>" not in page
    assert '?run=demo-night-0">last 90.00 on 2026-11-01</a>' in page
    assert "999.0 images/s</td>" not in page
    assert '<path class="mark quarantined"' in page
    assert "weights_agree: 2, expected 1" in page
    assert 'class="word quarantined"' in page


def test_a_private_build_is_a_mark_beside_the_line_and_never_the_row() -> None:
    trial = row(1, 999.0, private_build=True, verdict="improved", n=1)
    page = client(Rows([row(0, 90.0), trial])).get("/").text
    assert "90.00 images/s</td>" in page
    assert "999.0 images/s</td>" not in page
    assert 'class="word ok"' in page
    assert page.count('<circle class="mark private_build"') == 1 + 1
    (line,) = re.findall(r'<polyline class="way" points="([^"]*)"', page)
    assert len(line.split()) == 1


def test_what_is_live_stands_beside_an_ok() -> None:
    live = {"alert_id": 7, "alert_verdict": "regressed", "alert_change": -0.08}
    drift = {"drift": -0.07, "drift_since": START, "noisy": "by 21 %"}
    change = {"change": -0.012, "change_low": -0.03, "change_high": 0.006}
    rows = Rows([row(0, 90.0, **live, **drift, **change)])
    for path in ("/", "/?run=demo-night-0"):
        page = client(rows).get(path).text
        assert 'alerts/7" title="regressed">alert 7: -8.0 %</a>' in page
        assert "drifts -7.0 %</span>" in page
        assert ">noisy</span>" in page
        assert "-1.2 %</span>" in page
        assert "(-3.0 to +0.6)" in page


def test_each_series_is_a_plot_with_a_mark_for_each_result() -> None:
    rows = [row(n, 100.0 + n) for n in range(5)]
    rows += [row(5, 80.0, verdict="regressed", verdict_sentence="20 % below")]
    page = client(Rows(rows)).get("/").text
    # One more of each stands in the legend, and one of private builds.
    assert page.count('<circle class="mark') == 5 + 2
    assert page.count('<path class="mark regressed"') == 1 + 1
    assert "20 % below" in page
    assert '<line class="median"' in page


def test_a_filter_reaches_the_repository_and_stays_chosen() -> None:
    repository = Rows([row(0)])
    page = client(repository).get("/?framework=pytorch").text
    assert repository.asked == [(None, "pytorch", None)]
    assert '<option value="pytorch" selected>' in page


def test_what_is_empty_says_what_to_do() -> None:
    assert "nightbench run demo" in client(Rows([])).get("/").text


def test_a_case_without_a_figure_has_its_state_instead_of_a_plot() -> None:
    failed = row(0, None, status="failed", reasons=[EXITED.to_json()], verdict="failed", n=0)
    page = client(Rows([failed])).get("/").text
    assert "No figure yet: failed" in page
    assert "nan" not in page.lower().replace("finance", "")


def test_the_page_of_a_run_has_the_end_of_a_traceback() -> None:
    failed = row(0, None, status="failed", reasons=[EXITED.to_json()], verdict="failed", n=0)
    page = client(Rows([{**failed, "error": "[n1 trainer-0]\nKeyError: <b>"}])).get(
        "/?run=demo-night-0"
    )
    assert "<pre>[n1 trainer-0]\nKeyError: &lt;b&gt;</pre>" in page.text
    assert "nightbench logs --run demo-night-0 --case" in page.text


def test_a_run_links_to_airflow() -> None:
    page = client(Rows([row(0)])).get("/?run=demo-night-0").text
    assert "/airflow/dags/on_demand/runs/manual__2026-11-01T00%3A00%3A00%2B00%3A00" in page
    assert "asked for by <bdi>ada</bdi>" in page


def test_the_tab_of_a_dag_run_finds_its_run() -> None:
    app = client(Rows([row(0)]))
    assert "demo-night-0" in app.get("/?dag_id=on_demand&dag_run=known").text
    assert "No results of this run" in app.get("/?dag_id=on_demand&dag_run=other").text


def test_an_unknown_run_is_not_found() -> None:
    assert client(Rows([])).get("/?run=nope").status_code == 404


def test_everything_is_escaped() -> None:
    evil = '"><script>alert(1)</script>'
    rows = [row(0, case_id=evil, verdict_sentence=evil, unit=evil, framework=evil)]
    texts = ("case_id", "cluster", "sentence", "owner", "opened_run_id", "last_run_id")
    event = {"by_whom": evil, "why": evil, "run_id": evil}
    given = Rows(rows, [alert(**dict.fromkeys(texts, evil))], [alert_event(**event)])
    app = client(given)
    addresses = ("/", f"/?framework={evil}", f"/?run={evil}", f"/?dag_run={evil}")
    for address in (*addresses, f"/alerts?cluster={evil}", f"/alerts?state={evil}", "/alerts/7"):
        page = app.get(address)
        assert "<script>alert" not in page.text, address
        assert page.status_code < 500
    assert "<script>alert" not in app.get("/?run=demo-night-0").text


def test_without_the_warehouse_the_page_says_so() -> None:
    answer = client(UserError("PostgreSQL at <host>: no answer")).get("/")
    assert answer.status_code == 503
    assert "PostgreSQL at &lt;host&gt;: no answer" in answer.text


READ = ["/", "/?run=x", "/style.css", "/links.js", "/alerts", "/alerts/7", "/api/alerts", "/trust"]


@pytest.mark.parametrize("address", [*READ, "/api/alerts/7"])
def test_every_route_asks_for_a_reader(address: str) -> None:
    assert client(Rows([row(0)], [alert()]), who=None).get(address).status_code == 401


def test_who_is_not_logged_in_gets_a_page_with_its_style_and_the_way_in() -> None:
    answer = client(Rows([]), who=None).get("/alerts/7")
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in answer.headers["content-security-policy"]
    assert "style.css" not in answer.text
    assert "/api/v2/auth/login?next=/alerts/7" in answer.text


@pytest.mark.parametrize("digits", [19, 5000])
@pytest.mark.parametrize("path", ["/alerts/{}", "/alerts/{}/resolve", "/api/alerts/{}"])
@pytest.mark.parametrize("who", [None, "ada"])
def test_a_number_that_no_alert_has_is_not_found(path: str, digits: int, who: str | None) -> None:
    answer = client(Rows([row(0)], [alert()]), who=who).get(path.format("9" * digits))
    assert answer.status_code == 404


def test_names_do_not_turn_their_neighbours() -> None:
    page = client(Rows([row(0)], [alert(owner="\u202eeve")])).get("/alerts").text
    assert "<bdi>\u202eeve</bdi>" in page


@pytest.mark.parametrize("address", ["/docs", "/redoc", "/openapi.json"])
def test_nothing_describes_itself(address: str) -> None:
    assert client(Rows([])).get(address).status_code == 404


@pytest.mark.parametrize("address", READ)
def test_no_page_can_be_written(address: str) -> None:
    app = client(Rows([]))
    methods = ("POST", "PUT", "PATCH", "DELETE")
    assert {app.request(m, address).status_code for m in methods} == {405}


def test_nothing_comes_from_elsewhere() -> None:
    answer = client(Rows([row(0)])).get("/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "http://" not in answer.text
    assert "https://" not in answer.text
