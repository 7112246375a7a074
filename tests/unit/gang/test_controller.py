"""The steering of a gang against nodes in memory: everything but SSH and processes."""

from __future__ import annotations

import asyncio
import dataclasses
import time

import pytest
from tests.unit.gang.simulation import MemoryNode

from nightbench.core.model import (
    Build,
    Case,
    CaseStatus,
    EnvironmentPolicy,
    JobSpec,
    Limits,
    Node,
    Process,
    Protocol,
    Reason,
    ReasonCode,
    Strategy,
    reasons_from_json,
)
from nightbench.core.sentences import sentences
from nightbench.gang import SshTarget, Superseded, cancel, run_gang
from nightbench.gang.errors import NodeUnreachable
from nightbench.gang.node_access import Layout
from nightbench.spool import Spool

JOB = JobSpec(
    run_id="run",
    case=Case("sleep", "fake", Strategy.COLLECTIVE, nodes=2, trainers=2),
    generation=0,
    cluster="test",
    build=Build("fake"),
    protocol=Protocol(2, 3, 3),
    nodes=(Node("n1", "h1", "c"), Node("n2", "h2", "c")),
    processes=(
        Process("trainer-0", "trainer", 0, "n1", 0),
        Process("trainer-1", "trainer", 1, "n2", 0),
    ),
    unit="samples",
    workload_params={},
    seed=1,
    env={},
    role_env={},
    limits=Limits(ready_s=5, repeat_s=20, progress_s=10, lease_s=2, term_s=0.1),
    code_digest="c0de",
    definition_digest="d",
    environments=EnvironmentPolicy(root="/node"),
)


def why(document):
    """The reasons of a document as people read them."""
    return sentences(reasons_from_json(document["reasons"]))


REACHED = {}
"""The nodes of a test, by name."""


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr("nightbench.gang.node_access.shared_transport", lambda t: REACHED[t.node])
    monkeypatch.setattr("nightbench.gang.fanout.FAST_POLL_S", 0.01)
    monkeypatch.setattr("nightbench.gang.controller.FAST_POLL_S", 0.01)
    monkeypatch.setattr("nightbench.gang.repeat_controller.FAST_POLL_S", 0.01)
    monkeypatch.setattr("nightbench.gang.repeat_controller.SLOW_POLL_S", 0.02)


@pytest.fixture
def store(tmp_path):
    return Spool(tmp_path).case("run", "case")


def gang(**changes):
    """Two nodes that are prepared."""
    nodes = {n: MemoryNode(n, **changes.get(n, {})) for n in ("n1", "n2")}
    for name, node in nodes.items():
        node.files[Layout("/node", "/node").job(JOB, name) + "/job.json"] = b"{}"
    REACHED.update(nodes)
    return nodes


async def steer(nodes, store, job=JOB, on_event=lambda event: None):
    targets = {name: SshTarget(name, name, b"") for name in nodes}
    return await run_gang(job, targets, store, on_event)


async def test_every_repeat_is_launched_once_on_every_node(store):
    nodes = gang()
    outcome = await steer(nodes, store)
    assert outcome.status is CaseStatus.OK
    assert [r.status for r in outcome.repeats] == ["ok"] * 3
    assert nodes["n1"].launches == nodes["n2"].launches == [1, 2, 3]
    assert store.repeat(1)["clocks"]["n1"]["offset_s"] == pytest.approx(1000, abs=0.1)
    order = [c for c in nodes["n1"].commands if not c.startswith("finish")]
    assert order == [f"{v}-{k:03d}.json" for k in (1, 2, 3) for v in ("prepare", "go")] + [
        "stop.json"
    ]


async def test_one_failure_is_recorded_and_the_next_repeat_runs(store):
    nodes = gang(n2={"fails": (2,)}, n1={"looks": 10_000})
    nodes["n1"].looks = 3
    outcome = await steer(nodes, store)
    assert [r.status for r in outcome.repeats] == ["ok", "failed", "ok"]
    assert outcome.status is CaseStatus.OK
    assert why(store.repeat(2)) == "n2: trainer exited with code 1"
    assert store.repeat(2)["log_tail"] == "log of n2"


async def test_the_first_two_failures_end_the_case(store):
    nodes = gang(n1={"fails": (1, 2, 3)})
    outcome = await steer(nodes, store)
    assert outcome.status is CaseStatus.FAILED
    assert len(outcome.repeats) == 2
    assert "2 of 2 launches failed" in outcome.why
    assert nodes["n2"].launches == [1, 2]
    assert await steer(nodes, store) == outcome
    assert nodes["n2"].launches == [1, 2]


async def test_a_short_cut_of_the_connection_is_survived(store):
    nodes = gang(n1={"looks": 60}, n2={"looks": 60})
    events = []
    task = asyncio.create_task(steer(nodes, store, on_event=events.append))
    await until(lambda: nodes["n2"].launches == [1])
    nodes["n2"].down = True
    await asyncio.sleep(0.5)
    nodes["n2"].down = False
    outcome = await task
    assert [r.status for r in outcome.repeats] == ["ok"] * 3
    assert nodes["n2"].launches == [1, 2, 3]
    kinds = [e.kind for e in events if e.node == "n2"]
    assert kinds.count("lost") == kinds.count("back") == 1


