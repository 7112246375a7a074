"""From a run's files to who is left out: the records of nodes, and the command that shows it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from tests import command

from nightbench.core.errors import UserError
from nightbench.core.model import (
    CaseStatus,
    Cluster,
    HealthPolicy,
    Node,
    Reason,
    ReasonCode,
    reasons_from_json,
)
from nightbench.core.sentences import sentences
from nightbench.night.cluster_preflight import (
    ClusterHealth,
    record_preflight,
    record_run,
    save,
    set_node_state,
)
from nightbench.night.run_preflight import nodes_out_tonight
from nightbench.nodes import Control, Finding, FindingLevel, JudgedNode, NodePreflight
from nightbench.nodes.quarantine import QUARANTINED, RELEASED
from nightbench.spool import CaseOutcome, RunSpool, Spool
from nightbench.warehouse import Warehouse, connect

START = datetime(2026, 11, 1, 22, 0, tzinfo=UTC)
LAB = Cluster("lab", (Node("n1", "127.0.0.2", "c"), Node("n2", "127.0.0.3", "c")))
ILL = Finding(FindingLevel.FAIL, "disk", "0 free", "5 GB", "make room")


def looked(night: int, *ill: str, value: float = 2.0) -> ClusterHealth:
    at = START + timedelta(days=night)
    nodes = tuple(
        JudgedNode(
            NodePreflight(node.name, f"{node.host}:22", at.isoformat(), True),
            (ILL,) if node.name in ill else (),
        )
        for node in LAB.nodes
    )
    controls = (
        Control("n1", "memory_copy", "cpu", "python-3.11", "GB/s", (value,)),
        Control("n1+n2", "all_reduce", "network", "tcp", "GB/s", (value,)),
    )
    return ClusterHealth("lab", at, nodes, controls=controls)


def lost(node: str) -> Reason:
    return Reason(ReasonCode.NODE_UNREACHABLE, node, observed="the connection was lost")


@pytest.fixture
def run(tmp_path):
    """A run of a night, with the end of its cases."""

    def make(night: int, *ill: str, **ends: str | None) -> RunSpool:
        """`ends`: case -> the node that made it fail; None if it was measured."""
        folder = Spool(tmp_path).run(f"r{night}")
        save(folder, looked(night, *ill), LAB.health, {})
        for hour, (case, fault) in enumerate(ends.items(), 1):
            store = folder.case(case)
            store.save_job({"nodes": [{"name": "n1"}, {"name": "n2"}]})
            ended_at = (START + timedelta(days=night, hours=hour)).isoformat()
            faults = (lost(fault),) if fault else ()
            status = CaseStatus.FAILED if fault else CaseStatus.OK
            store.save_outcome(CaseOutcome(status, faults, (), ended_at, faults).to_json())
        return folder

    return make


def test_nights_of_faults_put_a_node_out_and_a_clean_look_lets_it_in(loader, run):
    for night in range(3):
        states = record_run(loader, run(night, "n2"), "lab")
    assert states["n2"].quarantined
    assert not states["n1"].quarantined
    # The next evening's look is booked before anything is placed.
    states = record_preflight(loader, "r3", looked(3), LAB.health)
    assert nodes_out_tonight(looked(3), states) == {}
    changes = loader.nodes.changes("lab", "n2")
    assert [change["state"] for change in changes] == ["ok", "quarantined"]
    assert [each["code"] for each in changes[1]["reasons"]] == [
        "faults_in_a_row",
        "preflight_failed",
    ]
    assert sentences(reasons_from_json(changes[1]["reasons"])).startswith(
        "3 faults in a row; the last fault in preflight: n2: preflight: disk: 0 free"
    )


def test_cases_that_fail_because_of_a_node_count_too(loader, run):
    states = record_run(loader, run(0, a="n2", b="n2"), "lab")
    assert (states["n2"].faults, states["n1"].faults) == (2, 0)
    states = record_run(loader, run(1, c="n2"), "lab")
    assert states["n2"].quarantined
    assert "the last fault in c/g0: n2: unreachable: " in sentences(states["n2"].reasons)


def test_a_case_that_is_measured_ends_the_row(loader, run):
    assert record_run(loader, run(0, a="n2", b=None, c="n2"), "lab")["n2"].faults == 1


def test_a_run_that_is_loaded_twice_is_counted_once(loader, run, rows):
    folder = run(0, "n1", a="n2", b="n2")
    first = record_run(loader, folder, "lab")
    assert record_run(loader, folder, "lab") == first
    # The evening's look had been booked by the preflight itself.
    assert record_preflight(loader, "r0", looked(0, "n1"), LAB.health) == first
    assert len(rows("select * from raw.control")) == 2
    assert len(rows("select * from raw.node_preflight")) == 2


def test_a_run_without_a_preflight_counts_its_cases(loader, tmp_path):
    folder = Spool(tmp_path).run("r9")
    assert record_run(loader, folder, "lab") == {}
    folder.case("a").end(CaseStatus.FAILED, [], [lost("n1")])
    assert record_run(loader, folder, "lab")["n1"].faults == 1


def test_the_site_says_how_many_faults(loader, tmp_path):
    folder = Spool(tmp_path).run("r0")
    save(folder, looked(0, "n2"), HealthPolicy(quarantine_after=1), {})
    assert record_run(loader, folder, "lab")["n2"].quarantined


def test_controls_beside_foreign_work_are_not_stored(loader, rows):
    record_preflight(loader, "r0", dataclasses.replace(looked(0), busy=("n2",)), LAB.health)
    assert [row["node"] for row in rows("select node from raw.control")] == ["n1"]


def test_a_person_decides(loader, monkeypatch):
    monkeypatch.setenv("LOGNAME", "anna")
    state = set_node_state(loader, LAB, "n1", QUARANTINED, "new fans")
    assert (state.quarantined, state.by_whom) == (True, "anna")
    assert nodes_out_tonight(looked(900), loader.nodes.states("lab")).keys() == {"n1"}
    # A clean look does not overrule a person.
    assert record_preflight(loader, "r900", looked(900), LAB.health)["n1"].quarantined
    with pytest.raises(UserError, match="expected one of n1, n2"):
        set_node_state(loader, LAB, "n7", RELEASED, "")


# --- the command --------------------------------------------------------------------------


@pytest.fixture
def nightbench(tmp_path, warehouse):
    file = tmp_path / "dags/clusters/lab.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "cluster: lab\nnodes:\n"
        "  - {hosts: 127.0.0.2, name: n1, ssh_conn_id: c}\n"
        "  - {hosts: 127.0.0.3, name: n2, ssh_conn_id: c}\n"
    )

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "NIGHTBENCH_HOME": str(tmp_path / "home"),
            "NIGHTBENCH_DAGS": str(tmp_path / "dags"),
            "NIGHTBENCH_WAREHOUSE": warehouse.loader,
        }
        return command.run(*words, env=environment)

    return call


def test_nodes_shows_puts_out_and_lets_in(nightbench, warehouse):
    with closing(connect(warehouse.loader)) as own:
        record_preflight(Warehouse(own), "r0", looked(0, "n2"), LAB.health)
    out = nightbench("nodes", "lab", "--quarantine", "n1", "--reason", "new fans")
    assert out.returncode == 0, out.stderr
    assert "n1: quarantined" in out.stdout
    found = json.loads(nightbench("nodes", "lab", "--json").stdout)["nodes"]
    assert [(row["node"], row["state"]) for row in found] == [("n1", "quarantined"), ("n2", "ok")]
    assert found[1]["faults_in_a_row"] == 1
    assert found[1]["last_complaints"] == ["disk"]
    assert nightbench("nodes", "lab", "--release", "n1").returncode == 0
    shown = nightbench("nodes", "lab", "--history")
    assert "released" in shown.stdout
    assert "new fans" in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--quarantine", "n1"), "--reason"),
        (("--quarantine", "n9", "--reason", "x"), "expected one of n1, n2"),
        (("--quarantine", "n1", "--release", "n1", "--reason", "x"), "found both"),
    ],
)
def test_what_is_wrong_is_said(nightbench, words, said):
    done = nightbench("nodes", "lab", *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
