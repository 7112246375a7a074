"""A suite of some cases with nights behind it, a webhook, and what a night's tasks do."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.sql.given import Given
from tests.sql.spooled import case, near, plan, spooled

from nightbench.core.model import Case, CaseToLoad, Reason, Run, Verdict
from nightbench.night.ingest import IngestResult, ingest_run
from nightbench.night.judge import JudgeResult, judge_run
from nightbench.spool import RunSpool, Spool
from nightbench.spool.plans import store_plan
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connect

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
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield received
    finally:  # Else the thread keeps the process of a test that failed alive for ever.
        server.shutdown()
        thread.join()
        server.server_close()


class Site:
    """A spool, a warehouse and a webhook, with the nights of the suite `seeded`."""

    def __init__(
        self, spool: Spool, connect: Connect, loader: Warehouse, given: Given, inbox: Inbox
    ) -> None:
        self.spool, self.connect, self.loader = spool, connect, loader
        self.given, self.inbox = given, inbox

    def run(self, night: int, **more: Any) -> Run:
        """A run of a night, from 0."""
        return self.given.run(night, **{"suite": "seeded", **more})

    def past(self, *cases: Case) -> None:
        """Nights at 100 samples/s, the last three as `MOVED` says, loaded without their files."""
        for night in range(NIGHTS):
            run = self.run(night)
            wobble = 1 + 0.002 * (night % 3 - 1)
            levels = MOVED if night >= NIGHTS - 3 else {}
            came = [
                near(self.given, run, each, wobble * levels.get(each.case_id, 100.0))
                for each in cases
            ]
            self.loader.runs.load(self.given.batch(run, *came))

    def spooled(
        self, run: Run, came: Mapping[Case, float | Reason | None], **more: Any
    ) -> RunSpool:
        """A run that has ended, as files; the webhook is its channel unless others are given."""
        return spooled(self.spool, run, came, **{"channels": [self.inbox.url], **more})

    def ingest(self, run: Run) -> IngestResult:
        """Load a run from its files."""
        return ingest_run(self.spool, run.run_id, self.connect)

    def measure(self, run: Run, came: Mapping[Case, float | Reason | None], **more: Any) -> Run:
        """A run that has ended and was loaded from its files."""
        self.spooled(run, came, **more)
        self.ingest(run)
        return run

    def load(
        self,
        run: Run,
        *came: CaseToLoad,
        channels: Sequence[str] | None = None,
        **more: Any,
    ) -> Run:
        """Load a run without files of its cases, and store its plan; `more` is of the batch."""
        self.loader.runs.load(replace(self.given.batch(run, *came), **more))
        told = [self.inbox.url] if channels is None else channels
        store_plan(plan(run, [each.case for each in came], told), self.spool)
        return run

    def judge(self, run: Run, **more: Any) -> JudgeResult:
        """Judge a run, and tell of it."""
        return judge_run(self.spool, run.run_id, self.connect, **more)

    def verdict(self, run: Run, **more: Any) -> Verdict:
        """The verdict on a run's only case."""
        (found,) = self.judge(run, **more).verdicts
        return found
