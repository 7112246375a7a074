"""The app behind the pages: who may read, what it refuses, what every answer has."""

from __future__ import annotations

import re

import pytest
from tests.unit.web.rows import Row, Rows, alert, client, row
from tools.api_types import typescript

from nightbench.core.model import Reason, ReasonCode
from nightbench.web.api_model import ApiModel
from nightbench.web.app import ENTRY, STATIC
from nightbench.web.run_models import RunCase
from nightbench.web.ui_api import csv_response
from nightbench.web.ui_models import SeriesPoint

WEIGHTS = Reason(ReasonCode.CHECK_FAILED, None, "weights_agree", "2", "1")
EXITED = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1", "code 0")

READ = [
    "/static/nightbench.js",
    "/api/openapi.json",
    *(f"/api/{name}" for name in ("morning", "series", "axes", "trust", "nodes", "runs")),
    *(
        f"/api/{name}"
        for name in (
            "alerts",
            "alerts/groups",
            "nodes/acceptance",
            "nodes/activity",
            "alerts/7",
            "runs/x",
            "runs/x/y",
            "series/a/b",
        )
    ),
    "/api/runs/of-dag-run?dag_id=a&dag_run_id=b",
    "/api/compare?by=run&one=a&other=b",
    "/api/compare/sides?by=run",
    "/api/overview",
    "/api/overview/curves?workload=a",
    "/api/nodes/activity",
    "/api/published",
    "/api/published/cells?source_document=a",
]


@pytest.mark.parametrize("address", READ)
def test_every_route_asks_for_a_reader(address: str) -> None:
    answer = client(Rows([row(0)], [alert()]), who=None).get(address)
    assert (answer.status_code, answer.json()) == (401, {"detail": "Not authenticated"})


@pytest.mark.parametrize("address", READ)
def test_nothing_that_is_read_can_be_written(address: str) -> None:
    app = client(Rows([]))
    methods = ("POST", "PUT", "PATCH", "DELETE")
    assert {app.request(m, address).status_code for m in methods} == {405}


@pytest.mark.parametrize("address", ["/docs", "/redoc", "/openapi.json"])
def test_nothing_describes_itself_in_public(address: str) -> None:
    assert client(Rows([])).get(address).status_code == 404


@pytest.mark.parametrize("digits", [19, 5000])
@pytest.mark.parametrize("path", ["/api/alerts/{}", "/api/alerts/{}/resolve"])
@pytest.mark.parametrize("who", [None, "ada"])
def test_a_number_that_no_alert_has_is_not_found(path: str, digits: int, who: str | None) -> None:
    answer = client(Rows([row(0)], [alert()]), who=who).get(path.format("9" * digits))
    assert answer.status_code == 404


@pytest.mark.parametrize(
    "address", ["/api/runs/%00", "/api/series/a/%00", "/api/runs?suite=%00", "/api/series?a%00=1"]
)
def test_a_nul_is_refused_wherever_it_stands(address: str) -> None:
    assert client(Rows([])).get(address).status_code == 422


