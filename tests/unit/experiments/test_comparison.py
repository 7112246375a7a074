"""A comparison in the spool: planned, replayed, answered, told; no node is asked."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.recording import Unrecorded
from tests.unit.cli.test_command import CLUSTER, SUITE, nightbench

from nightbench.config import load_catalog, load_cluster, load_suite, parse_build
from nightbench.core.errors import UserError
from nightbench.core.model import JobSpec, KubernetesPolicy, Reason, ReasonCode
from nightbench.core.model.experiments import Experiment, ExperimentKind
from nightbench.experiments import comparison, engine
from nightbench.experiments.comparison import ComparisonPlan
from nightbench.experiments.engine import ExperimentContext, Turn, launch_job
from nightbench.experiments.experiment_spool import request_cancel
from nightbench.experiments.reporting import ComparisonReporter
from nightbench.experiments.rounds import Arm, Launch, progress
from nightbench.gang import ApiAccess, PodTarget, RemoteFailure, Shipment
from nightbench.nodes import left_out_because
from nightbench.spool import Spool

REPO = Path(__file__).resolve().parents[3]
NAME = "ab-20261121T010203-9f3a"
REQUEST = {
    "a": "fake=/good",
    "b": "fake=/candidate",
    "suite": "trial",
    "cases": [],
    "cluster": None,
    "frameworks": "",
    "workloads": "",
    "strategies": "",
    "scale": None,
    "rounds": 3,
    "min_effect": 0.01,
    "seed": 1,
    "outside_hours": False,
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in (("clusters/pair.yaml", CLUSTER), ("suites/trial.yaml", SUITE)):
        path = tmp_path / "dags" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path


def plan(place: Path, b: str = "fake=/candidate", **changed: Any) -> ComparisonPlan:
    catalog = load_catalog(REPO / "benchmarks")
    cluster = load_cluster(place / "dags/clusters/pair.yaml", catalog=catalog)
    suite = load_suite(place / "dags/suites/trial.yaml", catalog, cluster=cluster)
    words = {"comparison_id": NAME, "rounds": 3, "min_effect": 0.01, "seed": 1, **changed}
    builds = (parse_build("fake=/good"), parse_build(b))
    context = comparison.ComparisonContext(suite, cluster, catalog)
    return comparison.plan_comparison(context, builds, **words)


def turn(spool: Spool, context: ExperimentContext) -> Turn:
    where = ("trial", "pair", "somebody")
    asked = Experiment(NAME, ExperimentKind.COMPARE, REQUEST, *where)
    return Turn(Unrecorded(asked), spool, context, ComparisonReporter(print))


def measured(place: Path, ratio: float = 0.9) -> tuple[ComparisonPlan, Spool]:
    """A comparison with all its launches, as a real one leaves them."""
    made, spool = plan(place), Spool(place / "home/spool")
    folder = comparison.store_comparison(made, spool, REQUEST, "somebody")
    for case in made.cases:
        while (
            following := progress(
                case.order, done := comparison.ended_launches(folder, case.case_id)
            ).next
        ) is not None:
            number, arm = following
            value = 100.0 + number if arm is Arm.A else (100.0 + number) * ratio
            store = folder.case(case.case_id, len(done))
            comparison.save_launch(store, Launch(number, arm, "ok", value))
    comparison.save_result(folder, comparison.make_result(made, folder))
    return made, spool


def test_both_builds_run_on_the_same_nodes_one_repeat_under_ids_of_their_own(place: Path) -> None:
    made = plan(place)
    for case in made.cases:
        a, b = case.launch(Arm.A, 0), case.launch(Arm.B, 1)
        assert a.nodes == b.nodes
        assert a.processes == b.processes
        assert a.definition_digest == b.definition_digest
        assert (a.build.location, b.build.location) == ("/good", "/candidate")
        assert (a.protocol.repeats, a.neighbours.budget) == (1, 0)
        assert [a.job_id, b.job_id] == [f"{NAME}/{case.case_id}/g{n}" for n in (0, 1)]


def test_a_prefix_of_the_site_never_stands_for_a_version_that_was_asked_for(place: Path) -> None:
    path = place / "dags/clusters/pair.yaml"
    path.write_text(CLUSTER + "environments:\n  paths: {fake: /site}\n")
    for each in plan(place, b="fake=2.0").cases:
        assert "fake" not in each.jobs[Arm.B].environments.paths
        assert each.jobs[Arm.B].build.version == "2.0"


def test_nodes_that_are_ill_are_left_out_for_both(place: Path) -> None:
    path = place / "dags/suites/trial.yaml"
    path.write_text(SUITE.replace("[1x1, 2x1]", "1x1"))
    name = plan(place).cases[0].jobs[Arm.A].nodes[0].name
    out = {
        name: left_out_because(name, Reason(ReasonCode.CHECK_FAILED, name, "disk", "full", "5 GB"))
    }
    (case,) = plan(place, left_out=out).cases
    assert {node.name for job in case.jobs.values() for node in job.nodes}.isdisjoint({name})
    path.write_text(SUITE)
    with pytest.raises(UserError, match="disk: full"):
        plan(place, left_out=out)


def test_a_launch_is_expected_to_take_what_the_longest_before_it_took(place: Path) -> None:
    # Before a window ends: without it each would be given its time limit of half an hour.
    made, folder = plan(place), Spool(place / "home/spool").comparison(NAME)
    case = made.cases[0]
    assert launch_job(folder, case, Arm.A, 0).expected_repeat_s is None
    for number, seconds in enumerate((20, 35, 25)):
        ends = {"started_at": "2026-11-21T01:00:00+00:00"}
        ends["ended_at"] = f"2026-11-21T01:00:{seconds}+00:00"
        record = {"repeat": 1, "status": "ok", "reasons": [], "faults": [], **ends}
        folder.case(case.case_id, number).save_repeat(1, record)
    assert launch_job(folder, case, Arm.B, 3).expected_repeat_s == 35


def test_an_answer_is_made_of_the_launches(place: Path) -> None:
    made, spool = measured(place)
    document = comparison.saved_result(spool.comparison(NAME))
    assert document is not None
    assert document["verdict"] == "slower"
    assert document["complete"] is True
    for row in document["cases"]:
        assert row["ratio"] == pytest.approx(0.9)
        assert [each["b"] / each["a"] for each in row["rounds"]] == pytest.approx([0.9] * 3)
        assert row["level"] == pytest.approx(0.975)
    assert document["combined"]["ratio"] == pytest.approx(0.9)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len(made.cases) == 2


def test_what_was_begun_with_other_rounds_or_code_is_not_taken_up(place: Path) -> None:
    made, spool = measured(place)
    case = made.cases[0]
    other = {arm: dataclasses.replace(job, code_digest="another") for arm, job in case.jobs.items()}
    changed = dataclasses.replace(
        made, cases=(dataclasses.replace(case, jobs=other), *made.cases[1:])
    )
    with pytest.raises(UserError, match="code changed since the experiment began"):
        comparison.store_comparison(changed, spool, REQUEST, "somebody")
    with pytest.raises(UserError, match="rounds changed since the experiment began"):
        comparison.store_comparison(plan(place, rounds=4), spool, REQUEST, "somebody")
    comparison.store_comparison(made, spool, REQUEST, "somebody")


@pytest.mark.parametrize("is_first", [True, False], ids=["before all launches", "in one"])
def test_a_cancellation_that_ends_what_prepares_a_node_is_no_fault_of_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    made, spool = plan(place), Spool(place / "home/spool")
    folder = spool.comparison(NAME)
    prepared: list[JobSpec] = []

    async def ended(job: JobSpec, *_: object) -> None:
        prepared.append(job)
        if is_first or len(prepared) > 2 * len(made.cases):
            request_cancel(folder, "cancelled by the user")
            raise RemoteFailure("n1", "127.0.0.2:22", "could not run `agent.py prefix` (exit 143)")

    monkeypatch.setattr(engine, "prepare", ended)
    catalog, shipment = load_catalog(REPO / "benchmarks"), Shipment(REPO / "benchmarks")
    context = ExperimentContext(made.suite, made.cluster, catalog, targets={}, shipment=shipment)
    words = (made, REQUEST, "somebody", turn(spool, context), lambda: None)
    document = asyncio.run(engine.run_comparison(*words))
    assert document["complete"] is False
    assert document["cases"][0]["stopped"] == f"{NAME}: cancelled by the user"
    assert len(prepared) == (1 if is_first else 2 * len(made.cases) + 1)
    assert comparison.ended_launches(folder, made.cases[0].case_id) == []

    async def ready(*_: object) -> None: ...

    async def away(*_: object, **more: object) -> None:
        raise RemoteFailure("n1", "127.0.0.2:22", "could not run `agent.py start` (exit 1)")

    monkeypatch.setattr(engine, "prepare", ready)
    monkeypatch.setattr(engine, "run_gang", away)
    asyncio.run(engine.run_comparison(*words))
    first, *_ = comparison.ended_launches(folder, made.cases[0].case_id)
    assert first.status == "failed", "its gang was never begun before"


def test_a_cancellation_that_ends_what_starts_an_agent_fails_no_launch(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, spool = plan(place), Spool(place / "home/spool")
    folder = spool.comparison(NAME)

    async def prepared(*_: object) -> None: ...

    async def ended(*_: object, **more: object) -> None:
        request_cancel(folder, "cancelled by the user")
        raise RemoteFailure("n1", "127.0.0.2:22", "could not run `agent.py start` (exit 143)")

    monkeypatch.setattr(engine, "prepare", prepared)
    monkeypatch.setattr(engine, "run_gang", ended)
    catalog, shipment = load_catalog(REPO / "benchmarks"), Shipment(REPO / "benchmarks")
    context = ExperimentContext(made.suite, made.cluster, catalog, targets={}, shipment=shipment)
    words = (made, REQUEST, "somebody", turn(spool, context), lambda: None)
    document = asyncio.run(engine.run_comparison(*words))
    assert document["cases"][0]["stopped"] == f"{NAME}: cancelled by the user"
    (launch,) = comparison.ended_launches(folder, made.cases[0].case_id)
    assert launch.status == "interrupted"


def test_old_comparisons_are_removed_with_old_runs(place: Path) -> None:
    _, spool = measured(place)
    assert spool.expire(1) == []
    folder = spool.comparison(NAME)
    folder.save_run({**(folder.run() or {}), "started_at": "2020-01-01T00:00:00+00:00"})
    with folder.controlled():
        assert spool.expire(1) == []
    assert spool.expire(1) == [NAME]
    assert spool.comparisons() == []


@pytest.fixture
def channel() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A channel that keeps what it is told."""
    told: list[dict[str, Any]] = []

    class Keeper(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Keeper)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"json://127.0.0.1:{server.server_port}", told
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_complete_one_is_shown_and_told_again_without_a_node(
    place: Path, channel: tuple[str, list[dict[str, Any]]]
) -> None:
    made, _ = measured(place)
    url, told = channel
    done = nightbench(place, "compare", "--resume", NAME, "--channel", url)
    assert done.returncode == 1, done.stderr
    assert "slower. B is 10 % slower than A" in done.stdout
    assert "0.9000" in done.stdout
    (message,) = told
    assert "is slower than" in message["title"]
    for case in made.cases:
        assert f"{case.case_id}: slower, B / A 0.9000" in message["message"]
    assert "received the message" in done.stderr
    # A channel that is away changes no exit code, and its URL is told to nobody.
    away = nightbench(
        place, "compare", "--resume", NAME, "--channel", "json://127.0.0.1:9/secret-word"
    )
    assert away.returncode == 1
    assert "failed: " in away.stderr
    assert "secret-word" not in away.stderr + away.stdout


