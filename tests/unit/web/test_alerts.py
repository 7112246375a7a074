"""Alerts as JSON: what is shown, who may change what, what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from tests.unit.web.rows import ADA, VIEWER, Rows, alert, alert_event, client, row

from nightbench.core.errors import UserError

HERE = {"sec-fetch-site": "same-origin"}
SCRIPT = {**HERE, "x-nightbench-request": "1"}
BEARER = {"authorization": "Bearer abc.def"}


def one(**changes: Any) -> Rows:
    rows = [row(n, 100.0 - 20 * (n > 0)) for n in range(3)]
    return Rows(rows, [alert(**changes)], [alert_event()])


def send(rows: Rows, action: str = "acknowledge", **given: Any) -> httpx.Response:
    """Send what our own page does; `headers` and `who` change how."""
    who = given.pop("who", ADA)
    headers = given.pop("headers", SCRIPT)
    answer: httpx.Response = client(rows, who).post(
        f"/api/alerts/7/{action}", json={"why": "looking", **given}, headers=headers
    )
    return answer


# --- what is shown ------------------------------------------------------------------------


def test_an_alert_of_a_series_without_figures_is_shown() -> None:
    rows = Rows([], [alert(value=None, baseline=None, change=None, unit=None)])
    shown = client(rows).get("/api/alerts/7")
    assert (shown.status_code, shown.json()["value"]) == (200, None)


def test_the_list_holds_live_alerts_and_all_on_demand() -> None:
    rows = Rows([row(0)], [alert(), alert(alert_id=8, state="resolved")])
    app = client(rows)
    assert [each["alert_id"] for each in app.get("/api/alerts").json()["alerts"]] == [7]
    every = app.get("/api/alerts?state=all&cluster=local&framework=pytorch").json()["alerts"]
    assert [each["alert_id"] for each in every] == [7, 8]
    assert rows.asked[-1] == (None, "local", "pytorch", 200)


def test_a_reader_is_offered_nothing() -> None:
    assert client(one(), VIEWER).get("/api/alerts/7").json()["actions"] == []


# --- what people do -----------------------------------------------------------------------


def test_an_alert_is_moved_in_the_name_of_who_is_logged_in() -> None:
    rows = one()
    assert send(rows, "acknowledge").status_code == 200
    assert rows.done == [("ada", "move", 7, "acknowledged", "looking", None)]


@pytest.mark.parametrize("name", ["by", "by_whom", "user", "owner"])
def test_nobody_names_themselves(name: str) -> None:
    rows = one()
    assert send(rows, "acknowledge", **{name: "root"}).status_code == 422
    assert rows.done == []


@pytest.mark.parametrize(
    ("action", "given", "done"),
    [
        ("resolve", {}, ("move", 7, "resolved", "looking", None)),
        ("reopen", {}, ("move", 7, "open", "looking", None)),
        ("dismiss", {"reason": "wont_fix"}, ("move", 7, "dismissed", "looking", "wont_fix")),
        ("dismiss", {"reason": "wont-fix"}, ("move", 7, "dismissed", "looking", "wont_fix")),
        ("assign", {"owner": " grace "}, ("assign", 7, "grace", "looking")),
        ("assign", {"owner": ""}, ("assign", 7, "", "looking")),
    ],
)
def test_each_action_reaches_the_warehouse(action: str, given: Any, done: Any) -> None:
    rows = one()
    assert send(rows, action, **given).status_code == 200
    assert rows.done == [("ada", *done)]


def test_a_snooze_reaches_the_warehouse() -> None:
    rows = one()
    assert send(rows, "snooze", until="3d").status_code == 200
    until = rows.done[0][3]
    assert isinstance(until, datetime)
    assert abs(until - datetime.now(UTC) - timedelta(days=3)) < timedelta(minutes=1)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("dismiss", {}, "expected: false_alarm, intended or wont_fix"),
    ("dismiss", {"reason": "bored"}, "bored"),
    ("snooze", {}, "expected: 12h, 3d, 2w"),
    ("snooze", {"until": "soon"}, "12h, 3d, 2w"),
    ("snooze", {"until": "2001-01-01"}, "a future time"),
    ("snooze", {"until": "9999-12-31T23:59"}, "366 days ahead at most"),
    ("snooze", {"until": "9999-12-31T23:59-14:00"}, "or a date: 2026-12-01"),
    ("assign", {"owner": "x" * 201}, "200 at most"),
    ("resolve", {"why": "x" * 2001}, "2000 at most"),
    ("resolve", {"why": "a\0b"}, "control character"),
]


@pytest.mark.parametrize(("action", "given", "said"), BAD)
def test_what_cannot_be_read_is_said_and_changes_nothing(
    action: str, given: dict[str, Any], said: str
) -> None:
    rows = one()
    answer = send(rows, action, **given)
    assert (answer.status_code, rows.done) == (422, [])
    assert said in answer.json()["detail"]


# --- what is refused ----------------------------------------------------------------------


def test_whoever_may_only_read_changes_nothing() -> None:
    rows = one()
    assert send(rows, who=VIEWER).status_code == 403
    answer = client(rows, VIEWER).post("/api/alerts/7/resolve", json={}, headers=BEARER)
    assert (answer.status_code, answer.json()) == (403, {"detail": "Forbidden"})
    assert rows.done == []


def test_nobody_changes_nothing() -> None:
    rows = one()
    app = client(rows, None)
    assert app.post("/api/alerts/7/resolve", json={}, headers=SCRIPT).status_code == 401
    assert app.post("/api/alerts/7/resolve", json={}, headers=BEARER).status_code == 401
    assert rows.done == []


FOREIGN = [
    {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    {"sec-fetch-site": "same-site", "origin": "http://other.testserver"},
    {"sec-fetch-site": "none"},
    {"sec-fetch-site": "cross-site", "origin": "http://testserver"},
    {"origin": "https://evil.example"},
    {"origin": "http://testserver.evil.example"},
    {"origin": "http://testserver:81"},
    {"origin": "null"},
    {"origin": "http://["},
    {},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_what_another_site_sends_changes_nothing(headers: dict[str, str]) -> None:
    rows = one()
    assert send(rows, headers={**headers, "x-nightbench-request": "1"}).status_code == 403
    assert rows.done == []


@pytest.mark.parametrize("headers", [HERE, {"origin": "http://testserver"}])
def test_our_own_origin_is_known_with_and_without_fetch_metadata(headers: dict[str, str]) -> None:
    assert send(one(), headers={**headers, "x-nightbench-request": "1"}).status_code == 200


def test_behind_a_proxy_the_site_s_own_address_counts() -> None:
    rows = one()
    app = client(rows, base_url="https://bench.example.org/airflow")
    for origin, status in (("https://bench.example.org", 200), ("https://example.org", 403)):
        headers = {"origin": origin, "x-nightbench-request": "1"}
        answer = app.post("/api/alerts/7/resolve", json={}, headers=headers)
        assert answer.status_code == status, origin


@pytest.mark.parametrize(
    ("headers", "status"), [(SCRIPT, 200), (HERE, 403), (BEARER, 200), ({**BEARER, **HERE}, 200)]
)
def test_a_script_with_a_cookie_says_that_it_is_ours(headers: Any, status: int) -> None:
    answer = client(one()).post("/api/alerts/7/resolve", json={}, headers=headers)
    assert answer.status_code == status
    basic = {"authorization": "Basic YTpi"}
    assert client(one()).post("/api/alerts/7/resolve", json={}, headers=basic).status_code == 403


# --- JSON ---------------------------------------------------------------------------------


def test_programs_list_and_read_alerts() -> None:
    rows = one(value=float("nan"))
    app = client(rows)
    (listed,) = app.get("/api/alerts").json()["alerts"]
    assert (listed["alert_id"], listed["value"]) == (7, None)
    assert listed["opened_at"] == "2026-11-02T01:00:00Z"
    shown = app.get("/api/alerts/7").json()
    assert shown["events"][0]["by_whom"] == "nightbench"
    app.get("/api/alerts?state=resolved&state=dismissed&size=5&cluster=local")
    assert rows.asked[-1] == (("resolved", "dismissed"), "local", None, 5)


def test_programs_change_alerts() -> None:
    rows = one()
    answer = client(rows).post(
        "/api/alerts/7/dismiss", json={"reason": "intended", "why": "wanted"}, headers=BEARER
    )
    assert answer.status_code == 200
    assert answer.json()["alert_id"] == 7
    assert answer.headers["cache-control"] == "no-store"
    assert rows.done == [("ada", "move", 7, "dismissed", "wanted", "intended")]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/alerts/8", 404),
        ("/api/alerts/99999999999999999999", 404),
        ("/api/alerts/x", 404),
        ("/api/alerts?state=gone", 422),
        ("/api/alerts?size=0", 422),
        ("/api/alerts?size=many", 422),
        ("/api/alerts?cluster=%00", 422),
        ("/api/nothing", 404),
    ],
)
def test_errors_are_json_with_a_message(address: str, status: int) -> None:
    answer = client(one()).get(address)
    assert answer.status_code == status
    assert isinstance(answer.json()["detail"], str)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "JSON"),
        (b"[]", "an object"),
        (b"\xff", "JSON"),
        (b"[" * 60_000, "JSON"),
        (b'{"why": 3}', "expected text"),
        (b'{"why": "\\ud800"}', r"\ud800"),
    ],
)
def test_a_body_that_is_none(body: bytes, said: str) -> None:
    rows = one()
    headers = {**BEARER, "content-type": "application/json"}
    answer = client(rows).post("/api/alerts/7/resolve", content=body, headers=headers)
    assert (answer.status_code, rows.done) == (422, [])
    assert said in answer.json()["detail"]


def test_a_form_is_no_json_and_a_flood_is_not_read() -> None:
    app = client(one())
    assert app.post("/api/alerts/7/resolve", data={"why": "x"}, headers=BEARER).status_code == 422
    flood = app.post("/api/alerts/7/resolve", content=b"x" * 70_000, headers=BEARER)
    assert flood.status_code == 413


def test_there_is_no_other_action_and_no_other_alert() -> None:
    app = client(one())
    assert app.post("/api/alerts/7/delete", json={}, headers=BEARER).status_code == 404
    assert app.post("/api/alerts/8/resolve", json={}, headers=BEARER).status_code == 404
    gone = app.post("/api/alerts/8/resolve", json={}, headers=SCRIPT)
    assert (gone.status_code, gone.json()) == (404, {"detail": "There is no alert 8."})


def test_a_program_is_told_of_a_move_that_is_not_allowed() -> None:
    rows = one()
    rows.refuses = "alert 7 is open and cannot become open"
    answer = client(rows).post("/api/alerts/7/reopen", headers=BEARER)
    assert (answer.status_code, answer.json()) == (409, {"detail": rows.refuses})


@pytest.mark.parametrize("address", ["/api/alerts", "/api/alerts/7", "/api/trust", "/api/runs"])
def test_without_the_warehouse_everything_says_so(address: str) -> None:
    answer = client(UserError("no answer from <host>")).get(address)
    assert (answer.status_code, answer.json()) == (503, {"detail": "no answer from <host>"})


def test_a_change_without_the_warehouse_is_told() -> None:
    app = client(UserError("no answer"))
    answer = app.post("/api/alerts/7/resolve", json={}, headers=BEARER)
    assert (answer.status_code, answer.json()) == (503, {"detail": "no answer"})
