"""Rows and stand-ins for whoever reads and changes the warehouse behind the pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import HTTPException, Request
from fastapi.testclient import TestClient

from nightbench.core.errors import UserError
from nightbench.warehouse import MoveRefused
from nightbench.web import PageAccess, PageUser, create_app
from nightbench.web.experiment_api import Comparing
from nightbench.web.ui_models import Utilisation

START = datetime(2026, 11, 1, 1, tzinfo=UTC)
CONFIRMATION = ("", "_state", "_sentence", "_ratio", "_low", "_high", "_rounds")
Row = dict[str, Any]


def row(night: int, throughput: float | None = 100.0, **changes: Any) -> Row:
    return {
        "case_id": "resnet50_v1.5-pytorch-collective-1x1-bs2-smoke",
        "cluster": "local",
        "run_id": f"demo-night-{night}",
        "run_kind": "nightly",
        "started_at": START + timedelta(days=night),
        "workload": "resnet50_v1.5",
        "framework": "pytorch",
        "framework_version": "2.13.0",
        "python": "3.11.7",
        "status": "ok",
        "reasons": [],
        "throughput": throughput,
        "unit": "images",
        "n": 3,
        "spread": 0.021,
        "speedup": 1.0,
        "efficiency": 1.0,
        "quarantined": False,
        "quarantine_reasons": [],
        "verdict": "ok",
        "verdict_sentence": "as ever",
        "training": None,
        "training_sentence": None,
        "private_build": False,
        "untried": None,
        "is_imported": False,
        "error": None,
        **dict.fromkeys(("build_id", "minimum", "maximum", "baseline", "smallest_slowdown")),
        "metric": "throughput",
        **dict.fromkeys(("change", "level_change", "change_low", "change_high", "noisy", "drift")),
        **dict.fromkeys(("alert_id", "alert_verdict", "alert_change", "drift_since")),
        **dict.fromkeys(Utilisation.model_fields),
    } | changes


def alert(**changes: Any) -> Row:
    return {
        "alert_id": 7,
        "case_id": row(0)["case_id"],
        "cluster": "local",
        "framework": "pytorch",
        "workload": "resnet50_v1.5",
        "unit": "images",
        "verdict": "regressed",
        "state": "open",
        "sentence": "20 % below 100 images/s",
        "value": 80.0,
        "baseline": 100.0,
        "change": -0.2,
        "metric": "throughput",
        "opened_run_id": "demo-night-1",
        "opened_at": START + timedelta(days=1),
        "last_run_id": "demo-night-2",
        "last_good_run_id": "demo-night-0",
        "first_bad_run_id": "demo-night-1",
        "resolved_run_id": None,
        "closed_at": None,
        "notified_at": None,
        "dismissed_as": None,
        "snoozed_until": None,
        "owner": None,
        "evidence": None,
        "severity": "high",
        "severity_because": "loses 10.0 % at least",
        "rank": 0.9,
        "place": 1,
        **dict.fromkeys(("level_change", "change_low", "change_high", "since", "group_key")),
        **dict.fromkeys(("cause", "cause_suspect", "cause_sentence")),
        **dict.fromkeys(f"confirmation{part}" for part in CONFIRMATION),
    } | changes


def alert_event(**changes: Any) -> Row:
    return {
        "event_id": 1,
        "alert_id": 7,
        "at": START + timedelta(days=1),
        "what": "opened",
        "from_state": None,
        "to_state": "open",
        "by_whom": "nightbench",
        "why": "20 % below",
        "run_id": "demo-night-1",
        "db_role": "nightbench_loader",
    } | changes


class Rows:
    """A repository, and a triage, that hold what a test gives them."""

    def __init__(
        self, rows: Sequence[Row], alerts: Sequence[Row] = (), events: Sequence[Row] = ()
    ) -> None:
        self.rows = rows
        self._snapshots = 0
        self._alerts = alerts
        self._events = events
        self.asked: list[tuple[object, ...]] = []
        self.done: list[tuple[object, ...]] = []
        self.refuses = ""
        self.faster: set[object] = set()
        """Alerts that somebody else has moved."""
        self.known: dict[str, Sequence[Row]] = {}
        """What it answers to the questions named so."""

    @property
    def runs(self) -> Rows:
        """What is asked of the repository of runs."""
        return self

    @property
    def series(self) -> Rows:
        """What is asked of the repository of series."""
        return self

    def read(self, name: str, **given: Any) -> Sequence[Row]:
        if name == "page_alert_marks":
            return self._of_states(given["states"])
        if name == "alert_events":
            return [e for e in self._events if e["alert_id"] == given["alert_id"]]
        return self.known.get(name, [])

    def snapshot(self) -> str:
        """Another one each time: a test changes what it likes."""
        self._snapshots += 1
        return str(self._snapshots)

    def run(self, run_id: str) -> Row | None:
        found = [r for r in self.rows if r["run_id"] == run_id]
        if not found:
            return None
        counts = {
            "planned": len(found),
            "measured": 1,
            "failed": 0,
            "quarantined": 0,
            "left_out": 0,
            "without_result": len(found) - 1,
        }
        names = {"suite": "demo", "requested_by": "ada", "code_digest": "c0de" * 16}
        dag = {"dag_id": "on_demand", "dag_run_id": "manual__2026-11-01T00:00:00+00:00"}
        return {**found[0], **counts, **names, **dag, "loaded_at": START}

    def results(self, run_id: str) -> Sequence[Row]:
        return [r for r in self.rows if r["run_id"] == run_id]

    def find_alerts(self, *, max_rows: int, skipped: int, **chosen: Any) -> Sequence[Row]:
        self.asked.append((*chosen.values(), max_rows))
        return self._of_states(chosen["states"])[skipped : skipped + max_rows]

    def _of_states(self, states: Sequence[str] | None) -> list[Row]:
        return [a for a in self._alerts if states is None or a["state"] in states]

    def alerts(self, alert_ids: Sequence[int]) -> dict[int, Row]:
        return {a["alert_id"]: a for a in self._alerts if a["alert_id"] in alert_ids}

    def newest_bisects(self, alert_ids: Sequence[int]) -> dict[int, Row]:
        return {}

    def alert(self, alert_id: int) -> Row | None:
        return next((a for a in self._alerts if a["alert_id"] == alert_id), None)

    def group(self, group_key: str) -> Sequence[Row]:
        return [a for a in self._alerts if a.get("group_key") == group_key]

    def bisects(self, alert_id: int) -> Sequence[Row]:
        return []

    def noisy(self) -> Sequence[Row]:
        return self.known.get("noisy", [])

    def drifts(self) -> Sequence[Row]:
        return self.known.get("drifts", [])

    @property
    def grades(self) -> Rows:
        """What is asked of the repository of grades."""
        return self

    def latest(self) -> Sequence[Row]:
        return self.known.get("grades", [])

    def missing_nights(self) -> Sequence[Row]:
        return self.known.get("nights", [])

    def find(
        self, suite: str | None, cluster: str | None, limit: int, imported: bool, *, skipped: int
    ) -> Sequence[Row]:
        return self.newest_runs()[skipped : skipped + limit]

    def newest_runs(self) -> Sequence[Row]:
        return [run for r in self.rows if (run := self.run(r["run_id"]))]

    def left_out(self, run_ids: Sequence[str]) -> Sequence[Row]:
        return self.known.get("left_out", [])

    def sparklines(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[float]]:
        return {}

    def run_of(self, dag_id: str, dag_run_id: str) -> str | None:
        return "demo-night-0" if dag_run_id == "known" else None


class AlertTriage:
    """Writes down what it is asked to do, and by whom."""

    def __init__(self, rows: Rows, by: str) -> None:
        self._rows = rows
        self._by = by

    def move(self, alert_id: int, to: str, why: str = "", reason: str | None = None) -> str:
        return self._do("move", alert_id, to, why, reason)

    def snooze(self, alert_id: int, until: datetime, why: str = "") -> str:
        return self._do("snooze", alert_id, until, why)

    def assign(self, alert_id: int, owner: str, why: str = "") -> str:
        return self._do("assign", alert_id, owner, why)

    def _do(self, *what: object) -> str:
        if self._rows.refuses or what[1] in self._rows.faster:
            raise MoveRefused(self._rows.refuses or f"alert {what[1]} was moved by somebody")
        self._rows.done.append((self._by, *what))
        return "open"


ADA = PageUser("ada", may_change=True)
VIEWER = PageUser("vera", may_change=False)


def client(
    repository: Rows | UserError, who: PageUser | None = ADA, base_url: str = ""
) -> TestClient:
    """The app as `who` sees it; None is nobody who is logged in."""

    @contextmanager
    def open_repository() -> Iterator[Rows]:
        if isinstance(repository, UserError):
            raise repository
        yield repository

    @contextmanager
    def open_triage(by: str) -> Iterator[AlertTriage]:
        if isinstance(repository, UserError):
            raise repository
        yield AlertTriage(repository, by)

    def reader(request: Request) -> None:
        if who is None:
            raise HTTPException(401, "Not authenticated")

    def trigger() -> None:
        if who is None or not who.may_change:
            raise HTTPException(403, "Forbidden")

    def user() -> PageUser:
        assert who is not None
        return who

    def no_spool(*_: Any) -> Any:
        raise AssertionError("no test of this folder reads files of runs")

    comparing = Comparing(no_spool, no_spool, no_spool)
    access = PageAccess(reader, trigger, user, trigger, reader)
    app = create_app(
        open_repository, open_triage, access, no_spool, no_spool, list, comparing, base_url
    )
    return TestClient(app, follow_redirects=False)
