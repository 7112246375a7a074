"""The page of one case of a run in Chromium: steps, samples, logs, and measuring it again."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect
from tests.browser.browsing import CASE, address, shoot, watched
from tests.integration.live_airflow import Live

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]


def case_page(live: Live, run_id: str, query: str = "") -> str:
    return address(live, f"/plugin/benchmarks/runs/{run_id}/{CASE}{query}")


def test_steps_are_read_by_keyboard_and_the_address_holds_the_repeat(
    page: Page, live: Live, dag_run: str
) -> None:
    found = watched(page, live)
    page.goto(case_page(live, live.run_of(dag_run).run_id))
    plot = page.get_by_role("group", name=re.compile("^Step times of trainer-0: 20 steps"))
    expect(plot.locator("canvas")).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Repeat 1", exact=True).click()
    expect(page).to_have_url(re.compile("repeat=1"))
    expect(page.get_by_text(re.compile(r"^fake 1\.0, Python 3\.\d+\.\d+$"))).to_be_visible()
    expect(page.get_by_role("heading", name="Step times of repeat 1")).to_be_visible()
    plot.focus()
    page.keyboard.press("End")
    expect(page.get_by_text(re.compile("trainer-0, step 20: .* ms"))).to_be_visible()
    page.keyboard.press("Home")
    expect(page.get_by_text("trainer-0, warm-up step 1: – ms")).to_be_visible()
    page.get_by_role("button", name="Show samples of the nodes").click()
    samples = page.get_by_role("table", name="Samples of the nodes")
    expect(samples).to_contain_text("n1: CPU", timeout=60_000)
    expect(page.get_by_text("are not sampled")).to_be_visible()
    page.get_by_text(re.compile("^n1: [0-9]+ fields$")).click()
    expect(page.get_by_role("table", name="Fingerprint of n1")).to_contain_text("kernel")
    shoot(page, "case")
    assert found == []


def test_a_case_that_failed_shows_its_log_and_what_changed(
    page: Page, live: Live, alert_id: int
) -> None:
    found = watched(page, live)
    page.goto(address(live, f"/plugin/benchmarks/alerts/{alert_id}"))
    run = page.get_by_text("Opened by run").locator("xpath=..").get_by_role("link")
    run.click(timeout=60_000)
    page.get_by_role("link", name=CASE, exact=True).click()
    log = page.get_by_role("region", name="Log of trainer-0")
    expect(log).to_contain_text("injected fault: die", timeout=60_000)
    expect(page.get_by_role("region", name="Traceback")).to_contain_text("injected fault: die")
    checks = page.get_by_role("table", name="Failed checks")
    expect(checks).to_contain_text("case ended well")
    changes = page.get_by_role("table", name="Changes since the last good run")
    expect(changes).to_contain_text("definition of the case")
    shoot(page, "case-failed")
    assert found == []


def test_a_viewer_cannot_have_it_measured_again(page: Page, live: Live, dag_run: str) -> None:
    page.goto(case_page(live, live.run_of(dag_run).run_id))
    expect(page.get_by_text("Users with permission to trigger the DAG")).to_be_visible(
        timeout=60_000
    )
    expect(page.get_by_role("button", name="Measure again…")).to_have_count(0)
    # What the button would send.
    answer = page.request.post(
        address(live, "/api/v2/dags/on_demand/dagRuns"),
        data={"logical_date": None, "conf": {"suite": "good", "cases": [CASE]}},
    )
    assert answer.status == 403


def test_it_is_measured_again_where_it_is_seen(admin: Page, live: Live, dag_run: str) -> None:
    found = watched(admin, live)
    admin.goto(case_page(live, live.run_of(dag_run).run_id))
    admin.get_by_role("button", name="Measure again…").click(timeout=60_000)
    form = admin.get_by_role("form", name="Measure again")
    form.get_by_label("Repeats").fill("1")
    shoot(admin, "again")
    expect(form).to_contain_text("with the scale and builds of the original request")
    # Where Airflow does not say what they were, the suite's own are not taken for them.
    admin.route("**/dags/on_demand/dagRuns/*", lambda route: route.fulfill(status=404))
    form.get_by_role("button", name="Trigger").click()
    expect(
        form.get_by_text("Nothing was triggered, because Airflow does not return the scale")
    ).to_be_visible()
    expect(admin.get_by_role("link", name=re.compile("^manual__"))).to_have_count(0)
    admin.unroute("**/dags/on_demand/dagRuns/*")
    form.get_by_role("button", name="Trigger").click()
    link = admin.get_by_role("link", name=re.compile("^manual__"))
    expect(link).to_be_visible(timeout=60_000)
    again = link.inner_text()
    assert live.ended(again) == "success"
    (row,) = live.rows(live.run_of(again).run_id)
    assert (row["case_id"], row["run_kind"], row["n"]) == (CASE, "on_demand", 1)
    assert found == []
