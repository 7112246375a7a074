"""The Airflow plugin of Nightbench: pages and nothing else.

Airflow imports this module in every one of its processes, tasks included: so it imports no other
module of Nightbench, and the app is built when the API server starts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from threading import Lock, Thread
from typing import Any, ClassVar
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

log = logging.getLogger(__name__)

PREFIX = "/nightbench"


def bundle_url(site: str) -> str:
    """Return the address of the pages' code under `[api] base_url`, as all versions import it.

    Airflow 3.3 resolves it against the document, 3.2 against its own script in static/assets/. So
    it begins at the root of the host, with the path that a proxy gives the UI.
    """
    return f"{urlsplit(site).path.rstrip('/')}{PREFIX}/static/nightbench.js"


BUNDLE = bundle_url(str(conf.get("api", "base_url", fallback="") or ""))

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class LazyApp:
    """An ASGI app that builds the real one, at its first request at the latest."""

    def __init__(self) -> None:
        self._app: Any = None
        self._lock = Lock()

    def build(self) -> Any:
        """Return the real app."""
        with self._lock:
            if self._app is None:
                from nightbench.orchestration.page_app import build_app

                self._app = build_app()
            return self._app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        # In a thread: until it is built, Airflow's own requests go on.
        app = self._app or await asyncio.to_thread(self.build)
        await app(scope, receive, send)

    def build_soon(self, server: Any) -> Any:
        """Begin to build the real app, and return the server's own as it is.

        Airflow's API server makes its middlewares as it starts, and no other process does.
        """
        Thread(target=self._build_ahead, name="nightbench-pages", daemon=True).start()
        return server

    def _build_ahead(self) -> None:
        try:
            self.build()
        except Exception:  # The first request says it again, to who asked.
            log.exception("the pages could not be built; the first request tries again")


pages = LazyApp()


REACT_APPS: list[dict[str, Any]] = [
    {
        "name": "Benchmarks",
        "bundle_url": BUNDLE,
        "destination": "nav",
        "url_route": "benchmarks",
        "nav_top_level": True,
    },
    {
        "name": "Results",
        "bundle_url": BUNDLE,
        "destination": "dag",
        "url_route": "results-of-dag",
    },
    {
        "name": "Results",
        "bundle_url": BUNDLE,
        "destination": "task_instance",
        "url_route": "results-of-task",
    },
    {
        "name": "Results",
        "bundle_url": BUNDLE,
        "destination": "dag_run",
        "url_route": "results",
    },
    {
        "name": "Benchmark news",
        "bundle_url": BUNDLE,
        "destination": "dashboard",
    },
]
"""`web/ui/src/index.tsx` has a component for each name."""


class NightbenchPlugin(AirflowPlugin):
    """Pages in Airflow's UI."""

    name = "nightbench"
    fastapi_apps: ClassVar[list[Any]] = [{"app": pages, "url_prefix": PREFIX, "name": "Nightbench"}]
    fastapi_root_middlewares: ClassVar[list[Any]] = [
        {"middleware": pages.build_soon, "name": "Nightbench"}
    ]
    react_apps: ClassVar[list[Any]] = REACT_APPS
