"""Exec in pods against SSH, side by side: from the start of a case to its barrier, and per poll.

python -m tests.performance pods [--nodes 2,16] [--rounds 3] [--polls 30]

Both kinds of nodes are on this machine: pods of a Kubernetes that the figure starts (see
`tests/drills/kubernetes`), and hosts with OpenSSH in network namespaces. Needs root.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import statistics
import sys
import time
from collections.abc import Mapping

from tests.drills.host import PYTHON
from tests.drills.kubernetes import build
from tests.drills.kubernetes.cluster import IMAGE, Kubernetes, started
from tests.performance.ground import Ground, say
from tests.shipped import shipped

from nightbench.core.model import CaseStatus, EnvironmentPolicy, JobSpec, KubernetesPolicy, Node
from nightbench.gang import GangEvent, Shipment, prepare, run_gang
from nightbench.gang.kubernetes_api import ApiAccess, PodTarget
from nightbench.gang.node_access import connections
from nightbench.gang.node_client import NodeClient
from nightbench.gang.transport import Target
from nightbench.spool import Spool

POLICY = KubernetesPolicy(
    namespace="default", images={"fake": IMAGE}, pinned=False, resources={"memory": "128Mi"}
)


@dataclasses.dataclass
class Figures:
    """Times of one kind of nodes, in seconds."""

    prepared: list[float] = dataclasses.field(default_factory=list)
    barrier: list[float] = dataclasses.field(default_factory=list)
    poll: list[float] = dataclasses.field(default_factory=list)


async def measure(
    field: Ground, job: JobSpec, targets: Mapping[str, Target], polls: int, found: Figures
) -> None:
    """Measure one case of a repeat, and polls of its nodes while they are idle."""
    heard: list[float] = []

    def hear(event: GangEvent) -> None:
        if event.kind == "repeat" and event.message == "go":
            heard.append(time.monotonic())

    began_s = time.monotonic()
    await prepare(job, targets, field.shipment)
    prepared_s = time.monotonic() - began_s
    async with connections(job.nodes, targets, job.job_id) as transports:
        clients = [
            NodeClient(job, node, transports[node.name], time.monotonic, None) for node in job.nodes
        ]
        for client in clients:
            await client.open()
        for number in range(polls + 1):  # the first one starts `agent.py follow`
            asked_s = time.monotonic()
            await asyncio.gather(*(client.poll(None, 0, False, 0.1, 0.0) for client in clients))
            if number:
                found.poll.append(time.monotonic() - asked_s)
    began_s = time.monotonic()
    outcome = await run_gang(job, targets, field.store(job), hear)
    if outcome.status is not CaseStatus.OK or not heard:
        raise RuntimeError(f"{job.job_id}: {outcome.status} {outcome.why}")
    found.prepared.append(prepared_s)
    found.barrier.append(prepared_s + heard[0] - began_s)


def job_of(field: Ground, run_id: str, names: list[str], hosts: Mapping[str, str]) -> JobSpec:
    """Return a gang with a trainer on each node, all in its first repeat."""
    nodes = [Node(name, hosts.get(name, name), "figures") for name in names]
    job = field.job(run_id, nodes, trainers=len(nodes))
    return dataclasses.replace(job, environments=EnvironmentPolicy(python=PYTHON))


def compare(cluster: Kubernetes, options: argparse.Namespace) -> None:
    """Measure both kinds of nodes in turns, and print medians."""
    lab = cluster.lab
    field = Ground(lab.folder, (), {}, Shipment(shipped(lab.folder)), Spool(lab.folder / "spool"))
    access = ApiAccess("figures", path=str(cluster.kubeconfig))
    counts = [int(each) for each in options.nodes.split(",")]
    names = [f"s{number}" for number in range(1, max(counts) + 1)]
    hosts = {name: lab.host(name).address for name in names}
    ssh = lab.targets()
    pods = {name: PodTarget(name, access, POLICY, PYTHON, shared=True) for name in names}
    kinds: dict[str, Mapping[str, Target]] = {"ssh": ssh, "exec": pods}
    for count in counts:
        found = {kind: Figures() for kind in kinds}
        for number in range(options.rounds):
            for kind, targets in kinds.items():
                job = job_of(field, f"figures-{kind}-{count}-{number}", names[:count], hosts)
                of_job = {name: targets[name] for name in names[:count]}
                asyncio.run(measure(field, job, of_job, options.polls, found[kind]))
        for kind, times in found.items():
            for what, values in dataclasses.asdict(times).items():
                scale, unit = (1000, "ms") if what == "poll" else (1, "s")
                scaled = [scale * value for value in values]
                seen = f"{min(scaled):.2f} to {max(scaled):.2f}, {len(values)} values"
                say(f"{count} nodes, {kind}: {WORDS[what]}", statistics.median(scaled), unit, seen)


WORDS = {
    "prepared": "start of the task to all nodes prepared",
    "barrier": "start of the task to the start signal",
    "poll": "one poll of all nodes",
}


def main(words: list[str]) -> int:
    """The command line; 2 where this machine cannot start a Kubernetes."""
    parser = argparse.ArgumentParser(prog="tests.performance pods", description=__doc__)
    parser.add_argument("--nodes", default="2,16", help="numbers of nodes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--polls", type=int, default=30, help="polls in a round")
    options = parser.parse_args(words)
    if lacking := build.missing():
        print(lacking, file=sys.stderr)
        return 2
    with started() as cluster:
        compare(cluster, options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
