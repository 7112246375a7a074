"""Clusters with nodes of several CPU architectures: builds, places, and what is unavailable."""

from __future__ import annotations

import dataclasses

import pytest

from nightbench.accept.cells import mode_cells
from nightbench.core.capabilities import broken
from nightbench.core.model import (
    Build,
    Case,
    Catalog,
    Cluster,
    EnvironmentPolicy,
    FrameworkInfo,
    KubernetesPolicy,
    Node,
    Strategy,
    Suite,
    Variant,
    WorkloadInfo,
)
from nightbench.core.placement import TooFewNodes, nodes_for
from nightbench.core.run_plan import build_of, nodes_of, resolve
from nightbench.nodes import NodePreflight
from nightbench.nodes.findings import findings


def nodes(*machines: str | None) -> tuple[Node, ...]:
    return tuple(Node(f"n{i}", f"n{i}", "ssh", machine=m) for i, m in enumerate(machines, 1))


MIXED = Cluster("mixed", nodes("aarch64", "aarch64", "x86_64", "x86_64", "x86_64"))
ARM = Cluster("arm", nodes("aarch64", "aarch64"))
UNSTATED = Cluster("unstated", nodes(None, None, None))
API = {"version": "v1.30.0", "denied": [], "quotas": []}
BOTH = ("x86_64", "aarch64")
VARIANTS = {
    "cpu": Variant(device="cpu", pythons=("3.11",)),
    "wide": Variant(device="cpu", pythons=("3.11",), machines=BOTH),
}


def catalog(**variants: Variant) -> Catalog:
    strategies = {str(strategy): {"cpu": None} for strategy in Strategy}
    axes = {"strategy": strategies}
    line = FrameworkInfo(
        line="net",
        title="Net",
        version="1.0",
        api="net",
        devices={"cpu": None},
        variants=variants,
        axes=axes,
    )
    work = WorkloadInfo(
        name="net",
        title="Net",
        unit="images",
        frameworks=("net",),
        strategies=tuple(Strategy),
        scales={"full": {}},
        digest="d",
    )
    return Catalog({"net": line}, {"net": work}, "c0de")


WIDE = catalog(wide=VARIANTS["wide"])
NARROW = catalog(cpu=VARIANTS["cpu"])


def case(count: int) -> Case:
    if count == 1:
        return Case("net", "net", Strategy.SINGLE)
    return Case("net", "net", Strategy.COLLECTIVE, nodes=count, trainers=count)


def suite(count: int, **changes: object) -> Suite:
    return dataclasses.replace(Suite("s", "me", "lab", (case(count),)), **changes)


def placed(count: int, cluster: Cluster, known: Catalog) -> list[str]:
    return [node.name for node in nodes_of(case(count), suite(count), cluster, known)]


def problem(count: int, cluster: Cluster, known: Catalog, **changes: object) -> str | None:
    return broken(case(count), suite(count, **changes), cluster, known)


@pytest.mark.parametrize(
    ("count", "known", "names"),
    [
        (1, WIDE, ["n1"]),
        (2, WIDE, ["n1", "n2"]),
        (3, WIDE, ["n3", "n4", "n5"]),
        (1, NARROW, ["n3"]),
        (2, NARROW, ["n3", "n4"]),
    ],
)
def test_a_gang_is_on_nodes_of_one_architecture(
    count: int, known: Catalog, names: list[str]
) -> None:
    """The first in the file that has enough nodes, and that the line has wheels for."""
    assert placed(count, MIXED, known) == names
    job = resolve(case(count), suite(count), MIXED, known, "r")
    assert [node.name for node in job.nodes] == names
    assert problem(count, MIXED, known) is None


def test_no_architecture_is_stated() -> None:
    assert placed(3, UNSTATED, NARROW) == ["n1", "n2", "n3"]
    assert problem(3, UNSTATED, NARROW) is None


def test_a_case_never_changes_to_the_other_architecture() -> None:
    """Without a node of its architecture it is not measured: its results would not compare."""
    with pytest.raises(
        TooFewNodes, match="needs 2 of the 2 aarch64 nodes of cluster mixed, and n1"
    ):
        nodes_for(case(2), MIXED, {"n1"})
    assert [node.name for node in nodes_for(case(1), MIXED, {"n1"})] == ["n2"]


def test_blocks_of_cases_at_once_are_of_one_architecture() -> None:
    several = dataclasses.replace(MIXED, parallel_cases=3)
    for batch in range(1, 20):
        one = dataclasses.replace(case(2), batch_size_per_device=batch)
        assert {node.machine for node in nodes_for(one, several)} == {"aarch64"}


def test_a_line_without_wheels_is_unavailable() -> None:
    said = problem(1, ARM, NARROW)
    assert said is not None
    assert said.startswith("net has wheels for x86_64; cluster arm has 2 x aarch64.")
    assert problem(2, ARM, NARROW) == said, "one reason for all its cases"
    assert problem(1, ARM, WIDE) is None


def test_what_needs_no_wheels_is_available() -> None:
    prefix = Build("net", source="path", location="/opt/net")
    assert problem(1, ARM, NARROW, builds={"net": prefix}) is None
    site = dataclasses.replace(ARM, environments=EnvironmentPolicy(paths={"net": "/opt/net"}))
    assert problem(1, site, NARROW) is None
    line = NARROW.frameworks["net"].model_copy(update={"variants": {"cpu": Variant(device="cpu")}})
    assert problem(1, ARM, dataclasses.replace(NARROW, frameworks={"net": line})) is None


def test_a_line_without_an_image_for_its_pods_is_unavailable() -> None:
    pods = dataclasses.replace(UNSTATED, kubernetes=KubernetesPolicy(images={"other": "other:1"}))
    said = (
        "cluster unstated has no image for the pods of net (it has one for other): expected "
        "kubernetes.images.net"
    )
    assert problem(1, pods, WIDE) == said
    site = dataclasses.replace(pods, environments=EnvironmentPolicy(paths={"net": "/opt/net"}))
    assert problem(1, site, WIDE) == said, "a path is in the image"
    has = KubernetesPolicy(images={"net": "net:1"})
    assert problem(1, dataclasses.replace(pods, kubernetes=has), WIDE) is None
    (cell,) = mode_cells("net", pods, WIDE)
    assert cell.skipped == said
    found = findings(NodePreflight("n1", "", "", True, api=API), pods, [WIDE.frameworks["net"]])
    assert next((each.what, each.found) for each in found) == ("images", "none for net")


@pytest.mark.parametrize(("known", "more"), [(WIDE, True), (NARROW, False)])
def test_a_gang_that_fits_on_no_architecture_is_unavailable(known: Catalog, more: bool) -> None:
    said = problem(4, MIXED, known)
    wheels = ", and net has wheels for " + ("aarch64, x86_64" if more else "x86_64")
    have = "cluster mixed has 2 x aarch64, 3 x x86_64"
    assert said == f"a gang on 4 nodes needs one CPU architecture; {have}{wheels}"


def test_the_variant_with_wheels_for_the_nodes() -> None:
    """Of variants for the same devices the first one with wheels, in the order of the file."""
    known = catalog(**VARIANTS)
    assert build_of("net", suite(1), ARM, known).variant == "wide"
    assert build_of("net", suite(1), UNSTATED, known).variant == "cpu"
    assert build_of("net", suite(1), MIXED, known).variant == "cpu"
