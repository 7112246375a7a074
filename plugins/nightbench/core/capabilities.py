"""Decides what can be measured where, for configuration and planning."""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import (
    LINE_AXES,
    MAX_BATCH,
    SEVERAL,
    Build,
    Case,
    Catalog,
    Cluster,
    FrameworkInfo,
    Strategy,
    Suite,
    Untried,
    WorkloadInfo,
)
from nightbench.core.model_memory import does_not_fit
from nightbench.core.parallelism import parallelism_refusal
from nightbench.core.variants import (
    Refusal,
    builds_of,
    image_of,
    machines_for,
    prefix_of,
    variant_of,
    without_image,
)

FULL_LINK = Case.link_bandwidth
"""The link as it is."""
SYNTHETIC = Case.data
SHIPPED_DATA = (SYNTHETIC, "sample")
"""Data that every cluster has: those that are made, and a few examples that ship with the code."""

DATA_PLACEHOLDER = "{data}"
"""Placeholder for the path of the data in a command."""


def broken(case: Case, suite: Suite, cluster: Cluster, catalog: Catalog) -> str | None:
    """Say what is wrong with the files that a case is run from there; None if nothing is."""
    problem = _broken_folder(case, catalog.with_commands(suite))
    framework = catalog.frameworks[case.framework]
    without_lock = (of(case.framework, cluster, suite.builds) for of in (prefix_of, image_of))
    if problem := problem or without_image(case.framework, cluster):
        return problem
    variant = variant_of(framework, cluster, suite.builds)
    if not isinstance(variant, Refusal) and not any(place is not None for place in without_lock):
        locked = framework.variants[variant]
        if locked.problem or locked.unlocked:
            return locked.problem or locked.unlocked
    return _on_no_machine(case, cluster, machines_for(framework, cluster, suite.builds))


def _on_no_machine(case: Case, cluster: Cluster, able: frozenset[str] | None) -> str | None:
    """Say why a gang fits on no CPU architecture of a cluster; None if one fits or none is stated.

    `able` are those that the line has wheels for; None: any.
    """
    counts = Counter(node.machine for node in cluster.nodes if node.machine is not None)
    fitting = {machine: n for machine, n in counts.items() if able is None or machine in able}
    if not counts or any(count >= case.nodes for count in fitting.values()):
        return None
    have = ", ".join(f"{count} x {machine}" for machine, count in counts.items())
    wheels = ", ".join(sorted(able or ()))
    if not fitting:
        return (
            f"{case.framework} has wheels for {wheels}; cluster {cluster.name} has {have}. An "
            "image or a prefix on the nodes (`environments`) needs no wheels"
        )
    return (
        f"a gang on {case.nodes} nodes needs one CPU architecture; cluster {cluster.name} has "
        + have
        + (f", and {case.framework} has wheels for {wheels}" if able else "")
    )


def refuse_broken(cases: Iterable[Case], suite: Suite, cluster: Cluster, catalog: Catalog) -> None:
    """Refuse cases whose files are broken, if a case alone is of no use.

    Raises:
        UserError: what is wrong, with file and line.
    """
    for case in cases:
        if problem := broken(case, suite, cluster, catalog):
            raise UserError(f"{case.case_id} cannot be measured:\n{problem}")


def _broken_folder(case: Case, catalog: Catalog) -> str | None:
    framework = catalog.frameworks[case.framework]
    workload = catalog.workloads[case.workload]
    return (
        framework.problem or workload.problem or workload.broken_models.get(framework.api) or None
    )


def refusal_of(
    case: Case,
    catalog: Catalog,
    cluster: Cluster | None = None,
    builds: Mapping[str, Build] = MappingProxyType({}),
    *,
    untried: bool = False,
) -> Refusal | None:
    """Say why a case is not run; None if framework, workload and cluster have it.

    It is unknown what a broken folder supports: its cases are planned, and unavailable. Without a
    cluster: whether any could run it. `builds` are the suite's. `untried` takes configurations that
    were never run on such devices yet.
    """
    framework, workload = catalog.frameworks[case.framework], catalog.workloads[case.workload]
    if _broken_folder(case, catalog) is None:
        refusals = [
            _not_by_line(case, build, workload, cluster)
            for build in builds_of(framework, cluster, builds)
        ]
        if None not in refusals:
            return refusals[0]
    if cluster is None:
        return None
    if framework.problem is None and case.data not in (*SHIPPED_DATA, *cluster.data):
        have = ", ".join(sorted((*SHIPPED_DATA, *cluster.data)))
        return Refusal(
            "data",
            f"cluster {cluster.name} has no data {case.data} (it has {have}): expected its path "
            "on the nodes in `data` of the cluster's file",
        )
    refusal = _too_large(case, cluster)
    if refusal is None and (problem := does_not_fit(case, workload, cluster, framework)):
        refusal = Refusal("scale", problem)
    if refusal is not None:
        return refusal
    why = None if untried else untried_because(case, cluster, catalog, builds)
    if why is None:
        variant = variant_of(framework, cluster, builds)
        return variant if isinstance(variant, Refusal) else None
    said = f"{case.framework} has not been tried in this configuration{_where(cluster)}: {why}. "
    return Refusal("framework", f"{said}To run it anyway: --untried, or `untried: true`")


