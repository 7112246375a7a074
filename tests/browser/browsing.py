"""Helpers of the tests in Chromium."""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, Request
from tests.integration.live_airflow import Live

from nightbench.local import deployment
from nightbench.warehouse import Warehouse, connect

HOME = "/plugin/benchmarks"
"""Address of the pages within Airflow."""

CASE = "sleep-fake-collective-1x1-bs2-smoke"


def alerts(live: Live) -> list[dict[str, Any]]:
    with closing(connect(live.stack.dsn("nightbench_reader"))) as connection:
        return Warehouse(connection).alerts.find()


def logged_in(context: BrowserContext, ui: str, user: str, password: str) -> Page:
    page = context.new_page()
    page.goto(ui)
    page.locator("input[name=username]").fill(user)
    page.locator("input[type=password]").fill(password)
    page.locator("button[type=submit]").click()
    page.wait_for_url(re.compile(r"^(?!.*login)"), timeout=60_000)
    return page


def address(live: Live, path: str) -> str:
    return deployment.logins(live.stack.home).ui + path


def shoot(page: Page, name: str) -> None:
    folder = os.environ.get("NIGHTBENCH_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def watched(page: Page, live: Live) -> list[str]:
    """What a page does and must not: errors, dialogs, requests to other hosts; filled as it goes.

    An answer 4xx is no error of the page: it shows what the answer says.
    """
    found: list[str] = []
    ours = urlsplit(address(live, "")).netloc

    def requested(request: Request) -> None:
        if urlsplit(request.url).netloc not in (ours, ""):
            found.append(request.url)

    def said(kind: str, text: str) -> None:
        if kind == "error" and "status of 4" not in text:
            found.append(text)

    page.on("console", lambda message: said(message.type, message.text))
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("dialog", lambda dialog: found.append(dialog.message))
    page.on("request", requested)
    return found