def test_an_answer_runs_and_loads_nothing_by_itself() -> None:
    for address in ("/api/runs", "/api/alerts", "/static/nightbench.js"):
        headers = client(Rows([row(0)])).get(address).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_the_entry_is_asked_for_anew_and_read_once() -> None:
    app = client(Rows([]))
    first = app.get("/static/nightbench.js")
    assert first.content == (STATIC / ENTRY).read_bytes()
    assert first.headers["cache-control"] == "private, no-cache"
    again = app.get("/static/nightbench.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_chunk_is_kept_for_ever() -> None:
    app = client(Rows([]))
    chunks = {path.name for path in STATIC.glob("*.js")} - {ENTRY}
    assert chunks
    for name in chunks:
        answer = app.get(f"/static/{name}")
        assert answer.content == (STATIC / name).read_bytes()
        assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("name", ["x.js", "..%2Fapp.py", "%2E%2E/app.py", "nightbench.js/x"])
def test_no_other_file_is_read(name: str) -> None:
    assert client(Rows([])).get(f"/static/{name}").status_code == 404


def test_help_icons_lead_to_documentation_with_anchors_and_without_images() -> None:
    app = client(Rows([]))
    pages = (STATIC.parent / "ui/src").glob("*.tsx")
    links = {each for page in pages for each in re.findall(r'page="(.+?)"', page.read_text())}
    assert links
    for link in links:
        name, _, anchor = link.partition("#")
        answer = app.get(f"/help/{name}")
        assert answer.status_code == 200, link
        assert f'id="{anchor}"' in answer.text or not anchor, link
        assert "<img" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("name", ["no.md", "conf.py", "..%2FREADME.md", "adr/..%2Fpages.md"])
def test_only_pages_of_the_documentation_are_read(name: str) -> None:
    assert client(Rows([])).get(f"/help/{name}").status_code == 404


def test_every_page_is_a_chunk_of_its_own() -> None:
    entry = (STATIC / ENTRY).read_text(encoding="utf-8")
    named = set(re.findall(r'import\("\./([\w-]+\.js)"\)', entry))
    assert named <= {path.name for path in STATIC.glob("*.js")}
    assert {"morning", "series", "case", "nodes"} <= {name.partition("-")[0] for name in named}
    assert len(entry) < 10_000


def test_the_pages_code_names_no_other_host() -> None:
    for path in STATIC.glob("*.js"):
        # SVG's namespace is a name that nothing is asked from.
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert re.findall(r"\w+://[\w.]+", text) == [], path.name


def test_a_quarantined_case_says_which_check_failed() -> None:
    bad = row(0, 999.0, quarantined=True, quarantine_reasons=[WEIGHTS.to_json()])
    (case,) = client(Rows([bad])).get("/api/runs/demo-night-0").json()["cases"]
    assert (case["state"], case["throughput"]) == ("quarantined", 999.0)
    assert case["sentences"] == ["weights_agree: 2, expected: 1"]


def test_a_case_that_failed_has_its_reason_and_the_end_of_its_traceback() -> None:
    failed = row(0, None, status="failed", reasons=[EXITED.to_json()], n=0, error="KeyError: <b>")
    failed["verdict_sentence"] = None
    (case,) = client(Rows([failed])).get("/api/runs/demo-night-0").json()["cases"]
    assert (case["state"], case["error"]) == ("failed", "KeyError: <b>")
    assert case["sentences"] == ["n1: trainer-0 exited with code 1"]


def test_a_private_build_is_marked() -> None:
    trial = row(0, 999.0, private_build=True, verdict="improved", n=1)
    (case,) = client(Rows([trial])).get("/api/runs/demo-night-0").json()["cases"]
    assert (case["state"], case["is_private_build"]) == ("private_build", True)


def test_a_run_has_its_dag_run_and_who_asked_for_it() -> None:
    run = client(Rows([row(0)])).get("/api/runs/demo-night-0").json()["run"]
    assert (run["requested_by"], run["dag_id"]) == ("ada", "on_demand")
    assert run["dag_run_id"].startswith("manual__")


def test_no_cell_of_a_csv_is_a_formula() -> None:
    class Line(ApiModel):
        a: str
        b: float | None

    rows: list[Row] = [{"a": "=1+1", "b": -1.5, "c": 1}, {"a": "@x", "b": None}]
    assert csv_response(rows, Line).body == b"a,b\n'=1+1,-1.5\n'@x,\n"


def test_a_csv_begins_with_what_identifies_a_row() -> None:
    assert bytes(csv_response([], SeriesPoint).body).startswith(b"run_id,started_at,")
    assert bytes(csv_response([], RunCase).body).startswith(b"case_id,")


def test_every_model_has_a_type() -> None:
    text = typescript()
    assert "  change: number | null;" in text
    assert "export type AlertGroupRow = {" in text
    assert "  alerts: Array<AlertGroupRow>;" in text
