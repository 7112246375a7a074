"""The pages are built while Airflow's API server starts, not while somebody waits for them."""

from __future__ import annotations

import asyncio
import threading

import pytest

from nightbench_plugin import LazyApp, NightbenchPlugin, bundle_url, pages


async def receive() -> dict[str, object]:
    return {}


async def send(_: object) -> None: ...


def built_ahead() -> None:
    for thread in threading.enumerate():
        if thread.name == "nightbench-pages":
            thread.join(10)


def test_the_server_starts_to_build_the_pages_and_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, server, built = LazyApp(), object(), threading.Event()
    monkeypatch.setattr(app, "build", built.set)
    assert app.build_soon(server) is server
    assert built.wait(10)


def test_what_cannot_be_built_is_logged_and_the_server_starts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def build() -> None:
        raise RuntimeError("no such module")

    app = LazyApp()
    monkeypatch.setattr(app, "build", build)
    app.build_soon(object())
    built_ahead()
    assert "the pages could not be built; the first request tries again" in caplog.text


async def test_a_request_that_waits_for_the_pages_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, others, served = LazyApp(), threading.Event(), []

    async def real(*request: object) -> None:
        served.append(request)

    def build() -> object:
        assert others.wait(10), "the event loop stood still"
        return real

    monkeypatch.setattr(app, "build", build)
    request = asyncio.create_task(app({}, receive, send))
    await asyncio.sleep(0)
    others.set()
    await request
    assert served == [({}, receive, send)]


def test_airflow_finds_both() -> None:
    (app,) = NightbenchPlugin.fastapi_apps
    (middleware,) = NightbenchPlugin.fastapi_root_middlewares
    assert app["app"] is pages
    assert middleware["middleware"] == pages.build_soon


@pytest.mark.parametrize(
    ("site", "path"),
    [("", ""), ("http://a.org", ""), ("https://a.org/team/airflow/", "/team/airflow")],
)
def test_the_code_of_the_pages_has_an_address_that_no_document_changes(
    site: str, path: str
) -> None:
    """Airflow 3.2 resolves a relative one against its script, 3.3 against the document."""
    assert bundle_url(site) == f"{path}/nightbench/static/nightbench.js"
