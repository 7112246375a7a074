"""The results page in Chromium, inside Airflow's UI and on a narrow screen.

Needs Debian's `chromium` (or `NIGHTBENCH_CHROMIUM=/path/to/chromium`). Screenshots go to the
folder that `NIGHTBENCH_SCREENSHOTS` names.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from tests.integration.live_airflow import Live, live_airflow

from nightbench.stack import supervisor

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

CASE = "sleep-fake-collective-1x1-bs2-smoke"


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with live_airflow({"good": {"repeats": 2}}) as running:
        yield running


@pytest.fixture(scope="module")
def dag_run(live: Live) -> str:
    """A run that has been measured, loaded and judged."""
    dag_run = live.trigger("good", run_kind="nightly")
    assert live.ended(dag_run) == "success"
    live.judged(live.run_of(dag_run).run_id)
    return dag_run


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    binary = os.environ.get("NIGHTBENCH_CHROMIUM") or shutil.which("chromium")
    if not binary:
        pytest.skip("no Chromium here (package chromium)")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=binary,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield running
        running.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with closing(browser.new_context(viewport={"width": 1280, "height": 900})) as opened:
        yield opened


@pytest.fixture
def page(context: BrowserContext, live: Live) -> Page:
    """A page after the viewer has logged in."""
    access = supervisor.access(live.stack.home)
    page = context.new_page()
    page.goto(access.ui)
    page.locator("input[name=username]").fill(access.viewer)
    page.locator("input[type=password]").fill(access.viewer_password)
    page.locator("button[type=submit]").click()
    page.wait_for_url(re.compile(r"^(?!.*login)"), timeout=60_000)
    return page


def address(live: Live, path: str) -> str:
    return supervisor.access(live.stack.home).ui + path


def shoot(page: Page, name: str) -> None:
    folder = os.environ.get("NIGHTBENCH_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def test_anonymous_is_refused(context: BrowserContext, live: Live, dag_run: str) -> None:
    page = context.new_page()
    for path in ("/nightbench/", "/nightbench/style.css", "/nightbench/?run=x"):
        answer = page.goto(address(live, path))
        assert answer is not None
        assert answer.status == 401
        assert CASE not in page.content()


def test_the_page_in_the_navigation_shows_the_run(page: Page, live: Live, dag_run: str) -> None:
    page.get_by_role("link", name="Benchmarks").first.click()
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Latest medians")).to_be_visible(timeout=60_000)
    expect(frame.locator("tbody").first).to_contain_text(CASE)
    expect(frame.locator("figure svg circle").first).to_be_visible()
    shoot(page, "results")
    # A link to the UI's own pages leaves the frame, which may not navigate what is around it.
    frame.locator("tbody").first.locator("a[href*='run=']").first.click()
    expect(frame.get_by_text("The run in Airflow")).to_be_visible()
    frame.get_by_text("The run in Airflow").click()
    page.wait_for_url(re.compile("/dags/on_demand/runs/"), timeout=60_000)


def test_the_tab_of_a_dag_run_shows_its_results(page: Page, live: Live, dag_run: str) -> None:
    run_id = live.run_of(dag_run).run_id
    page.goto(address(live, f"/dags/on_demand/runs/{dag_run}"))
    page.get_by_role("link", name="Results").click()
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name=f"Run {run_id}")).to_be_visible(timeout=60_000)
    expect(frame.locator("tbody")).to_contain_text("insufficient data")
    shoot(page, "run-tab")


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


def test_the_trigger_form_offers_suites_and_clusters(
    context: BrowserContext, live: Live, dag_run: str
) -> None:
    access = supervisor.access(live.stack.home)
    page = context.new_page()
    page.goto(access.ui)
    page.locator("input[name=username]").fill(access.user)
    page.locator("input[type=password]").fill(access.password)
    page.locator("button[type=submit]").click()
    page.wait_for_url(re.compile(r"^(?!.*login)"), timeout=60_000)
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