def _not_by_line(
    case: Case, framework: FrameworkInfo, workload: WorkloadInfo, cluster: Cluster | None
) -> Refusal | None:
    """Say what of a case its line or its workload has not, there or anywhere."""
    if cluster is not None:
        answer = framework.devices.get(cluster.device_kind, "")
        if isinstance(answer, str):
            said = f"{case.framework} does not run{_where(cluster)}{_because(answer)}"
            return Refusal("framework", said)
    refusal = _refused(framework, case.strategy, "strategy", cluster)
    if refusal is not None:
        return refusal
    if case.strategy not in workload.strategies:
        have = ", ".join(sorted(workload.strategies))
        return Refusal("strategy", f"{case.workload} cannot run {case.strategy} (it runs {have})")
    # After the strategy: the first reason should be the most general one.
    if reason := framework.refused_workloads.get(case.workload):
        return Refusal("framework", f"{case.framework} does not run {case.workload}: {reason}")
    if case.framework not in workload.frameworks:
        have = ", ".join(sorted(workload.frameworks)) or "no line"
        file = f"workloads/{case.workload}/{framework.api}.py"
        return Refusal(
            "framework",
            f"{case.workload} is not written for {case.framework} (for {have}): found no {file}",
        )
    if problem := _wrong_data(case, workload):
        return Refusal("data", problem)
    for axis in LINE_AXES:
        refusal = _refused(framework, _value(case, axis, workload), axis, cluster)
        if refusal is not None:
            return refusal
    refusal = (
        _combined(case, framework, workload, cluster)
        or parallelism_refusal(case, workload)
        or _rounded_away(case, workload)
    )
    if refusal is not None:
        return refusal
    if case.batch_size_per_device == MAX_BATCH:
        if "command" in workload.scales.get(case.scale, {}):
            return Refusal("batch_size_per_device", "batch max needs a workload of `benchmarks`")
        if case.strategy is Strategy.PARAMETER_SERVER:
            said = "parameter servers cannot search the batch size max: expected a number"
            return Refusal("batch_size_per_device", said)
    if case.scale not in workload.scales:
        have = ", ".join(sorted(workload.scales))
        return Refusal("scale", f"{case.workload} has no scale {case.scale} (it has {have})")
    return _wrong_length(case, workload.scales[case.scale])


def _wrong_data(case: Case, workload: WorkloadInfo) -> str | None:
    if case.data == SYNTHETIC:
        return None
    command = workload.scales.get(case.scale, {}).get("command")
    if command is None and workload.reads is None:
        return f"{case.workload} reads no real data: found {case.data}; expected {SYNTHETIC}"
    if command is not None and case.data in SHIPPED_DATA:
        return f"found {case.data}, which is for workloads of `benchmarks`; expected data of sites"
    if command is not None and not any(
        DATA_PLACEHOLDER in word for word in (*command["argv"], *command["env"].values())
    ):
        said = f"expected {DATA_PLACEHOLDER} in its `argv` or `env`, or {SYNTHETIC}"
        return f"{case.workload} does not get the path of the data {case.data}: {said}"
    return None


def _combined(
    case: Case, framework: FrameworkInfo, workload: WorkloadInfo, cluster: Cluster | None
) -> Refusal | None:
    """Refuse values that the line runs each, but not together."""
    found: dict[str, str | None] = {axis: _value(case, axis, workload) for axis in LINE_AXES}
    found |= {"workload": case.workload}
    counts = ("trainers", "nodes", "devices_per_node", "pipeline")
    found |= {key: str(getattr(case, key)) for key in counts}
    found["optimizer"] = workload.scales.get(case.scale, {}).get("optimizer")
    found["device"] = cluster.device_kind if cluster is not None else None
    copies = case.trainers > case.shard * case.tensor * case.pipeline
    found["replicas"] = SEVERAL if copies else None
    for combination in framework.refused_combinations:
        if all(found[key] in values for key, values in combination.when.items()):
            together = " with ".join(f"{key} {found[key]}" for key in combination.when)
            said = f"{framework.line} does not run {together}: {combination.refused}"
            return Refusal(list(combination.when)[-1], said)
    return None


def _rounded_away(case: Case, workload: WorkloadInfo) -> Refusal | None:
    """Refuse states that are not there, or whose steps bfloat16 would round to nothing."""
    params = workload.params_of(case)
    optimizer, beta2 = params.get("optimizer"), params.get("beta2", 0.0)
    if case.state_precision == Case.state_precision:
        return None
    found = f"found {case.state_precision} with {workload.name}"
    if optimizer not in ("adam", "adamw"):
        said = f"{found}, whose optimizer is {optimizer}; expected a workload that Adam trains"
        return Refusal("state_precision", said)
    if 1 - beta2 < 2**-8:
        said = f"8 bits cannot store a mean of squares times {beta2}: {found}; expected "
        return Refusal("state_precision", f"{said}beta2 of at most {1 - 2**-8:.3f}")
    return None


