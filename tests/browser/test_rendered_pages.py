"""The pages that the server renders, and the trigger form, in Chromium."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from html import escape
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.browser.browsing import CASE, address, alerts, shoot
from tests.integration.live_airflow import Live

from nightbench.local import deployment

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]


def test_anonymous_is_refused(context: BrowserContext, live: Live, dag_run: str) -> None:
    page = context.new_page()
    for path in ("/nightbench/", "/nightbench/style.css", "/nightbench/?run=x"):
        answer = page.goto(address(live, path))
        assert answer is not None
        assert answer.status == 401
        assert CASE not in page.content()


def test_a_run_leads_to_airflow(page: Page, live: Live, dag_run: str) -> None:
    page.goto(address(live, "/nightbench/"))
    expect(page.locator("tbody").first).to_contain_text(CASE)
    expect(page.locator("figure svg circle").first).to_be_visible()
    page.locator("tbody").first.locator("a[href*='run=']").first.click()
    page.get_by_text("The run in Airflow").click()
    page.wait_for_url(re.compile("/dags/on_demand/runs/"), timeout=60_000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_needs_no_sideways_scrolling(
    page: Page, live: Live, dag_run: str, scheme: str
) -> None:
    page.set_viewport_size({"width": 375, "height": 800})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    for path in ("/nightbench/", f"/nightbench/?run={live.run_of(dag_run).run_id}"):
        page.goto(address(live, path))
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 375, path
    page.goto(address(live, "/nightbench/"))
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    shoot(page, f"narrow-{scheme}")


def test_the_page_loads_without_an_error_in_the_console(
    page: Page, live: Live, dag_run: str
) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else 0)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address(live, "/nightbench/"))
    page.locator("select[name=framework]").select_option("fake")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("framework=fake"))
    expect(page.locator("tbody").first).to_contain_text(CASE)
    assert said == []


def test_the_trigger_form_offers_suites_and_clusters(admin: Page, live: Live, dag_run: str) -> None:
    page = admin
    page.goto(address(live, "/dags/on_demand"))
    page.get_by_role("button", name="Trigger").first.click()
    for label in ("Suite", "Cluster"):
        expect(page.get_by_role("combobox", name=label)).to_be_visible(timeout=60_000)
    expect(page.get_by_text("the suite's own").first).to_be_visible()
    # As it stands the form can be sent: what is left empty is no mistake.
    expect(page.get_by_role("dialog").get_by_role("button", name="Trigger")).to_be_enabled()
    shoot(page, "form")
    for section in ("How", "Which cases"):
        page.get_by_role("button", name=section, exact=True).click()
    for label in ("Frameworks", "Workloads", "Strategies"):
        expect(page.get_by_text(label, exact=True).first).to_be_visible()
    shoot(page, "form-subsets")


# --- alerts -------------------------------------------------------------------------------


def test_an_alert_is_acknowledged_where_it_is_seen(admin: Page, live: Live, alert_id: int) -> None:
    said: list[str] = []
    admin.on("console", lambda message: said.append(message.text) if message.type == "error" else 0)
    admin.goto(address(live, "/nightbench/"))
    admin.get_by_role("link", name=f"Alert {alert_id}", exact=True).click()
    expect(admin.get_by_role("heading", name=f"Alert {alert_id}")).to_be_visible()
    shoot(admin, "alert")
    said.clear()
    admin.get_by_text("Acknowledge", exact=True).first.click()
    admin.locator("details[open] textarea").fill("<i>looking</i> at it")
    admin.get_by_role("button", name="Acknowledge").click()
    history = admin.locator("table").last
    expect(history).to_contain_text("open → acknowledged")
    expect(history).to_contain_text(deployment.logins(live.stack.home).user)
    expect(history).to_contain_text("<i>looking</i> at it")
    # What is not offered any more cannot be pressed by loading the page again.
    expect(admin.get_by_role("button", name="Acknowledge")).to_have_count(0)
    expect(admin.get_by_text("Snooze", exact=True).first).to_be_visible()
    assert said == []
    assert [row["state"] for row in alerts(live)] == ["acknowledged"]


def test_an_alert_is_assigned_without_any_script(
    admin: Page, browser: Browser, live: Live, alert_id: int
) -> None:
    plain = browser.new_context(
        java_script_enabled=False, storage_state=admin.context.storage_state()
    )
    with closing(plain):
        page = plain.new_page()
        page.goto(address(live, f"/nightbench/alerts/{alert_id}"))
        page.locator("summary", has_text="Assign").click()
        page.locator("details[open] input[name=owner]").fill("grace")
        page.get_by_role("button", name="Assign").click()
        expect(page.locator("table").last).to_contain_text("to grace")
    assert [row["owner"] for row in alerts(live)] == ["grace"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_alerts_fit_a_narrow_screen(admin: Page, live: Live, alert_id: int, scheme: str) -> None:
    admin.set_viewport_size({"width": 360, "height": 800})
    admin.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    for path in ("alerts", f"alerts/{alert_id}"):
        admin.goto(address(live, f"/nightbench/{path}"))
        for summary in admin.locator("summary").all():
            summary.click()
        assert admin.evaluate("document.documentElement.scrollWidth") <= 360, path
        shoot(admin, f"narrow-{path.replace('/', '-')}-{scheme}")


def test_a_viewer_sees_an_alert_and_moves_none(page: Page, live: Live, alert_id: int) -> None:
    page.goto(address(live, f"/nightbench/alerts/{alert_id}"))
    expect(page.get_by_role("heading", name=f"Alert {alert_id}")).to_be_visible()
    expect(page.locator("form")).to_have_count(0)
    before = alerts(live)
    # With all that a page of ours could send.
    answer = page.request.post(
        address(live, f"/nightbench/api/alerts/{alert_id}/resolve"),
        headers={"Sec-Fetch-Site": "same-origin", "X-Nightbench-Request": "1"},
    )
    assert (answer.status, answer.json()) == (403, {"detail": "Forbidden"})
    assert alerts(live) == before


def test_a_page_of_another_origin_moves_no_alert(admin: Page, live: Live, alert_id: int) -> None:
    admin.goto(address(live, f"/nightbench/alerts/{alert_id}"))
    # Even one that got hold of a token.
    token = admin.locator("input[name=token]").first.input_value()
    target = address(live, f"/nightbench/alerts/{alert_id}/resolve")
    before = alerts(live)
    with elsewhere(
        f'<form method="post" action="{escape(target)}">'
        f'<input name="token" value="{escape(token)}"><button>Win</button></form>'
    ) as there:
        admin.goto(there)
        with admin.expect_response(target) as sent:
            admin.get_by_role("button", name="Win").click()
    # Another port is the same site: the browser has sent Airflow's cookie along.
    assert "_token=" in sent.value.request.all_headers().get("cookie", "")
    assert sent.value.status == 403
    expect(admin.get_by_text("from another site")).to_be_visible()
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


def test_a_program_moves_an_alert_with_airflow_s_token(live: Live, alert_id: int) -> None:
    access = deployment.logins(live.stack.home)
    at = f"/nightbench/api/alerts/{alert_id}"
    with httpx.Client(base_url=access.ui, trust_env=False) as http_client:

        def bearer(user: str, password: str) -> dict[str, str]:
            login = {"username": user, "password": password}
            token = http_client.post("/auth/token", json=login).json()["access_token"]
            return {"Authorization": f"Bearer {token}"}

        admin = bearer(access.user, access.password)
        viewer = bearer(access.viewer, access.viewer_password)
        assert http_client.get(at).status_code == 401
        assert http_client.get(at, headers=viewer).json()["alert_id"] == alert_id
        dismiss = {"reason": "intended", "why": "it is a test"}
        answer = http_client.post(f"{at}/dismiss", json=dismiss, headers=viewer)
        assert (answer.status_code, answer.json()) == (403, {"detail": "Forbidden"})
        answer = http_client.post(f"{at}/dismiss", json=dismiss, headers=admin)
        assert answer.status_code == 200, answer.text
        assert answer.json()["state"] == "dismissed"
        last = answer.json()["events"][-1]
        assert (last["by_whom"], last["why"]) == (access.user, "intended: it is a test")
        answer = http_client.post(f"{at}/dismiss", json=dismiss, headers=admin)
        assert answer.status_code == 409
        assert "cannot become dismissed" in answer.json()["detail"]
        assert http_client.get("/nightbench/api/alerts", headers=viewer).json() == {"alerts": []}
