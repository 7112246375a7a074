"""Looking at real nodes over SSH: what is found, what is left alone, and who takes no part."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from tests.integration.openssh import REPO, SshNodes, nodes_of_both_kinds
from tests.integration.terminal import TRIAL, Terminal, terminal

from nightbench.core.model import Cluster, ReasonCode
from nightbench.gang import preflight, sweep
from nightbench.night.cluster_preflight import judge
from nightbench.nodes import FindingLevel, NodePreflight, findings

SCHEMA = json.loads((REPO / "benchmarks/contract/preflight.schema.json").read_text())


nodes = nodes_of_both_kinds(pytest.mark.large)


@pytest.fixture
def cluster(nodes: SshNodes) -> Cluster:
    return Cluster("lab", nodes.nodes, environments=nodes.environments)


def said(seen: NodePreflight, cluster: Cluster) -> dict[str, FindingLevel]:
    return {finding.what: finding.level for finding in findings(seen, cluster)}


async def test_every_node_and_the_network_between_them(shipment, nodes, cluster):
    looks, network = await preflight(cluster, nodes.targets, shipment, controls=True)
    for seen in looks:
        assert seen.problem is None
        Draft202012Validator(SCHEMA).validate(seen.document)
        assert abs(seen.clock.offset_s) < 1  # the same machine
        assert seen.wall_error_s < 1
        assert FindingLevel.FAIL not in said(seen, cluster).values()
        metrics = {control["metric"] for control in seen.document["controls"]}
        assert metrics == {"matrix_product", "memory_copy"}
    assert network.problem is None
    assert network.control.node == "n1+n2"
    assert len(network.control.values) == 5


async def test_a_node_that_is_away_is_an_entry(shipment, nodes, cluster):
    targets = nodes.with_target("n2", port=1)
    (well, away), network = await preflight(cluster, targets, shipment)
    assert well.document is not None
    assert not away.reachable
    assert away.problem is not None
    assert away.problem.code is ReasonCode.NODE_UNREACHABLE
    assert said(away, cluster) == {"reach": FindingLevel.FAIL}
    assert network is None


async def test_refusals_are_told_apart(shipment, nodes, cluster, tmp_path):
    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f"]
    stranger = tmp_path / "stranger"
    subprocess.run([*keygen, str(stranger)], check=True)
    public = stranger.with_suffix(".pub").read_text().split()
    wrong = f"[{nodes.nodes[1].host}]:{nodes.port} {public[0]} {public[1]}\n".encode()
    targets = {
        "n1": dataclasses.replace(nodes.targets["n1"], client_keys=(str(stranger),)),
        "n2": dataclasses.replace(nodes.targets["n2"], known_hosts=wrong),
    }
    (first, second), _network = await preflight(cluster, targets, shipment)
    assert said(first, cluster) == {"login": FindingLevel.FAIL}
    assert said(second, cluster) == {"host key": FindingLevel.FAIL}
    assert second.problem is not None
    assert "CHANGED" in second.problem.observed


async def test_a_root_that_cannot_be_made(shipment, nodes, cluster, tmp_path):
    (tmp_path / "file").write_text("no folder")
    places = cluster.environments.model_copy(update={"root": str(tmp_path / "file" / "root")})
    spoiled = dataclasses.replace(cluster, environments=places)
    (seen, _second), _network = await preflight(spoiled, nodes.targets, shipment)
    assert seen.reachable
    assert said(seen, spoiled) == {"root": FindingLevel.FAIL}


async def test_a_held_node_is_looked_at_and_not_measured(shipment, nodes, cluster):
    folder = Path(cluster.environments.lock_dir)
    folder.mkdir(exist_ok=True)
    lock = folder / f"{nodes.nodes[0].host}_{nodes.port}.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(json.dumps({"job_id": "r/c/g0", "user": "anna", "since": "2026-11-21"}))
        held.flush()
        (first, second), network = await preflight(cluster, nodes.targets, shipment, controls=True)
    assert first.document["controls"] == []
    assert second.document["controls"] != []
    assert network is None
    told = {f.what: f.found for f in findings(first, cluster)}
    assert "r/c/g0 of anna" in told["lock"]


async def test_a_network_that_is_closed_is_a_finding(shipment, nodes, cluster, monkeypatch):
    module = sys.modules["nightbench.gang.preflight"]
    monkeypatch.setattr(module, "RING_TIMEOUT_S", 3.0)
    # TEST-NET-1 (RFC 5737): nobody answers there.
    n1 = dataclasses.replace(cluster.nodes[0], data_address="192.0.2.1")
    closed = dataclasses.replace(cluster, nodes=(n1, cluster.nodes[1]))
    _looks, network = await preflight(closed, nodes.targets, shipment)
    assert network.control is None
    assert "n1, n2" in network.problem


@pytest.mark.parametrize("ends_well", [True, False])
async def test_gpus_of_all_nodes_reduce_by_a_lines_script(
    shipment, nodes, cluster, monkeypatch, tmp_path, ends_well
):
    """Nodes without GPUs, whose prefix of PyTorch is a script that answers as NCCL's would."""
    module = sys.modules["nightbench.gang.preflight"]
    monkeypatch.setattr(module, "_has_gpu_controls", lambda _: True)
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    said = r'{"seconds": [0.5], "bytes": 1000000000, "backend": "%s"}\n'
    answer = f"""printf '{said}' "$NCCL_SOCKET_IFNAME $NCCL_ALGO\""""
    if not ends_well:
        answer = "echo no GPU is here >&2; exit 3"
    python.write_text(f"#!/bin/sh\necho '{{\"port\": 1}}'; read -r peers; {answer}\n")
    python.chmod(0o755)
    places = cluster.environments.model_copy(update={"paths": {"pytorch": str(tmp_path)}})
    both = tuple(dataclasses.replace(node, interface="lo") for node in cluster.nodes)
    given = dataclasses.replace(
        cluster, nodes=both, environments=places, device_kind="gpu", env={"NCCL_ALGO": "Ring 2"}
    )
    seen, network = await preflight(given, nodes.targets, shipment, controls=True)
    health = judge(given, seen, network)
    told = [(each.level, each.found) for each in health.between if each.what == "all_reduce_gpus"]
    if ends_well:
        assert told == []
        control = health.controls[-1]
        assert control.key == ("n1+n2", "all_reduce_gpus", "gpus", "lo Ring 2")
        assert control.values == (2.0,)
    else:
        assert [level for level, _ in told] == [FindingLevel.WARN]
        assert "no GPU is here" in told[0][1]
        assert health.controls[-1].metric == "all_reduce"


