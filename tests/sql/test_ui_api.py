"""The JSON API of the pages on a real PostgreSQL, with the roles that it has in Airflow."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.sql.conftest import Database
from tests.sql.given import NIGHT, Given
from tests.sql.page_client import page_client

from nightbench.core.model import Build, Case, HealthPolicy, RunKind, Verdict, VerdictKind
from nightbench.nodes import Control, NodeEvent
from nightbench.spool import Spool
from nightbench.warehouse import Warehouse, connect

CASE = "resnet50_v1.5-pytorch-collective-1x1-bs2-smoke"


@pytest.fixture
def app(warehouse: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TestClient:
    return page_client(warehouse, Spool(tmp_path), monkeypatch)


@pytest.fixture
def nights(loader: Warehouse, given: Given) -> list[str]:
    """Three nights of one series, the last one slower, beside decoys; their runs."""
    found = []
    for night, level in enumerate((100.0, 101.0, 90.0)):
        run = given.run(night)
        case = given.case()
        came = given.came_back(run, case, (level - 1, level, level + 1))
        other = given.came_back(run, given.case(nodes=2), (200.0, 201.0, 202.0))
        loader.runs.load(given.batch(run, came, other))
        found.append(run.run_id)
    drill = given.run(3, run_kind=RunKind.DRILL)
    loader.runs.load(given.batch(drill, given.came_back(drill, given.case(), (1.0, 1.0, 1.0))))
    slower = Verdict(
        CASE, "local", found[-1], VerdictKind.REGRESSED, "slower", 86.0, 100.0, -0.14, 2,
        smallest_slowdown=0.05, level_change=-0.1, low=-0.12, high=-0.08,
        since=NIGHT + timedelta(days=2),
    )  # fmt: skip
    loader.series.store_verdicts([slower])
    loader.alerts.open(slower)
    return found


def test_the_morning_has_the_alert_and_the_newest_run_of_the_suite(
    app: TestClient, nights: list[str]
) -> None:
    morning = app.get("/api/morning").json()
    (group,) = morning["alerts"]
    assert group["medians"] == [100.0, 101.0, 90.0]
    alert = group["head"]
    assert (alert["case_id"], morning["new_alerts"], alert["change"]) == (CASE, 1, -0.14)
    level = alert["level_change"], alert["change_low"], alert["change_high"]
    assert level == (-0.1, -0.12, -0.08)
    (suite,) = morning["suites"]
    assert (suite["run_id"], suite["measured"], suite["regressed"]) == (nights[-1], 2, 1)
    assert morning["is_empty"] is False


def test_each_planned_case_is_counted_once(
    app: TestClient, nights: list[str], loader: Warehouse, given: Given
) -> None:
    run = given.run(5)
    came = given.came_back(run, given.case(), (94.0, 95.0, 96.0))
    loader.runs.load(given.batch(run, came, missing=(given.case(nodes=2),)))
    (suite,) = app.get("/api/morning").json()["suites"]
    parts = ("measured", "failed", "quarantined", "left_out", "without_result")
    assert suite["planned"] == sum(suite[part] for part in parts)
    assert (suite["measured"], suite["without_result"]) == (1, 1)


def test_an_answer_is_never_older_than_the_warehouse(
    app: TestClient, nights: list[str], loader: Warehouse, given: Given
) -> None:
    before = app.get("/api/series?nodes=1").json()
    assert app.get("/api/series?nodes=1").json() == before
    run = given.run(5)
    came = given.came_back(run, given.case(), (94.0, 95.0, 96.0))
    loader.runs.load(given.batch(run, came))
    (after,) = app.get("/api/series?nodes=1").json()["items"]
    assert (before["items"][0]["throughput"], after["throughput"]) == (90.0, 95.0)


def test_a_suite_that_runs_seldom_keeps_its_line(
    app: TestClient, nights: list[str], loader: Warehouse, given: Given
) -> None:
    for hour in range(201):
        loader.runs.plan(given.run(4, suite="hourly", tail=f"{hour:04}"), [])
    on_demand = given.run(5, run_kind=RunKind.ON_DEMAND)
    loader.runs.plan(on_demand, [])
    suites = {each["suite"]: each["run_id"] for each in app.get("/api/morning").json()["suites"]}
    assert suites == {
        "demo": nights[-1],
        "hourly": given.run(4, suite="hourly", tail="0200").run_id,
    }


def test_runs_are_paged_to_their_end(
    app: TestClient, nights: list[str], loader: Warehouse, given: Given
) -> None:
    page = app.get("/api/runs?size=2&page=2").json()
    assert ([each["run_id"] for each in page["items"]], page["has_more"]) == (nights[1::-1], False)
    after = app.get("/api/runs?size=200&page=4999").json()
    assert (after["items"], after["has_more"]) == ([], False)


def test_an_empty_warehouse_says_so(app: TestClient) -> None:
    morning = app.get("/api/morning").json()
    assert (morning["is_empty"], morning["alerts"], morning["suites"]) == (True, [], [])
    assert app.get("/api/series").json() == {"items": [], "total": 0, "page": 1, "size": 50}
    assert app.get("/api/axes").json() == {"items": []}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", 2),
        ("nodes=1", 1),
        ("nodes=2&framework=pytorch", 1),
        ("nodes=3", 0),
        ("no_such_axis=1", 0),
        ("state=alert", 1),
        ("cluster=elsewhere", 0),
        ("suite=demo", 2),
        ("search=COLLECTIVE-1x1", 1),
        ("search=%25", 0),
    ],
)
def test_series_are_found_by_any_axis(
    app: TestClient, nights: list[str], query: str, found: int
) -> None:
    page = app.get(f"/api/series?{query}").json()
    assert (page["total"], len(page["items"])) == (found, found)


def test_series_are_sorted_and_paged(app: TestClient, nights: list[str]) -> None:
    first = app.get("/api/series?sort=change&size=1").json()
    assert (first["items"][0]["case_id"], first["total"]) == (CASE, 2)
    assert first["items"][0]["throughput"] == 90.0
    second = app.get("/api/series?sort=change&size=1&page=2").json()
    assert second["items"][0]["case_id"] != CASE
    assert app.get("/api/series?size=501").status_code == 422
    assert app.get("/api/series?sort=evil").status_code == 422


def test_series_are_grouped_by_an_axis(app: TestClient, nights: list[str]) -> None:
    def grouped(query: str) -> list[str | None]:
        return [row["together"] for row in app.get(f"/api/series?{query}").json()["items"]]

    # The slower series has one node and comes first by its change.
    assert grouped("sort=change") == [None, None]
    assert grouped("sort=change&together=nodes") == ["1", "2"]
    assert grouped("together=state") == ["alert", "measured"]
    assert grouped("together=no_such_axis") == [None, None]


def test_a_point_says_what_its_node_had_become(
    app: TestClient, loader: Warehouse, given: Given
) -> None:
    for night, (fingerprint, driver) in enumerate((("a", "550"), ("a", "550"), ("b", "560"))):
        run = given.run(night, code_digest=f"code-{fingerprint}")
        came = given.came_back(run, given.case(), fingerprint_id=f"fp-{fingerprint}")
        document = {"schema": "nightbench.fingerprint/1", "node": "n1", "driver": driver}
        batch = given.batch(run, came)
        fingerprints = {**batch.fingerprints, f"fp-{fingerprint}": document}
        loader.runs.load(replace(batch, fingerprints=fingerprints))
    points = app.get(f"/api/series/local/{CASE}").json()["points"]
    assert [point["state_changes"] for point in points] == [[], [], ["driver 550 → 560"]]
    assert [point["code_digest"] for point in points] == ["code-a", "code-a", "code-b"]


def test_axes_count_their_series(app: TestClient, nights: list[str]) -> None:
    values = {(v["axis"], v["value"]): v["series"] for v in app.get("/api/axes").json()["items"]}
    assert values[("framework", "pytorch")] == 2
    assert values[("nodes", "1")] == values[("nodes", "2")] == 1
    assert values[("cluster", "local")] == 2


def test_a_series_has_its_points_and_alerts(app: TestClient, nights: list[str]) -> None:
    series = app.get(f"/api/series/local/{CASE}").json()
    assert [point["run_id"] for point in series["points"]] == nights
    last = series["points"][-1]
    assert (last["throughput"], last["verdict"], last["baseline"]) == (90.0, "regressed", 100.0)
    assert (series["unit"], len(series["alerts"])) == ("images", 1)
    since = (NIGHT + timedelta(days=1)).isoformat().replace("+", "%2B")
    assert len(app.get(f"/api/series/local/{CASE}?since={since}").json()["points"]) == 2
    assert app.get("/api/series/local/no-such-case").status_code == 404
    wide = app.get(f"/api/series/local/{CASE}?since=0087-07-22T07:26:08%2B17:33")
    assert len(wide.json()["points"]) == len(series["points"])
    assert app.get(f"/api/series/local/{CASE}?since=0001-01-01T00:00%2B05:00").status_code == 422


def test_every_answer_says_what_a_median_took_of_its_devices(
    app: TestClient, loader: Warehouse, given: Given
) -> None:
    known, unknown = given.case(nodes=2), given.case()
    figures = {"device": "X1", "model_flops_per_s": 4e14, "tokens_per_s": 2e4}
    figures |= {"peak_resident_bytes": 3_000_000_000, "peak_allocator_bytes": 15_000_000_000}
    energy = {"power_w": 300.0, "joules_per_unit": 1.5}
    silent = {"energy_absent": "n1: power was not recorded"}
    printed = {"mfu_percent": 43.5, "tflops_per_device": 215.0}
    for night in (0, 1):
        run = given.run(night)
        backs = []
        for case, more in (
            (known, {"peak_flops": 1e15, "mfu": 0.4, "reported": printed} | energy),
            (unknown, {"mfu_absent": "no peak of X1 at fp32 is known"} | silent),
        ):
            back = given.came_back(run, case)
            measured = replace(back.measurement, **figures, **more)
            backs.append(replace(back, measurement=measured))
        loader.runs.load(given.batch(run, *backs))
    names = ("tflops_per_device", "tokens_per_s_per_device", "mfu", "mfu_absent", "device")
    names += ("power_w", "joules_per_unit", "energy_absent", "reported", "peak_allocator_bytes")
    no_peak = "no peak of X1 at fp32 is known"
    held = 15_000_000_000
    without = (None, no_peak, "X1", None, None, silent["energy_absent"], None, held)
    wanted = {
        known.case_id: (200, 10_000, 0.4, None, "X1", 300, 1.5, None, printed, held),
        unknown.case_id: (400, 20_000, *without),
    }
    cases = app.get(f"/api/runs/{run.run_id}").json()["cases"]
    series = app.get("/api/series?sort=mfu").json()["items"]
    for rows in (cases, series):
        assert {row["case_id"]: tuple(row[name] for name in names) for row in rows} == wanted
        assert all(row["peak_resident_bytes"] for row in rows)
    assert [row["case_id"] for row in series] == [known.case_id, unknown.case_id]
    for case_id, figures_of_it in wanted.items():
        case = app.get(f"/api/runs/{run.run_id}/{case_id}").json()["case"]
        point = app.get(f"/api/series/local/{case_id}").json()["points"][-1]
        for row in (case, point):
            assert tuple(row[name] for name in names) == figures_of_it
    for path in ("series?", f"runs/{run.run_id}?", f"series/local/{known.case_id}?"):
        table = list(csv.DictReader(io.StringIO(app.get(f"/api/{path}format=csv").text)))
        assert {*names, "peak_resident_bytes"} <= set(table[0])
        assert json.dumps(printed) in [row["reported"] for row in table]
    pairs = app.get(f"/api/compare?by=run&one={given.run(0).run_id}&other={run.run_id}").json()
    pair = next(each for each in pairs["items"] if each["one_case_id"] == known.case_id)
    assert (pair["one_tflops_per_device"], pair["other_tflops_per_device"]) == (200, 200)
    assert (pair["one_mfu"], pair["other_mfu"]) == (0.4, 0.4)
    assert (pair["one_reported"], pair["other_reported"]) == (printed, printed)
    (silent_pair,) = (each for each in pairs["items"] if each["one_case_id"] == unknown.case_id)
    assert (silent_pair["one_reported"], silent_pair["other_reported"]) == (None, None)


def test_answers_are_csv_on_demand(app: TestClient, nights: list[str]) -> None:
    answer = app.get(f"/api/series/local/{CASE}?format=csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["cache-control"] == "no-store"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["throughput"] for row in rows] == ["100.0", "101.0", "90.0"]
    assert len(app.get("/api/series?format=csv&size=1").text.splitlines()) == 1 + 2
    assert len(app.get(f"/api/runs/{nights[0]}?format=csv").text.splitlines()) == 1 + 2


def test_a_run_has_its_cases_and_their_repeats(app: TestClient, nights: list[str]) -> None:
    found = app.get(f"/api/runs/{nights[-1]}").json()
    assert (found["run"]["measured"], found["run"]["planned"]) == (2, 2)
    states = {case["case_id"]: case["state"] for case in found["cases"]}
    assert states[CASE] == "regressed"
    repeats = app.get(f"/api/runs/{nights[-1]}/{CASE}").json()["repeats"]
    assert [each["throughput"] for each in repeats] == [89.0, 90.0, 91.0]
    assert app.get("/api/runs/nope").status_code == 404


def test_a_case_names_each_python_that_its_last_generation_ran_on(
    app: TestClient, loader: Warehouse, given: Given
) -> None:
    run, case, absent = given.run(), given.case(nodes=2), given.case()
    for generation, pythons in enumerate((("3.10.2", "3.10.2"), ("3.13.5", "3.11.7"))):
        came = given.came_back(run, case, generation=generation)
        repeats = []
        for each in came.repeats:
            ranks = zip(each.record.ranks, pythons, strict=True)
            named = tuple(
                replace(rank, versions={**rank.versions, "python": python})
                for rank, python in ranks
            )
            repeats.append(replace(each, record=replace(each.record, ranks=named)))
        loader.runs.load(given.batch(run, replace(came, repeats=tuple(repeats)), missing=(absent,)))
    cases = {each["case_id"]: each for each in app.get(f"/api/runs/{run.run_id}").json()["cases"]}
    assert cases[case.case_id]["python"] == "3.11.7 and 3.13.5"
    assert cases[absent.case_id]["python"] is None
    one = app.get(f"/api/runs/{run.run_id}/{case.case_id}").json()["case"]
    assert (one["framework"], one["python"]) == ("pytorch", "3.11.7 and 3.13.5")


def test_runs_are_paged_newest_first(app: TestClient, nights: list[str]) -> None:
    first = app.get("/api/runs?size=2").json()
    assert first["has_more"] is True
    second = app.get("/api/runs?size=2&page=2").json()
    assert [run["run_id"] for run in second["items"]] == [nights[1], nights[0]]
    assert second["has_more"] is False


def test_the_run_of_a_dag_run_is_found(
    app: TestClient, loader: Warehouse, given: Given, nights: list[str]
) -> None:
    run = given.run(5, dag_id="nightly_demo", dag_run_id="scheduled__1")
    loader.runs.load(given.batch(run))
    query = "/api/runs/of-dag-run?dag_id=nightly_demo&dag_run_id="
    assert app.get(f"{query}scheduled__1").json() == {"run_id": run.run_id}
    assert app.get(f"{query}other").json() == {"run_id": None}


def test_the_api_describes_itself(app: TestClient) -> None:
    described = app.get("/api/openapi.json").json()
    assert {"/api/morning", "/api/series", "/api/runs/{run_id}"} <= set(described["paths"])
    assert "/" not in described["paths"]
    assert "AlertGroupRow" in described["components"]["schemas"]


def test_two_sides_of_equal_work_are_compared(
    app: TestClient, loader: Warehouse, given: Given, nights: list[str]
) -> None:
    there = given.run(4, cluster="elsewhere")
    came = given.came_back(there, given.case(), (45.0, 45.0, 45.0))
    loader.runs.load(given.batch(there, came))
    pairs = app.get("/api/compare?by=cluster&one=local&other=elsewhere").json()
    assert (pairs["total"], pairs["items"][0]["ratio"]) == (1, 0.5)
    assert pairs["items"][0]["one_run_id"] == nights[-1]
    runs = app.get(f"/api/compare?by=run&one={nights[0]}&other={nights[-1]}").json()
    assert [pair["ratio"] for pair in runs["items"]] == [0.9, 1.0]
    assert (runs["unclear"], runs["total"]) == (2, 2)
    sides = app.get("/api/compare/sides?by=cluster").json()
    assert sides == {"items": ["elsewhere", "local"]}
    for by in ("framework", "version", "build"):
        assert app.get(f"/api/compare?by={by}&one=a&other=b").json()["total"] == 0
        assert len(app.get(f"/api/compare/sides?by={by}").json()["items"]) == 1
    assert app.get("/api/compare?by=evil&one=a&other=b").status_code == 422


def test_clear_differences_come_first_and_one_sided_work_is_counted(
    app: TestClient, loader: Warehouse, given: Given
) -> None:
    one, other = given.run(), given.run(1)
    width = {"half_width": 0.01}
    loader.runs.load(
        given.batch(
            one,
            given.came_back(one, given.case(), (100.0,) * 3, **width),
            given.came_back(one, given.case(nodes=2), (100.0,) * 3, half_width=0.5),
            given.came_back(one, given.case(nodes=4), (100.0,) * 3, **width),
            given.came_back(one, given.case(nodes=8), (100.0,) * 3, **width),
        )
    )
    loader.runs.load(
        given.batch(
            other,
            given.came_back(other, given.case(), (95.0,) * 3, **width),
            given.came_back(other, given.case(nodes=2), (80.0,) * 3, half_width=0.5),
            given.came_back(other, given.case(nodes=4), (110.0,) * 3, **width),
            given.came_back(other, given.case(precision="bf16"), (300.0,) * 3, **width),
        )
    )
    asked = f"/api/compare?by=run&one={one.run_id}&other={other.run_id}"
    found = app.get(asked).json()
    assert [(pair["standing"], pair["ratio"]) for pair in found["items"]] == [
        ("faster", 1.1), ("slower", 0.95), ("unclear", 0.8),
    ]  # fmt: skip
    counts = [found[key] for key in ("faster", "slower", "unclear", "only_one", "only_other")]
    assert (counts, found["total"]) == ([1, 1, 1, 1, 1], 3)
    # One ratio of each pair, none of one-sided work, whatever standing is chosen.
    mean = pytest.approx((1.1 * 0.95 * 0.8) ** (1 / 3))
    workload = given.case().workload
    means = [{"workload": name, "pairs": 3, "ratio": mean} for name in (None, workload)]
    assert found["means"] == means
    assert app.get(f"{asked}&standing=slower").json()["means"] == means
    assert app.get(f"{asked}&search=nowhere").json()["means"] == []
    (alone,) = app.get(f"{asked}&standing=only_other").json()["items"]
    assert (alone["one_case_id"], alone["ratio"], alone["other_throughput"]) == (None, None, 300.0)
    # The counts stay where no row is left.
    after = app.get(f"{asked}&page=99").json()
    assert (after["items"], after["faster"], after["total"]) == ([], 1, 3)
    table = list(csv.DictReader(io.StringIO(app.get(f"{asked}&format=csv&size=1").text)))
    assert [line["ratio"] for line in table] == ["1.1", "0.95", "0.8"]


def test_a_comparison_opens_on_what_moved_most(
    app: TestClient, loader: Warehouse, given: Given
) -> None:
    def proposed() -> tuple[str | None, str | None]:
        answer = app.get("/api/compare/proposal").json()
        return answer["one"], answer["other"]

    levels = {"1.0": (300.0, 100.0), "1.1": (100.0, 100.0), "1.2": (101.0, 94.0)}
    for night, (version, medians) in enumerate(levels.items()):
        run, backs = given.run(night), []
        for framework, level in zip(("oneflow", "pytorch"), medians, strict=True):
            case, build = given.case(framework=framework), Build(framework, version=version)
            back = given.came_back(run, case, (level,), build=build, framework_version=version)
            backs.append(back)
        assert proposed() == ((None, None), (None, None), ("oneflow 1.0", "oneflow 1.1"))[night]
        loader.runs.load(given.batch(run, *backs))
    # Only the two newest count.
    assert proposed() == ("pytorch 1.1", "pytorch 1.2")


def test_a_csv_of_series_is_never_cut(
    app: TestClient, warehouse: Database, loader: Warehouse, given: Given
) -> None:
    run = given.run()
    loader.runs.load(given.batch(run, given.came_back(run, given.case())))
    named = f"'{CASE}-' || i"
    case_key = f'(select c.case_key from raw."case" as c where c.case_id = {named})'
    series_key = f"(select n.series_key from raw.series as n where n.case_id = {named})"
    changed = {"case_id": named, "case_key": case_key, "series_key": series_key}
    with closing(connect(warehouse.loader)) as connection, connection.cursor() as cursor:
        for table in ('"case"', "series", "planned_case", "measurement"):
            cursor.execute(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 "
                "and attgenerated = '' and attidentity = ''",
                [f"raw.{table}"],
            )
            columns = [name for (name,) in cursor.fetchall()]
            values = ", ".join(changed.get(name, f"t.{name}") for name in columns)
            cursor.execute(
                f"insert into raw.{table} ({', '.join(columns)}) select {values} "
                f"from raw.{table} as t, generate_series(1, 10000) as i"
            )
    assert len(app.get("/api/series?format=csv").text.splitlines()) == 1 + 10_001


def test_published_figures_are_listed_with_their_cells(app: TestClient) -> None:
    tables = app.get("/api/published").json()["items"]
    first = next(table for table in tables if table["cells"] and table["empty"])
    query = {"source_document": first["source_document"], "figure": first["figure"] or ""}
    cells = app.get("/api/published/cells", params=query).json()["items"]
    empty = {cell["reference_id"] for cell in cells if cell["published_value"] is None}
    assert len({cell["reference_id"] for cell in cells} - empty) == first["cells"]
    assert len(empty) == first["empty"]
    assert all(cell["remark"] for cell in cells if cell["reference_id"] in empty)
    assert all(cell["measured_value"] is None for cell in cells)


def test_clusters_nodes_and_controls_are_listed(
    app: TestClient, nights: list[str], loader: Warehouse
) -> None:
    now = datetime.now(UTC)
    known = Control("n1", "memory_copy", "gpu-0", "torch-2.13.0 cuda", "GB/s", (900.0,))
    new = Control("n1+n2", "all_reduce_gpus", "gpus", "nccl-2.27.3", "GB/s", (90.0,))
    loader.nodes.store_preflight("local", "r0", [], [known], now - timedelta(days=1))
    loader.nodes.store_preflight("local", "r1", [], [known, new], now)
    found = app.get("/api/nodes").json()
    (cluster,) = found["clusters"]
    assert (cluster["cluster"], cluster["nodes"], cluster["runs"]) == ("local", 2, 4)
    # Nights before had no such control: it is there, and held against nothing.
    assert {each["metric"]: (each["median"], each["ratio"]) for each in found["controls"]} == {
        "memory_copy": (900.0, 1.0),
        "all_reduce_gpus": (90.0, None),
    }


def test_nodes_say_who_holds_them_and_how_full_their_night_was(
    app: TestClient, loader: Warehouse, given: Given, tmp_path: Path
) -> None:
    spool = Spool(tmp_path)
    one, two = given.case(), given.case(nodes=2)
    for night, seconds in enumerate((100.0, 140.0, 300.0)):
        run = given.run(night)
        came = [replace(given.came_back(run, case), elapsed_s=seconds) for case in (one, two)]
        loader.runs.load(given.batch(run, *came))
    now = datetime.now(UTC)
    live = replace(given.run(9), started_at=now)
    loader.runs.plan(live, [])
    for case, state in ((one, "running"), (two, "waiting")):
        store = spool.run(live.run_id).case(case.case_id)
        store.save_job({"nodes": [{"name": "n1"}]})
        store.save_progress({"state": state, "message": "locked", "repeat": 2, "repeats": 7})
    nodes = app.get("/api/nodes").json()
    activity = app.get("/api/nodes/activity").json()["items"]
    held = {each["case_id"]: (each["is_holding"], each["nodes"]) for each in activity}
    assert held == {one.case_id: (True, ["n1"]), two.case_id: (False, ["n1"])}
    assert all(each["since"] >= now.isoformat()[:19] for each in activity)
    use = {
        each["node"]: (each["cases"], each["used_s"], each["planned_s"], each["busy_s"])
        for each in nodes["use"]
    }
    # The two nights before took 100 and 140 s; the two cases on n1 ran at once.
    assert use == {"n1": (2, 600.0, 240.0, 300.0), "n2": (1, 300.0, 120.0, 300.0)}


def test_nodes_have_a_calendar_of_use_faults_and_quarantine(
    app: TestClient, loader: Warehouse, given: Given
) -> None:
    case = given.case()
    for night in (0, 1, 3):
        run = given.run(night)
        loader.runs.load(given.batch(run, replace(given.came_back(run, case), elapsed_s=9.0)))

    def event(kind: str, night: int) -> NodeEvent:
        at = given.run(night).started_at + timedelta(minutes=1)
        return NodeEvent("local", "n1", at, kind)

    for each in (event("fault", 0), event("fault", 1), event("clean", 3)):
        loader.nodes.count("local", [each], HealthPolicy(quarantine_after=2))
    (n1,) = app.get("/api/nodes").json()["nights"]
    last = given.run(3).started_at + timedelta(hours=12)
    first = datetime.fromisoformat(n1["first_night"])
    assert first + timedelta(days=len(n1["cases"]) - 1) == datetime(
        last.year, last.month, last.day, tzinfo=UTC
    )
    assert n1["cases"][-5:] == [0, 1, 1, 0, 1]
    assert n1["faults"][-5:] == [0, 1, 1, 0, 0]
    # From the second fault to the clean preflight.
    assert n1["quarantined"][-5:] == [False, False, True, True, True]


def test_the_overview_holds_each_line_against_the_best_at_equal_work(
    app: TestClient, loader: Warehouse, given: Given
) -> None:
    def levels(night: int) -> dict[Case, float]:
        return {
            given.case(): 100.0 if night else 10.0,
            given.case(nodes=2): 400.0 if night < 40 else 440.0,
            given.case(framework="jax"): 200.0,
            given.case(framework="jax", nodes=2): 110.0,
            given.case(framework="jax", nodes=2, precision="bf16"): 900.0,
            given.case(workload="vgg16"): 7.0,
        }

    for night in (0, 20, 40):  # the first one is not of the last 30 days
        run = given.run(night)
        backs = [given.came_back(run, case, (level,) * 3) for case, level in levels(night).items()]
        loader.runs.load(given.batch(run, *backs))
    items = app.get("/api/overview").json()["items"]
    found = {(each["workload"], each["framework"]): each for each in items if each["series"]}
    torch, jax = (found["resnet50_v1.5", line] for line in ("pytorch", "jax"))
    # One node 100 : 200, two nodes 440 : 110; no other line has bf16.
    assert (torch["series"], torch["compared"]) == (2, 2)
    assert torch["share_of_best"] == pytest.approx(0.5**0.5)
    assert torch["moved"] == pytest.approx(1.1**0.5 - 1)
    assert (jax["series"], jax["compared"], jax["moved"]) == (3, 2, 0)
    assert jax["share_of_best"] == pytest.approx(0.25**0.5)
    alone = found["vgg16", "pytorch"]
    assert (alone["compared"], alone["share_of_best"]) == (0, None)
    only = [each for each in items if not each["series"]]
    assert only, "the public benchmarks have lines that nobody measured here"
    assert all(each["published"] and each["share_of_best"] is None for each in only)
    assert len(app.get("/api/overview?format=csv").text.splitlines()) == 1 + len(items)


def test_curves_are_points_of_equal_work_along_one_axis(
    app: TestClient, loader: Warehouse, given: Given
) -> None:
    run = given.run()
    levels = {
        given.case(): 100.0,
        given.case(nodes=2): 190.0,
        given.case(batch_size_per_device=8): 120.0,
        given.case(precision="bf16"): 150.0,  # alone: no curve
        given.case(framework="jax", nodes=2): 80.0,  # alone in its line
    }
    backs = [given.came_back(run, case, (level,) * 3) for case, level in levels.items()]
    loader.runs.load(given.batch(run, *backs))
    query = {"workload": given.case().workload}
    items = app.get("/api/overview/curves", params=query).json()["items"]
    assert [(each["axis"], each["framework"], each["x"], each["throughput"]) for each in items] == [
        ("devices", "pytorch", 1, 100.0),
        ("devices", "pytorch", 2, 190.0),
        ("batch size", "pytorch", 2, 100.0),
        ("batch size", "pytorch", 8, 120.0),
    ]
    assert items[0]["work"]["batch_size_per_device"] == 2
    assert app.get("/api/overview/curves?workload=none").json() == {"items": []}