def _wrong_length(case: Case, params: Mapping[str, Any]) -> Refusal | None:
    if case.sequence_length is None or "command" in params:
        return None
    if "sequence_length" not in params:
        return Refusal("sequence_length", f"{case.workload} has no sequences")
    lengths = params.get("by_sequence_length", {})
    if lengths and str(case.sequence_length) not in lengths:
        return Refusal(
            "sequence_length",
            f"{case.workload} has no sequences of {case.sequence_length} tokens at scale "
            f"{case.scale} (it has {', '.join(lengths)})",
        )
    return None


def untried_because(
    case: Case, cluster: Cluster, catalog: Catalog, builds: Mapping[str, Build]
) -> str | None:
    """Return why a case is untried on such devices; None if it was run before.

    The acceptance of the cluster says so too, but not of `builds` that a suite names.
    """
    (framework,) = builds_of(catalog.frameworks[case.framework], cluster, builds)
    workload = catalog.workloads[case.workload]
    kind = cluster.device_kind
    answers = {"": framework.devices.get(kind)}
    for axis in LINE_AXES:
        value = _value(case, axis, workload)
        answer = framework.axes.get(axis, {}).get(value or "", {}).get(kind)
        answers[f"{axis} {value}: "] = answer
    why = next((f"{on}{a.why}" for on, a in answers.items() if isinstance(a, Untried)), None)
    accepted = catalog.accepted(cluster) if why is not None else {}
    if (case.framework, case.mode) not in accepted:
        return why
    build, due = builds.get(case.framework), accepted[case.framework, case.mode]
    if build is not None and (build.source != "index" or build.version is not None):
        due = "the run names another build"
    passed = f"it passed the acceptance test of cluster {cluster.name}"
    return due and f"{why}; {passed}, but must be retested: {due}"


def _value(case: Case, axis: str, workload: WorkloadInfo) -> str | None:
    """A case's value of an axis, of data its format; None if a line need not support it."""
    if axis == "sync" and case.strategy is not Strategy.PARAMETER_SERVER:
        return None
    if axis == "data" and case.data != SYNTHETIC:
        return workload.reads
    value = getattr(case, axis)
    if isinstance(LINE_AXES[axis], int):
        return None if value == LINE_AXES[axis] else SEVERAL
    return None if value is None else str(value)


def _too_large(case: Case, cluster: Cluster) -> Refusal | None:
    if case.nodes > len(cluster.nodes):
        have = _count(len(cluster.nodes), "node")
        wanted = _count(case.nodes, "node")
        hint = ""
        if case.strategy is Strategy.PARAMETER_SERVER:
            hint = "; `devices: fit` puts several trainers on a node"
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
    if case.link_bandwidth != FULL_LINK and not cluster.link_command:
        return Refusal(
            "link_bandwidth",
            f"cluster {cluster.name} has no `link.command`, which would limit the link of a node "
            f"to {case.link_bandwidth}",
        )
    if case.link_bandwidth != FULL_LINK and cluster.lock != "node":
        return Refusal(
            "link_bandwidth",
            f"cluster {cluster.name} has `lock: {cluster.lock}`, so that other gangs would share "
            f"the limited link; expected `lock: node`",
        )
    cores = [len(node.cpus) for node in cluster.nodes if node.cpus]
    if case.cpus is not None and cores and case.cpus > max(cores):
        return Refusal(
            "cpus",
            f"{case.case_id} needs {_count(case.cpus, 'core')} for each process; the nodes of "
            f"cluster {cluster.name} have {max(cores)}",
        )
    return None


def _refused(
    framework: FrameworkInfo, value: str | None, axis: str, cluster: Cluster | None
) -> Refusal | None:
    """Say why a line does not run a value; without a cluster any devices count."""
    if value is None:
        return None
    kinds = [k for k, why in framework.devices.items() if _runs(why)]
    if cluster is not None:
        kinds = [cluster.device_kind]
    default = LINE_AXES[axis]
    values = dict(framework.axes.get(axis, {}))
    if default is not None:
        values.setdefault(str(default), dict.fromkeys(kinds))
    reasons = values.get(value, {})
    if any(_runs(reasons.get(k, "")) for k in kinds):
        return None
    have = [v for v, support in values.items() if any(_runs(support.get(k, "")) for k in kinds)]
    because = _because(*(reasons.get(k) for k in kinds))
    there = _where(cluster) if cluster is not None and any(map(_runs, reasons.values())) else ""
    return Refusal(
        axis,
        f"{framework.line} does not support {axis} {value}{there}{because}. Supported: "
        + (", ".join(sorted(have)) or "nothing"),
    )


def _where(cluster: Cluster) -> str:
    return f" on the {cluster.device_kind} devices of cluster {cluster.name}"


def _runs(answer: Untried | str | None) -> bool:
    """Whether a line is written for it, tried or not."""
    return not isinstance(answer, str)


def _because(*reasons: Untried | str | None) -> str:
    """The first reason, as the end of a sentence."""
    return next((f": {reason}" for reason in reasons if isinstance(reason, str)), "")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
