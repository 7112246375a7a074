"""Which build of a framework line a cluster runs, and what that build has."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nightbench.core.model import Build, Case, Cluster, FrameworkInfo


@dataclass(frozen=True)
class Refusal:
    """Why something cannot be measured, and which axis of the case says so."""

    axis: str
    message: str


def prefix_of(line: str, cluster: Cluster, builds: Mapping[str, Build]) -> str | None:
    """Name the prefix on the nodes that a line runs from; None if it gets an environment.

    A prefix that the cluster's nodes were prepared with gives way to a build that a suite names.
    """
    build = builds.get(line)
    if build is None or (build.source == "index" and build.version is None):
        return cluster.environments.paths.get(line)
    return build.location if build.source == "path" else None


def image_of(line: str, cluster: Cluster, builds: Mapping[str, Build]) -> str | None:
    """Name the image that a line runs in; None if it runs in none."""
    build = builds.get(line)
    if build is not None and build.source == "image":
        return build.location
    if build is None or (build.source == "index" and build.version is None):
        return cluster.environments.images.get(line)
    return None


def without_image(line: str, cluster: Cluster) -> str | None:
    """Say that a line's pods have no image on a cluster of Kubernetes; None if they have one."""
    if cluster.kubernetes is None or line in cluster.kubernetes.images:
        return None
    have = ", ".join(sorted(cluster.kubernetes.images))
    return (
        f"cluster {cluster.name} has no image for the pods of {line} (it has one for {have}): "
        f"expected kubernetes.images.{line}"
    )


def variant_of(
    framework: FrameworkInfo, cluster: Cluster, builds: Mapping[str, Build]
) -> str | Refusal:
    """Name the variant of a line that a cluster runs: the suite's, else the cluster's.

    If neither names one it is the first whose lock is built for the cluster's devices. A prefix
    needs no lock: its variant may have any name, and is called like the devices by default.
    """
    build = builds.get(framework.line)
    asked = (build.variant if build else "") or cluster.environments.variants.get(framework.line)
    kind, wanted = cluster.device_kind, cluster.compute_capability
    of_kind = {v: x.compute_capabilities for v, x in framework.variants.items() if x.device == kind}
    fitting = [v for v, able in of_kind.items() if wanted is None or not able or wanted in able]
    stated = {node.machine for node in cluster.nodes}
    # First those with wheels for the nodes' CPU architecture; the sort keeps the file's order.
    fitting.sort(key=lambda v: stated.isdisjoint(framework.variants[v].machines))
    images = cluster.environments.images
    if build is not None and build.source == "image" and not images:
        return Refusal(
            "framework",
            f"cluster {cluster.name} does not use images (`environments: {{kind: container}}`): "
            f"expected a version, a wheel or a prefix of {framework.line}",
        )
    if images and image_of(framework.line, cluster, builds) is None:
        have = ", ".join(sorted(images))
        return Refusal(
            "framework",
            f"cluster {cluster.name} runs each line in an image, and has images only for {have}: "
            f"expected {framework.line} in environments.images",
        )
    prepared = images or prefix_of(framework.line, cluster, builds) is not None
    if prepared or framework.problem is not None:
        return asked or next(iter(fitting), cluster.device_kind)
    have = ", ".join(framework.variants)
    if asked and asked not in framework.variants:
        return Refusal("framework", f"{framework.line} has no variant {asked} (it has {have})")
    if asked or fitting:
        return asked or fitting[0]
    if of_kind:
        builds_for = "; ".join(f"{v} is built for {', '.join(x)}" for v, x in of_kind.items())
        return Refusal(
            "framework",
            f"{framework.line} has no variant for compute capability {wanted}, which cluster "
            f"{cluster.name} has: {builds_for}",
        )
    return Refusal(
        "framework",
        f"{framework.line} has no variant for {cluster.device_kind} devices (it has {have}); a "
        "prefix on the nodes (`environments.paths`) needs no variant",
    )


def machines_for(
    framework: FrameworkInfo, cluster: Cluster, builds: Mapping[str, Build]
) -> frozenset[str] | None:
    """Return the CPU architectures for which a line's build on a cluster has wheels; None: any.

    A prefix, an image and a line without an environment need no wheels.
    """
    prepared = (of(framework.line, cluster, builds) for of in (prefix_of, image_of))
    variant = variant_of(framework, cluster, builds)
    known = None if isinstance(variant, Refusal) else framework.variants.get(variant)
    if known is None or not known.pythons or any(place is not None for place in prepared):
        return None
    return frozenset(known.machines)


def with_nodes_for(
    case: Case, framework: FrameworkInfo, cluster: Cluster, builds: Mapping[str, Build]
) -> Cluster:
    """Return the cluster without nodes that a case's line has no wheels for.

    It is unchanged if the file states no CPU architectures, or if too few nodes are left.
    """
    able = machines_for(framework, cluster, builds)
    nodes = tuple(n for n in cluster.nodes if able is None or n.machine in able)
    return replace(cluster, nodes=nodes) if len(nodes) >= case.nodes else cluster


def builds_of(
    framework: FrameworkInfo, cluster: Cluster | None, builds: Mapping[str, Build]
) -> list[FrameworkInfo]:
    """The line with the axes of the build that a cluster runs; of all builds without a cluster."""
    if cluster is None:
        own = [name for name, variant in framework.variants.items() if variant.axes]
        return [framework, *map(framework.with_axes_of, own)]
    variant = variant_of(framework, cluster, builds)
    return [framework if isinstance(variant, Refusal) else framework.with_axes_of(variant)]
