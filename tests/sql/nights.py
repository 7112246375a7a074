"""A suite of some cases with nights behind it, and a webhook that hears of them."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.sql.given import Given
from tests.sql.spooled import case, near

from nightbench.core.model import Case
from nightbench.warehouse import Warehouse

STEADY, FALLS, RISES, NEW, BREAKS, VANISHES = (case(batch) for batch in (1, 2, 4, 8, 16, 32))
NIGHTS = 20
MOVED = {FALLS.case_id: 90.0, RISES.case_id: 112.0}
"""Levels of the last nights before tonight: one slow night alone is no regression."""


class Inbox:
    """A webhook on loopback."""

    def __init__(self, port: int) -> None:
        self.url = f"json://127.0.0.1:{port}"
        self.messages: list[dict[str, Any]] = []


@contextmanager
def receiving() -> Iterator[Inbox]:
    """An inbox on a free port of loopback."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.messages.append(json.loads(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received = Inbox(server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield received
    finally:  # Else the thread keeps the process of a test that failed alive for ever.
        server.shutdown()
        thread.join()
        server.server_close()


def history(loader: Warehouse, given: Given, cases: tuple[Case, ...], nights: int = NIGHTS) -> None:
    """Nights at 100 samples/s, the last three as `MOVED` says, loaded without their files."""
    for night in range(nights):
        run = given.run(night, suite="seeded")
        wobble = 1 + 0.002 * (night % 3 - 1)
        levels = MOVED if night >= nights - 3 else {}
        came = [near(given, run, each, wobble * levels.get(each.case_id, 100.0)) for each in cases]
        loader.runs.load(given.batch(run, *came))
