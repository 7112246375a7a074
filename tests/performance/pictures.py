"""The pictures of the documentation, made again from a whole stack on a generated history.

    python -m tests.performance pictures [--to docs/images] [--series 300] [--nights 200]
        [--keep FOLDER]

Chromium opens each page at 1280 pixels, light, as a reader sees it after logging in; each picture
is written as a PNG of 256 colours, and the address, file and size of each are a line of JSON on
stdout. Medians and closed alerts are drawn; verdicts, alerts and causes of the last nights are
those of the project's own code (see `warehouse`), and so is the answer of the experiment, whose
launches are drawn.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from tests.browser.browsing import HOME, logged_in
from tests.browser.conftest import ARGUMENTS, chromium
from tests.contained import folder_of_server
from tests.performance.pages import API, reading_client, running_stack
from tests.performance.warehouse.history import opened

from nightbench.config import load_catalog, load_cluster, load_suite, parse_build
from nightbench.core.errors import UserError
from nightbench.experiments import comparison
from nightbench.experiments.experiment_reader import read_experiment
from nightbench.experiments.rounds import Arm, Launch, progress
from nightbench.local.deployment import Logins
from nightbench.local.home import Home
from nightbench.spool import Spool

REPO = Path(__file__).resolve().parents[2]
IMAGES = REPO / "docs" / "images"
WIDTH, HEIGHT = 1280, 900
COLOURS = 256
NIGHTS_OF_RANKS = 2
"""Nights of which ranks have their steps: no page here shows them."""
ROUNDS = 8
SLOWER_BY = 0.031
"""Of the drawn launches of the second build."""
SETTLE_MS = 1500
"""What plots and late answers of a page take after its content is there."""

PATIENCE_MS = 180_000
"""For a page, on a machine that is busy."""


def main(words: list[str]) -> int:
    """The command line; writes the pictures and prints a line for each."""
    parser = argparse.ArgumentParser(
        prog="tests.performance pictures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--to", type=Path, default=IMAGES, help="folder of the pictures")
    parser.add_argument("--series", type=int, default=300)
    parser.add_argument("--nights", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="folder of the servers; stays, to be used again")
    asked = parser.parse_args(words)
    binary = chromium()
    if binary is None:
        parser.error("there is no Chromium here (Debian's package chromium)")
    folder = asked.keep.absolute() if asked.keep else folder_of_server("nbpictures-")
    try:
        with opened(asked.series, asked.nights, NIGHTS_OF_RANKS, folder):
            pass  # filled
        store_comparison(folder)
        with running_stack(Home(folder)) as login:
            for line in take(login, binary, asked.to):
                print(json.dumps(line), flush=True)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if asked.keep is None:
            shutil.rmtree(folder)
    return 0


COMPARED = "compare-20261126T101500-7c1e"


def store_comparison(home: Path) -> None:
    """Store a comparison of two builds whose launches are drawn; the answer is the real code's."""
    spool = Spool(home / "spool")
    if read_experiment(spool, COMPARED) is not None:
        return
    catalog = load_catalog(REPO / "benchmarks")
    cluster = load_cluster(REPO / "dags/clusters/local.yaml", catalog=catalog)
    suite = load_suite(REPO / "dags/suites/cpu.yaml", catalog, cluster=cluster)
    request = {"a": "pytorch=2.12.0", "b": "pytorch=2.13.0", "suite": suite.name, "seed": 1}
    plan = comparison.plan_comparison(
        comparison.ComparisonContext(suite, cluster, catalog),
        (parse_build(request["a"]), parse_build(request["b"])),
        comparison_id=COMPARED,
        rounds=ROUNDS,
        min_effect=0.01,
        seed=1,
    )
    folder = comparison.store_comparison(plan, spool, request, "ada")
    drawn = random.Random(1)
    for case in plan.cases:
        level = drawn.uniform(20, 400)
        while True:
            done = comparison.ended_launches(folder, case.case_id)
            following = progress(case.order, done).next
            if following is None:
                break
            number, arm = following
            value = level * drawn.lognormvariate(0, 0.004)
            if arm is Arm.B:
                value *= 1 - SLOWER_BY
            store = folder.case(case.case_id, len(done))
            comparison.save_launch(store, Launch(number, arm, "ok", value))
    comparison.save_result(folder, comparison.make_result(plan, folder))


def take(login: Logins, binary: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Open each page and write its picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(reading_client(login)) as client:
        pages = addresses(client)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=ARGUMENTS)
        size = {"width": WIDTH, "height": HEIGHT}
        with closing(browser.new_context(viewport=size, color_scheme="light")) as context:
            context.set_default_timeout(PATIENCE_MS)
            page = logged_in(context, login.ui, login.viewer, login.viewer_password)
            for name, (path, content) in pages.items():
                page.goto(login.ui + path)
                page.locator(content).first.wait_for()
                if name == "detector":  # at the end of its page
                    page.locator(content).first.scroll_into_view_if_needed()
                page.wait_for_timeout(SETTLE_MS)
                file = folder / f"{name}.png"
                file.write_bytes(shot(page))
                yield {"name": name, "path": path, "bytes": file.stat().st_size}
        browser.close()


def shot(page: Page) -> bytes:
    """Return the page as a PNG of few colours: a third of the size, and no difference to see."""
    whole = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    small = whole.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    written = io.BytesIO()
    small.save(written, "PNG", optimize=True)
    return written.getvalue()


def addresses(client: httpx.Client) -> Mapping[str, tuple[str, str]]:
    """Return the address of each page, and a selector of what it shows last."""

    def read(path: str) -> Any:
        return client.get(f"{API}/{path}").raise_for_status().json()

    rows, plot = "table tbody tr:visible", ".uplot canvas"
    alerts = read("alerts?state=open&size=100")["alerts"]
    fallen = max(
        (each for each in alerts if each["verdict"] == "regressed"),
        key=lambda each: -each["change"],
    )
    series = urlencode({"case": fallen["case_id"], "cluster": fallen["cluster"]})
    versions = [each for each in read("compare/sides?by=version")["items"] if "pytorch" in each]
    last, newest = sorted(versions, key=lambda each: float(each.split()[-1]))[-2:]
    builds = urlencode({"by": "version", "one": last, "other": newest})
    figure = max(read("published")["items"], key=lambda each: each["measured"])
    named = {"source": figure["source_document"], "figure": figure["figure"]}
    published = urlencode({"by": "published", **named})
    return {
        "morning": (f"{HOME}?days=3", rows),
        "overview": (f"{HOME}/explore", rows),
        "series": (f"{HOME}/series?{series}", plot),
        "alert": (f"{HOME}/alerts/{fallen['alert_id']}", plot),
        "compare": (f"{HOME}/compare?{builds}", rows),
        "experiment": (f"{HOME}/experiments/{COMPARED}", rows),
        "published": (f"{HOME}/compare?{published}", rows),
        "nodes": (f"{HOME}/nodes", rows),
        "detector": (f"{HOME}/nodes", "h3:has-text('Detector quality')"),
    }
