"""Preflight of a cluster's nodes before a night, and of the network between them.

It does not disturb running jobs: orphaned processes are ended only on request, and locked nodes get
no control measurements.
"""

import asyncio
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, KubernetesPolicy, Node, Reason
from nightbench.core.pod_manifests import rules
from nightbench.gang.errors import GangError, NodeError, RemoteFailure, reason_of
from nightbench.gang.kubernetes_api import KubernetesApi, PodTarget, opened_api
from nightbench.gang.node_access import Agent, connections, repeated_option
from nightbench.gang.pod_transport import node_errors
from nightbench.gang.process import as_document
from nightbench.gang.progress import GangEvent, OnEvent, ignore
from nightbench.gang.shipping import Shipment, ship_agent
from nightbench.gang.transport import Conversation, Target, Transport
from nightbench.nodes import Control, NodePreflight
from nightbench.nodes.node_preflight import ALL_REDUCE_GPUS, all_reduce
from nightbench.spool import utc_now

AT_ONCE = 32
"""Nodes that are examined at the same time."""
EXAMINE_TIMEOUT_S = 120.0
CONTROLS_TIMEOUT_S = 300.0
"""With control measurements: a framework's import on a cold file system takes most of it."""
RING_TIMEOUT_S = 90.0
GPUS_TIMEOUT_S = 180.0
"""Between GPUs: a framework's import and NCCL's connections take most of it."""
GPUS_BYTES = 128 * 2**20
FAILED_S = 10.0
"""Seconds in which other ranks may report their failure after the first one."""


@dataclasses.dataclass(frozen=True)
class Network:
    """The results of the all-reduces between nodes."""

    nodes: tuple[str, ...]
    control: Control | None = None
    problem: str | None = None
    """Why there is no value."""
    gpus: Control | None = None
    """Between the GPUs of all nodes, if all have a script of control measurements for them."""
    gpus_problem: str | None = None


async def preflight(
    cluster: Cluster,
    targets: Mapping[str, Target],
    shipment: Shipment,
    controls: bool = False,
    sweep: bool = False,
    on_event: OnEvent = ignore,
) -> tuple[list[NodePreflight], Network | None]:
    """Examine every node, then the network between those that answer and are free.

    With `controls` also the short control measurements, on nodes that are free; with `sweep`
    orphaned processes are ended first.

    Returns:
        The nodes in the cluster's order (one that does not answer is an entry, not an error), and
        the network. It is None if fewer than two nodes are free, Slurm has them, or they are
        pods.
    """
    pods = {name: each for name, each in targets.items() if isinstance(each, PodTarget)}
    if pods:
        return await pod_preflight(cluster, pods), None
    places = asyncio.Semaphore(AT_ONCE)

    async def examine(node: Node, transport: Transport) -> tuple[NodePreflight, Agent | None]:
        async with places:
            return await _examine(cluster, node, transport, shipment, controls, sweep, on_event)

    # Values of a login node would be taken for values of Slurm's nodes.
    controls = controls and cluster.slurm is None
    async with connections(cluster.nodes, targets) as transports:
        examined = await asyncio.gather(*(examine(n, transports[n.name]) for n in cluster.nodes))
        free = [
            (node, agent)
            for node, (seen, agent) in zip(cluster.nodes, examined, strict=True)
            if agent is not None and seen.document and not seen.document["lock_holders"]
        ]
        several = len(free) > 1 and cluster.slurm is None
        network = await _network(free) if several else None
        if controls and network and network.control and all(map(_has_gpu_controls, examined)):
            network = await _between_gpus(cluster, free, network)
    return [seen for seen, _ in examined], network


