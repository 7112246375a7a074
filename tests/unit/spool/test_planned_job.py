from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

import pytest

from nightbench.config.clusters import OF_FILE
from nightbench.core.errors import UserError
from nightbench.core.model import (
    Build,
    Case,
    Cluster,
    EnvironmentPolicy,
    HealthPolicy,
    JobSpec,
    JumpHost,
    Limits,
    NeighbourPolicy,
    Node,
    Process,
    Protocol,
    Strategy,
)
from nightbench.spool import Spool
from nightbench.spool.plans import (
    PlannedJob,
    load_cluster,
    load_job,
    save_cluster,
    save_job,
)

CASE = Case("ctr_dnn", "paddle1", Strategy.PARAMETER_SERVER, 2, 1, 2, 1, 2, sync="async")
JOB = JobSpec(
    run_id="demo-20261121T010203-9f3a",
    case=CASE,
    generation=0,
    cluster="local",
    build=Build("paddle1", "cpu", "wheel", "1.8.5", "/some/paddle.whl", "0" * 64),
    protocol=Protocol(5, 30, 3, 1.5),
    nodes=(
        Node("n1", "127.0.0.2", "c", 2222, "10.0.0.2", "lo", (20000, 20999), (0, 1), ("0",)),
        Node(
            "n2",
            "127.0.0.3",
            "c",
            env={"A": "b"},
            user="bench",
            jump=(JumpHost(host="g2", ssh_conn_id="s"),),
        ),
    ),
    processes=(
        Process("pserver-0", "pserver", 0, "n1", 0, measured=False),
        Process("trainer-0", "trainer", 0, "n1", 0, "0"),
        Process("trainer-1", "trainer", 1, "n2", 0),
    ),
    unit="samples",
    workload_params={"slots": 26, "hidden": [400, 400], "converges": False},
    seed=1,
    env={"X": "1"},
    role_env={"pserver": {"Y": "2"}},
    limits=Limits(repeat_s=900.0),
    code_digest="c" * 64,
    definition_digest="d" * 64,
    environments=EnvironmentPolicy(root="~/r", paths={"paddle1": "/opt"}, find_links=("/links",)),
    neighbours=NeighbourPolicy(action="wait", wait_s=60.0, cpu_share=0.2, gpu=False, budget=1),
    lock="devices",
    deadline=datetime(2026, 11, 21, 6, tzinfo=ZoneInfo("Europe/Berlin")),
    expected_repeat_s=42.5,
    transport="gloo",
)
CLUSTER = Cluster(
    "local",
    JOB.nodes,
    known_hosts="/etc/known_hosts",
    jump=(JumpHost(host="gate", ssh_conn_id="gate_ssh", port=2222),),
    window="22:00-06:00 UTC",
)


@pytest.mark.parametrize("batch_size", [2, "max"])
def test_a_job_comes_back_as_it_was_kept(tmp_path: Path, batch_size: int | Literal["max"]) -> None:
    run = Spool(tmp_path).run(JOB.run_id)
    case = replace(CASE, batch_size_per_device=batch_size)
    planned = PlannedJob.of(replace(JOB, case=case), replace(CLUSTER, known_hosts=None))

    save_job(run, planned)

    assert load_job(run, case.case_id, 0) == planned
    third = replace(planned, job=replace(planned.job, generation=3))
    assert load_job(run, case.case_id, 3) == third
    assert load_job(run, case.case_id, 3).job.job_id == f"{JOB.run_id}/{case.case_id}/g3"


def test_paths_of_one_machine_are_not_stored(tmp_path: Path) -> None:
    run = Spool(tmp_path).run(JOB.run_id)
    environments = JOB.environments.model_copy(update={"wheelhouse": "/srv/wheels"})
    save_job(run, PlannedJob.of(replace(JOB, environments=environments), CLUSTER))
    save_cluster(run, replace(CLUSTER, environments=environments))

    texts = [file.read_text() for file in tmp_path.rglob("*.json")]
    assert len(texts) == 2
    assert not any("/etc/known_hosts" in text or "/srv/wheels" in text for text in texts)
    job = load_job(run, CASE.case_id, 0)
    for cluster in (job.cluster, load_cluster(run)):
        assert (cluster.known_hosts, cluster.environments.wheelhouse) == (OF_FILE, OF_FILE)
    save_job(run, job)
    assert load_job(run, CASE.case_id, 0) == job


def test_a_job_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="do not share the spool"):
        load_job(Spool(tmp_path).run(JOB.run_id), CASE.case_id, 0)


def test_a_job_of_another_version_is_refused(tmp_path: Path) -> None:
    run = Spool(tmp_path).run(JOB.run_id)
    save_job(run, PlannedJob.of(JOB, CLUSTER))
    path = tmp_path / "runs" / JOB.run_id / "jobs" / f"{CASE.case_id}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": "other/9"}))

    with pytest.raises(UserError, match=r"schema: found 'other/9'"):
        load_job(run, CASE.case_id, 0)


def test_the_cluster_of_a_job_holds_its_nodes_and_host_keys() -> None:
    cluster = PlannedJob.of(JOB, CLUSTER).cluster
    assert (cluster.nodes, cluster.known_hosts) == (JOB.nodes, "/etc/known_hosts")
    assert cluster.jump == CLUSTER.jump


def test_hours_count_unless_somebody_asked_for_it_all_the_same() -> None:
    assert PlannedJob.of(JOB, CLUSTER).cluster.window == "22:00-06:00 UTC"
    assert PlannedJob.of(JOB, CLUSTER, outside_hours=True).cluster.window is None


@pytest.mark.parametrize(
    ("part", "change"),
    [
        (("job",), {"field_of_a_later_version": 1}),
        (("job", "limits"), {"seconds": "many"}),
        (("job", "case"), {"strategy": "swarm"}),
    ],
)
def test_a_job_of_a_later_version_is_refused_in_a_sentence(
    tmp_path: Path, part: tuple[str, ...], change: dict[str, object]
) -> None:
    run = Spool(tmp_path).run(JOB.run_id)
    save_job(run, PlannedJob.of(JOB, CLUSTER))
    path = tmp_path / "runs" / JOB.run_id / "jobs" / f"{CASE.case_id}.json"
    document = json.loads(path.read_text())
    inner = document
    for name in part:
        inner = inner[name]
    inner |= change
    path.write_text(json.dumps(document))
    with pytest.raises(UserError, match=r"planned by another version.*Start a new run"):
        load_job(run, CASE.case_id, 0)


def test_cluster_comes_back_as_it_was_planned(tmp_path: Path) -> None:
    cluster = Cluster(
        "lab",
        (
            Node("n1", "10.0.0.1", "c", port=2222, cpus=(0, 1), env={"A": "b"}),
            Node(
                "n2",
                "10.0.0.2",
                "c",
                devices=("GPU-1",),
                jump=(JumpHost(host="j", ssh_conn_id="c", port=22),),
            ),
        ),
        device_kind="gpu",
        environments=EnvironmentPolicy(paths={"pytorch": "/opt/t"}, lock_dir="/locks"),
        role_env={"pserver": {"X": "1"}},
        jump=(JumpHost(host="gate", ssh_conn_id="gate"),),
        neighbours=NeighbourPolicy(action="wait"),
        health=HealthPolicy(expected_devices=8, min_link_mbps=1000),
    )
    run = Spool(tmp_path).run("r1")
    save_cluster(run, cluster)
    assert load_cluster(run) == cluster


def test_a_cluster_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="planned-cluster/1"):
        load_cluster(Spool(tmp_path).run("r1"))
