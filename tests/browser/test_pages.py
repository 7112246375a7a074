"""The pages inside Airflow's UI in Chromium: by mouse and keyboard, light and dark, narrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect
from tests.browser.browsing import CASE, HOME, address, shoot, watched
from tests.integration.live_airflow import Live
from tests.sql.spooled import compared

from nightbench.warehouse import connect
from nightbench.warehouse.migrate import OWNER

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

SERIES = f"{HOME}/series?{urlencode({'case': CASE, 'cluster': 'local'})}"
PAGES = (
    HOME,
    SERIES,
    *(
        f"{HOME}/{each}"
        for each in (
            "explore",
            "runs",
            "compare",
            "compare?by=published",
            "experiments",
            "nodes",
        )
    ),
)
HOSTILE = "<img src=x onerror=alert(1)>\"'"


@pytest.fixture(autouse=True)
def quiet(page: Page, live: Live) -> Iterator[None]:
    """No page says an error, opens a dialog or asks another host."""
    found = watched(page, live)
    yield
    assert found == []


def in_theme(page: Page, theme: str) -> None:
    """Choose Airflow's colour mode."""
    page.evaluate("theme => localStorage.setItem('theme', theme)", theme)


def test_the_morning_is_a_page_of_airflow_s_own(
    page: Page, live: Live, dag_run: str, alert_id: int
) -> None:
    page.get_by_role("link", name="Benchmarks").first.click()
    expect(page.get_by_role("heading", name="New results")).to_be_visible(timeout=60_000)
    expect(page).to_have_url(re.compile(f"{HOME}$"))
    expect(page.locator("iframe")).to_have_count(0)
    expect(page.get_by_text("1 new alert")).to_be_visible()
    expect(page.get_by_role("table", name="New alerts")).to_contain_text(CASE)
    suites = page.get_by_role("table", name="The newest run of each suite")
    expect(suites.get_by_role("row").filter(has_text="good on local")).to_contain_text("2 of 2")
    shoot(page, "morning")
    suites.get_by_role("link", name="good on local").click()
    run_id = live.run_of(dag_run).run_id
    expect(page.get_by_role("heading", name=f"Run {run_id}")).to_be_visible()
    page.get_by_role("link", name="Run in Airflow").click()
    expect(page).to_have_url(re.compile("/dags/on_demand/runs/"))


def test_the_dashboard_says_what_is_new(page: Page, live: Live, alert_id: int) -> None:
    page.goto(address(live, "/"))
    card = page.get_by_role("region", name="Benchmarks")
    expect(card).to_contain_text("1 new alert", timeout=60_000)
    shoot(page, "dashboard")
    card.get_by_role("link", name="Benchmarks").click()
    expect(page.get_by_role("heading", name="New results")).to_be_visible()


def test_the_tab_of_a_dag_run_shows_its_results(page: Page, live: Live, dag_run: str) -> None:
    run_id = live.run_of(dag_run).run_id
    page.goto(address(live, f"/dags/on_demand/runs/{dag_run}"))
    page.get_by_role("link", name="Results").click()
    expect(page.get_by_role("heading", name=f"Run {run_id}")).to_be_visible(timeout=60_000)
    cases = page.get_by_role("table", name="Cases of this run")
    expect(cases).to_contain_text("insufficient data")
    expect(page.get_by_text("No MFU: sleep states no model FLOPs (2).")).to_be_visible()
    shoot(page, "run-tab")
    cases.get_by_role("link", name=CASE, exact=True).click()
    expect(page).to_have_url(re.compile(f"{HOME}/runs/{run_id}/{CASE}$"))
    repeats = page.get_by_role("table", name=re.compile("^Repeats of "))
    expect(repeats.get_by_role("row")).to_have_count(1 + 2)
    expect(page.get_by_text("none: sleep states no model FLOPs")).to_be_visible()


