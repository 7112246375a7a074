"""The site that `nightbench publish` writes, opened from the disk: no server, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.browser.browsing import shoot

from nightbench.core.model import Case, Publication, Strategy, Suite
from nightbench.report.site import SiteWriter
from nightbench.report.site_folder import SiteFolder

NIGHTS = 120
FALLS = 90
CASE = "vgg16-pytorch-collective-1x1-bs8"
DAY = 86400
FIRST = 1_790_000_000


class Stored:
    """What the warehouse would answer: two lines on one and two nodes, two versions each."""

    def __init__(self) -> None:
        self._cases = [
            Case("vgg16", line, Strategy.COLLECTIVE, nodes, 1, nodes, batch_size_per_device=8)
            for line in ("paddle3", "pytorch")
            for nodes in (1, 2)
        ]

    def series(self) -> list[dict[str, Any]]:
        same = {"cluster": "a100", "is_synthetic": True, "scale": "full", "untried": None}
        return [
            {**same, **case.axes(), "axes": case.axes(), "case_id": case.case_id}
            for case in self._cases
        ]

    def points(self, series: list[dict[str, Any]]) -> Iterator[tuple[Any, Any]]:
        for row in series:
            levels = [100.0 * row["trainers"] * (0.9 if i >= FALLS else 1) for i in range(NIGHTS)]
            yield (
                row,
                {
                    "unit": "images",
                    "at": [FIRST + DAY * i for i in range(NIGHTS)],
                    "median": levels,
                    "low": [0.99 * x for x in levels],
                    "high": [1.01 * x for x in levels],
                    "half_width": [0.01] * NIGHTS,
                    "n": [7] * NIGHTS,
                    "version": ["2.0" if i < FALLS else "2.1" for i in range(NIGHTS)],
                    "build": ["b"] * NIGHTS,
                    "definition": ["d"] * NIGHTS,
                    "node_names": [None] * NIGHTS,
                },
            )

    def changes(self) -> list[dict[str, Any]]:
        names = ("closed_at", "dismissed_as", "group_key", "cause_sentence", "notes")
        confirmed = {f"confirmation_{name}": None for name in ("ratio", "low", "high", "rounds")}
        fell = datetime.fromtimestamp(FIRST + DAY * FALLS, UTC)
        return [
            {
                **dict.fromkeys(names),
                **confirmed,
                **{"alert_id": 7, "case_id": CASE, "cluster": "a100", "framework": "pytorch"},
                "metric": "throughput",
                **{"state": "open", "opened_at": fell, "since": fell, "change": -0.1},
                **{"change_low": -0.11, "change_high": -0.09, "confirmation": "confirmed"},
                "cause": "framework_version",
            }
        ]

    def shown(self, name: str) -> list[dict[str, Any]]:
        return {"site_series": self.series, "site_changes": self.changes}.get(name, list)()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("site")
    suite = Suite("vgg", "somebody", "a100", (), publish=Publication())
    stored: Any = Stored()
    assert SiteWriter([suite], stored, SiteFolder(str(folder))).write() == 4
    for first in ("index.html", "w/vgg16/pytorch.html", f"s/a100/{CASE}.html"):
        loaded = (folder / first, folder / "site.css", folder / "site.js")
        assert sum(path.stat().st_size for path in loaded) < 60_000, first
    return Path(folder).as_uri()


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["wide", "phone"])
def visitor(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    width, scheme = request.param
    size: Any = {"width": width, "height": 900}
    with closing(browser.new_context(viewport=size, color_scheme=scheme)) as context:
        page = context.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("requestfailed", lambda request: wrong.append(request.url))
        yield page
        assert wrong == []


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_a_series_is_searched_opened_and_compared_without_a_server(
    visitor: Page, site: str
) -> None:
    visitor.goto(f"{site}/index.html")
    expect(visitor.get_by_role("link", name="2 series of vgg16 with pytorch")).to_be_visible()
    assert fits(visitor)
    visitor.get_by_label("Search series").fill("pytorch 2x1")
    found = visitor.get_by_role("link", name="vgg16-pytorch-collective-2x1-bs8")
    expect(found).to_be_visible()
    expect(visitor.get_by_role("status")).to_have_text("1 series")
    visitor.reload()  # The address holds what was searched.
    found.click()
    for nights in (60, NIGHTS):
        plot = visitor.get_by_role("img", name=f"Medians of {nights} nights")
        expect(plot).to_be_visible()
        expect(plot.get_by_text("2.1", exact=True)).to_be_visible()
    newest = "2027-01-18: 180.0 images/s, 178.2 to 181.8, n 7, version 2.1"
    expect(visitor.locator(".plots title").last).to_have_text(newest)
    expect(visitor.locator("#nights tbody tr")).to_have_count(60)
    shoot(visitor, f"site-series-{visitor.viewport_size['width']}")
    assert fits(visitor)
    visitor.goto(f"{site}/index.html")
    visitor.get_by_role("link", name=f"{CASE} on a100").click()
    expect(visitor.locator("#change-7")).to_contain_text("Likely cause: the framework's version")
    visitor.get_by_role("link", name="Compare 2.0 with 2.1").click()
    expect(visitor.locator("#found")).to_have_text(
        "2 pairs: 2 slower, 0 faster, geometric mean −10.0 %"
    )
    visitor.get_by_label("Line").nth(1).select_option("pytorch")
    expect(visitor.locator("#found")).to_contain_text("2 pairs")
    assert "line2=pytorch" in visitor.url
    assert fits(visitor)
    visitor.goto(f"{site}/w/vgg16/pytorch.html")
    visitor.get_by_label("Filter").fill("2x1")
    expect(visitor.locator("#series tbody tr:visible")).to_have_count(1)
    expect(visitor.locator(".scaling svg")).to_be_visible()
    shoot(visitor, f"site-group-{visitor.viewport_size['width']}")
    assert fits(visitor)
