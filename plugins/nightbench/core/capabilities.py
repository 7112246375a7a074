"""What can be measured where: pure questions that configuration and planning both ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nightbench.core.model import Build, Case, Catalog, Cluster, FrameworkInfo, Strategy


@dataclass(frozen=True)
class Refusal:
    """Why something cannot be measured, and which axis of the case says so."""

    axis: str
    message: str


_ONLY_DEFAULT = {
    "execution": "default",
    "layout": "default",
    "compression": "none",
    "link_bandwidth": "full",
    "data": "synthetic",
}
"""Axes that no line has another value for yet: a result must not be called what it is not."""


def unsupported(case: Case, catalog: Catalog) -> Refusal | None:
    """Say why no cluster could run a case, or None where framework and workload have it."""
    framework = catalog.frameworks[case.framework]
    workload = catalog.workloads[case.workload]
    for who, strategies, remarks in (
        (case.framework, framework.strategies, framework.remarks),
        (case.workload, workload.strategies, {}),
    ):
        if case.strategy not in strategies:
            have = ", ".join(sorted(strategies))
            said = f"{who} cannot run {case.strategy} (it runs {have})"
            return Refusal("strategy", said + _because(remarks, case.strategy, "strategy"))
    # After the strategy: what a line cannot do at all is the better reason.
    if case.framework not in workload.frameworks:
        have = ", ".join(sorted(workload.frameworks)) or "no line"
        return Refusal(
            "framework", f"{case.workload} is not written for {case.framework} (for {have})"
        )
    if case.strategy is Strategy.PARAMETER_SERVER and case.sync not in framework.sync_modes:
        have = ", ".join(framework.sync_modes) or "none"
        said = f"{case.framework} has no {case.sync} updates (it has {have})"
        return Refusal("sync", said + _because(framework.remarks, case.sync, "sync"))
    if case.compiler != "none" and case.compiler not in framework.compilers:
        have = ", ".join(c for c in framework.compilers if c != "none") or "none"
        said = f"{case.framework} has no compiler {case.compiler} (it has {have})"
        return Refusal("compiler", said + _because(framework.remarks, case.compiler, "compiler"))
    for axis, default in _ONLY_DEFAULT.items():
        value = str(getattr(case, axis))
        if value != default:
            said = f"{case.framework} honours no {axis} but {default}; found {value}"
            return Refusal(axis, said + _because(framework.remarks, value, axis))
    known = sorted({p for each in framework.precisions.values() for p in each})
    if case.precision not in known:
        said = f"{case.framework} has no {case.precision} (it has {', '.join(known)})"
        return Refusal("precision", said + _because(framework.remarks, case.precision, "precision"))
    if case.scale not in workload.scales:
        have = ", ".join(sorted(workload.scales))
        return Refusal("scale", f"{case.workload} has no scale {case.scale} (it has {have})")
    if case.sequence_length is not None and "sequence_length" not in workload.scales[case.scale]:
        return Refusal("sequence_length", f"{case.workload} has no sequences")
    return None


def unfit(case: Case, cluster: Cluster, framework: FrameworkInfo) -> Refusal | None:
    """Say why a case that some cluster could run does not fit this one."""
    precisions = framework.precisions.get(cluster.device_kind, ())
    if case.precision not in precisions:
        have = ", ".join(precisions) or "nothing"
        said = (
            f"{case.framework} cannot compute in {case.precision} on the {cluster.device_kind} "
            f"devices of cluster {cluster.name} (it has {have})"
        )
        return Refusal("precision", said + _because(framework.remarks, case.precision, "precision"))
    if case.nodes > len(cluster.nodes):
        have = _count(len(cluster.nodes), "node")
        wanted = _count(case.nodes, "node")
        hint = ""
        if case.strategy is Strategy.PARAMETER_SERVER:
            hint = "; give `devices` to put several trainers on a node"
        return Refusal(
            "nodes", f"{case.case_id} needs {wanted}; cluster {cluster.name} has {have}{hint}"
        )
    if case.devices_per_node > cluster.devices_per_node:
        have = _count(cluster.devices_per_node, "device")
        wanted = _count(case.devices_per_node, "device")
        return Refusal(
            "devices_per_node",
            f"{case.case_id} needs {wanted} on a node; the nodes of cluster {cluster.name} have "
            f"{have} each",
        )
    return None


def variant_of(
    framework: FrameworkInfo, cluster: Cluster, builds: Mapping[str, Build]
) -> str | Refusal:
    """Name the variant of a line's lock that a cluster runs.

    It is the suite's, else the cluster's, else `cpu` on CPUs and the first other one on GPUs.
    """
    build = builds.get(framework.line)
    asked = (build.variant if build else "") or cluster.environments.variants.get(framework.line)
    have = ", ".join(framework.variants)
    if asked:
        if asked in framework.variants:
            return asked
        return Refusal("framework", f"{framework.line} has no variant {asked} (it has {have})")
    fitting = [v for v in framework.variants if (v == "cpu") == (cluster.device_kind == "cpu")]
    if fitting:
        return fitting[0]
    if framework.python is None and framework.variants:
        return framework.variants[0]
    return Refusal(
        "framework",
        f"{framework.line} has no variant for {cluster.device_kind} devices (it has {have})",
    )


def _because(remarks: Mapping[str, str], *words: str) -> str:
    """The first remark of a line on the value or its axis, as the end of a sentence."""
    for word in words:
        if word.lower() in remarks:
            return f": {remarks[word.lower()]}"
    return ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