async def test_orphans_are_found_and_only_they_are_ended(shipment, nodes, cluster):
    mark = f"orphan-{os.getpid()}/case/g0"
    marks = {"NIGHTBENCH_JOB": mark, "NIGHTBENCH_NODE": "n1"}
    stranger = subprocess.Popen(["sleep", "300"])
    started = []
    try:
        # Runs of other workers end the orphans of this machine too: that one is not ours to judge.
        for _ in range(20):
            orphan = subprocess.Popen(["sleep", "300"], env={**os.environ, **marks})
            started.append(orphan)
            (seen, _second), _network = await preflight(cluster, nodes.targets, shipment)
            outlived = orphan.poll() is None
            swept = await sweep(cluster, nodes.targets, shipment, job=mark, kill=True)
            if outlived and orphan.pid in swept["n1"]["killed"] + swept["n2"]["killed"]:
                break
        assert outlived, "looking ends nothing"
        assert mark in {each["job"] for each in seen.document["orphans"]}
        assert said(seen, cluster)["orphans"] is FindingLevel.WARN
        assert orphan.pid in swept["n1"]["killed"] + swept["n2"]["killed"]
        assert orphan.wait(10) == -9
        assert stranger.poll() is None
    finally:
        for process in (*started, stranger):
            process.kill()
            process.wait()


# --- the command --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with terminal(tmp_path_factory.mktemp("looks"), TRIAL) as made:
        yield made


@pytest.fixture
def one_away(here: Terminal) -> Iterator[str]:
    """A cluster like the local one, of which nobody answers at n2's port."""
    text = (here.place / "dags/clusters/local.yaml").read_text()
    text = text.replace("cluster: local", "cluster: torn")
    file = here.place / "dags/clusters/torn.yaml"
    file.write_text(text.replace("name: n2\n", "name: n2\n    port: 1\n"))
    yield "torn"
    file.unlink()


def test_doctor_of_healthy_nodes(here: Terminal) -> None:
    done = here.run("doctor", "local", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert [node["node"] for node in found["nodes"]] == ["n1", "n2"]
    assert all(node["reachable"] for node in found["nodes"])
    assert [control["metric"] for control in found["controls"]] == ["all_reduce"]


def test_doctor_says_what_to_do_about_a_node_that_is_away(here: Terminal, one_away: str) -> None:
    done = here.run("doctor", one_away)
    assert done.returncode == 1
    assert "unreachable" in done.stdout
    assert "Is sshd running" in done.stdout


def test_cases_go_around_a_node_that_is_away(here: Terminal, one_away: str) -> None:
    done = here.run("run", "trial", "--direct", "--cluster", one_away)
    assert done.returncode == 1
    assert "n2: the node is left out: preflight: reach: connection refused" in done.stderr
    run = here.newest()
    ends = {case: run.latest(case).outcome() for case in run.case_ids()}
    alone = ends.pop("sleep-fake-collective-1x1-bs2-smoke")
    assert alone["status"] == "ok"
    assert len(ends) == 2
    for outcome in ends.values():
        assert outcome["status"] == "failed"
        first, why = outcome["reasons"][:2]
        assert (first["code"], first["node"]) == ("node_left_out", "n2")
        assert (why["code"], why["subject"]) == ("preflight_failed", "reach")
        assert "connection refused" in why["observed"]