async def _examine(
    cluster: Cluster,
    node: Node,
    transport: Transport,
    shipment: Shipment,
    controls: bool,
    sweep: bool,
    on_event: OnEvent,
) -> tuple[NodePreflight, Agent | None]:
    """Examine one node; return the result and its agent, None without one."""
    seen = NodePreflight(node.name, transport.address, utc_now(), reachable=False)
    agent = None
    try:
        await transport.home()
        seen = dataclasses.replace(seen, reachable=True)
        agent = await ship_agent(transport, cluster.environments, shipment, on_event)
        if sweep:
            swept = await agent.sweep(kill=True)
            ended = set(swept.get("killed", ()))
            found = tuple(each for each in swept["found"] if each.get("pid") in ended)
            seen = dataclasses.replace(seen, swept=found)
            if found:
                on_event(GangEvent("sweep", f"{len(found)} orphaned processes ended", node.name))
        options = [*agent.where, *agent.layout.job_root_option]
        options += ["--cpus", ",".join(map(str, node.cpus))] if node.cpus else []
        if controls:
            options += _control_options(cluster, agent)
        limit_s = CONTROLS_TIMEOUT_S if controls else EXAMINE_TIMEOUT_S
        document = await agent.call("preflight", *options, timeout_s=limit_s)
        clock, wall = await agent.clocks()
    except UserError as error:
        # Errors of the controller too, such as an unreadable key: the node cannot be used.
        return dataclasses.replace(seen, problem=reason_of(error)), agent
    return dataclasses.replace(seen, document=document, clock=clock, wall=wall), agent


def _control_options(cluster: Cluster, agent: Agent) -> list[str]:
    prefixes = [f"{line}={prefix}" for line, prefix in agent.policy.paths.items()]
    return ["--controls", cluster.device_kind, *repeated_option("--prefix", prefixes)]


# --- nodes that are pods: what the API server says before there is a pod ----------------------

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def pod_preflight(cluster: Cluster, targets: Mapping[str, PodTarget]) -> list[NodePreflight]:
    """Examine rights, quota and version once, as the preflight of each node of a cluster."""
    first = targets[cluster.nodes[0].name]
    document: dict[str, Any] | None = None
    reason: Reason | None = None
    try:
        with node_errors(first):
            async with opened_api(first.access) as api:
                document = await _examine_api(api, first.policy)
    except GangError as error:
        reason = reason_of(error)
    return [
        NodePreflight(
            node.name,
            targets[node.name].address,
            utc_now(),
            reachable=document is not None,
            problem=reason and dataclasses.replace(reason, node=node.name),
            api=document,
        )
        for node in cluster.nodes
    ]


async def _examine_api(api: KubernetesApi, policy: KubernetesPolicy) -> dict[str, Any]:
    """Return version, denied rights, the namespace's quotas, and whether PodGroups are missing."""
    namespace = policy.namespace
    version = await api.request("GET", "/version")
    denied = []
    for group, resource, verbs in rules(policy):
        name, _, subresource = resource.partition("/")
        for verb in verbs:
            asked = {"namespace": namespace, "verb": verb, "group": group, "resource": name}
            spec = {"resourceAttributes": {**asked, "subresource": subresource}}
            kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
            answer = await api.request("POST", REVIEWS, body={**kind, "spec": spec})
            if not answer["status"]["allowed"]:
                denied.append(f"{verb} {resource}")
    quotas = []
    if "list resourcequotas" not in denied:
        path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        for quota in (await api.request("GET", path))["items"]:
            status = quota.get("status") or {}
            quotas.append(
                {
                    "name": quota["metadata"]["name"],
                    "hard": status.get("hard") or {},
                    "used": status.get("used") or {},
                }
            )
    found = {"version": version["gitVersion"], "denied": denied, "quotas": quotas}
    return {**found, "no_pod_groups": policy.pod_groups and await api.pod_groups() is None}


# --- between nodes ------------------------------------------------------------------------


async def _network(agents: Sequence[tuple[Node, Agent]]) -> Network:
    names = tuple(node.name for node, _ in agents)
    answers = await _answers(agents, _over_tcp, RING_TIMEOUT_S)
    if isinstance(answers, str):
        return Network(names, problem=answers)
    return Network(names, all_reduce(names, answers))


def _has_gpu_controls(examined: tuple[NodePreflight, Agent | None]) -> bool:
    document = examined[0].document or {}
    return any(each["device"].startswith("gpu") for each in document.get("controls", ()))


