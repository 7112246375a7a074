"""What each framework line starts on a node: pure functions from a job to argv and environment."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
PORTS = {"master": 20000, "trainer-0": 20001, "trainer-1": 20002, "pserver-0": 20003}
PORTS |= {"scheduler-0": 20004, "server-0": 20005, "worker-0": 20006, "worker-1": 20007}


def launch(line: str, job: dict[str, Any], node: str) -> list[dict[str, Any]]:
    path = BENCHMARKS / "frameworks" / line / "launch.py"
    spec = importlib.util.spec_from_file_location(f"launch_{line}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    started: list[dict[str, Any]] = module.processes(job, node, PORTS, "/env/bin/python", "/code")
    return started


def node(name: str, address: str, interface: str | None = None) -> dict[str, Any]:
    return {"name": name, "data_address": address, "interface": interface}


def process(name: str, on: str, local_rank: int = 0, device: str | None = None) -> dict[str, Any]:
    role, _, rank = name.partition("-")
    return {
        "name": name,
        "role": role,
        "rank": int(rank),
        "node": on,
        "local_rank": local_rank,
        "device": device,
    }


@pytest.fixture
def two_nodes() -> dict[str, Any]:
    return {
        "nodes": [node("n1", "127.0.0.2", "lo"), node("n2", "127.0.0.3", "lo")],
        "processes": [process("trainer-0", "n1"), process("trainer-1", "n2")],
    }


@pytest.fixture
def parameter_server(two_nodes: dict[str, Any]) -> dict[str, Any]:
    two_nodes["processes"].insert(0, process("pserver-0", "n1"))
    return two_nodes


@pytest.mark.parametrize(
    "line",
    [
        *("pytorch", "paddle3", "paddle2", "paddle1", "jax", "tensorflow1", "tensorflow2"),
        *("mxnet", "oneflow", "mindspore"),
    ],
)
def test_a_node_starts_its_own_processes_only(line: str, two_nodes: dict[str, Any]) -> None:
    for name, trainer in (("n1", "trainer-0"), ("n2", "trainer-1")):
        (started,) = launch(line, two_nodes, name)
        assert started["name"] == trainer
        assert started["argv"] == ["/env/bin/python", "-u", "/code/rank.py"]
        assert all(isinstance(value, str) for value in started["env"].values())


def test_pytorch_ranks_meet_at_the_lead(two_nodes: dict[str, Any]) -> None:
    (started,) = launch("pytorch", two_nodes, "n2")
    assert started["env"] == {
        "MASTER_ADDR": "127.0.0.2",
        "MASTER_PORT": "20000",
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }


def test_pytorch_ranks_see_their_own_gpu_only() -> None:
    job = {
        "nodes": [node("gpu1", "10.0.0.1", "ib0")],
        "processes": [
            process("trainer-0", "gpu1", 0, "0"),
            process("trainer-1", "gpu1", 1, "GPU-8f3a"),
        ],
    }
    envs = [started["env"] for started in launch("pytorch", job, "gpu1")]
    assert [env["CUDA_VISIBLE_DEVICES"] for env in envs] == ["0", "GPU-8f3a"]
    assert [env["LOCAL_RANK"] for env in envs] == ["0", "1"]
    assert {env["NCCL_SOCKET_IFNAME"] for env in envs} == {"ib0"}


@pytest.mark.parametrize("line", ["pytorch", "paddle3", "paddle2"])
@pytest.mark.parametrize("interface", [None, "eth1"])
def test_gloo_is_told_the_interface_of_the_cluster(line: str, interface: str | None) -> None:
    job = {
        "nodes": [node("n1", "10.0.0.1", interface)],
        "processes": [process("trainer-0", "n1")],
    }
    (started,) = launch(line, job, "n1")
    assert started["env"].get("GLOO_SOCKET_IFNAME") == interface


@pytest.mark.parametrize("line", ["paddle3", "paddle2"])
def test_paddle_ranks_know_all_endpoints(line: str, two_nodes: dict[str, Any]) -> None:
    two_nodes["processes"].reverse()  # the order in the job says nothing, the rank does
    (started,) = launch(line, two_nodes, "n2")
    env = started["env"]
    assert env["PADDLE_MASTER"] == "127.0.0.2:20000"
    assert env["PADDLE_TRAINER_ENDPOINTS"] == "127.0.0.2:20001,127.0.0.3:20002"
    assert env["PADDLE_CURRENT_ENDPOINT"] == "127.0.0.3:20002"
    assert (env["PADDLE_TRAINER_ID"], env["PADDLE_TRAINERS_NUM"]) == ("1", "2")
    assert env["PADDLE_DISTRI_BACKEND"] == "gloo"


@pytest.mark.parametrize("line", ["paddle3", "paddle2"])
def test_paddle_ranks_meet_over_nccl_on_gpus(line: str) -> None:
    job = {
        "nodes": [node("gpu1", "10.0.0.1", "ib0")],
        "processes": [process("trainer-0", "gpu1", 0, "0"), process("trainer-1", "gpu1", 1, "3")],
    }
    env = [started["env"] for started in launch(line, job, "gpu1")][1]
    assert env["PADDLE_DISTRI_BACKEND"] == "nccl"
    assert (env["CUDA_VISIBLE_DEVICES"], env["FLAGS_selected_gpus"]) == ("3", "0")
    assert (env["NVIDIA_TF32_OVERRIDE"], env["NCCL_SOCKET_IFNAME"]) == ("0", "ib0")


@pytest.mark.parametrize("line", ["paddle2", "paddle1"])
def test_servers_and_trainers_know_their_roles(line: str, parameter_server: dict[str, Any]) -> None:
    server, first = (started["env"] for started in launch(line, parameter_server, "n1"))
    (second,) = (started["env"] for started in launch(line, parameter_server, "n2"))
    for env in (server, first, second):
        assert env["PADDLE_PSERVERS_IP_PORT_LIST"] == "127.0.0.2:20003"
        assert env["PADDLE_TRAINER_ENDPOINTS"] == "127.0.0.2:20001,127.0.0.3:20002"
        assert env["PADDLE_TRAINERS_NUM"] == "2"
        assert env["CPU_NUM"] == "1"
    assert server["TRAINING_ROLE"] == "PSERVER"
    assert (server["POD_IP"], server["PADDLE_PORT"]) == ("127.0.0.2", "20003")
    assert "PADDLE_TRAINER_ID" not in server
    assert [env["TRAINING_ROLE"] for env in (first, second)] == ["TRAINER", "TRAINER"]
    assert [env["PADDLE_TRAINER_ID"] for env in (first, second)] == ["0", "1"]


def test_paddle2_trainers_wait_for_each_other(parameter_server: dict[str, Any]) -> None:
    """Without gloo's barrier some of them fetch nothing and train nothing."""
    for started in launch("paddle2", parameter_server, "n1"):
        env = started["env"]
        assert (env["PADDLE_WITH_GLOO"], env["PADDLE_GLOO_RENDEZVOUS"]) == ("1", "3")
        assert env["PADDLE_GLOO_HTTP_ENDPOINT"] == "127.0.0.2:20000"
    server, first = (started["env"] for started in launch("paddle2", parameter_server, "n1"))
    assert server["PADDLE_PSERVER_ID"] == "0"
    assert "PADDLE_PSERVER_ID" not in first


