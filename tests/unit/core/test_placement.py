"""The same case lands on the same nodes, and has there what it locks."""

from __future__ import annotations

import dataclasses

import pytest

from nightbench.core.errors import UserError
from nightbench.core.model import Case, Cluster, Node, Process, Role, Strategy
from nightbench.core.model.catalog import TRAINERS
from nightbench.core.placement import TooFewNodes, moved, nodes_for, place, resources_of

FOUR = Cluster("four", tuple(Node(f"n{i}", f"n{i}", "ssh") for i in range(1, 5)))
GPUS = Cluster(
    "gpus",
    tuple(Node(f"g{i}", f"g{i}", "ssh") for i in (1, 2)),
    device_kind="gpu",
    devices_per_node=4,
    lock="devices",
    parallel_cases=8,
)


def collective(nodes: int, devices: int = 1, batch: int = 1) -> Case:
    return Case("net", "fake", Strategy.COLLECTIVE, nodes, devices, nodes * devices, 0, batch)


def names(case: Case, cluster: Cluster, without: frozenset[str] = frozenset()) -> list[str]:
    return [node.name for node in nodes_for(case, cluster, without)]


def test_cases_one_after_another_take_the_first_nodes() -> None:
    assert names(collective(2), FOUR) == ["n1", "n2"]
    assert names(collective(2), FOUR, frozenset({"n1"})) == ["n2", "n3"]


def test_too_few_nodes_take_part() -> None:
    with pytest.raises(
        TooFewNodes, match="needs 3 of the 4 nodes of cluster four, and n1, n4 are left"
    ):
        nodes_for(collective(3), FOUR, {"n4", "n1"})


def test_cases_that_may_go_at_once_are_spread_over_blocks() -> None:
    cluster = dataclasses.replace(FOUR, parallel_cases=2)
    seats = {tuple(names(collective(2, batch=b), cluster)) for b in range(1, 20)}
    assert seats == {("n1", "n2"), ("n3", "n4")}
    assert {names(collective(1, batch=b), cluster)[0] for b in range(1, 40)} == {
        "n1",
        "n2",
        "n3",
        "n4",
    }


def test_a_node_that_goes_moves_only_the_cases_that_it_had() -> None:
    cluster = dataclasses.replace(FOUR, parallel_cases=4)
    cases = [collective(1, batch=b) for b in range(1, 40)]
    before = {case: names(case, cluster) for case in cases}
    after = {case: names(case, cluster, frozenset({"n2"})) for case in cases}
    changed = {case for case in cases if before[case] != after[case]}
    assert changed == {case for case in cases if before[case] == ["n2"]}
    assert all(after[case] != ["n2"] for case in cases)
    assert before == {case: names(case, cluster) for case in cases}


def test_where_no_block_is_whole_what_is_left_is_taken() -> None:
    cluster = dataclasses.replace(FOUR, parallel_cases=2)
    assert names(collective(2), cluster, frozenset({"n1", "n3"})) == ["n2", "n4"]


def test_a_case_locks_as_many_devices_as_it_needs() -> None:
    (node,), (process,) = place(collective(1), GPUS, TRAINERS)
    assert len(node.devices) == 1
    assert process.device == node.devices[0]
    assert resources_of((node,), "devices") == {f"{node.name}/{node.devices[0]}"}
    pairs = {place(collective(1, 2, batch=b), GPUS, TRAINERS)[0][0].devices for b in range(1, 30)}
    assert pairs == {("0", "1"), ("2", "3")}
    whole, _ = place(collective(2, 4), GPUS, TRAINERS)
    assert resources_of(whole, "devices") == {f"g{n}/{d}" for n in (1, 2) for d in range(4)}


def test_devices_are_taken_from_those_that_may_be_used() -> None:
    uuids = ("GPU-a", "GPU-b", "GPU-c", "GPU-d", "GPU-e")
    cluster = dataclasses.replace(
        GPUS,
        nodes=(Node("g1", "g1", "ssh", devices=uuids),),
        parallel_cases=1,
    )
    (node,), processes = place(collective(1, 2), cluster, TRAINERS)
    assert node.devices == ("GPU-a", "GPU-b")
    assert [process.device for process in processes] == ["GPU-a", "GPU-b"]


def test_cores_of_a_cpu_node_are_shared_out_in_equal_groups() -> None:
    cluster = Cluster(
        "cpus",
        (Node("n1", "n1", "ssh", cpus=(0, 1, 2, 3, 4)),),
        devices_per_node=2,
        lock="devices",
        parallel_cases=2,
    )
    groups = {place(collective(1, 1, batch=b), cluster, TRAINERS)[0][0].cpus for b in range(1, 20)}
    assert groups == {(0, 1), (2, 3)}
    assert place(collective(1, 2), cluster, TRAINERS)[0][0].cpus == (0, 1, 2, 3, 4)
    (node,), _ = place(collective(1), dataclasses.replace(cluster, lock="node"), TRAINERS)
    assert node.cpus == (0, 1, 2, 3, 4)
    assert resources_of((node,), "node") == {"n1"}


def test_processes_that_move_keep_the_position_of_their_device() -> None:
    before = (Node("a", "a", "ssh", devices=("4", "GPU-x")),)
    after = (Node("b", "b", "ssh"),)
    here = (Process("trainer-0", "trainer", 0, "a", 0, "GPU-x"), Process("p-0", "p", 0, "a", 0))
    there = moved(here, before, after, GPUS)
    assert [(p.name, p.node, p.device) for p in there] == [
        ("trainer-0", "b", "1"),
        ("p-0", "b", None),
    ]
    assert moved(there, after, before, GPUS) == here


def test_roles_say_how_many_where_and_on_what() -> None:
    roles = (
        Role(name="scheduler", count=1, place="lead"),
        Role(name="server", count="nodes"),
        Role(name="chief", count=1, place="lead", measured=True),
        Role(name="worker", count="trainers", place="fill", measured=True),
    )
    cluster = dataclasses.replace(GPUS, lock="node", devices_per_node=2)
    case = dataclasses.replace(collective(2, 2), trainers=3)
    # The chief and one worker fill the first node: the second worker there would find no device.
    with pytest.raises(UserError, match="more processes that compute than the 2 devices of g1"):
        place(case, cluster, roles)
    _, processes = place(case, dataclasses.replace(cluster, devices_per_node=4), roles)
    assert [(p.name, p.node, p.device, p.measured) for p in processes] == [
        ("scheduler-0", "g1", None, False),
        ("server-0", "g1", None, False),
        ("server-1", "g2", None, False),
        ("chief-0", "g1", "0", True),
        ("worker-0", "g1", "1", True),
        ("worker-1", "g1", "2", True),
        ("worker-2", "g2", "0", True),
    ]