def test_the_tabs_of_a_dag_and_of_a_task_show_their_results(
    page: Page, live: Live, dag_run: str
) -> None:
    run_id = live.run_of(dag_run).run_id
    page.goto(address(live, "/dags/on_demand"))
    page.get_by_role("link", name="Results", exact=True).click(timeout=60_000)
    expect(page.get_by_role("table", name="Runs")).to_contain_text(run_id, timeout=60_000)
    page.goto(address(live, f"/dags/on_demand/runs/{dag_run}/tasks/measure/mapped/0"))
    page.get_by_role("link", name="Results", exact=True).click(timeout=60_000)
    expect(page.get_by_role("link", name=run_id, exact=True)).to_be_visible()
    # The case of this task and no other.
    expect(page.get_by_role("table", name=re.compile("^Repeats of "))).to_be_visible()
    shoot(page, "task-tab")


def test_two_sides_are_compared(page: Page, live: Live, dag_run: str, alert_id: int) -> None:
    run_id = live.run_of(dag_run).run_id
    with closing(connect(live.stack.dsn(OWNER))) as connection, connection.cursor() as cursor:
        # As if its cases were scripts that print an MFU of their own.
        cursor.execute(
            "update raw.measurement as m set reported = '{\"mfu_percent\": 43.5}'"
            " from raw.run as r where r.run_key = m.run_key and r.run_id = %s",
            (run_id,),
        )
        connection.commit()
    page.goto(address(live, f"{HOME}/compare?by=run"))
    form = page.get_by_role("form", name="Sides to compare")
    form.get_by_label("Baseline").fill(run_id, timeout=60_000)
    form.get_by_label("Compared with it").fill(run_id)
    page.keyboard.press("Enter")
    pairs = page.get_by_role("table", name="Pairs with equal work")
    expect(pairs.get_by_role("row")).to_have_count(1 + 2)
    expect(pairs).to_contain_text("1.000")
    expect(pairs.get_by_text("printed: mfu_percent 43.5", exact=True)).to_have_count(2 * 2)
    plot = page.get_by_role("group", name=re.compile("^Ratios of 2 pairs, sorted"))
    plot.focus()
    page.keyboard.press("Home")
    expect(page.get_by_text(re.compile(": 0.0 %"))).to_be_visible()
    page.get_by_text("Geometric mean of 2 ratios: 1.000 (0.0 %); by workload").click()
    means = page.get_by_role("table", name="Geometric means by workload")
    expect(means.get_by_role("row").first).to_be_visible()
    expect(means).to_contain_text("all")
    shoot(page, "compare")


def test_a_comparison_of_two_builds_shows_its_rounds(page: Page, live: Live) -> None:
    name = "ab-20261121T010203-9f3a"
    compared(live.spool, name, [0.9, 0.92, 0.91], by=HOSTILE)
    page.goto(address(live, f"{HOME}/experiments"))
    expect(page.get_by_role("heading", name="No waiting experiment")).to_be_visible(timeout=60_000)
    page.goto(address(live, f"{HOME}/experiments/{name}"))
    expect(page.get_by_role("heading", name=f"compare {name}")).to_be_visible(timeout=60_000)
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    rounds = page.get_by_role("table", name=f"Rounds of {CASE}")
    expect(rounds.get_by_role("row")).to_have_count(1 + 3)
    plot = page.get_by_role("group", name=re.compile("^B compared with A in 3 rounds"))
    plot.focus()
    page.keyboard.press("End")
    expect(page.get_by_text(re.compile("round 3: −9.0 %; all so far"))).to_be_visible()
    shoot(page, "comparison")


def test_a_series_is_read_by_keyboard(page: Page, live: Live, dag_run: str) -> None:
    page.goto(address(live, SERIES))
    plot = page.get_by_role("group", name=re.compile("^History of "))
    expect(plot.locator("canvas")).to_be_visible(timeout=60_000)
    plot.focus()
    page.keyboard.press("Home")
    expect(page.get_by_text(re.compile("UTC .* n = 2"))).to_be_visible()
    page.keyboard.press("Enter")
    run_id = live.run_of(dag_run).run_id
    expect(page).to_have_url(re.compile(f"{HOME}/runs/{run_id}/{CASE}$"))
    expect(page.get_by_role("table", name=re.compile("^Repeats of "))).to_be_visible()


