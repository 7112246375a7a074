"""A line that trains differently from its sixth night on: alert, confirmation, and pages.

The file is the last one of this folder: the others count the alerts of the Airflow that all share.
"""

from __future__ import annotations

import re
from contextlib import closing

import pytest
from playwright.sync_api import Page, expect
from tests.browser.browsing import CASE, address, alerts, shoot, watched
from tests.integration.live_airflow import Live, write_suite

from nightbench.core.model.experiments import ExperimentKind
from nightbench.warehouse import Warehouse, connect

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(3000)]

NIGHTS, SIXTH = 6, 5
TRAINS = CASE.replace("1x1", "2x1")  # the alert of other tests is about the other


@pytest.fixture(scope="module")
def alert_id(live: Live) -> int:
    """Six nights through the scheduler; in the sixth all losses are a tenth larger."""
    for night in range(NIGHTS):
        env = '{FAKE_LOSS_FACTOR: "1.1"}' if night >= SIXTH else "{}"
        write_suite(live.place / "dags", "trains", {"devices": "[2x1]", "repeats": 1, "env": env})
        dag_run = live.trigger("trains", run_kind="nightly")
        assert live.ended(dag_run, wait_s=1200) == "success"
        live.judged(live.run_of(dag_run).run_id)
        found = [each for each in alerts(live) if each["verdict"] == "training_changed"]
        assert len(found) == (night >= SIXTH), f"night {night + 1}"
    return int(found[0]["alert_id"])


def confirmed(live: Live) -> list[str]:
    with closing(connect(live.stack.dsn("nightbench_reader"))) as connection:
        rows = Warehouse(connection).experiments.find(kinds=[ExperimentKind.CONFIRM])
    return [row["result"]["outcome"] for row in rows if row["state"] == "done"]


def test_the_change_is_confirmed_and_the_page_plots_both_nights(
    page: Page, live: Live, alert_id: int
) -> None:
    found = watched(page, live)
    page.goto(address(live, f"/plugin/benchmarks/alerts/{alert_id}"))
    said = page.get_by_text(
        re.compile("^Training changed: sleep on fake, first loss .* throughput")
    )
    expect(said.first).to_be_visible(timeout=60_000)
    shoot(page, "training-alert")
    page.goto(address(live, f"/plugin/benchmarks/series?case={TRAINS}&cluster=local"))
    plot = page.get_by_role("group", name=re.compile(f"^Losses of {TRAINS}: 21 steps of 2 curves"))
    expect(plot.locator("canvas")).to_be_visible(timeout=60_000)
    plot.focus()
    page.keyboard.press("Home")
    expect(page.get_by_text(re.compile(r"^step 1: tonight \S+, good \S+$"))).to_be_visible()
    shoot(page, "losses")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(plot.locator("canvas")).to_be_visible()
    shoot(page, "losses-narrow")
    assert found == []
    assert live.until(lambda: confirmed(live), "the confirmation", 1200) == ["confirmed"]
