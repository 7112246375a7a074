"""Which cells try the modes of a line, and when one is due again."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

from nightbench.accept.cells import ModeCell, mode_cells
from nightbench.accept.measuring import with_single_device
from nightbench.accept.states import accepted_modes, counts, mode_states
from nightbench.checks import checks_digest
from nightbench.config import load_catalog
from nightbench.core.capabilities import refusal_of, untried_because
from nightbench.core.model import Build, Catalog, Cluster, Node
from nightbench.warehouse.acceptance import AcceptedMode

PAIR = Cluster("pair", (Node("n1", "n1", "ssh"), Node("n2", "n2", "ssh")))
ALONE = dataclasses.replace(PAIR, nodes=PAIR.nodes[:1])
GPUS = dataclasses.replace(PAIR, device_kind="gpu", devices_per_node=8, compute_capability="9.0")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def tried(cells: tuple[ModeCell, ...]) -> dict[str, str]:
    return {cell.mode: cell.case.workload for cell in cells if cell.case is not None}


def test_precision_compiler_and_layout_are_tried_in_every_combination(catalog: Catalog) -> None:
    found = tried(mode_cells("pytorch", GPUS, catalog))
    assert {
        "single",
        "collective dgc",
        "collective shard3",
        "single bf16 inductor channels_last",
    } <= {*found}
    # Compression; stages of sharding; tensor, context, expert, two schedules, micro-batches, two
    # kinds of recompute, states in bf16; switches of PyTorch alone.
    assert len(found) == 2 * 4 * 2 * 2 + 1 + 3 + 9 + 16
    assert {"collective inductor compile_cuda_graphs", "collective bf16 sdpa_flash"} <= {*found}
    assert found["single channels_last"] == "resnet50_v1.5", "images alone have that layout"
    skipped = {c.mode: c.skipped for c in mode_cells("pytorch", GPUS, catalog) if c.skipped}
    both = [f"collective {each} micro_batches" for each in ("interleaved", "zero_bubble")]
    dali = "collective dali"
    assert {*skipped} == {"strategy parameter_server", "compiler xla", dali, *both}
    assert "DALI decodes images from files" in str(skipped[dali])
    assert all("a divisor of layers, which are 2" in str(skipped[mode]) for mode in both)


def test_a_line_without_the_common_default_is_tried_with_its_own(catalog: Catalog) -> None:
    assert {"collective xla shard2"} <= {*tried(mode_cells("jax", PAIR, catalog))}


def test_two_devices_lie_on_one_node_where_it_has_them_and_then_come_all(catalog: Catalog) -> None:
    def places(cluster: Cluster) -> set[tuple[int, int]]:
        cells = mode_cells("pytorch", cluster, catalog)
        return {(c.case.nodes, c.case.devices_per_node) for c in cells if c.case}

    assert places(GPUS) == {(1, 1), (1, 2), (1, 8), (2, 8)}
    assert places(PAIR) == {(1, 1), (2, 1)}
    assert places(ALONE) == {(1, 1)}


def test_what_needs_no_other_device_is_tried_alone_where_there_is_one(catalog: Catalog) -> None:
    cells = mode_cells(
        "pytorch", dataclasses.replace(GPUS, nodes=ALONE.nodes, devices_per_node=1), catalog
    )
    one = {"recompute_full", "states_bf16", "micro_batches", "inductor compile_cuda_graphs"}
    assert {f"single {each}" for each in one} <= {*tried(cells)}
    (why,) = (cell.skipped for cell in cells if cell.mode == "single ddp_fp16")
    assert "which a single process does not use" in str(why)
    assert not [cell for cell in cells if "tensor" in cell.mode or "dgc" in cell.mode]


def test_a_switch_is_tried_with_what_it_needs(catalog: Catalog) -> None:
    found = tried(mode_cells("oneflow", PAIR, catalog))
    assert found["collective graph fuse_add_to_output"] != "vgg16_cifar"
    assert found["collective graph fuse_model_update_ops"] == "resnet50_v1.5"


def test_what_needs_several_nodes_is_tried_at_all_devices_of_two(catalog: Catalog) -> None:
    volta = dataclasses.replace(GPUS, compute_capability="7.0")
    cells = mode_cells("paddle1", volta, catalog)
    (cell,) = (each for each in cells if "nccl_comm_num_2" in each.mode)
    assert (cell.devices, cell.is_wide) == ("2x8", True)
    cells = mode_cells("paddle1", dataclasses.replace(volta, nodes=ALONE.nodes), catalog)
    (cell,) = (each for each in cells if "hierarchical_allreduce" in each.mode)
    assert "applies the tuning only between nodes" in str(cell.skipped)


@pytest.mark.parametrize(("nodes", "devices"), [(1, 4), (2, 2)])
def test_a_mode_that_has_no_replicas_there_is_not_tried_with_them(
    catalog: Catalog, nodes: int, devices: int
) -> None:
    cluster = dataclasses.replace(PAIR, nodes=PAIR.nodes[:nodes], devices_per_node=devices)
    few, wide = (c for c in mode_cells("paddle3", cluster, catalog) if "shard1" in c.mode)
    assert few.devices == "1x2"
    assert wide.case is None
    assert "several with shard_stage 1: on CPUs, PaddlePaddle has one" in str(wide.skipped)
    assert few.case is not None
    four = dataclasses.replace(few.case, devices_per_node=4, trainers=4, shard=4)
    cluster = dataclasses.replace(PAIR, devices_per_node=4)
    assert refusal_of(four, catalog, cluster) is None
    assert refusal_of(dataclasses.replace(four, shard=2), catalog, cluster) is not None


def test_what_a_device_cannot_do_is_skipped_with_the_lines_own_reason(catalog: Catalog) -> None:
    cells = {cell.mode: cell.skipped for cell in mode_cells("paddle2", PAIR, catalog)}
    assert cells["precision bf16"] == "on CPUs, mixed precision stays in float32"
    assert "parameter_server" not in cells
    assert "parameter_server async" in cells
    (none,) = mode_cells("mindspore", GPUS, catalog)
    assert none.mode == "any"
    assert none.skipped
    assert "last builds for GPUs have version 2.2" in none.skipped


KNOWN = AcceptedMode(
    line="pytorch",
    mode="single",
    nodes=1,
    devices_per_node=1,
    variant="cpu",
    build_id="pytorch-cpu-index-locked",
    framework_version=None,
    driver=None,
    is_driver_same=True,
    code_digest="",
    checks_digest=checks_digest(),
    run_id="r",
    started_at=datetime(2026, 11, 1, tzinfo=UTC),
    outcome="passed",
    reason=None,
)


@pytest.mark.parametrize(
    ("changed", "outcome", "reason"),
    [
        ({}, "passed", None),
        ({"build_id": "pytorch-cpu-path-1"}, "due", "build pytorch-cpu-path-1 became pytorch-cpu"),
        ({"driver": "550.54", "is_driver_same": False}, "due", "the driver is no longer 550.54"),
        ({"checks_digest": "ab"}, "due", "the checks of its last result have changed"),
        ({"framework_version": "2.0.0+cpu"}, "due", "version 2.0.0 became "),
        ({"outcome": "failed", "reason": "why"}, "due", "it did not pass, and the code has "),
        ({"outcome": "failed", "reason": "why", "code_digest": None}, "failed", "why"),
    ],
)
def test_a_mode_is_due_with_another_build_version_or_driver(
    catalog: Catalog, changed: dict[str, object], outcome: str, reason: str | None
) -> None:
    if "code_digest" in changed:
        changed = {**changed, "code_digest": catalog.code_digest}
    known = dataclasses.replace(KNOWN, **changed)  # type: ignore[arg-type]  # by name
    cells = [c for c in mode_cells("pytorch", PAIR, catalog) if c.mode == "single"]
    (state,) = mode_states(cells, [known], PAIR, catalog)
    assert state.outcome == outcome
    assert (state.reason or "").startswith(reason or "")
    assert bool(state.reason) is bool(reason)
    (again,) = mode_states(cells, [known], PAIR, catalog, again=datetime(2026, 11, 2, tzinfo=UTC))
    assert again.outcome == "due"
    (tried,) = mode_states(cells, [known], PAIR, catalog, again=known.started_at)
    assert tried.outcome == outcome


@pytest.mark.parametrize(
    ("version", "due"), [("0.9.0", True), ("0.10.2", False), ("0.12.0.1", False)]
)
def test_a_lock_for_several_pythons_has_several_versions(
    catalog: Catalog, version: str, due: bool
) -> None:
    """JAX 0.10.2 is what nodes get whose newest Python is 3.11."""
    locked = dict(line="jax", build_id="jax-cpu-index-locked", framework_version=version)
    known = dataclasses.replace(KNOWN, **locked)  # type: ignore[arg-type]  # by name
    cells = [c for c in mode_cells("jax", PAIR, catalog) if c.mode.startswith("single")][:1]
    known = dataclasses.replace(known, mode=cells[0].mode)
    (state,) = mode_states(cells, [known], PAIR, catalog)
    assert state.reason == (f"version {version} became 0.12.0.1" if due else None)


def test_what_was_accepted_is_planned_until_it_is_due_and_never_for_another_build(
    catalog: Catalog,
) -> None:
    cells = {cell.mode: cell.case for cell in mode_cells("pytorch", GPUS, catalog)}
    single, bf16 = cells["single"], cells["single bf16"]
    assert single is not None
    assert bf16 is not None

    def accepting(due: str | None) -> Catalog:
        return dataclasses.replace(catalog, accepted=lambda _: {("pytorch", "single"): due})

    assert refusal_of(single, catalog, GPUS, {}) is not None
    assert refusal_of(single, accepting(None), GPUS, {}) is None
    assert refusal_of(bf16, accepting(None), GPUS, {}) is not None
    again = refusal_of(single, accepting("the driver is no longer 550.54"), GPUS, {})
    assert again is not None
    assert "cluster pair, but must be retested: the driver is no longer 550.54" in again.message
    wheel = {"pytorch": Build("pytorch", source="wheel", digest="ab" * 32)}
    marked = untried_because(single, GPUS, accepting(None), wheel)
    assert str(marked).endswith("must be retested: the run names another build")


def test_many_devices_wait_for_few_and_what_failed_there_makes_the_mode_due(
    catalog: Catalog,
) -> None:
    cells = [
        c for c in mode_cells("pytorch", GPUS, catalog) if c.mode.split()[1:] in ([], ["bf16"])
    ]
    build = mode_states(cells, [], GPUS, catalog)[0].build
    assert build is not None

    def known(mode: str, devices: tuple[int, int], outcome: str) -> AcceptedMode:
        nodes, each = devices
        changed = {"mode": mode, "nodes": nodes, "devices_per_node": each, "outcome": outcome}
        held = {"build_id": build.build_id, "code_digest": catalog.code_digest}
        return dataclasses.replace(KNOWN, **changed, **held)  # type: ignore[arg-type]  # by name

    results = [
        known("single", (1, 1), "passed"),
        known("collective", (1, 2), "passed"),
        known("collective", (2, 8), "failed"),
        known("single bf16", (1, 1), "failed"),
    ]
    states = {
        (state.cell.mode, state.cell.devices): state
        for state in mode_states(cells, results, GPUS, catalog)
    }
    assert [states["collective", d].outcome for d in ("1x2", "1x8", "2x8")] == [
        "passed",
        "due",
        "failed",
    ]
    wide = states["collective bf16", "1x8"]
    assert (wide.outcome, wide.to_try) == ("skipped", False)
    assert wide.reason == "single bf16 did not pass at 1x1"
    assert states["collective bf16", "1x2"].to_try
    accepted = accepted_modes(results, GPUS, catalog)
    assert accepted == {
        ("pytorch", "single"): None,
        ("pytorch", "collective"): "it failed at 2x8",
    }
    smaller = dataclasses.replace(GPUS, nodes=GPUS.nodes[:1])
    assert accepted_modes(results, smaller, catalog)["pytorch", "collective"] is None


def test_a_cluster_says_what_of_its_acceptance_is_due_and_why(catalog: Catalog) -> None:
    def known(mode: str, **changed: object) -> AcceptedMode:
        held = {"mode": mode, "code_digest": catalog.code_digest, **changed}
        return dataclasses.replace(KNOWN, **held)  # type: ignore[arg-type]  # by name

    later = datetime(2026, 11, 3, tzinfo=UTC)
    found = counts(
        [
            known("single", build_id="pytorch-cpu-path-1"),
            known("single", started_at=later, run_id="r2"),
            known("single inductor", outcome="failed", reason="why"),
            known("single channels_last", driver="550.54", is_driver_same=False),
            known("single bf16", nodes=9),
        ],
        PAIR,
        catalog,
    )
    assert (found["passed"], found["failed"], found["not_reported"], found["due"]) == (1, 1, 0, 1)
    assert found["reasons"] == ["pytorch: the driver is no longer 550.54"]
    assert (found["last_run_id"], found["last_at"]) == ("r2", later)


def test_what_is_due_at_many_devices_is_tried_beside_its_single_device(catalog: Catalog) -> None:
    cells = [
        c for c in mode_cells("pytorch", GPUS, catalog) if c.mode.split()[1:] in ([], ["bf16"])
    ]
    (first, *_) = mode_states(cells, [], GPUS, catalog)
    assert first.build is not None
    held = {"build_id": first.build.build_id, "code_digest": catalog.code_digest}
    single = dataclasses.replace(KNOWN, **held)  # type: ignore[arg-type]  # by name
    pair = dataclasses.replace(single, mode="collective", devices_per_node=2)
    bf16 = [
        dataclasses.replace(each, mode=f"{each.mode} bf16", devices_per_node=many)
        for each, many in ((single, 1), (pair, 2), (pair, 8))
    ]
    bf16.append(dataclasses.replace(bf16[2], nodes=2))
    chosen = with_single_device(mode_states(cells, [single, pair, *bf16], GPUS, catalog))
    assert [(c.mode, c.devices) for c in chosen] == [
        ("single", "1x1"),
        ("collective", "1x8"),
        ("collective", "2x8"),
    ]
