"""The pages, with rows handed in: what they show, and what they never let through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

from nightbench.errors import UserError
from nightbench.web import create_app

START = datetime(2026, 11, 1, 1, tzinfo=UTC)
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
        "status": "ok",
        "reason": None,
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
    } | changes


class Rows:
    """A repository that holds what a test gives it."""

    def __init__(self, rows: Sequence[Row], alerts: Sequence[Row] = ()) -> None:
        self.rows = rows
        self._alerts = alerts
        self.asked: list[tuple[str | None, ...]] = []

    def series(
        self, workload: str | None, framework: str | None, cluster: str | None
    ) -> Sequence[Row]:
        self.asked.append((workload, framework, cluster))
        return self.rows

    def choices(self) -> Sequence[Row]:
        return [{k: r[k] for k in ("workload", "framework", "cluster")} for r in self.rows]

    def runs(self) -> Sequence[Row]:
        return [run for r in self.rows if (run := self.run(r["run_id"]))]

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
        }
        names = {"suite": "demo", "requested_by": "ada", "code_digest": "c0de" * 16}
        dag = {"dag_id": "on_demand", "dag_run_id": "manual__2026-11-01T00:00:00+00:00"}
        return {**found[0], **counts, **names, **dag, "loaded_at": START}

    def results(self, run_id: str) -> Sequence[Row]:
        return [r for r in self.rows if r["run_id"] == run_id]

    def alerts(self) -> Sequence[Row]:
        return self._alerts

    def run_of(self, dag_id: str, dag_run_id: str) -> str | None:
        return "demo-night-0" if dag_run_id == "known" else None


def client(repository: Rows | UserError, allowed: bool = True) -> TestClient:
    @contextmanager
    def open_repository() -> Iterator[Rows]:
        if isinstance(repository, UserError):
            raise repository
        yield repository

    def reader() -> None:
        if not allowed:
            raise HTTPException(401)

    return TestClient(create_app(open_repository, reader, reader, "/airflow"))


def test_the_latest_median_stands_in_the_table() -> None:
    page = client(Rows([row(0, 90.0), row(1, 123.456)])).get("/").text
    assert "123.5 images/s" in page
    assert "90.00 images/s</td>" not in page
    assert "2.1 %" in page


def test_a_quarantined_result_is_marked_and_the_median_before_it_stands() -> None:
    bad = row(1, 999.0, quarantined=True, quarantine_reasons=["weights_agree: 2, expected 1"])
    page = client(Rows([row(0, 90.0), bad])).get("/").text
    assert "90.00 images/s</td>" in page
    assert "999.0 images/s</td>" not in page
    assert '<path class="mark quarantined"' in page
    assert "weights_agree: 2, expected 1" in page
    assert 'class="word quarantined"' in page


def test_each_series_is_a_plot_with_a_mark_for_each_result() -> None:
    rows = [row(n, 100.0 + n) for n in range(5)]
    rows += [row(5, 80.0, verdict="regressed", verdict_sentence="20 % below")]
    page = client(Rows(rows)).get("/").text
    # One more of each stands in the legend.
    assert page.count('<circle class="mark') == 5 + 1
    assert page.count('<path class="mark regressed"') == 1 + 1
    assert "20 % below" in page
    assert '<line class="median"' in page


def test_a_filter_reaches_the_repository_and_stays_chosen() -> None:
    repository = Rows([row(0)])
    page = client(repository).get("/?framework=pytorch").text
    assert repository.asked == [(None, "pytorch", None)]
    assert '<option value="pytorch" selected>' in page


def test_what_is_empty_says_what_to_do() -> None:
    assert "nightbench run demo" in client(Rows([])).get("/").text


def test_a_case_without_a_figure_has_its_state_instead_of_a_plot() -> None:
    failed = row(0, None, status="failed", reason="exit code 1", verdict="failed", n=0)
    page = client(Rows([failed])).get("/").text
    assert "No figure yet: failed" in page
    assert "nan" not in page.lower().replace("finance", "")


def test_a_run_links_to_airflow() -> None:
    page = client(Rows([row(0)])).get("/?run=demo-night-0").text
    assert "/airflow/dags/on_demand/runs/manual__2026-11-01T00%3A00%3A00%2B00%3A00" in page
    assert "asked for by ada" in page


def test_the_tab_of_a_dag_run_finds_its_run() -> None:
    app = client(Rows([row(0)]))
    assert "demo-night-0" in app.get("/?dag_id=on_demand&dag_run=known").text
    assert "No results of this run" in app.get("/?dag_id=on_demand&dag_run=other").text


def test_an_unknown_run_is_not_found() -> None:
    assert client(Rows([])).get("/?run=nope").status_code == 404


def test_everything_is_escaped() -> None:
    evil = '"><script>alert(1)</script>'
    rows = [row(0, case_id=evil, verdict_sentence=evil, unit=evil, framework=evil)]
    alert = {"verdict": "regressed", "case_id": evil, "cluster": evil, "sentence": evil}
    app = client(Rows(rows, [{**alert, "last_run_id": evil, "opened_run_id": "x"}]))
    for address in ("/", f"/?framework={evil}", f"/?run={evil}", f"/?dag_run={evil}"):
        assert "<script>alert" not in app.get(address).text, address
    assert "<script>alert" not in app.get("/?run=demo-night-0").text


def test_without_the_warehouse_the_page_says_so() -> None:
    answer = client(UserError("PostgreSQL at <host>: no answer")).get("/")
    assert answer.status_code == 503
    assert "PostgreSQL at &lt;host&gt;: no answer" in answer.text


@pytest.mark.parametrize("address", ["/", "/?run=x", "/style.css", "/links.js"])
def test_every_route_asks_for_a_reader(address: str) -> None:
    assert client(Rows([row(0)]), allowed=False).get(address).status_code == 401


@pytest.mark.parametrize("address", ["/docs", "/redoc", "/openapi.json"])
def test_nothing_describes_itself(address: str) -> None:
    assert client(Rows([])).get(address).status_code == 404


def test_nothing_can_be_written() -> None:
    app = client(Rows([]))
    assert {app.request(m, "/").status_code for m in ("POST", "PUT", "PATCH", "DELETE")} == {405}


def test_nothing_comes_from_elsewhere() -> None:
    answer = client(Rows([row(0)])).get("/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "http://" not in answer.text
    assert "https://" not in answer.text
