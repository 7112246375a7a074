"""Telemetry, energy and fingerprint, with a program that answers as nvidia-smi does.

The energy counters of CPU packages are files as the kernel's powercap has them.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from node_driver import one_node, verb, wait_until
from nodeside.energy import power_in_window
from nodeside.system import memory_state
from nodeside.telemetry import PackageEnergy, Telemetry, cpu_times, parse_gpu

STAND_IN = r"""#!/bin/sh
case "$*" in
  "topo -m") printf '\033[4mGPU0\033[0m\n'; exit 0 ;;
  *clocks_event_reasons*)
    if [ -n "$OLD_DRIVER" ]; then echo 'not a valid field to query' >&2; exit 2; fi ;;
esac
case "$*" in
  *-lms*) while :; do
      echo '0, GPU-aa, 1980, 115.34, 35, 0x0000000000000004, 97, 4'
      echo '1, GPU-bb, 1965, [N/A], 36, 0x0000000000000000, 0, 0'
      sleep 0.2
    done ;;
  *vbios*) echo '0, GPU-aa, NVIDIA H200, 570.1, 96.00, 143771, 9.0, 700.00, 1980' ;;
  *) echo '0x0000000000000000' ;;
esac
"""


@pytest.fixture
def gpu_path(tmp_path: Path) -> str:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(STAND_IN)
    tool.chmod(0o755)
    return f"{tool.parent}:{os.environ['PATH']}"


@pytest.mark.parametrize("old", ["", "1"])
def test_gpus_are_sampled_and_nothing_is_left(drive, gpu_path, old):
    env = {"PATH": gpu_path, "OLD_DRIVER": old}
    node = drive(one_node(), env=env, params={"step_s": 0.1})
    node.go()
    samples = [s for s in node.result()["telemetry"]["samples"] if s["gpus"]]
    assert samples
    first, second = samples[-1]["gpus"]
    assert first == {
        "index": 0,
        "uuid": "GPU-aa",
        "sm_clock_mhz": 1980.0,
        "power_w": 115.34,
        "temperature_c": 35.0,
        "throttle": "0x0000000000000004",
        "utilization_percent": 97.0,
        "memory_used_bytes": 4 * 2**20,
    }
    assert second["power_w"] is None
    agent = node.agent()["pid"]
    children = Path(f"/proc/{agent}/task/{agent}/children")
    wait_until(lambda: children.read_text() == "", what="nvidia-smi to be gone")


def test_fingerprint_of_gpus(gpu_path):
    found = verb("fingerprint", env={"PATH": gpu_path})[1]
    assert found["gpus"][0]["model"] == "NVIDIA H200"
    assert found["gpus"][0]["memory_bytes"] == 143771 * 2**20
    assert found["gpu_topology"] == "GPU0"
    assert found["id"] != verb("fingerprint")[1]["id"]


def test_error_lines_are_no_gpus():
    assert parse_gpu("No devices were found") is None


def test_host_figures():
    busy, total = cpu_times((0,))
    everything = cpu_times(())
    assert 0 <= busy <= total <= everything[1]
    memory = memory_state()
    assert 0 < memory["available_bytes"] < memory["total_bytes"]
    telemetry = Telemetry()
    telemetry.tick()
    telemetry.tick()
    assert len(telemetry.close()["samples"]) == 1, "one a second, however often it is asked"


RANGE_UJ = 262_143_328_850  # what Intel's and AMD's servers say


def zone(root: Path, name: str, kind: str, energy_uj: int) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{kind}\n")
    (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    return folder / "energy_uj"


def put(counter: Path, energy_uj: float) -> None:
    """Replace the value as the kernel does: nobody reads half of it."""
    aside = counter.with_suffix(".new")
    aside.write_text(f"{int(energy_uj) % RANGE_UJ}\n")
    aside.replace(counter)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Counters of two packages, the first just before its end, beside zones that do not count."""
    root = tmp_path / "powercap"
    zone(root, "intel-rapl:0:0", "core", 5)
    zone(root, "intel-rapl:0:1", "dram", 6)
    zone(root, "intel-rapl:2", "psys", 7)
    zone(root, "intel-rapl-mmio:0", "package-0", 8)
    monkeypatch.setenv("NIGHTBENCH_POWERCAP", str(root))
    first = zone(root, "intel-rapl:0", "package-0", RANGE_UJ - 1_000_000)
    return first, zone(root, "intel-rapl:1", "package-1", 10_000_000)