def test_the_address_holds_what_is_chosen(page: Page, live: Live, dag_run: str) -> None:
    page.goto(address(live, f"{HOME}/explore"))
    series = page.get_by_role("table", name="Series")
    expect(series).to_contain_text(CASE, timeout=60_000)
    page.get_by_label("framework", exact=True).select_option("fake")
    expect(page).to_have_url(re.compile("framework=fake"))
    # Airflow mounts a plugin's page anew at the first change of the address: what is typed before
    # the choice shows is lost with the old one.
    expect(page.get_by_role("link", name="all series")).to_be_visible()
    page.get_by_role("textbox", name="Search series").fill("no such series")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No series matches these filters.")).to_be_visible()
    page.go_back()
    expect(series).to_contain_text(CASE)
    # The zoom of a plot too.
    page.goto(address(live, SERIES))
    page.get_by_role("button", name="30 days").click()
    expect(page).to_have_url(re.compile("from=.*&to="))


def test_series_are_grouped_and_seen_at_once(page: Page, live: Live, dag_run: str) -> None:
    page.goto(address(live, f"{HOME}/explore"))
    expect(page.get_by_role("table", name="Series")).to_be_visible(timeout=60_000)
    page.get_by_label("group by").select_option("nodes")
    expect(page.get_by_role("heading", name="nodes: 1")).to_be_visible()
    expect(page.get_by_role("heading", name="nodes: 2")).to_be_visible()
    expect(page.get_by_role("table", name="nodes: 1")).to_contain_text(CASE)
    page.get_by_label("shown").select_option("plots")
    small = page.get_by_role("article", name=CASE)
    expect(small.get_by_role("img")).to_be_visible()
    expect(page.get_by_role("heading", name="nodes: 2")).to_be_visible()
    small.get_by_role("link", name=CASE).click()
    expect(page.get_by_role("group", name=re.compile("^History of "))).to_be_visible()


def test_a_published_table_has_its_figures(page: Page, live: Live, dag_run: str) -> None:
    page.goto(address(live, f"{HOME}/compare?by=published"))
    table = page.get_by_role("link", name=re.compile("^paddle-fleetx r50"))
    table.click(timeout=60_000)
    expect(page.get_by_role("table", name="Published values")).to_contain_text("resnet50_v1.5")
    expect(page.get_by_role("figure").first).to_be_visible()


def test_nodes_say_how_full_the_night_was(page: Page, live: Live, dag_run: str) -> None:
    page.goto(address(live, f"{HOME}/nodes"))
    load = page.get_by_role("table", name="Load of the nodes in the last night")
    expect(load).to_contain_text("good: ", timeout=60_000)
    expect(page.get_by_text("No Nightbench job is using or waiting for a node")).to_be_visible()
    expect(page.get_by_role("heading", name="Detector quality on local")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_fit_a_narrow_screen_in_airflow_s_colours(
    page: Page, live: Live, alert_id: int, theme: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    in_theme(page, theme)
    for path in (*PAGES, f"{HOME}/alerts", f"{HOME}/alerts/{alert_id}"):
        page.goto(address(live, path))
        expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=60_000)
        expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        content = page.get_by_test_id("main-content")
        wide = content.evaluate("element => element.scrollWidth - element.clientWidth")
        assert wide <= 0, path
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (theme == "light")
        name = path.removeprefix(HOME).partition("?")[0].strip("/").replace("/", "-") or "morning"
        shoot(page, f"narrow-{name}-{theme}")


@pytest.mark.parametrize(
    "path",
    [
        *("", "explore", "series", "runs/x", "runs/x/x", "alerts/x", "compare"),
        *("experiments", "experiments/x"),
    ],
)
def test_an_address_is_never_markup(page: Page, live: Live, dag_run: str, path: str) -> None:
    query = urlencode(dict.fromkeys(("search", "case", "cluster", "state", "days"), HOSTILE))
    page.goto(address(live, f"{HOME}/{path}?{query}"))
    expect(page.get_by_role("navigation", name="Benchmarks")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    assert page.locator("img[src=x]").count() == 0
