"""Other users of a job's GPUs and their health, by a program that answers as nvidia-smi does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from node_driver import one_node, verb, wait_until, why
from nodeside.gpus import throttle_names, throttled

STAND_IN = r"""#!/bin/sh
here=$(dirname "$0")
tail='345, 1980, 5, 5, 8, 16'
case "$*" in
  *--query-compute-apps*-lms*)
      while :; do cat "$here/apps" 2>/dev/null; sleep 0.2; done ;;
  *--query-compute-apps*) cat "$here/apps" 2>/dev/null; exit 0 ;;
  *--query-remapped-rows*) echo 'GPU-aa, 1'; exit 0 ;;
  *clocks_event_reasons*|*retired_pages*)
      if [ -e "$here/old" ]; then
        echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2
      fi ;;
esac
if [ -e "$here/lost" ]; then
  echo 'Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error'; exit 15
fi
case "$*" in
  *-lms*) while :; do
      echo "0, GPU-aa, 1980, 115.34, 35, $(cat "$here/bits"), 97, 4"
      echo '1, GPU-bb, 1980, 115.34, 35, 0x0000000000000008, 97, 4'
      sleep 0.2
    done ;;
  *--query-gpu=index,uuid\ *) printf '0, GPU-aa\n1, GPU-bb\n' ;;
  *retired_pages*clocks_*)
      echo "0, GPU-aa, NVIDIA H200, 570.1, 34, 2, [N/A], $(cat "$here/bits"), Enabled, $tail" ;;
  *ecc*clocks_throttle*)
      echo "0, GPU-aa, NVIDIA H200, 470.1, 34, 2, $(cat "$here/bits"), Disabled, $tail" ;;
  *) echo '0x0000000000000000' ;;
esac
"""


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    """The folder of the stand-in: `apps`, `bits`, `old` and `lost` in it say what it answers."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").write_text(STAND_IN)
    (folder / "nvidia-smi").chmod(0o755)
    (folder / "bits").write_text("0x0000000000000004")
    return folder


def path(gpus: Path) -> dict[str, str]:
    return {"PATH": f"{gpus}:{os.environ['PATH']}"}


def on_gpu(action: str, device: str = "0", **more: Any) -> dict[str, Any]:
    document = one_node(trainers=1, **more)
    document["processes"][0]["device"] = device
    document["nodes"][0]["devices"] = [device]
    # Whatever else the machine does on its cores is not what is tested here.
    document["neighbours"] = {"action": action, "wait_s": 60.0, "cpu_share": 1.0, "gpu": True}
    return document


def test_a_launch_waits_until_the_gpu_is_free(drive, gpus):
    (gpus / "apps").write_text("GPU-bb, 1, another, 10\nGPU-aa, 1, /opt/other/train, 40000\n")
    node = drive(on_gpu("wait"), env=path(gpus))
    node.command("prepare-001")
    wait_until(lambda: node.state(1).get("reasons"))
    said = why(node.state(1))
    assert said.startswith("foreign_gpu")
    assert "(pid 1, user root, on GPU-aa)" in said
    assert "GPU-bb" not in said, "that one is not the job's"
    (gpus / "apps").write_text("GPU-bb, 1, another, 10\n")
    wait_until(lambda: node.state(1)["state"] == "ready")
    assert node.state(1)["reasons"] == []


def test_a_gpu_named_by_uuid_and_a_process_of_another_container(drive, gpus):
    (gpus / "apps").write_text("GPU-aa, 3999999, python, 40000\n")
    node = drive(on_gpu("refuse", "GPU-aa"), env=path(gpus))
    node.command("prepare-001")
    result = node.result()
    assert result["status"] == "failed"
    assert "node_in_use" in why(result)
    assert "foreign_gpu : python (pid 3999999, on GPU-aa)" in why(result)