def test_energy_of_all_packages_also_over_the_end_of_a_counter(packages):
    meter = PackageEnergy()
    assert meter.read() == 0.0
    put(packages[0], RANGE_UJ + 2_000_000)
    assert meter.read() == pytest.approx(3.0)
    put(packages[0], RANGE_UJ + 2_500_000)
    put(packages[1], 14_000_000)
    assert meter.read() == pytest.approx(7.5)
    packages[1].write_text("")
    assert meter.read() is None
    put(packages[1], 15_000_000)
    assert meter.read() is None, "what passed meanwhile is not known"


def test_no_counters_are_no_energy(tmp_path, monkeypatch):
    monkeypatch.setenv("NIGHTBENCH_POWERCAP", str(tmp_path))
    assert PackageEnergy().read() is None


def test_an_agent_measures_the_energy_of_the_window(drive, packages):
    ended = threading.Event()

    def count() -> None:
        joules = 0.0
        while not ended.wait(0.05):
            joules += 0.5
            for start, counter in zip((RANGE_UJ - 40_000_000, 0), packages, strict=True):
                put(counter, start + 1e6 * joules)

    node = drive(one_node(), params={"step_s": 0.3})
    counting = threading.Thread(target=count)
    counting.start()
    try:
        node.go()
        result = node.result(timeout_s=300)
    finally:
        ended.set()
        counting.join()
    assert result["status"] == "ok", result
    first, *_, last = result["telemetry"]["samples"]
    joules = last["cpu_energy_j"] - first["cpu_energy_j"]
    mean_w = joules / (last["t_s"] - first["t_s"])
    assert 0 < mean_w < 20.5, "two counters of 10 W, less where the machine was busy"
    power = result["power"]
    assert (power["source"], power["absent"]) == ("rapl", None)
    assert power["samples"] >= 5
    assert power["mean_w"] == pytest.approx(mean_w, rel=0.5)


def test_a_node_without_counters_says_so(drive, tmp_path):
    node = drive(one_node(), env={"NIGHTBENCH_POWERCAP": str(tmp_path)}, params={"step_s": 0.01})
    node.go()
    power = node.result()["power"]
    assert power["mean_w"] is None
    assert power["absent"] == (
        "the energy of the CPU packages was read 0 times in the window; expected at least 5"
    )


def sampled(*watts: float | None, joules: float | None = None) -> list[dict[str, object]]:
    """A sample for each second: powers of GPU 0 as given, 100 W more of GPU 1."""
    return [
        {
            "t_s": float(second),
            "cpu_energy_j": None if joules is None else second * joules,
            "gpus": [
                {"index": 0, "uuid": "GPU-aa", "power_w": each},
                {"index": 1, "uuid": "GPU-bb", "power_w": each and each + 100},
            ],
        }
        for second, each in enumerate(watts)
    ]


@pytest.mark.parametrize(
    ("watts", "joules", "devices", "mean_w", "absent"),
    [
        ([9.0, *[300.0, 400.0] * 4, 9.0], None, ["0"], 350.0, None),
        ([9.0, *[300.0, 400.0] * 4, 9.0], None, ["0", "GPU-bb"], 800.0, None),
        ([300.0] * 10, None, ["2"], None, "the power of the GPUs cannot be read"),
        ([None] * 10, None, ["0"], None, "the power of the GPUs cannot be read"),
        (
            [300.0] * 5 + [None] * 5,
            None,
            ["0"],
            None,
            "the power of the GPUs was read 4 times in the window; expected at least 5",
        ),
        ([None] * 10, 150.0, [], 150.0, None),
        ([None] * 10, 0.0, [], None, "the energy of the CPU packages does not change"),
        ([None] * 10, None, [], None, "the energy of the CPU packages cannot be read"),
    ],
)
def test_mean_power_of_the_devices_in_the_window(watts, joules, devices, mean_w, absent):
    found = power_in_window(sampled(*watts, joules=joules), devices, (1.0, 8.0))
    assert (found["mean_w"], found["absent"]) == (mean_w, absent)


def test_half_of_the_window_s_seconds_have_samples():
    samples = sampled(*[300.0] * 20)
    assert power_in_window(samples, ["0"], (0.0, 38.0))["mean_w"] == 300.0
    assert "expected at least 25" in power_in_window(samples, ["0"], (0.0, 50.0))["absent"]
    assert power_in_window(samples, ["0"], None)["absent"] == "no window of a trainer"
