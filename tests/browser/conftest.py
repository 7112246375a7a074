"""One Airflow and one Chromium for all tests of this folder.

Needs Debian's `chromium` (or `NIGHTBENCH_CHROMIUM=/path/to/chromium`). Screenshots go to the
folder that `NIGHTBENCH_SCREENSHOTS` names.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from tests.browser.browsing import alerts, logged_in
from tests.integration.live_airflow import Live, live_airflow

from nightbench.local import deployment


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    dies = {"devices": "[1x1]", "repeats": 1, "env": '{FAKE_DIE_AT_STEP: "3"}'}
    trains = {"devices": "[2x1]", "repeats": 1}
    with live_airflow({"good": {"repeats": 2}, "dies": dies, "trains": trains}) as running:
        yield running


@pytest.fixture(scope="session")
def dag_run(live: Live) -> str:
    """A run that has been measured, loaded and judged."""
    dag_run = live.trigger("good", run_kind="nightly")
    assert live.ended(dag_run) == "success"
    live.judged(live.run_of(dag_run).run_id)
    return dag_run


@pytest.fixture(scope="session")
def alert_id(live: Live, dag_run: str) -> int:
    """An alert of a case that failed in a nightly run."""
    run = live.trigger("dies", run_kind="nightly")
    assert live.ended(run) == "failed"
    live.judged(live.run_of(run).run_id)
    (alert,) = live.until(lambda: alerts(live), "the alert")
    return int(alert["alert_id"])


ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


def chromium() -> str | None:
    """The program; None if there is none."""
    return os.environ.get("NIGHTBENCH_CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    binary = chromium()
    if not binary:
        pytest.skip("needs Chromium (Debian's package chromium)")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=binary, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with closing(browser.new_context(viewport={"width": 1280, "height": 900})) as opened:
        yield opened


@pytest.fixture
def page(context: BrowserContext, live: Live) -> Page:
    """A page after the viewer has logged in."""
    access = deployment.logins(live.stack.home)
    return logged_in(context, access.ui, access.viewer, access.viewer_password)


@pytest.fixture
def admin(context: BrowserContext, live: Live) -> Page:
    """A page after the administrator has logged in."""
    access = deployment.logins(live.stack.home)
    return logged_in(context, access.ui, access.user, access.password)