async def _between_gpus(
    cluster: Cluster, agents: Sequence[tuple[Node, Agent]], network: Network
) -> Network:
    """Add the result of an NCCL all-reduce over the GPUs of all nodes, with a job's settings."""

    def command(node: Node, agent: Agent) -> list[str]:
        own = {"NCCL_SOCKET_IFNAME": node.interface} if node.interface else {}
        if node.devices:
            own["CUDA_VISIBLE_DEVICES"] = ",".join(node.devices)
        env = [f"{k}={v}" for k, v in {**own, **cluster.env, **node.env}.items()]
        words = [*_control_options(cluster, agent), *agent.where[:2], "--bytes", str(GPUS_BYTES)]
        return ["env", *env, *_over_tcp(node, agent), *words]

    answers = await _answers(agents, command, GPUS_TIMEOUT_S)
    if isinstance(answers, str):
        return dataclasses.replace(network, gpus_problem=answers)
    found = all_reduce(network.nodes, answers, ALL_REDUCE_GPUS, "gpus")
    return dataclasses.replace(network, gpus=found)


def _over_tcp(_: Node, agent: Agent) -> list[str]:
    return [*agent.command, "allreduce"]


async def _answers(
    agents: Sequence[tuple[Node, Agent]],
    command: Callable[[Node, Agent], list[str]],
    limit_s: float,
) -> list[dict[str, Any]] | str:
    """Return the answers of all ranks, or why there are none."""
    try:
        async with asyncio.timeout(limit_s):
            return await _ring(agents, command, limit_s)
    except TimeoutError:
        names = ", ".join(node.name for node, _ in agents)
        return f"no all-reduce between {names} in {limit_s:g} s"
    except NodeError as error:
        return str(error)


async def _ring(
    agents: Sequence[tuple[Node, Agent]],
    command: Callable[[Node, Agent], list[str]],
    answer_s: float,
) -> list[dict[str, Any]]:
    """Run one all-reduce over all nodes; return the ranks' answers in the nodes' order.

    `command` of a node begins one rank; which rank it is comes behind it.
    """
    ports: dict[str, asyncio.Future[str]] = {
        node.name: asyncio.get_running_loop().create_future() for node, _ in agents
    }

    async def rank(number: int, node: Node, agent: Agent) -> dict[str, Any]:
        transport = agent.transport
        address = node.data_address or node.host
        argv = command(node, agent)
        argv += ["--rank", str(number), "--world", str(len(agents))]
        argv += ["--listen-range", "-".join(map(str, node.port_range))]
        argv += ["--bind", "::"] if ":" in address else []
        async with transport.converse(argv, answer_s) as ring:
            try:
                port = (await _next_answer(transport, ring, "port"))["port"]
                host = f"[{address}]" if ":" in address else address
                ports[node.name].set_result(f"{host}:{port}")
                everybody = await asyncio.gather(*ports.values())
            except NodeError:
                for waiting in ports.values():
                    waiting.cancel()
                raise
            first = await ring.ask(json.dumps(everybody))
            return _checked(transport, first, "seconds") or await _next_answer(
                transport, ring, "seconds"
            )

    tasks = [asyncio.create_task(rank(k, *each)) for k, each in enumerate(agents)]
    try:
        # A rank that fails makes the others fail, or wait for it: its own error is the cause.
        _, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        if waiting:
            await asyncio.wait(waiting, timeout=FAILED_S)
    finally:
        for task in tasks:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
    for kind in (NodeError, BaseException):
        for result in done:
            if isinstance(result, kind):
                raise result
    return [result for result in done if not isinstance(result, BaseException)]


async def _next_answer(transport: Transport, ring: Conversation, key: str) -> dict[str, Any]:
    """Return the next JSON object with a key, skipping output of login scripts."""
    while True:
        found = _checked(transport, await ring.read_line(), key)
        if found is not None:
            return found


def _checked(transport: Transport, line: str, key: str) -> dict[str, Any] | None:
    document = as_document(line)
    if document is not None and "error" in document:
        hint = f". {document['hint']}" if document.get("hint") else ""
        raise RemoteFailure.of(transport, f"all-reduce: {document['error']}{hint}")
    return document if document is not None and key in document else None
