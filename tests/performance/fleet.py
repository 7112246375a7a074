"""What a fleet costs the control plane: its files, a plan, a preflight, many gangs.

    python -m tests.performance fleet [--nodes 1000] [--gangs 100] [--seconds 20]

All nodes answer real SSH on loopback addresses of this machine, so what they do in a preflight
costs this machine's cores: the wall time says little about nodes of their own, the CPU time and the
memory of the control plane's process do. The ring over all nodes is left out: that many ranks do
not fit on one machine. Gangs run one process each on `--gangs` of the nodes; more
take in proportion, and memory of this machine, as an agent, its follower and a rank are 30 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import resource
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from unittest import mock

from tests.performance import many_gangs
from tests.performance.ground import REPO, Ground, cpu_s, ground, resident_bytes, say
from tests.performance.warehouse.history import opened

from nightbench.config import load_catalog, load_cluster, load_suite
from nightbench.core.model import Cluster, HealthPolicy, JobSpec, Protocol, RunKind
from nightbench.core.run_plan import make_plan
from nightbench.core.sentences import sentence
from nightbench.night.cluster_preflight import ClusterHealth, examine, record_preflight
from nightbench.spool import Spool
from nightbench.spool.plans import PlannedJob, save_job, store_plan
from nightbench.warehouse import Warehouse, connect

CLUSTER = """\
cluster: fleet
description: Nodes of eight GPUs
nodes:
  - hosts: gpu[0001-{nodes:04d}].example.org
    ssh_conn_id: fleet
devices: {{kind: gpu, per_node: 8}}
environments: {{paths: {{pytorch: /opt/pytorch}}}}
"""
SUITE = """\
suite: fleet
description: Cases of eight nodes, and one of all
owner: benchmarks
cluster: fleet
matrix:
  - workload: resnet50_v1.5
    frameworks: [pytorch]
    strategy: collective
    devices: [1x8, 2x8, 4x8, 8x8]
    precision: [fp32, bf16]
    batch_size_per_device: [16, 32, 48, 64, 96, 128, 192, 256, max]
  - workload: resnet50_v1.5
    frameworks: [pytorch]
    strategy: collective
    devices: ["{nodes}x8"]
    batch_size_per_device: [64]
"""


def main(words: list[str]) -> int:
    """The command line; 1 where a node did not answer or a gang did not end clean."""
    parser = argparse.ArgumentParser(
        prog="tests.performance fleet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=1000, help="eight or more")
    parser.add_argument("--gangs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0, help="time that gangs are looked at")
    asked = parser.parse_args(words)
    # A listener and a connection for each node; sites raise the limit of their triggerers, too.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    say("open files allowed", soft, "", f"(raised to {hard})")
    with tempfile.TemporaryDirectory(prefix="nbfleet-") as folder:
        plan(asked.nodes, Path(folder))
    with ground(asked.nodes) as field:
        health = preflight(field)
        store(health)
        well = sum(node.seen.reachable for node in health.nodes)
        say("nodes that answered", well, "", f"(of {asked.nodes})")
        problems = Counter(
            sentence(node.seen.problem).replace(node.seen.node, "NODE")[:160]
            for node in health.nodes
            if node.seen.problem
        )
        for problem, count in problems.most_common(5):
            print(f"  {count} nodes: {problem}")
        for finding in health.between:
            print(f"  {finding.title}: {finding.found}"[:200])
        return 0 if gangs(field, asked.gangs, asked.seconds) and well == asked.nodes else 1


def plan(nodes: int, folder: Path) -> None:
    """Read the files of such a fleet and plan its night."""
    began_s = time.monotonic()
    catalog = load_catalog(REPO / "benchmarks")
    say("reading benchmarks/", time.monotonic() - began_s, "s")
    files = {name: folder / name / "fleet.yaml" for name in ("clusters", "suites")}
    for name, text in (("clusters", CLUSTER), ("suites", SUITE)):
        files[name].parent.mkdir()
        files[name].write_text(text.format(nodes=nodes))
    began_s = time.monotonic()
    cluster = load_cluster(files["clusters"], catalog=catalog)
    say(f"reading a cluster of {len(cluster.nodes):,} nodes", time.monotonic() - began_s, "s")
    began_s = time.monotonic()
    suite = load_suite(files["suites"], catalog, cluster=cluster)
    say(f"reading a suite of {len(suite.cases)} cases", time.monotonic() - began_s, "s")
    began_s = time.monotonic()
    made = make_plan(suite, cluster, catalog, run_kind=RunKind.ON_DEMAND)
    run = store_plan(made, Spool(folder / "spool"))
    for job in made.jobs:
        save_job(run, PlannedJob.of(job, cluster))
    say("planning and storing its run", time.monotonic() - began_s, "s")
    largest = max(made.jobs, key=lambda job: len(job.processes))
    size = len(json.dumps(largest.to_json()))
    say(f"job.json of {len(largest.processes):,} processes", size / 1e6, "MB", "(for each node)")


def preflight(field: Ground) -> ClusterHealth:
    """Examine all nodes, as a run does before its first case."""
    job = field.job("fleet", field.nodes[:1], trainers=1)
    cluster = Cluster("fleet", nodes=field.nodes, environments=job.environments)
    began_s, used_s, server_s = time.monotonic(), cpu_s(), field.server_cpu_s()
    with mock.patch("nightbench.gang.preflight._network", _no_ring):
        health = asyncio.run(examine(cluster, field.targets, field.shipment, sweep=True))
    say("preflight, nodes and control plane on these cores", time.monotonic() - began_s, "s")
    say("  CPU of the control plane", cpu_s() - used_s, "s")
    say("  CPU of the nodes' SSH server", field.server_cpu_s() - server_s, "s")
    say("  memory of the control plane", resident_bytes() / 1e6, "MB")
    return health


async def _no_ring(*_: object) -> None:
    return None


def store(health: ClusterHealth) -> None:
    """Store the preflight, and read what the page of the nodes reads."""
    with (
        opened(series=20, nights=2, nights_of_ranks=1, keep=None) as history,
        closing(connect(history.dsn("nightbench_loader"))) as connection,
    ):
        began_s = time.monotonic()
        with connection.cursor() as cursor:
            cursor.execute("select run_id from raw.run limit 1")
            ((run_id,),) = cursor.fetchall()
        record_preflight(Warehouse(connection), run_id, health, HealthPolicy())
        say("storing the preflight", time.monotonic() - began_s, "s")
        began_s = time.monotonic()
        rows = Warehouse(connection).nodes.states(health.cluster)
        say(f"reading the states of {len(rows):,} nodes", time.monotonic() - began_s, "s")


def gangs(field: Ground, count: int, seconds: float) -> bool:
    """Run as many gangs at once, each on a node of its own."""
    steps = int((seconds + 0.5 * count + 20) / 0.5)
    jobs: list[JobSpec] = [
        dataclasses.replace(
            field.job(f"fleet-{i:04d}", [node], 1, protocol=Protocol(2, steps, 1), step_s=0.5)
        )
        for i, node in enumerate(field.nodes[:count])
    ]
    print(f"{count} gangs at once, each on its node")
    return asyncio.run(many_gangs.measure(field, jobs, many_gangs.by_function(field), seconds))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
