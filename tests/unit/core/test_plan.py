"""From cases to jobs: selection, placement, builds, environments and digests."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from nightbench.core.errors import UserError
from nightbench.core.model import (
    Build,
    Case,
    Catalog,
    Cluster,
    EnvironmentPolicy,
    FrameworkInfo,
    Node,
    Protocol,
    Role,
    RunKind,
    Strategy,
    Suite,
    Untried,
    Variant,
    WorkloadInfo,
)
from nightbench.core.model.catalog import TRAINERS
from nightbench.core.placement import place
from nightbench.core.run_plan import build_of, definition_digest, make_plan, resolve, select

SERVED = Case(
    "net", "fake", Strategy.PARAMETER_SERVER, nodes=2, trainers=3, pservers=2, devices_per_node=2
)
PAIR = Case("net", "fake", Strategy.COLLECTIVE, nodes=2, devices_per_node=2, trainers=4)


def node(name: str, **changes: object) -> Node:
    return dataclasses.replace(Node(name, f"{name}.example.org", "ssh"), **changes)


CLUSTER = Cluster("three", (node("z"), node("a"), node("m")), devices_per_node=2)
GPUS = dataclasses.replace(
    CLUSTER, device_kind="gpu", nodes=(node("g1", devices=("3", "GPU-b")), node("g2"))
)
EVERYWHERE: dict[str, Untried | str | None] = {"cpu": None, "gpu": None}
LINE = FrameworkInfo(
    line="fake",
    title="Fake",
    version="1.0",
    api="fake",
    devices=EVERYWHERE,
    variants={
        "cpu": Variant(device="cpu", pythons=("3.11",)),
        "cu126": Variant(device="gpu", pythons=("3.11",)),
    },
    axes={"strategy": {str(strategy): EVERYWHERE for strategy in Strategy}},
    roles={
        Strategy.PARAMETER_SERVER: {
            "pserver": Role(count="pservers"),
            "trainer": Role(count="trainers", measured=True),
        }
    },
)
SERVERS = LINE.roles_of(Strategy.PARAMETER_SERVER)
NET = WorkloadInfo(
    name="net",
    title="Net",
    unit="images",
    frameworks=("fake",),
    strategies=tuple(Strategy),
    scales={"full": {"size": 224}},
    digest="d",
)
CATALOG = Catalog({"fake": LINE}, {"net": NET}, "c0de")
SUITE = Suite("s", "me", "three", (PAIR, SERVED))


def test_ranks_of_a_collective_fill_a_node_before_the_next() -> None:
    nodes, processes = place(PAIR, CLUSTER, TRAINERS)
    assert [n.name for n in nodes] == ["z", "a"]
    assert [(p.name, p.node, p.local_rank) for p in processes] == [
        ("trainer-0", "z", 0),
        ("trainer-1", "z", 1),
        ("trainer-2", "a", 0),
        ("trainer-3", "a", 1),
    ]


def test_trainers_and_servers_go_round_robin() -> None:
    _, processes = place(SERVED, CLUSTER, SERVERS)
    assert [(p.name, p.node, p.local_rank) for p in processes] == [
        ("pserver-0", "z", 0),
        ("pserver-1", "a", 0),
        ("trainer-0", "z", 0),
        ("trainer-1", "a", 0),
        ("trainer-2", "z", 1),
    ]


def test_trainers_get_the_nodes_devices_and_servers_none() -> None:
    _, processes = place(PAIR, GPUS, TRAINERS)
    assert [p.device for p in processes] == ["3", "GPU-b", "0", "1"]
    _, served = place(SERVED, GPUS, SERVERS)
    assert [p.device for p in served] == [None, None, "3", "0", "GPU-b"]


def test_a_cluster_that_is_too_small_is_named() -> None:
    with pytest.raises(UserError, match=r"needs 4 x 2 .* cluster three has 3 x 2"):
        place(dataclasses.replace(PAIR, nodes=4), CLUSTER, TRAINERS)


def test_selection() -> None:
    cases = (PAIR, SERVED)
    assert select(cases) == cases
    assert select(cases, strategies=["collective"]) == (PAIR,)
    with pytest.raises(UserError, match=r'framework: found "tf".*expected one of fake'):
        select(cases, frameworks=["tf"])


def test_a_suites_environment_is_stronger_than_a_clusters() -> None:
    cluster = dataclasses.replace(
        CLUSTER, env={"A": "cluster", "B": "cluster"}, role_env={"trainer": {"X": "c", "Y": "c"}}
    )
    suite = dataclasses.replace(SUITE, env={"B": "suite"}, role_env={"trainer": {"Y": "s"}})
    job = resolve(PAIR, suite, cluster, CATALOG, "run")
    assert job.env == {"A": "cluster", "B": "suite"}
    assert job.role_env == {"trainer": {"X": "c", "Y": "s"}}
    plan = make_plan(suite, cluster, CATALOG, run_kind=RunKind.NIGHTLY)
    assert plan.run.env == {"A": "cluster", "B": "suite", "trainer.X": "c", "trainer.Y": "s"}
    assert job.limits.repeat_s == suite.repeat_timeout_s
    assert (job.unit, job.workload_params, job.code_digest) == ("images", {"size": 224}, "c0de")


def test_parameters_follow_the_length_of_sequences() -> None:
    lengths = {"64": {"predictions": 10}, "128": {"predictions": 20}}
    scale = {"sequence_length": 64, "predictions": 10, "by_sequence_length": lengths}
    net = NET.model_copy(update={"scales": {"full": scale}})
    catalog = dataclasses.replace(CATALOG, workloads={"net": net})

    def params(length: int | None) -> object:
        case = dataclasses.replace(PAIR, sequence_length=length)
        return resolve(case, SUITE, CLUSTER, catalog, "run").workload_params

    assert params(None) == params(64) == {"sequence_length": 64, "predictions": 10}
    assert params(128) == {"sequence_length": 128, "predictions": 20}
    with pytest.raises(
        UserError, match=r"no sequences of 32 tokens at scale full \(it has 64, 128\)"
    ):
        params(32)


def test_builds() -> None:
    assert build_of("fake", SUITE, CLUSTER, CATALOG) == Build("fake", "cpu")
    assert build_of("fake", SUITE, GPUS, CATALOG).variant == "cu126"
    prepared = dataclasses.replace(
        CLUSTER, environments=EnvironmentPolicy(paths={"fake": "/opt/f"})
    )
    assert build_of("fake", SUITE, prepared, CATALOG).location == "/opt/f"
    asked = dataclasses.replace(SUITE, builds={"fake": Build("fake", "", "index", "2.0")})
    assert build_of("fake", asked, prepared, CATALOG) == Build("fake", "cpu", "index", "2.0")


def test_a_prefix_on_a_gpu_cluster_needs_no_lock_for_gpus() -> None:
    line = LINE.model_copy(update={"variants": {"cpu": Variant(device="cpu")}})
    catalog = dataclasses.replace(CATALOG, frameworks={"fake": line})
    with pytest.raises(
        UserError, match=r"fake has no variant for gpu devices \(it has cpu\); a pre"
    ):
        resolve(PAIR, SUITE, GPUS, catalog, "run")
    prefix = Build("fake", "gpu", "path", None, "/opt/f")
    prepared = dataclasses.replace(GPUS, environments=EnvironmentPolicy(paths={"fake": "/opt/f"}))
    assert resolve(PAIR, SUITE, prepared, catalog, "run").build == prefix
    asked = dataclasses.replace(SUITE, builds={"fake": Build("fake", "", "path", None, "/opt/f")})
    assert resolve(PAIR, asked, GPUS, catalog, "run").build == prefix
    named = EnvironmentPolicy(paths={"fake": "/opt/f"}, variants={"fake": "cu126"})
    prepared = dataclasses.replace(GPUS, environments=named)
    assert resolve(PAIR, SUITE, prepared, catalog, "run").build.variant == "cu126"


def test_a_line_that_knows_no_gpus_is_refused_with_its_reason() -> None:
    line = LINE.model_copy(update={"devices": {"cpu": None, "gpu": "its trainer knows none"}})
    catalog = dataclasses.replace(CATALOG, frameworks={"fake": line})
    with pytest.raises(UserError, match="on the gpu devices of cluster three: its trainer knows"):
        resolve(PAIR, SUITE, GPUS, catalog, "run")


def test_a_wheel_is_known_by_its_content(tmp_path: Path) -> None:
    wheel = tmp_path / "fake-2.0-py3-none-any.whl"
    wheel.write_bytes(b"one")
    suite = dataclasses.replace(
        SUITE, builds={"fake": Build("fake", "", "wheel", "2.0", str(wheel))}
    )
    first = build_of("fake", suite, CLUSTER, CATALOG)
    wheel.write_bytes(b"other")
    assert build_of("fake", suite, CLUSTER, CATALOG).build_id != first.build_id
    wheel.unlink()
    with pytest.raises(UserError, match="the wheel cannot be read"):
        build_of("fake", suite, CLUSTER, CATALOG)


def test_what_a_case_means_is_in_its_digest_and_our_code_is_not() -> None:
    digest = definition_digest(PAIR, NET, Protocol())
    assert definition_digest(PAIR, NET.model_copy(update={"title": "Other"}), Protocol()) == digest
    # Axes at their defaults are left out: a new axis cuts no history.
    assert PAIR.defining_axes().keys() == {
        *("workload", "framework", "strategy", "nodes", "devices_per_node", "trainers")
    }
    split = dataclasses.replace(PAIR, shard=2, shard_stage=3)
    assert definition_digest(split, NET, Protocol()) != digest
    other_code = dataclasses.replace(CATALOG, code_digest="other")
    assert resolve(PAIR, SUITE, CLUSTER, other_code, "run").definition_digest == digest
    changed = [
        definition_digest(dataclasses.replace(PAIR, precision="bf16"), NET, Protocol()),
        definition_digest(PAIR, NET.model_copy(update={"digest": "e"}), Protocol()),
        definition_digest(
            PAIR, NET.model_copy(update={"scales": {"full": {"size": 1}}}), Protocol()
        ),
        definition_digest(PAIR, NET.model_copy(update={"seed": 2}), Protocol()),
        definition_digest(PAIR, NET, Protocol(warmup_steps=1)),
    ]
    assert len({digest, *changed}) == 6
    more = NET.model_copy(update={"scales": {**NET.scales, "smoke": {"size": 32}}})
    assert definition_digest(PAIR, more, Protocol()) == digest


def test_a_case_that_cannot_run_is_not_resolved() -> None:
    strategies = {"single": EVERYWHERE, "collective": dict.fromkeys(EVERYWHERE, "why")}
    line = LINE.model_copy(update={"axes": {"strategy": strategies}})
    catalog = dataclasses.replace(CATALOG, frameworks={"fake": line})
    with pytest.raises(
        UserError, match=r"does not support strategy collective: why\. Supp.*: single"
    ):
        resolve(PAIR, SUITE, CLUSTER, catalog, "run")