def test_oneflow_ranks_see_the_gpus_of_their_node(two_nodes: dict[str, Any]) -> None:
    two_nodes["processes"] = [
        process("trainer-0", "n1", 0, "0"),
        process("trainer-1", "n1", 1, "GPU-8f3a"),
        process("trainer-2", "n2", 0, "1"),
    ]
    envs = [started["env"] for started in launch("oneflow", two_nodes, "n1")]
    assert envs[1] == {
        "MASTER_ADDR": "127.0.0.2",
        "MASTER_PORT": "20000",
        "WORLD_SIZE": "3",
        "RANK": "1",
        "CUDA_VISIBLE_DEVICES": "0,GPU-8f3a",
        "NVIDIA_TF32_OVERRIDE": "0",
    }
    assert envs[0] == {**envs[1], "RANK": "0"}


def test_a_lone_oneflow_rank_joins_nobody(two_nodes: dict[str, Any]) -> None:
    del two_nodes["processes"][1]
    (started,) = launch("oneflow", two_nodes, "n1")
    assert started["env"] == {}


def test_mindspore_ranks_meet_at_the_scheduler(two_nodes: dict[str, Any]) -> None:
    two_nodes["processes"].insert(0, process("scheduler-0", "n1"))
    scheduler, first = (started["env"] for started in launch("mindspore", two_nodes, "n1"))
    (second,) = (started["env"] for started in launch("mindspore", two_nodes, "n2"))
    assert scheduler == {
        "MS_ROLE": "MS_SCHED",
        "MS_SCHED_HOST": "127.0.0.2",
        "MS_SCHED_PORT": "20004",
        "MS_WORKER_NUM": "2",
    }
    assert first == {**scheduler, "MS_ROLE": "MS_WORKER", "MS_NODE_ID": "0"}
    assert second == {**first, "MS_NODE_ID": "1"}
    del two_nodes["processes"][2]
    assert [started["env"] for started in launch("mindspore", two_nodes, "n1")] == [{}, {}]


def test_mxnet_processes_meet_at_the_scheduler() -> None:
    job = {
        "nodes": [node("n1", "127.0.0.2"), node("n2", "127.0.0.3")],
        "processes": [
            process("scheduler-0", "n1"),
            process("server-0", "n1"),
            process("worker-0", "n1"),
            process("worker-1", "n2"),
        ],
    }
    first = [started["env"] for started in launch("mxnet", job, "n1")]
    (worker,) = (started["env"] for started in launch("mxnet", job, "n2"))
    assert [env["DMLC_ROLE"] for env in first] == ["scheduler", "server", "worker"]
    assert worker == {
        "DMLC_ROLE": "worker",
        "DMLC_PS_ROOT_URI": "127.0.0.2",
        "DMLC_PS_ROOT_PORT": "20004",
        "DMLC_NUM_SERVER": "1",
        "DMLC_NUM_WORKER": "2",
        "DMLC_NODE_HOST": "127.0.0.3",
        "PORT": "20007",
    }


def test_ranks_of_horovod_know_their_place_on_the_node_and_across() -> None:
    job = {
        "nodes": [node("n1", "127.0.0.2"), node("n2", "127.0.0.3")],
        "processes": [
            process(f"trainer-{rank}", f"n{1 + rank // 2}", local_rank=rank % 2)
            for rank in range(4)
        ],
    }
    env = launch("mxnet", job, "n2")[1]["env"]
    assert {name: value for name, value in env.items() if name.startswith("HOROVOD_")} == {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.2",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "20000",
        "HOROVOD_HOSTNAME": "n2",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_RANK": "3",
        "HOROVOD_SIZE": "4",
    }
