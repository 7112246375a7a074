"""A node of eight GPUs from preflight to result, by a program that answers as nvidia-smi does.

The agent, its verbs and the judge of preflights are the real ones; nothing here loads NVML, for
nothing of Nightbench does. What nvidia-smi is not asked for is not played: Xid, MIG.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from node_driver import one_node, verb, wait_until, why

from nightbench.core.model import Cluster, FrameworkInfo, Node, Variant
from nightbench.nodes import FindingLevel, NodePreflight, findings

STAND_IN = r"""#!PYTHON
import json, os, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
VALUES = {
    "name": "NVIDIA H100 80GB HBM3", "driver_version": "570.124.06", "vbios_version": "96.00",
    "memory.total": "81559", "compute_cap": "9.0", "power.limit": "700.00",
    "clocks.max.sm": "1980", "clocks.sm": "1755", "power.draw": "612.50", "temperature.gpu": "41",
    "clocks_event_reasons.active": "0x0000000000000004", "utilization.gpu": "99",
    "memory.used": "40960", "ecc.errors.uncorrected.volatile.total": "0",
    "retired_pages.double_bit.count": "[N/A]", "persistence_mode": "Enabled",
    "pcie.link.gen.current": "5", "pcie.link.gen.max": "5",
    "pcie.link.width.current": "16", "pcie.link.width.max": "16",
}


