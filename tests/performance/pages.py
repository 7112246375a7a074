"""How long the pages' JSON API takes on a live Airflow: one reader, then ten at once.

    python -m tests.performance pages [--series 500] [--nights 365] [--readers 10] [--keep FOLDER]

A whole stack is started on a generated history (see `warehouse`). Each route is one line of JSON
on stdout: `name`, `readers`, `first_ms` (of one reader, nothing read before), `later_ms` (the
median), `slowest_ms`, `bytes`. Beside them Airflow's own health check, asked for twice a second:
`health` with no reader, with one, and while all read. Wanted: a first view within 1,000 ms, later
ones within 300 ms, and a health check that does not get slower.

Where Chromium is installed, pages are opened in it too, from the address to the first row or plot:
`first_ms` with an empty cache, `later_ms` with a full one. Airflow's UI is loaded around them:
`in_browser_airflow` is its own list of DAGs. `in_browser_to_…` is a click from one page to another.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from playwright.sync_api import Page, sync_playwright
from tests.browser.browsing import HOME, logged_in
from tests.browser.conftest import ARGUMENTS, chromium
from tests.contained import folder_of_server
from tests.performance.warehouse.history import opened

from nightbench.core.errors import UserError
from nightbench.local import deployment, lifecycle
from nightbench.local.home import Home

NIGHTS_OF_RANKS = 2
"""Nights of which ranks have their steps: no route here reads them."""
ROUNDS = 3
HEALTH_S = 0.5
QUIET_S = 10.0
API = "/nightbench/api"
MORNING = "morning?days=1"
HEALTH = "/api/v2/monitor/health"


def main(words: list[str]) -> int:
    """The command line; prints the figures."""
    parser = argparse.ArgumentParser(
        prog="tests.performance pages",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--series", type=int, default=500)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--readers", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="folder of the servers; stays, to be used again")
    asked = parser.parse_args(words)
    folder = asked.keep.absolute() if asked.keep else folder_of_server("nbpages-")
    try:
        with opened(asked.series, asked.nights, NIGHTS_OF_RANKS, folder):
            pass  # filled
        with running_stack(Home(folder)) as login:
            for figure in chain(_figures(login, asked.readers), _in_browser(login)):
                print(json.dumps(figure), flush=True)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if asked.keep is None:
            shutil.rmtree(folder)
    return 0


@contextmanager
def running_stack(home: Home) -> Iterator[deployment.Logins]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NIGHTBENCH_HOME", str(home.root))
        try:
            for line in lifecycle.up(home):
                print(line, file=sys.stderr, flush=True)
            yield deployment.logins(home)
        finally:
            for line in lifecycle.down(home):
                print(line, file=sys.stderr, flush=True)


def reading_client(login: deployment.Logins) -> httpx.Client:
    client = httpx.Client(base_url=login.ui, trust_env=False, timeout=120)
    user = {"username": login.viewer, "password": login.viewer_password}
    token = client.post("/auth/token", json=user).raise_for_status().json()["access_token"]
    client.headers["Authorization"] = f"Bearer {token}"
    return client


def _figures(login: deployment.Logins, readers: int) -> Iterator[dict[str, Any]]:
    with closing(reading_client(login)) as client:
        with _health(client) as quiet:
            time.sleep(QUIET_S)
        yield _line("health", 0, quiet)
        first: dict[str, float] = {}
        sizes: dict[str, int] = {}
        with _health(client) as alone:
            # What is asked for first of all also waits for code that is loaded then.
            first["morning"], sizes["morning"] = _timed(client, MORNING)
            routes = _routes(client)
            for name in routes.keys() - first.keys():
                first[name], sizes[name] = _timed(client, routes[name])
            spent = _read(login, routes, 0)
        yield _line("health", 1, alone)
        for name in routes:
            yield _line(name, 1, spent[name], first_ms=first[name], bytes=sizes[name])
        with _health(client) as busy, ThreadPoolExecutor(readers) as pool:
            every = list(pool.map(lambda n: _read(login, routes, n), range(readers)))
        yield _line("health", readers, busy)
        for name in routes:
            yield _line(name, readers, [each for spent in every for each in spent[name]])


def _in_browser(login: deployment.Logins) -> Iterator[dict[str, Any]]:
    """Open pages in Chromium, each with an empty cache first."""
    binary = chromium()
    if binary is None:
        print("no Chromium here: pages are not opened in it", file=sys.stderr)
        return
    with closing(reading_client(login)) as client, sync_playwright() as playwright:
        series = _series(client)
        of = urlencode({"case": series["case_id"], "cluster": series["cluster"]})
        shown = {
            "airflow": ("/dags", "a[href*='/dags/']"),
            "morning": (HOME, "table tbody tr"),
            "explore": (f"{HOME}/explore", "table tbody tr"),
            "series": (f"{HOME}/series?{of}", ".uplot canvas"),
            "nodes": (f"{HOME}/nodes", "table tbody tr"),
        }
        browser = playwright.chromium.launch(executable_path=binary, args=ARGUMENTS)
        for name, (path, content) in shown.items():
            spent = []
            with closing(browser.new_context()) as context:
                page = logged_in(context, login.ui, login.viewer, login.viewer_password)
                # The login has filled the cache with the UI's own files.
                context.new_cdp_session(page).send("Network.clearBrowserCache")
                for _ in range(1 + ROUNDS):
                    page.goto(login.ui + path, wait_until="commit")
                    spent.append(_shown_at(page, content))
            yield _line(f"in_browser_{name}", 1, spent[1:], first_ms=round(spent[0], 1))
        with closing(browser.new_context()) as context:
            page = logged_in(context, login.ui, login.viewer, login.viewer_password)
            for name, path in (("Series", "explore"), ("Nodes", "nodes")):
                spent = []
                for _ in range(1 + ROUNDS):
                    page.goto(login.ui + HOME)
                    link = page.get_by_role("link", name=name, exact=True)
                    link.wait_for(timeout=60_000)
                    _shown_at(page, "table tbody tr")
                    clicked = link.evaluate(
                        "link => { const now = performance.now(); link.click(); return now; }"
                    )
                    spent.append(_shown_at(page, "table tbody tr", heading=name) - clicked)
                yield _line(f"in_browser_to_{path}", 1, spent[1:], first_ms=round(spent[0], 1))
        browser.close()


def _shown_at(page: Page, content: str, heading: str = "") -> float:
    """Milliseconds from the page's start until it shows `content` (a selector) below `heading`.

    Asked in the page at each frame: Playwright's own waiting looks only every 500 ms.
    """
    program = """([content, heading]) => {
        const title = document.querySelector("h1")?.textContent.trim();
        if (heading && title !== heading) return false;
        return document.querySelector(content) !== null && performance.now();
    }"""
    at = page.wait_for_function(program, arg=[content, heading], polling="raf", timeout=60_000)
    return float(at.json_value())


def _series(client: httpx.Client) -> dict[str, Any]:
    """The series that has changed most."""
    found = client.get(f"{API}/series?size=1&sort=change").raise_for_status().json()
    series: dict[str, Any] = found["items"][0]
    return series


def _routes(client: httpx.Client) -> dict[str, str]:
    """What the pages ask for, by the name of the page; ids are those of the history."""

    def read(path: str) -> Any:
        return client.get(f"{API}/{path}").raise_for_status().json()

    run_id = read("runs?size=1")["items"][0]["run_id"]
    series = _series(client)
    of = f"{quote(series['cluster'], safe='')}/{quote(series['case_id'], safe='')}"
    found = {
        "morning": MORNING,
        "axes": "axes",
        "explore": "series?size=50",
        "explore_plots": "series?size=24&sort=change&together=framework&framework=pytorch",
        "series": f"series/{of}",
        "compare": "compare?by=framework&one=pytorch&other=paddle3",
        "published": "published",
        "runs": "runs",
        "run": f"runs/{quote(run_id, safe='')}",
        "alerts": "alerts/groups",
        "nodes": "nodes",
        "node_activity": "nodes/activity",
        "trust": "trust",
    }
    if alerts := read("alerts?state=all&size=1")["alerts"]:
        found["alert"] = f"alerts/{alerts[0]['alert_id']}"
    return found


def _read(login: deployment.Logins, routes: dict[str, str], begin: int) -> dict[str, list[float]]:
    """Read every route some times, each reader in another order; milliseconds of each."""
    names = list(routes)
    turned = [*names[begin % len(names) :], *names[: begin % len(names)]]
    spent: dict[str, list[float]] = {name: [] for name in names}
    with closing(reading_client(login)) as client:
        for name in turned * ROUNDS:
            spent[name].append(_timed(client, routes[name])[0])
    return spent


def _timed(client: httpx.Client, path: str) -> tuple[float, int]:
    began = time.perf_counter()
    answer = client.get(f"{API}/{path}").raise_for_status()
    return round(1000 * (time.perf_counter() - began), 1), len(answer.content)


@contextmanager
def _health(client: httpx.Client) -> Iterator[list[float]]:
    """Ask for Airflow's health all the while; milliseconds."""
    spent: list[float] = []
    over = Event()

    def watch() -> None:
        while not over.wait(HEALTH_S):
            began = time.perf_counter()
            client.get(HEALTH).raise_for_status()
            spent.append(1000 * (time.perf_counter() - began))

    thread = Thread(target=watch)
    thread.start()
    try:
        yield spent
    finally:
        over.set()
        thread.join()


def _line(name: str, readers: int, spent: list[float], **more: Any) -> dict[str, Any]:
    figures = {"later_ms": None, "slowest_ms": None}
    if spent:
        figures = {
            "later_ms": round(statistics.median(spent), 1),
            "slowest_ms": round(max(spent), 1),
        }
    return {"name": name, "readers": readers, **figures, **more}
