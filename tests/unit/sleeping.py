"""A job of the fake framework: what a test of jobs and places needs of one."""

from __future__ import annotations

from nightbench.core.model import (
    TRAINERS,
    Build,
    Case,
    Cluster,
    JobSpec,
    Limits,
    Protocol,
    Strategy,
)
from nightbench.core.placement import place


def sleeping_job(cluster: Cluster, nodes: int = 1) -> JobSpec:
    """The collective `sleep` case, placed on the first nodes of a cluster."""
    case = Case("sleep", "fake", Strategy.COLLECTIVE, nodes=nodes, trainers=nodes)
    placed, processes = place(case, cluster, TRAINERS)
    return JobSpec(
        run_id="r1",
        case=case,
        generation=0,
        cluster=cluster.name,
        build=Build("fake"),
        protocol=Protocol(),
        nodes=placed,
        processes=processes,
        unit="samples",
        workload_params={},
        seed=1,
        env={},
        role_env={},
        limits=Limits(),
        code_digest="c",
        definition_digest="d",
        environments=cluster.environments,
    )
