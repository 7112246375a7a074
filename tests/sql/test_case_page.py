"""What the page of a case reads: PostgreSQL and a spool, with the roles that it has in Airflow."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient
from tests.sql.conftest import Database
from tests.sql.given import NIGHT, Given
from tests.sql.page_client import page_client

from nightbench.core.model import RunKind, Verdict, VerdictKind
from nightbench.spool import CaseStore, Spool
from nightbench.warehouse import Warehouse, connect
from nightbench.web import PageUser

CASE = "resnet50_v1.5-pytorch-collective-1x1-bs2-smoke"


class StepsGiven(Given):
    """Ranks with two steps of warm-up, and one step of the window that is an outlier."""

    def rank(self, rank: int, node: str, steps: tuple[float, ...]) -> Any:
        window = (0.1, 0.1, 0.1, 0.5, 0.1, 0.1)
        made = super().rank(rank, node, window)
        return replace(made, step_end_s=(99.7, 99.9, *made.step_end_s))


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path)


@pytest.fixture
def user() -> PageUser:
    return PageUser("ada", may_change=True)


@pytest.fixture
def app(
    warehouse: Database, spool: Spool, user: PageUser, monkeypatch: pytest.MonkeyPatch
) -> TestClient:
    def logs() -> None:
        if not user.may_change:
            raise HTTPException(403, "Forbidden")

    return page_client(warehouse, spool, monkeypatch, user, logs)


@pytest.fixture
def runs(loader: Warehouse) -> list[str]:
    """Two good nights, a drill, and a night that is slower on another kernel and version."""
    given, found = StepsGiven(), []
    for night, kind in enumerate((*[RunKind.NIGHTLY] * 2, RunKind.DRILL, RunKind.NIGHTLY)):
        run = given.run(night, run_kind=kind)
        is_last = night == 3
        came = given.came_back(
            run,
            given.case(),
            (90.0,) * 3 if is_last else (100.0,) * 3,
            framework_version="2.14.0+cpu" if is_last else "2.13.0+cpu",
            checks=(given.failed_check(2), given.failed_check()) if is_last else (),
        )
        kernel = "6.2" if is_last else "6.1"
        batch = given.batch(run, came)
        prints = {key: {**doc, "kernel": kernel} for key, doc in batch.fingerprints.items()}
        # Another state of a node has another fingerprint.
        renamed = {key: f"{key}-{kernel}" for key in prints}
        repeats = tuple(
            replace(
                each,
                record=replace(
                    each.record,
                    fingerprints={n: renamed[fp] for n, fp in each.record.fingerprints.items()},
                ),
            )
            for each in came.repeats
        )
        loader.runs.load(
            replace(
                batch,
                cases=(replace(came, repeats=repeats),),
                fingerprints={renamed[key]: doc for key, doc in prints.items()},
            )
        )
        found.append(run.run_id)
    return found


def test_a_case_has_what_changed_since_the_last_good_run(app: TestClient, runs: list[str]) -> None:
    found = app.get(f"/api/runs/{runs[3]}/{CASE}").json()
    # Not the drill between them.
    assert (found["good"]["run_id"], found["good"]["throughput"]) == (runs[1], 100.0)
    assert [(c["field"], c["before"], c["since"], c["nodes"]) for c in found["changes"]] == [
        ("pytorch", "2.13.0+cpu", "2.14.0+cpu", []),
        ("kernel", "6.1", "6.2", ["n1"]),
    ]
    assert found["changes_sentence"] is None
    assert {node: each["kernel"] for node, each in found["fingerprints"].items()} == {"n1": "6.2"}
    assert [each["repeat"] for each in found["repeats"]] == [1, 2, 3]
    assert [(c["repeat"], c["severity"]) for c in found["failed_checks"]] == [
        (0, "fail"), (2, "fail"),
    ]  # fmt: skip
    assert (found["may_trigger"], found["nodes"], found["generation"]) == (True, ["n1"], 0)


def test_the_verdict_names_the_last_good_run(
    app: TestClient, loader: Warehouse, runs: list[str]
) -> None:
    slower = Verdict(
        CASE, "local", runs[3], VerdictKind.REGRESSED, "slower", 90.0, 100.0, -0.1, 2,
        first_bad_run_id=runs[3], last_good_run_id=runs[0],
    )  # fmt: skip
    loader.series.store_verdicts([slower])
    assert app.get(f"/api/runs/{runs[3]}/{CASE}").json()["good"]["run_id"] == runs[0]
    first = app.get(f"/api/runs/{runs[0]}/{CASE}").json()
    assert (first["good"], first["changes"]) == (None, [])
    assert "no good run before" in first["changes_sentence"]


def test_a_run_judged_slower_is_no_good_run(
    app: TestClient, loader: Warehouse, given: Given, runs: list[str]
) -> None:
    slower = Verdict(CASE, "local", runs[1], VerdictKind.REGRESSED, "slower", 1.0, 2.0, -0.5, 2)
    loader.series.store_verdicts([slower])
    assert app.get(f"/api/runs/{runs[3]}/{CASE}").json()["good"]["run_id"] == runs[0]


def test_commands_measure_it_again(app: TestClient, runs: list[str]) -> None:
    commands = app.get(f"/api/runs/{runs[3]}/{CASE}").json()["commands"]
    assert list(commands.values()) == [
        f"nightbench run demo --case {CASE} --build pytorch=2.13.0",
        f"nightbench export {CASE}.tar.gz --run {runs[3]} --case {CASE}",
        f"nightbench logs --run {runs[3]} --case {CASE}",
    ]


def test_steps_have_their_warm_up_and_outliers(app: TestClient, runs: list[str]) -> None:
    found = app.get(f"/api/runs/{runs[0]}/{CASE}/repeats/0/1/steps").json()
    (rank,) = found["items"]
    assert (rank["process"], rank["warmup"], rank["window"]) == ("trainer-0", 2, 6)
    assert rank["seconds"] == [None, 0.2, 0.1, 0.1, 0.1, 0.5, 0.1, 0.1]
    assert (rank["outliers"], rank["median_s"], rank["longest_s"]) == (1, 0.1, 0.5)
    assert found["sentence"] is None


def test_steps_that_were_dropped_say_so(
    app: TestClient, loader: Warehouse, warehouse: Database, runs: list[str]
) -> None:
    assert loader.runs.drop_old_details(1) != []
    found = app.get(f"/api/runs/{runs[0]}/{CASE}/repeats/0/1/steps").json()
    assert found["items"] == []
    assert "have been removed" in found["sentence"]
    assert app.get(f"/api/runs/{runs[0]}/{CASE}/repeats/0/9/steps").status_code == 404


def repeat_files(spool: Spool, run_id: str) -> CaseStore:
    store = spool.run(run_id).case(CASE)
    reasons = [{"code": "process_exited", "subject": "trainer-1"}]
    store.save_repeat(1, {"repeat": 1, "status": "failed", "reasons": reasons})
    return store


def test_logs_show_the_end_of_who_failed(app: TestClient, spool: Spool, runs: list[str]) -> None:
    store = repeat_files(spool, runs[0])
    store.save_log(1, "trainer-0", b"fine\n")
    long = b"".join(b"line %d\n" % number for number in range(1000))
    store.save_log(1, "trainer-1", long + b"\x1b[31m<script>\x00\xff</script>\x1b[0m\n")
    log = app.get(f"/api/runs/{runs[0]}/{CASE}/repeats/0/1/log").json()
    assert (log["processes"], log["process"]) == (["trainer-1", "trainer-0"], "trainer-1")
    assert log["is_cut"] is True
    lines = log["text"].splitlines()
    assert (len(lines), lines[-1]) == (400, "<script>\\x00�</script>")
    other = app.get(f"/api/runs/{runs[0]}/{CASE}/repeats/0/1/log?process=trainer-0").json()
    assert (other["text"], other["is_cut"]) == ("fine", False)
    none = app.get(f"/api/runs/{runs[0]}/{CASE}/repeats/0/1/log?process=../../x").json()
    assert (none["text"], none["sentence"][:24]) == ("", "There is no log of ../..")


def test_logs_that_are_gone_say_so(app: TestClient, runs: list[str]) -> None:
    log = app.get(f"/api/runs/{runs[0]}/{CASE}/repeats/0/1/log").json()
    assert (log["processes"], log["process"], log["text"]) == ([], None, "")
    assert "were removed from the spool" in log["sentence"]
    for name in ("..", "%2e%2e", "a b"):
        assert app.get(f"/api/runs/{name}/{CASE}/repeats/0/1/log").status_code == 404


@pytest.mark.parametrize("user", [PageUser("vera", may_change=False)])
def test_logs_need_the_right_to_read_logs(app: TestClient, runs: list[str]) -> None:
    assert app.get(f"/api/runs/{runs[0]}/{CASE}/repeats/0/1/log").status_code == 403
    assert app.get(f"/api/runs/{runs[0]}/{CASE}").json()["may_trigger"] is False


def test_samples_of_nodes_are_shown_by_metric(
    app: TestClient, spool: Spool, runs: list[str]
) -> None:
    gpu = {"index": 0, "sm_clock_mhz": 1410.0, "power_w": None, "throttle": "0x0000000000000004"}
    samples = [
        {"t_s": 10.0 + at, "cpu_percent": float(at), "memory_used_bytes": 2e9, "load1": 1.0}
        for at in range(3)
    ]
    store = repeat_files(spool, runs[0])
    store.save_result(1, "n1", {"telemetry": {"samples": [{**s, "gpus": [gpu]} for s in samples]}})
    store.save_result(1, "n2", {"telemetry": {"samples": [{**s, "gpus": []} for s in samples]}})
    found = app.get(f"/api/runs/{runs[0]}/{CASE}/repeats/0/1/telemetry").json()
    metrics = {(m["node"], m["device"], m["metric"]): m for m in found["items"]}
    assert metrics["n1", "", "CPU"]["values"] == [0.0, 1.0, 2.0]
    assert metrics["n1", "", "CPU"]["seconds"] == [0.0, 1.0, 2.0]
    assert metrics["n1", "", "memory"]["median"] == 2.0
    assert metrics["n1", "GPU 0", "SM clock"]["largest"] == 1410.0
    # A figure that the device does not report is no metric.
    assert ("n1", "GPU 0", "power") not in metrics
    assert found["sentences"][0].startswith("GPU metrics were not recorded on n2")
    assert found["sentences"][1] == "n1, GPU 0 was throttled: 0x0000000000000004"
    gone = app.get(f"/api/runs/{runs[1]}/{CASE}/repeats/0/1/telemetry").json()
    assert gone["items"] == []
    assert "were removed from the spool" in gone["sentences"][0]


def test_a_case_that_is_not_there(app: TestClient, runs: list[str]) -> None:
    assert app.get(f"/api/runs/{runs[0]}/no-such-case").status_code == 404
    assert app.get(f"/api/runs/nope/{CASE}").status_code == 404


def test_a_planned_case_without_a_result(
    app: TestClient, loader: Warehouse, given: Given, warehouse: Database
) -> None:
    run = given.run()
    with closing(connect(warehouse.loader)) as connection:
        Warehouse(connection).runs.load(given.batch(run, missing=(given.case(),)))
    found = app.get(f"/api/runs/{run.run_id}/{CASE}").json()
    assert (found["case"]["state"], found["repeats"], found["generation"]) == ("missing", [], None)
    assert NIGHT.isoformat().startswith(found["run"]["started_at"][:10])