async def test_a_node_that_stays_away_fails_the_repeat_and_frees_the_others(store):
    nodes = gang(n1={"looks": 10_000}, n2={"looks": 10_000})
    task = asyncio.create_task(steer(nodes, store))
    await until(lambda: nodes["n2"].launches == [1])
    nodes["n2"].down = True
    record = await until(lambda: store.repeat(1))
    assert record["status"] == "failed"
    assert why(record).startswith("n2: unreachable: no answer for")
    assert "the cable is cut" in why(record)
    assert record["missing"] == ["n2"]
    assert "abort-001.json" in nodes["n1"].commands
    outcome = await task
    assert outcome.status is CaseStatus.FAILED
    assert [r.status for r in outcome.repeats] == ["failed", "failed"]
    assert nodes["n1"].launches == [1], "nothing is launched without all nodes"


async def test_a_node_that_was_never_there_is_an_error_and_no_outcome(store):
    nodes = gang()
    nodes["n2"].down = True
    with pytest.raises(NodeUnreachable, match="n2"):
        await steer(nodes, store)
    assert store.outcome() is None
    assert nodes["n1"].launches == []


async def test_nodes_are_freed_when_nothing_can_be_launched(store):
    """The first node's agent would hold its lock until the lease ends."""
    nodes = gang()

    def on_event(event):
        if event.message == "agent started":
            nodes["n2"].down = True

    with pytest.raises(NodeUnreachable, match="n2"):
        await steer(nodes, store, on_event=on_event)
    assert nodes["n1"].commands == ["stop.json"]
    assert nodes["n1"].launches == []


async def test_a_new_controller_goes_on_with_the_running_repeat(store):
    nodes = gang(n1={"looks": 40}, n2={"looks": 40})
    first = asyncio.create_task(steer(nodes, store))
    await until(lambda: nodes["n2"].launches == [1, 2])
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    outcome = await steer(nodes, store)
    assert [r.status for r in outcome.repeats] == ["ok"] * 3
    assert nodes["n1"].launches == nodes["n2"].launches == [1, 2, 3]
    assert store.repeat(2)["epoch"] == 2


async def test_a_result_that_nobody_fetched_is_fetched_by_the_next_controller(store):
    nodes = gang(n1={"looks": 40}, n2={"looks": 40})
    first = asyncio.create_task(steer(nodes, store))
    await until(lambda: nodes["n2"].launches == [1])
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    for node in nodes.values():
        node._end(1, "done", [])
        node.end_agent([Reason(ReasonCode.LEASE_EXPIRED, node.node, observed="60 s").to_json()])
    outcome = await steer(nodes, store)
    assert [r.status for r in outcome.repeats] == ["ok"] * 3
    assert nodes["n1"].launches == [1, 2, 3]


async def test_the_lower_epoch_stops_steering(store):
    nodes = gang(n1={"looks": 100}, n2={"looks": 100})
    first = asyncio.create_task(steer(nodes, store))
    await until(lambda: nodes["n2"].launches == [1])
    second = asyncio.create_task(steer(nodes, store))
    with pytest.raises(Superseded):
        await first
    assert (await second).status is CaseStatus.OK
    assert nodes["n1"].launches == [1, 2, 3]


async def test_a_gang_that_does_not_get_ready_is_aborted(store):
    nodes = gang()
    nodes["n2"]._obey = lambda name, content: None
    limits = dataclasses.replace(JOB.limits, ready_s=0.3)
    job = dataclasses.replace(JOB, limits=limits, protocol=Protocol(2, 3, 1))
    # The agent that obeys nothing answers no abort either: do not wait for it long.
    outcome = await asyncio.wait_for(asyncio.shield(_short_grace(nodes, store, job)), 120)
    assert outcome.status is CaseStatus.FAILED
    assert "n2: was not ready within 0.3 s" in outcome.why
    assert nodes["n1"].launches == []


async def _short_grace(nodes, store, job):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nightbench.gang.decisions.ABORT_GRACE_S", 0.2)
        patch.setattr("nightbench.gang.controller.STOP_S", 0.2)
        return await steer(nodes, store, job)


async def until(condition, limit_s=120):
    for _ in range(int(limit_s / 0.01)):
        if value := condition():
            return value
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")


async def test_a_controller_that_was_stopped_blames_no_node(store):
    """As a triggerer on a machine that was suspended: nobody was unreachable but itself."""
    nodes = gang(n1={"looks": 60}, n2={"looks": 60})
    loop, heard = asyncio.get_running_loop(), []

    def on_event(event):
        heard.append(event)
        if event.message == "go" and event.repeat == 1:
            loop.call_later(0.2, time.sleep, 5)

    outcome = await steer(nodes, store, on_event=on_event)
    assert [(r.status, r.reasons) for r in outcome.repeats] == [("ok", ())] * 3
    assert [event.kind for event in heard].count("paused") == 1


async def test_a_job_that_is_cancelled_has_an_end_also_where_a_node_is_away(store):
    nodes = gang()
    nodes["n1"].down = True
    targets = {name: SshTarget(name, name, b"") for name in nodes}
    with pytest.raises(NodeUnreachable):
        await cancel(JOB, targets, "enough", store)
    outcome = store.outcome()
    assert (outcome["status"], why(outcome)) == ("cancelled", "cancelled: enough")