def test_pods_are_prepared_for_a_launch_alone_and_deleted_if_it_fails(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, spool = plan(place), Spool(place / "home/spool")
    steps: list[tuple[str, str]] = []

    async def prepared(job: JobSpec, *_: object) -> None:
        steps.append(("prepare", job.job_id))

    async def away(job: JobSpec, *_: object, **more: object) -> None:
        raise RemoteFailure("n1", "default/n1", "could not run `agent.py start` (exit 1)")

    async def deleted(job: JobSpec, *_: object) -> None:
        steps.append(("delete", job.job_id))

    monkeypatch.setattr(engine, "prepare", prepared)
    monkeypatch.setattr(engine, "run_gang", away)
    monkeypatch.setattr(engine, "delete_pods_of", deleted)
    catalog, shipment = load_catalog(REPO / "benchmarks"), Shipment(REPO / "benchmarks")
    access = ApiAccess("kubernetes_default")
    targets = {"n1": PodTarget("n1", access, KubernetesPolicy(images={"fake": "image"}), "python3")}
    context = ExperimentContext(
        made.suite, made.cluster, catalog, targets=targets, shipment=shipment
    )
    words = (made, REQUEST, "somebody", turn(spool, context), lambda: None)
    asyncio.run(engine.run_comparison(*words))
    jobs = [job for what, job in steps if what == "prepare"]
    assert len(jobs) == len(set(jobs))
    assert steps == [(what, job) for job in jobs for what in ("prepare", "delete")]
