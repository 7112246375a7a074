"""Cases go around nodes that are out, and the spool says so."""

import dataclasses
from datetime import UTC, datetime

import pytest
from tests.jobs import sleeping_job

from nightbench.core.model import (
    Cluster,
    HealthPolicy,
    JobSpec,
    Node,
    Reason,
    ReasonCode,
)
from nightbench.core.sentences import sentences
from nightbench.night.cluster_preflight import ClusterHealth, nodes_out_now, notes, read, save
from nightbench.night.run_preflight import nodes_out_tonight, place_around, save_placement
from nightbench.nodes import (
    Control,
    Finding,
    FindingLevel,
    JudgedNode,
    NodePreflight,
    NodesOut,
    NodeState,
    left_out_because,
)
from nightbench.nodes.quarantine import QUARANTINED
from nightbench.spool import Spool

LAB = Cluster("lab", tuple(Node(f"n{i}", f"10.0.0.{i}", "c") for i in (1, 2, 3)))
AT = datetime(2026, 11, 21, 1, tzinfo=UTC)
ILL = Finding(FindingLevel.FAIL, "disk", "0 free", "5 GB", "make room")
ODD = Finding(FindingLevel.WARN, "clock", "3 min ahead", "1 min", "NTP")


def job(nodes: int) -> JobSpec:
    return sleeping_job(LAB, nodes)


def looked(*findings_of_each: tuple[Finding, ...]) -> ClusterHealth:
    nodes = tuple(
        JudgedNode(NodePreflight(f"n{i}", f"10.0.0.{i}:22", AT.isoformat(), True), found)
        for i, found in enumerate(findings_of_each, 1)
    )
    control = Control("n1", "memory_copy", "cpu", "python-3.11", "GB/s", (1.0, 2.0))
    return ClusterHealth("lab", AT, nodes, controls=(control,))


def out(node: str) -> NodesOut:
    """One node that takes no part."""
    reason = Reason(ReasonCode.CHECK_FAILED, node, "disk", "0 free", "5 GB")
    return {node: left_out_because(node, reason)}


def names(spec: JobSpec) -> list[str]:
    return [node.name for node in spec.nodes]


def test_ill_and_quarantined_nodes_take_no_part():
    states = {
        "n3": NodeState(
            "lab", "n3", QUARANTINED, AT, (Reason(ReasonCode.PERSON, observed="new fans"),), 3
        )
    }
    found = nodes_out_tonight(looked((ODD,), (ILL,), ()), states)
    assert {node: sentences(why) for node, why in found.items()} == {
        "n2": "n2: the node is left out: preflight: disk: 0 free, expected: 5 GB",
        "n3": "n3: the node is left out: in quarantine since 2026-11-21 01:00 UTC: new fans",
    }


def test_cases_go_around_or_say_which_node_was_missing():
    one, two, three = job(1), job(2), job(3)
    placement = place_around([one, two, three], LAB, out("n1"))
    assert placement.moved == (one.case.case_id, two.case.case_id)
    assert [names(j) for j in placement.jobs] == [["n2"], ["n2", "n3"]]
    assert {p.node for p in placement.jobs[1].processes} == {"n2", "n3"}
    *why, few = placement.unplaced[three.case.case_id]
    assert tuple(why) == out("n1")["n1"]
    assert few.code is ReasonCode.TOO_FEW_NODES


def test_nothing_moves_where_nobody_is_out():
    jobs = (job(1), job(3))
    placement = place_around(jobs, LAB, {})
    assert (placement.jobs, placement.moved, placement.unplaced) == (jobs, (), {})
    # Whoever does not need the ill node stays where its history is.
    assert place_around(jobs[:1], LAB, out("n3")).jobs == jobs[:1]


@pytest.fixture
def folder(tmp_path):
    run = Spool(tmp_path).run("r1")
    run.save_planned(
        [
            {
                "case_id": spec.case.case_id,
                "processes": [dataclasses.asdict(p) for p in spec.processes],
            }
            for spec in (job(1), job(3))
        ]
    )
    return run


def test_placement_is_kept_in_plan_and_outcomes(folder):
    save_placement(folder, place_around([job(1), job(3)], LAB, out("n1")))
    one, three = folder.planned()
    assert [p["node"] for p in one["processes"]] == ["n2"]
    assert [p["node"] for p in three["processes"]] == ["n1", "n2", "n3"]
    outcome = folder.case(three["case_id"]).outcome()
    assert outcome["status"] == "failed"
    assert [r["code"] for r in outcome["reasons"]] == [
        "node_left_out",
        "check_failed",
        "too_few_nodes",
    ]
    assert folder.case(one["case_id"]).outcome() is None


def test_case_that_has_begun_is_left_alone(folder):
    store = folder.case(job(3).case.case_id)
    store.save_job(job(3).to_json())
    save_placement(folder, place_around([job(3)], LAB, out("n1")))
    assert store.outcome() is None


def test_spool_gives_back_what_was_found(folder):
    health = dataclasses.replace(looked((ODD,), (ILL,), ()), busy=("n1",), between=(ODD,))
    save(folder, health, HealthPolicy(quarantine_after=5), out("n2"))
    known = read(folder)
    assert known is not None
    assert (known.health, known.policy.quarantine_after) == (health, 5)
    assert known.out == out("n2")
    assert known.health.valid_controls == ()
    assert notes(folder) == [
        "n2: the node is left out: disk: 0 free, expected: 5 GB",
        "n1: clock: 3 min ahead (expected 1 min)",
        "clock: 3 min ahead",
    ]


def test_run_without_a_preflight_has_nothing_to_say(tmp_path):
    run = Spool(tmp_path).run("r2")
    assert read(run) is None
    assert notes(run) == []


def end(folder, case: str, hour: int, fault: str | None) -> None:
    store = folder.case(case)
    store.save_job({"nodes": [{"name": "n1"}, {"name": "n2"}]})
    store.save_outcome(
        {
            "status": "failed" if fault else "ok",
            "ended_at": AT.replace(hour=hour).isoformat(),
            "faults": [Reason(ReasonCode.NODE_UNREACHABLE, fault).to_json()] if fault else [],
        }
    )


def test_a_node_that_fails_in_the_night_takes_no_part_from_then_on(folder):
    save(folder, looked((), (), ()), HealthPolicy(quarantine_after=2), out("n3"))
    end(folder, "a", 2, "n2")
    assert nodes_out_now(folder, "lab") == out("n3")
    end(folder, "b", 3, "n2")
    now = nodes_out_now(folder, "lab")
    assert sentences(now.pop("n2")) == (
        "n2: the node is left out: 2 faults in a row; the last one in b/g0: unreachable: ?"
    )
    assert now == out("n3")
    end(folder, "b", 3, None)
    assert nodes_out_now(folder, "lab") == out("n3")


def test_a_run_without_a_preflight_counts_its_cases(tmp_path):
    run = Spool(tmp_path).run("r3")
    for hour, case in enumerate("abc", 1):
        assert nodes_out_now(run, "lab") == {}
        end(run, case, hour, "n1")
    assert nodes_out_now(run, "lab").keys() == {"n1"}
