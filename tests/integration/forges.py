"""A loopback server that plays GitLab's notes, and Nightbench's own app on rows in memory."""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import HTTPException, Request
from fastapi.testclient import TestClient

from nightbench.config.experiment_requests import CompareRequest
from nightbench.core.model import Cluster
from nightbench.core.model.experiments import PRIORITIES
from nightbench.spool import Spool
from nightbench.warehouse import MoveRefused
from nightbench.web import PageAccess, PageUser, create_app
from nightbench.web.experiment_api import Comparing

Row = dict[str, Any]
AIRFLOW_TOKEN = "airflow-token-0123456789"
AIRFLOW_PASSWORD = "airflow-password-0123456789"
FORGE_TOKEN = "forge-token-0123456789"
SECRETS = (AIRFLOW_TOKEN, AIRFLOW_PASSWORD, FORGE_TOKEN)
PROJECT_BOT = 77


class Queue:
    """The queue of `marts.fct_experiment` in memory; as `triage.request_experiment` keeps it."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}

    def find(
        self, experiment_id: int | None = None, *, states: Any = None, limit: int = 1000, **_: Any
    ) -> list[Row]:
        return [
            dict(row)
            for row in sorted(self.rows.values(), key=lambda each: -each["experiment_id"])
            if experiment_id in (None, row["experiment_id"])
            and (not states or row["state"] in states)
        ][:limit]

    def spent(self) -> dict[tuple[str, str], float]:
        return {}

    def request(self, asked: Row, by: str) -> int:
        asked = {**asked["request"], **asked}
        same = ("change_url", "suite", "cluster", "cases")
        mine = [
            row
            for row in self.rows.values()
            if row["requested_by"] == by and all(row[name] == asked[name] for name in same)
        ]
        for row in mine:
            live = row["state"] in ("held", "queued", "running")
            if live and row["change_commit"] == asked["change_commit"]:
                return int(row["experiment_id"])
        number = len(self.rows) + 1
        self.rows[number] = {
            **dict.fromkeys(("started_at", "ended_at", "verdict", "result", "alert_id")),
            **dict.fromkeys(("decided_by", "cancelled_by", "replaced_by", "dag_run_id")),
            **{"spent_s": 0.0, "why": "", "estimate_s": 600.0},
            **asked,
            **{"profile": None, "profile_why": None},
            "experiment_id": number,
            "requested_by": by,
            "requested_at": datetime.now(UTC),
            "queued_at": datetime.now(UTC),
        }
        for row in mine:
            if row["state"] in ("held", "queued"):
                row |= {"state": "cancelled", "replaced_by": number}
        return number

    def move(self, request_id: int, to: str, by: str, why: str) -> None:
        row = self.rows[request_id]
        if row["state"] == "running" and to == "cancelled":
            row |= {"cancelled_by": by, "why": why}
        elif row["state"] in ("held", "queued"):
            who = "cancelled_by" if to == "cancelled" else "decided_by"
            row |= {"state": to, who: by, "why": why}
        elif row["profile"] == "running" and to == "cancelled":
            row["profile"] = "cancelled"
        else:
            raise MoveRefused(f"comparison {request_id} is {row['state']}")

    def begin(self, request_id: int) -> None:
        """Measure it, as the DAG does."""
        self.rows[request_id] |= {"state": "running", "started_at": datetime.now(UTC)}

    def end(self, request_id: int, verdict: str = "", why: str = "") -> None:
        """End it with a verdict, or as one that could not be measured."""
        row = self.rows[request_id]
        if not verdict:
            row |= {"state": "failed", "why": f"{why}\nnode n1 (10.0.0.1:22): /home/ada"}
            return
        case = {
            **{"case_id": "some-case", "unit": "images", "verdict": verdict, "ratio": 0.96},
            **{"low": 0.95, "high": 0.97, "level": 0.95, "n": 7, "dropped": [], "stopped": None},
            "sentence": f"B is {verdict}",
        }
        result = {
            **{"verdict": verdict, "cases": [case], "min_effect": 0.01, "rounds": 7},
            **{"combined": None, "not_combined": None, "shared": False},
        }
        row |= {"state": "done", "verdict": verdict, "result": result, "why": why}


@dataclass
class Desk:
    queue: Queue
    by: str

    def request(self, row: Row) -> int:
        return self.queue.request(row, self.by)

    def move(self, request_id: int, to: str, why: str = "") -> None:
        self.queue.move(request_id, to, self.by, why)


@dataclass
class Answer:
    """What is answered instead, once."""

    status: int
    """0: that of what was asked for."""
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    after: bool = False
    """What was asked for is done all the same."""
    hangs_s: float = 0


@dataclass
class Call:
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


def checked(given: Mapping[str, Any]) -> Row:
    """A body as the queue takes it: fields are checked, names are not looked up."""
    asked = CompareRequest.from_params(given)
    cluster, cases = asked.cluster or "local", list(asked.cases) or ["some-case"]
    return {
        "name": f"compare-{secrets.token_hex(4)}",
        "kind": "compare",
        "state": "held" if asked.fork else "queued",
        "request": {**asdict(asked), "cluster": cluster, "cases": cases},
        "suite": asked.suite,
        "cluster": cluster,
        "budget_s": asked.budget_s,
        "priority": PRIORITIES[asked.priority],
    }


class Play:
    """Both APIs, what they have, what they were asked, and what they answer instead."""

    def __init__(self, spool: Spool) -> None:
        self.queue = Queue()
        self._spool = spool
        self.comments: list[Row] = []
        """Of merge request 7."""
        self.tokens = {AIRFLOW_TOKEN}
        self.calls: list[Call] = []
        self._instead: list[tuple[str, Answer]] = []
        self._lock = threading.Lock()
        self.nightbench = self._app()
        self.url = ""

    def instead(self, pattern: str, *answers: Answer) -> None:
        """Answer what matches `METHOD path` otherwise, once for each answer."""
        self._instead += [(pattern, answer) for answer in answers]

    def asked(self, pattern: str) -> list[Call]:
        return [c for c in self.calls if re.search(pattern, f"{c.method} {c.path}")]

    def answer(self, call: Call) -> Answer:
        with self._lock:
            self.calls.append(call)
            for at, (pattern, answer) in enumerate(self._instead):
                if re.search(pattern, f"{call.method} {call.path}"):
                    del self._instead[at]
                    done = self._of(call) if answer.after else answer
                    break
            else:
                return self._of(call)
        time.sleep(answer.hangs_s)
        return answer if answer.status else done

    def _of(self, call: Call) -> Answer:
        site, _, path = call.path[1:].partition("/")
        if site == "gitlab":
            return self._gitlab(call, f"/{path}")
        if path == "auth/token":
            if call.body != {"username": "ci", "password": AIRFLOW_PASSWORD}:
                return Answer(401, {"detail": "Invalid credentials"})
            return Answer(201, {"access_token": sorted(self.tokens)[-1]})
        found = self.nightbench.request(
            call.method,
            f"/{path.removeprefix('nightbench/')}",
            headers=dict(call.headers),
            content=call.body if isinstance(call.body, bytes) else json.dumps(call.body or {}),
        )
        return Answer(found.status_code, found.content, found.headers)

    # --- GitLab ---------------------------------------------------------------------------------

    def _gitlab(self, call: Call, path: str) -> Answer:
        if call.headers.get("private-token") != FORGE_TOKEN:
            return Answer(401, {"message": "401 Unauthorized"})
        where, query = urlsplit(path).path, parse_qs(urlsplit(path).query)
        if where == "/user":
            return Answer(200, {"id": PROJECT_BOT, "username": "project_5_bot"})
        notes = "/projects/5/merge_requests/7/notes"
        if where == notes and call.method == "GET":
            size, page = int(query["per_page"][0]), int(query["page"][0])
            return Answer(200, self.comments[size * (page - 1) : size * page])
        if where == notes:
            self.comments.append(
                {**call.body, "id": len(self.comments), "author": {"id": PROJECT_BOT}}
            )
            return Answer(201, self.comments[-1])
        if (found := re.fullmatch(rf"{notes}/(\d+)", where)) and call.method == "PUT":
            self.comments[int(found[1])]["body"] = call.body["body"]
            return Answer(200, self.comments[int(found[1])])
        return Answer(404, {"message": "404 Not Found"})

    # --- Nightbench -----------------------------------------------------------------------------

    def _app(self) -> TestClient:
        class Repository:
            experiments = self.queue

        @contextmanager
        def repository() -> Iterator[Any]:
            yield Repository

        @contextmanager
        def desk(by: str) -> Iterator[Any]:
            yield Desk(self.queue, by)

        def reader(request: Request) -> None:
            if request.headers.get("authorization") not in {f"Bearer {t}" for t in self.tokens}:
                raise HTTPException(401, "Invalid JWT token")

        def nothing(*_: Any) -> Any:
            raise AssertionError("not requested by a CI")

        access = PageAccess(reader, reader, lambda: PageUser("ci", may_change=True), reader, reader)
        comparing = Comparing(checked, lambda name: Cluster(name, ()), desk)
        base = "https://airflow.example.org/"
        triage: Callable[..., Any] = nothing
        return TestClient(
            create_app(
                repository, triage, access, lambda: self._spool, nothing, list, comparing, base
            ),
            follow_redirects=False,
        )


@contextmanager
def played(spool: Spool) -> Iterator[Play]:
    """The APIs at `url`/airflow and `url`/gitlab."""
    play = Play(spool)

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body: Any = self.rfile.read(length)
            if self.headers.get("content-type") == "application/json":
                body = json.loads(body) if body else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = play.answer(Call(self.command, self.path, headers, body))
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body)
            data = content.encode() if isinstance(content, str) else content
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() != "content-length":
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # whoever asked waits no longer

        do_GET = do_POST = do_PUT = _do

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        play.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield play
        finally:
            server.shutdown()
