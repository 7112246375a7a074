"""Gangs of the `fake` framework on two nodes, over the local cluster and over OpenSSH."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.integration.openssh import SshNodes, nodes_of_both_kinds
from tests.jobs import gang_job
from tests.marks import marks

from nightbench.core.model import (
    CaseStatus,
    Cluster,
    JobSpec,
    Limits,
    Protocol,
    Strategy,
    reasons_from_json,
)
from nightbench.core.sentences import sentences
from nightbench.gang import (
    GangEvent,
    Shipment,
    cancel,
    cancel_run,
    prepare,
    run_gang,
    sweep,
)
from nightbench.gang.node_access import Layout
from nightbench.gang.node_client import NodeClient
from nightbench.spool import CaseStore, Spool

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def why(document) -> str:
    """The reasons of a document as people read them."""
    return sentences(reasons_from_json(document["reasons"]))


nodes = nodes_of_both_kinds(pytest.mark.large)


@pytest.fixture
def store(tmp_path: Path) -> CaseStore:
    return Spool(tmp_path / "spool").run("run-1").case("case-1")


_RUNS = iter(range(1, 10_000))


@pytest.fixture
def job(nodes: SshNodes, shipment: Shipment) -> Callable[..., JobSpec]:
    def make(
        *,
        repeats: int = 3,
        limits: Mapping[str, float] | None = None,
        run_id: str | None = None,
        strategy: Strategy = Strategy.COLLECTIVE,
        sync: str = "sync",
        **params: Any,
    ) -> JobSpec:
        times = {"ready_s": 20, "repeat_s": 60, "progress_s": 30, "lease_s": 20, "term_s": 1}
        return gang_job(
            nodes.nodes[:2],
            pservers=int(strategy is Strategy.PARAMETER_SERVER),
            strategy=strategy,
            sync=sync,
            run_id=run_id or f"test-{os.getpid()}-{next(_RUNS)}",
            protocol=Protocol(2, 10, repeats),
            workload_params={"step_s": 0.01, **params},
            limits=Limits(**{**times, **(limits or {})}),
            code_digest=shipment.code_digest(),
            environments=nodes.environments,
        )

    return make


def job_dir(nodes: SshNodes, job: JobSpec, node: str) -> Path:
    home = nodes.folder / "cluster" / node
    root = nodes.environments.root.replace("~", str(home), 1)
    return Path(Layout(root, root).job(job, node))


def agent_log(nodes: SshNodes, job: JobSpec, node: str) -> list[dict[str, Any]]:
    text = (job_dir(nodes, job, node) / "agent.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def launches(nodes: SshNodes, job: JobSpec, node: str) -> list[tuple[int, str]]:
    log = agent_log(nodes, job, node)
    return sorted((e["repeat"], e["process"]) for e in log if e["event"] == "launch")


def marked(job: JobSpec) -> list[int]:
    """Every process of this machine that carries the job's mark, agents included."""
    return list(marks(job.job_id))


def stepping(store: CaseStore) -> bool:
    return (store.progress() or {}).get("phase") in ("warmup", "window")


async def eventually(condition: Callable[[], Any], limit_s: float = 120) -> Any:
    until = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < until, "it did not come about"
        await asyncio.sleep(0.05)
    return value


async def run(
    shipment: Shipment,
    nodes: SshNodes,
    job: JobSpec,
    store: CaseStore,
    events: list[GangEvent] | None = None,
) -> Any:
    await prepare(job, nodes.targets, shipment)
    heard = events if events is not None else []
    return await run_gang(job, nodes.targets, store, heard.append)


# Where gangs over OpenSSH are measured at all, the others differ by the transport alone, which has
# its own tests over OpenSSH: test_gang_logins, test_gang_pool, test_gang_access.
@pytest.mark.parametrize(
    "nodes",
    ["local", pytest.param("openssh", marks=pytest.mark.openssh)],
    indirect=True,
    scope="module",
)
async def test_all_repeats_of_a_collective_case(shipment, nodes, job, store):
    spec = job()
    outcome = await run(shipment, nodes, spec, store)
    assert outcome.status is CaseStatus.OK
    assert [(r.repeat, r.status) for r in outcome.repeats] == [(1, "ok"), (2, "ok"), (3, "ok")]
    for repeat in (1, 2, 3):
        record, results = store.repeat(repeat), store.results(repeat)
        assert record["status"] == "ok"
        assert sorted(results) == ["n1", "n2"] == sorted(record["clocks"])
        # One machine, one monotonic clock.
        assert all(abs(c["offset_s"]) <= c["error_s"] + 1e-3 for c in record["clocks"].values())
        for result in results.values():
            (process,) = result["processes"]
            assert len(process["summary"]["step_seconds"]) == 10
    assert store.fingerprint("n1")
    assert store.fingerprint("n2")
    assert store.progress()["state"] == "ended"
    for node, name in (("n1", "trainer-0"), ("n2", "trainer-1")):
        assert launches(nodes, spec, node) == [(k, name) for k in (1, 2, 3)]
    await eventually(lambda: not marked(spec))  # an agent that says "ended" is about to exit
    # What has ended is returned; nothing is launched again.
    again = await run_gang(spec, nodes.targets, store)
    assert again == outcome
    assert len(launches(nodes, spec, "n1")) == 3