def answer(words):
    with open(os.path.join(HERE, "state.json")) as stream:
        state = json.load(stream)
    if state.get("fails"):
        print(state["fails"])
        return 18
    query, _, fields = words[0].partition("=")
    if words[:2] == ["topo", "-m"]:
        names = ["GPU{}".format(index) for index in range(8)]
        print("\t\x1b[4m" + "\t".join(names + ["CPU Affinity", "NUMA Affinity"]) + "\x1b[0m")
        for index, name in enumerate(names):
            links = [" X " if other == name else "NV18" for other in names]
            cores = state.get("cores", ["N/A", "N/A"])[index // 4]
            print("\t".join([name] + links + [cores, str(index // 4), "", "N/A"]))
    elif words[:2] == ["nvlink", "-s"]:
        for index in range(8):
            print("GPU {0}: NVIDIA H100 80GB HBM3 (UUID: GPU-{0})".format(index))
            for link in range(18):
                down = [index, link] in state.get("links down", [])
                print("\t Link {}: {}".format(link, "<inactive>" if down else "26.562 GB/s"))
    elif query == "--query-compute-apps":
        for uuid, pid in state["apps"]:
            print("{}, {}, /opt/other/train, 40000".format(uuid, pid))
    elif query == "--query-remapped-rows":
        for index in range(8):
            print("GPU-{}, {}".format(index, int(index in state.get("pending", []))))
    else:
        chosen = [word[5:].split(",") for word in words if word.startswith("--id=")]
        for index in range(8):
            own = {"index": str(index), "uuid": "GPU-{}".format(index)}
            if index in state["lost"] or (chosen and not set(own.values()) & set(chosen[0])):
                continue
            row = {**VALUES, **own, **state["gpus"].get(str(index), {})}
            print(", ".join(row[field] for field in fields.split(",")))
    sys.stdout.flush()
    return 0


words = sys.argv[1:]
while "-lms" in words:
    answer(words)
    time.sleep(0.2)
sys.exit(answer(words))
"""

Play = Callable[..., None]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Put the stand-in on PATH; what it is called with changes what it answers from then on."""
    folder = tmp_path / "bin"
    folder.mkdir()
    tool = folder / "nvidia-smi"
    tool.write_text(STAND_IN.replace("PYTHON", sys.executable))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def play(**state: Any) -> None:
        aside = folder / "state.new"
        aside.write_text(json.dumps({"apps": [], "lost": [], "gpus": {}, **state}))
        aside.replace(folder / "state.json")

    play()
    return play


def path() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}


def on_eight(action: str = "record") -> dict[str, Any]:
    document = one_node(trainers=8)
    for number, process in enumerate(document["processes"]):
        process["device"] = str(number)
    document["nodes"][0]["devices"] = [str(number) for number in range(8)]
    # Whatever else the machine does on its cores is not what is tested here.
    document["neighbours"] = {"action": action, "wait_s": 60.0, "cpu_share": 1.0, "gpu": True}
    return document


def test_each_of_eight_processes_sees_its_own_device_and_telemetry_has_all(
    drive: Any, play: Play
) -> None:
    node = drive(on_eight(), env=path(), params={"step_s": 0.1})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-7") == "window")
    seen = {}
    for name, process in node.state(1)["processes"].items():
        environ = Path(f"/proc/{process['pid']}/environ").read_text().split("\0")
        seen[name] = [word for word in environ if word.startswith("CUDA_VISIBLE_DEVICES=")]
    assert seen == {f"trainer-{n}": [f"CUDA_VISIBLE_DEVICES={n}"] for n in range(8)}
    result = node.result()
    assert (result["status"], result["disturbed"]) == ("ok", None)
    (sample, *_) = [s for s in result["telemetry"]["samples"] if len(s["gpus"]) == 8]
    assert {gpu["power_w"] for gpu in sample["gpus"]} == {612.5}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize(
    ("binding", "case"),
    [("numa", {}), ("none", {}), ("numa", {"cpus": 1}), ("numa", {"threads": 9})],
)
def test_processes_run_on_the_cores_beside_their_devices(
    drive: Any, play: Play, binding: str, case: dict[str, int]
) -> None:
    first, last = (sorted(os.sched_getaffinity(0))[at] for at in (0, -1))
    play(cores=[str(first), str(last)])
    document = on_eight() | {"binding": binding}
    document["processes"] = [document["processes"][number] for number in (0, 7)]
    document["case"] |= case
    node = drive(document, env=path(), params={"step_s": 0.1})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-7") == "window")
    on = [os.sched_getaffinity(p["pid"]) for _, p in sorted(node.state(1)["processes"].items())]
    every = os.sched_getaffinity(0)
    told = [process["cpus"] for process in node.result()["processes"]]
    if case.get("cpus"):
        assert on == [{core} for core in sorted(every)[:2]]
    elif binding == "none" or case:
        assert (on, told) == ([every, every], [None, None])
    else:
        assert (on, told) == ([{first}, {last}], [str(first), str(last)])


def test_throttling_and_a_foreign_process_disturb_and_name_their_device(
    drive: Any, play: Play
) -> None:
    node = drive(on_eight(), env=path(), params={"step_s": 0.1})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-0") == "window")
    hot = {"clocks_event_reasons.active": "0x0000000000000048"}
    play(gpus={"5": hot}, apps=[["GPU-3", 1]])
    result = node.result()
    assert [(p["pid"], p["gpu"]) for p in result["disturbed"]["processes"]] == [(1, "GPU-3")]
    (slow,) = result["disturbed"]["throttle"]
    assert (slow["gpu"], slow["reasons"]) == ("GPU-5", ["hw_slowdown", "hw_thermal_slowdown"])
    assert "GPU-5" in why(result["disturbed"])


def test_a_device_that_is_in_use_refuses_the_launch(drive: Any, play: Play) -> None:
    play(apps=[["GPU-6", 1]])
    node = drive(on_eight("refuse"), env=path())
    node.command("prepare-001")
    result = node.result()
    assert result["status"] == "failed"
    assert "(pid 1, user root, on GPU-6)" in why(result)


NODE = Node("n1", "10.0.3.17", "c")
CLUSTER = Cluster("gpus", (NODE,), device_kind="gpu", devices_per_node=8)
LINE = FrameworkInfo(
    line="pytorch",
    title="PyTorch",
    version="1",
    api="pytorch",
    devices={"gpu": None},
    variants={"cuda12": Variant(device="gpu")},
    axes={},
)


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ({}, set()),
        (
            {"gpus": {"2": {"ecc.errors.uncorrected.volatile.total": "3"}}},
            {("GPU 2", "3 uncorrected ECC errors since the driver was loaded")},
        ),
        ({"pending": [1]}, {("GPU 1", "a memory row must be remapped")}),
        ({"lost": [4]}, {(None, "7")}),
        ({"links down": [[3, 0], [3, 17]]}, {("GPU 3", "16 links are up")}),
        (
            {"gpus": {"7": {"clocks_event_reasons.active": "0x0000000000000080"}}},
            {("GPU 7", "hw_power_brake_slowdown")},
        ),
        (
            {"gpus": {str(n): {"driver_version": "470.57.02"} for n in range(8)}},
            {(None, "470.57.02")},
        ),
        (
            {"fails": "Failed to initialize NVML: Driver/library version mismatch"},
            {
                (
                    None,
                    "nvidia-smi fails (exit code 18): "
                    "Failed to initialize NVML: Driver/library version mismatch",
                )
            },
        ),
    ],
    ids=["well", "ECC", "row", "lost", "NVLink", "power brake", "old driver", "driver mismatch"],
)
def test_a_fault_of_one_of_eight_fails_the_preflight_and_names_it(
    tmp_path: Path, play: Play, state: dict[str, Any], found: set[tuple[str | None, str]]
) -> None:
    play(**state)
    code, document = verb("preflight", "--root", tmp_path / "root", env=path())
    assert code == 0, document
    seen = NodePreflight("n1", "n1:22", "2026-11-21T01:00:00+00:00", True, document)
    failed = [f for f in findings(seen, CLUSTER, [LINE]) if f.level is FindingLevel.FAIL]
    about_gpus = [f for f in failed if f.what in ("GPUs", "memory", "throttle", "driver", "NVLink")]
    assert {(f.device, f.found) for f in about_gpus} == found


def test_the_fingerprint_has_all_eight_and_is_another_where_one_is_lost(play: Play) -> None:
    whole = verb("fingerprint", env=path())[1]
    assert [gpu["uuid"] for gpu in whole["gpus"]] == [f"GPU-{n}" for n in range(8)]
    assert "NV18" in whole["gpu_topology"]
    play(lost=[4])
    assert verb("fingerprint", env=path())[1]["id"] != whole["id"]
