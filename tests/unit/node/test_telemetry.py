"""Telemetry and fingerprint of GPUs, with a program that answers as nvidia-smi does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from node_driver import one_node, verb, wait_until
from nodeside.telemetry import Telemetry, cpu_times, memory, parse_gpu

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
    everything = cpu_times()
    assert 0 <= busy <= total <= everything[1]
    used, size = memory()
    assert 0 < used < size
    telemetry = Telemetry()
    telemetry.tick()
    telemetry.tick()
    assert len(telemetry.close()["samples"]) == 1, "one a second, however often it is asked"
