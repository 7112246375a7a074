"""One maker of jobs for tests: the case `sleep` of a line, dealt out over nodes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from nightbench.core.model import (
    Build,
    Case,
    Cluster,
    EnvironmentPolicy,
    JobSpec,
    Limits,
    Node,
    Process,
    Protocol,
    Strategy,
)


def gang_job(
    nodes: Sequence[Node],
    trainers: int | None = None,
    pservers: int = 0,
    *,
    line: str = "fake",
    strategy: Strategy | None = None,
    sync: str = "sync",
    **changes: Any,
) -> JobSpec:
    """Return a job; `changes` are fields of it, and by default each node has one trainer."""
    trainers = trainers or len(nodes)
    strategy = strategy or (Strategy.PARAMETER_SERVER if pservers else Strategy.COLLECTIVE)
    processes, there = [], Counter[tuple[str, str]]()
    for role, count in (("pserver", pservers), ("trainer", trainers)):
        for rank in range(count):
            node = nodes[rank % len(nodes)].name
            place = there[role, node]
            there[role, node] += 1
            name, measured = f"{role}-{rank}", role == "trainer"
            processes.append(Process(name, role, rank, node, place, measured=measured))
    axes: dict[str, Any] = {
        "nodes": len(nodes),
        "trainers": trainers,
        "pservers": pservers,
        "sync": sync,
    }
    job = JobSpec(
        run_id="r1",
        case=Case("sleep", line, strategy, **axes),
        generation=0,
        cluster="test",
        build=Build(line),
        protocol=Protocol(),
        nodes=tuple(nodes),
        processes=tuple(processes),
        unit="samples",
        workload_params={},
        seed=1,
        env={},
        role_env={},
        limits=Limits(),
        code_digest="c",
        definition_digest="d",
        environments=EnvironmentPolicy(),
    )
    return dataclasses.replace(job, **changes)


def sleeping_job(cluster: Cluster, nodes: int = 1) -> JobSpec:
    """Return a job on the first nodes of a cluster."""
    return gang_job(cluster.nodes[:nodes], cluster=cluster.name, environments=cluster.environments)
