from __future__ import annotations

import pytest

from nightbench.errors import UserError
from nightbench.model import (
    Cluster,
    EnvironmentPolicy,
    HealthPolicy,
    JumpHost,
    NeighbourPolicy,
    Node,
)
from nightbench.orchestration.nodes import load_cluster, save_cluster
from nightbench.spool import Spool


def test_cluster_comes_back_as_it_was_planned(tmp_path):
    cluster = Cluster(
        "lab",
        (
            Node("n1", "10.0.0.1", "c", port=2222, cpus=(0, 1), env={"A": "b"}),
            Node("n2", "10.0.0.2", "c", devices=("GPU-1",), jump=(JumpHost("j", "c", 22),)),
        ),
        device_kind="gpu",
        environments=EnvironmentPolicy(paths={"pytorch": "/opt/t"}, lock_dir="/locks"),
        role_env={"pserver": {"X": "1"}},
        jump=(JumpHost("gate", "gate"),),
        neighbours=NeighbourPolicy(action="wait"),
        health=HealthPolicy(expected_devices=8, min_link_mbps=1000),
    )
    run = Spool(tmp_path).run("r1")
    save_cluster(run, cluster)
    assert load_cluster(run) == cluster


def test_run_of_another_version_is_refused(tmp_path):
    with pytest.raises(UserError, match="planned-cluster/1"):
        load_cluster(Spool(tmp_path).run("r1"))