@pytest.mark.parametrize("sync", ["sync", "async"])
async def test_a_parameter_server_case_drains_and_finishes(shipment, nodes, job, store, sync):
    spec = job(repeats=1, strategy=Strategy.PARAMETER_SERVER, sync=sync)
    outcome = await run(shipment, nodes, spec, store)
    assert outcome.status is CaseStatus.OK, outcome.why
    trainers = [
        p["summary"] for r in store.results(1).values() for p in r["processes"] if p["measured"]
    ]
    assert len(trainers) == 2
    assert all((t["drain_steps"] > 0) == (sync == "async") for t in trainers)
    await eventually(lambda: not marked(spec))  # an agent that says "ended" is about to exit


async def test_a_failing_rank_ends_the_gang_and_the_case_goes_on(shipment, nodes, job, store):
    spec = job(repeats=3, step_s=0.2, repeat=2, rank=1, die_at_step=4, die_code=7)
    outcome = await run(shipment, nodes, spec, store)
    assert outcome.status is CaseStatus.OK
    assert [r.status for r in outcome.repeats] == ["ok", "failed", "ok"]
    record = store.repeat(2)
    assert "n2: trainer-1 exited with code 7" in why(record)
    assert "injected fault: die at step 4" in record["log_tail"]
    assert record["error"] == "[n2 trainer-1]\nfake: injected fault: die at step 4"
    logs = store.logs(2)
    assert sorted(logs) == ["trainer-1"], "the other one wrote nothing"
    assert "injected fault: die at step 4" in logs["trainer-1"].read_text()
    assert store.result(2, "n1")["status"] == "aborted"
    await eventually(lambda: not marked(spec))  # an agent that says "ended" is about to exit


@pytest.mark.parametrize("content", [b"", b"[]", b"\0" * 4096, b'{"schema": "nightbench.resu'])
async def test_a_damaged_result_costs_its_repeat_alone(shipment, nodes, job, store, content):
    """A node whose disk lost the end of a file, or all of it."""
    spec = job(repeats=3, step_s=0.02)

    async def damage() -> None:
        path = job_dir(nodes, spec, "n1") / "repeats" / "002" / "result.json"
        while not path.exists():
            await asyncio.sleep(0.001)
        path.write_bytes(content)

    damaging = asyncio.create_task(damage())
    outcome = await run(shipment, nodes, spec, store)
    damaging.cancel()
    assert outcome.status is CaseStatus.OK
    assert [r.status for r in outcome.repeats] == ["ok", "failed", "ok"]
    assert "result.json`: expected a JSON object; found" in why(store.repeat(2))
    assert outcome.faults == ()


async def test_the_first_death_is_shown_before_the_one_that_it_caused(shipment, nodes, job, store):
    """n2's trainer raises, n1's dies of the lost connection: n1 is the lead and is heard first."""
    raised = {"die_at_step": 6, "die_raise": "the batch has no labels", "rank": 1}
    spec = job(repeats=2, step_s=0.05, collective=True, die_of_others=True, **raised)
    outcome = await run(shipment, nodes, spec, store)
    assert outcome.status is CaseStatus.FAILED
    for number in (1, 2):
        assert {store.result(number, node)["status"] for node in ("n1", "n2")} == {"failed"}
        record = store.repeat(number)
        assert [each["node"] for each in record["reasons"]] == ["n2", "n2", "n1", "n1"]
        assert "RuntimeError: the batch has no labels" in record["reasons"][1]["observed"]
        assert "ConnectionResetError" in record["reasons"][3]["observed"]
        assert record["error"].startswith("[n2 trainer-1]\n")
        first, after = record["error"].splitlines()[-2:]
        assert first == "RuntimeError: the batch has no labels"
        assert after == "after it [n1 trainer-0] ConnectionResetError: connection reset by peer"
        assert record["log_tail"].startswith("[n2 trainer-1]")


async def test_cancelling_the_task_leaves_the_gang_and_cancel_ends_it(shipment, nodes, job, store):
    spec = job(repeats=1, step_s=5, ignore_term=True, daemon=True)
    await prepare(spec, nodes.targets, shipment)
    task = asyncio.create_task(run_gang(spec, nodes.targets, store))
    await eventually(lambda: stepping(store))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(marked(spec)) >= 6, "two agents, two trainers, two daemons"
    report = await cancel(spec, nodes.targets, "no longer wanted", store)
    assert sorted(report.stopped) == ["n1", "n2"]
    await eventually(lambda: not marked(spec))  # an agent that says "ended" is about to exit
    assert store.outcome()["status"] == "cancelled"
    assert why(store.outcome()) == "cancelled: no longer wanted"
    assert (await run_gang(spec, nodes.targets, store)).status is CaseStatus.CANCELLED


