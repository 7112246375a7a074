"""What people do with alerts in Chromium, and what others cannot do in their name."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.browser.browsing import address, alerts, shoot, watched
from tests.integration.live_airflow import Live

from nightbench.local import deployment

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

HOSTILE = "<img src=x onerror=alert(1)>\"'"


def test_the_trigger_form_offers_suites_and_clusters(admin: Page, live: Live, dag_run: str) -> None:
    page = admin
    page.goto(address(live, "/dags/on_demand"))
    page.get_by_role("button", name="Trigger").first.click()
    for label in ("Suite", "Cluster"):
        expect(page.get_by_role("combobox", name=label)).to_be_visible(timeout=60_000)
    expect(page.get_by_text("as in the suite").first).to_be_visible()
    # As it stands the form can be sent: what is left empty is no mistake.
    expect(page.get_by_role("dialog").get_by_role("button", name="Trigger")).to_be_enabled()
    shoot(page, "form")
    for section in ("How", "Which cases"):
        page.get_by_role("button", name=section, exact=True).click()
    for label in ("Frameworks", "Workloads", "Strategies"):
        expect(page.get_by_text(label, exact=True).first).to_be_visible()
    shoot(page, "form-subsets")


def test_a_viewer_sees_an_alert_and_moves_none(page: Page, live: Live, alert_id: int) -> None:
    page.goto(address(live, f"/plugin/benchmarks/alerts/{alert_id}"))
    expect(page.get_by_role("heading", name=f"Alert {alert_id}")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("table", name="History of this alert")).to_be_visible()
    expect(page.get_by_role("region", name="Actions")).to_have_count(0)
    before = alerts(live)
    # With all that a page of ours could send.
    answer = page.request.post(
        address(live, f"/nightbench/api/alerts/{alert_id}/resolve"),
        headers={"Sec-Fetch-Site": "same-origin", "X-Nightbench-Request": "1"},
    )
    assert (answer.status, answer.json()) == (403, {"detail": "Forbidden"})
    assert alerts(live) == before


def test_an_alert_is_acknowledged_where_it_is_seen(admin: Page, live: Live, alert_id: int) -> None:
    found = watched(admin, live)
    admin.get_by_role("link", name="Benchmarks").first.click()
    admin.get_by_role("link", name=f"Alert {alert_id}", exact=True).click(timeout=60_000)
    expect(admin.get_by_role("heading", name=f"Alert {alert_id}")).to_be_visible()
    todo = admin.get_by_role("region", name="Actions")
    todo.get_by_role("button", name="Acknowledge").click()
    form = todo.get_by_role("form", name="Acknowledge")
    form.get_by_label(re.compile("^Reason")).fill(HOSTILE)
    form.get_by_role("button", name="Acknowledge").click()
    history = admin.get_by_role("table", name="History of this alert")
    expect(history).to_contain_text("open → acknowledged")
    expect(history).to_contain_text(deployment.logins(live.stack.home).user)
    expect(history).to_contain_text(HOSTILE)
    # What the state does not allow is not offered any more.
    expect(todo.get_by_role("button", name="Acknowledge")).to_have_count(0)
    shoot(admin, "alert")
    todo.get_by_role("button", name="Assign").click()
    todo.get_by_label("Owner").fill(HOSTILE)
    todo.get_by_role("form").get_by_role("button", name="Assign").click()
    # It closes once the server has answered; leaving the page earlier cancels the request.
    expect(todo.get_by_role("form")).to_have_count(0)
    expect(history).to_contain_text("assigned")
    admin.get_by_role("link", name="Morning").click()
    expect(admin.get_by_role("table", name="New alerts")).to_contain_text(HOSTILE)
    assert [(row["state"], row["owner"]) for row in alerts(live)] == [("acknowledged", HOSTILE)]
    assert found == []


def test_a_refused_change_is_told_where_it_was_asked_for(
    admin: Page, live: Live, alert_id: int
) -> None:
    admin.goto(address(live, f"/plugin/benchmarks/alerts/{alert_id}"))
    todo = admin.get_by_role("region", name="Actions")
    todo.get_by_role("button", name="Snooze").click(timeout=60_000)
    todo.get_by_role("textbox", name=re.compile("^No messages until")).fill("yesterday")
    todo.get_by_role("form").get_by_role("button", name="Snooze").click()
    expect(todo.get_by_text('until: found "yesterday"')).to_be_visible()
    expect(todo.get_by_role("textbox", name=re.compile("^No messages until"))).to_have_value(
        "yesterday"
    )


def test_a_page_of_another_origin_moves_no_alert(admin: Page, live: Live, alert_id: int) -> None:
    target = address(live, f"/nightbench/api/alerts/{alert_id}/resolve")
    before = alerts(live)
    with elsewhere(
        f'<form method="post" action="{escape(target)}"><button>Win</button></form>'
    ) as there:
        admin.goto(there)
        with admin.expect_response(target) as sent:
            admin.get_by_role("button", name="Win").click()
    # Another port is the same site: the browser has sent Airflow's cookie along.
    assert "_token=" in sent.value.request.all_headers().get("cookie", "")
    assert sent.value.status == 403
    assert "from another site" in sent.value.text()
    assert alerts(live) == before


@contextmanager
def elsewhere(html: str) -> Iterator[str]:
    """The address of a page on another port of the same host."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