def test_in_the_window_another_process_and_heat_disturb(drive, gpus):
    node = drive(on_gpu("record"), env=path(gpus), params={"step_s": 0.1})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-0") == "window")
    (gpus / "apps").write_text("GPU-aa, 1, /opt/other/train, 40000\n")
    (gpus / "bits").write_text("0x0000000000000044")
    disturbed = node.result()["disturbed"]
    assert [(p["pid"], p["gpu"]) for p in disturbed["processes"]] == [(1, "GPU-aa")]
    (slow,) = disturbed["throttle"]
    assert (slow["gpu"], slow["reasons"]) == ("GPU-aa", ["hw_thermal_slowdown"])
    assert "device_throttled GPU GPU-aa: hw_thermal_slowdown in" in why(disturbed)


def test_the_job_s_own_processes_and_a_power_cap_do_not(drive, gpus):
    node = drive(on_gpu("record"), env=path(gpus), params={"step_s": 0.1})
    node.go()
    pid = wait_until(lambda: node.state(1)["processes"].get("trainer-0", {}).get("pid"))
    (gpus / "apps").write_text(f"GPU-aa, {pid}, python, 40000\n")
    result = node.result()
    assert result["status"] == "ok"
    assert result["disturbed"] is None
    assert {g["throttle"] for s in result["telemetry"]["samples"] for g in s["gpus"]} >= {
        "0x0000000000000004"
    }


def test_bits_have_names():
    assert throttle_names("0x0000000000000000") == []
    assert throttle_names("0x00000000000000ec") == [
        "sw_power_cap",
        "hw_slowdown",
        "sw_thermal_slowdown",
        "hw_thermal_slowdown",
        "hw_power_brake_slowdown",
    ]
    assert throttle_names(None) == throttle_names("[N/A]") == []
    gpu = {"index": 3, "uuid": "GPU-x", "throttle": "0x20"}
    assert throttled([{"gpus": [gpu]}, {"gpus": [gpu]}], ["3"]) == [
        {"gpu": "GPU-x", "reasons": ["sw_thermal_slowdown"], "samples": 2}
    ]
    assert throttled([{"gpus": [gpu]}], ["2"]) == []


def preflight(tmp_path: Path, gpus: Path) -> dict[str, Any]:
    code, found = verb("preflight", "--root", tmp_path / "root", env=path(gpus))
    assert code == 0, found
    return found


def test_health_of_gpus(tmp_path, gpus):
    (gpus / "bits").write_text("0x0000000000000041")
    found = preflight(tmp_path, gpus)
    assert found["gpu_problem"] is None
    assert found["gpus"] == [
        {
            "index": 0,
            "uuid": "GPU-aa",
            "name": "NVIDIA H200",
            "driver": "570.1",
            "temperature_c": 34.0,
            "clock_sm_mhz": 345.0,
            "clock_sm_max_mhz": 1980.0,
            "ecc_uncorrected": 2,
            "retired_pages": None,
            "pcie_gen": 5,
            "pcie_gen_max": 5,
            "pcie_width": 8,
            "pcie_width_max": 16,
            "persistence": True,
            "throttle": ["gpu_idle", "hw_thermal_slowdown"],
            "remapped_rows_pending": True,
            "nvlinks": None,
            "nvlinks_max": None,
        }
    ]


def test_an_old_driver_tells_what_it_knows(tmp_path, gpus):
    (gpus / "old").touch()
    (found,) = preflight(tmp_path, gpus)["gpus"]
    assert (found["driver"], found["persistence"]) == ("470.1", False)
    assert found["retired_pages"] is None
    assert found["throttle"] == ["sw_power_cap"]


def test_a_lost_gpu_is_a_problem(tmp_path, gpus):
    (gpus / "lost").touch()
    found = preflight(tmp_path, gpus)
    assert found["gpus"] == []
    assert "nvidia-smi fails (exit code 15)" in found["gpu_problem"]
    assert "Unable to determine the device handle" in found["gpu_problem"]