async def test_a_controller_sees_that_its_job_was_cancelled(shipment, nodes, job, store):
    spec = job(repeats=2, step_s=5)
    cluster = Cluster("test", nodes.nodes, environments=nodes.environments)
    await prepare(spec, nodes.targets, shipment)
    task = asyncio.create_task(run_gang(spec, nodes.targets, store))
    await eventually(lambda: stepping(store))
    await cancel_run(spec.run_id, cluster, nodes.targets, "the run was cancelled")
    outcome = await task
    assert outcome.status is CaseStatus.CANCELLED
    assert outcome.why == "cancelled: the run was cancelled"
    assert store.repeat(2) is None
    await eventually(lambda: not marked(spec))  # an agent that says "ended" is about to exit


async def test_the_second_case_waits_and_shows_who_holds_the_node(shipment, nodes, job, tmp_path):
    spool = Spool(tmp_path / "spool")
    first, second = job(repeats=1, step_s=0.6), job(repeats=1)
    one, two = spool.run("first").case("case"), spool.run("second").case("case")
    for spec in (first, second):
        await prepare(spec, nodes.targets, shipment)
    running = asyncio.create_task(run_gang(first, nodes.targets, one))
    await eventually(lambda: stepping(one))
    events: list[GangEvent] = []
    waiting = asyncio.create_task(run_gang(second, nodes.targets, two, events.append))
    shown = await eventually(
        lambda: (p := two.progress()) and p["state"] == "waiting" and p["message"]
    )
    assert first.job_id in shown
    assert "n1" in shown
    assert (await running).status is CaseStatus.OK
    assert (await waiting).status is CaseStatus.OK
    assert first.job_id in next(e for e in events if e.kind == "waiting").message


@pytest.mark.slow
async def test_gangs_do_not_deadlock_when_one_loses_its_first_node(
    shipment, nodes, job, tmp_path, monkeypatch
):
    spool = Spool(tmp_path / "spool")
    specs = [job(repeats=3, step_s=0.1), job(repeats=2, step_s=0.1)]
    stores = [spool.run(name).case("case") for name in ("first", "rival")]
    for spec in specs:
        await prepare(spec, nodes.targets, shipment)
    events: list[GangEvent] = []
    first = asyncio.create_task(run_gang(specs[0], nodes.targets, stores[0], events.append))
    await eventually(stores[0].progress)  # it has locked both nodes
    rival = asyncio.create_task(run_gang(specs[1], nodes.targets, stores[1]))
    await eventually(lambda: (stores[1].progress() or {}).get("state") == "waiting")
    await eventually(lambda: stores[0].repeat(1))
    start = NodeClient.start_agent

    async def start_after_the_rival(client: NodeClient, *, sweep: bool) -> tuple[bool, list[int]]:
        """Let the rival's agent have the lead's node first; who is quicker is chance."""
        if (client.job.job_id, client.name) == (specs[0].job_id, "n1"):
            log = functools.partial(agent_log, nodes, specs[1], "n1")
            await eventually(lambda: any(entry["event"] == "lock" for entry in log()))
        return await start(client, sweep=sweep)

    # The rival takes the lead's node, and waits for the other one.
    monkeypatch.setattr(NodeClient, "start_agent", start_after_the_rival)
    pid = json.loads((job_dir(nodes, specs[0], "n1") / "agent.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    outcomes = await asyncio.wait_for(asyncio.gather(first, rival), 300)
    assert [outcome.status for outcome in outcomes] == [CaseStatus.OK, CaseStatus.OK]
    assert [r.status for r in outcomes[1].repeats] == ["ok"] * 2
    assert any(e.node == "n2" and "released" in e.message for e in events)
    for node in ("n1", "n2"):
        found = launches(nodes, specs[0], node)
        assert len(set(found)) == len(found), "launched more than once"
    await eventually(lambda: not any(marked(spec) for spec in specs))


async def test_sweep_goes_on_where_a_node_is_away(shipment, nodes):
    cluster = Cluster("test", nodes.nodes, environments=nodes.environments)
    swept = await sweep(cluster, nodes.targets, shipment, job="no-such-run/")
    assert {node: answer["found"] for node, answer in swept.items()} == {"n1": [], "n2": []}
    away = nodes.with_target("n2", port=1)
    swept = await sweep(cluster, away, shipment, job="no-such-run/")
    assert swept["n1"]["found"] == []
    assert "connection refused" in swept["n2"]["problem"]


async def test_code_is_shipped_once(shipment, nodes, job):
    spec = job()
    events: list[GangEvent] = []
    await prepare(spec, nodes.targets, shipment)
    await prepare(spec, nodes.targets, shipment, events.append)
    assert [e for e in events if e.kind == "ship"] == []
    with pytest.raises(Exception, match="has changed since"):
        await prepare(dataclasses.replace(spec, code_digest="0" * 64), nodes.targets, shipment)
