"""The fingerprint of a node: hardware, drivers, kernel, and the software of a job."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from typing import Any, Mapping

from nodeside import packages, smi
from nodeside.files import file_digest, read_text, utc_now
from nodeside.processor import cpu_description
from nodeside.shell import answer
from nodeside.system import NETWORK, cards, memory_state

SCHEMA = "nightbench.fingerprint/1"


def fingerprint(
    code: str, python: str | None = None, job: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fingerprint/1 document.

    `id` is a digest over hardware, drivers and kernel alone: another framework version or code
    digest is evidence for a change, not another node.

    Args:
        code: folder of the shipped code.
        python: interpreter of the framework's environment.
        job: job.json, for the build.
    """
    stable: dict[str, Any] = {
        "cpu": cpu_description(),
        "memory_bytes": memory_state()["total_bytes"],
        "numa_nodes": _numa_nodes(),
        "kernel": platform.release(),
        "governor": read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "network": _network(),
        "infiniband": _infiniband(),
        "gpus": gpus(),
        "gpu_topology": _topology(),
    }
    software = packages.of(python) if python else {}
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "id": hashlib.sha256(json.dumps(_identity(stable), sort_keys=True).encode()).hexdigest(),
        "host": platform.node(),
        "taken_at": utc_now(),
    }
    document.update(stable)
    document.update(
        {
            "os": _os_name(),
            "build": dict(job["framework"]) if job else None,
            "python": software.get("python"),
            "packages": software.get("packages", {}),
            "code_digest": code_digest(code),
        }
    )
    return document


def _identity(stable: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part that changes only with the node's hardware or software."""
    kept = {key: value for key, value in stable.items() if key != "network"}
    # An unplugged cable or a virtual interface must not change the id.
    kept["network"] = [
        [card["name"], card["driver"]] for card in stable["network"] if card["driver"]
    ]
    # MemTotal changes a little with each boot.
    kept["memory_bytes"] = round(stable["memory_bytes"] / 2**30)
    kept["infiniband"] = [
        [port["device"], port["port"], port["rate"]] for port in stable["infiniband"]
    ]
    return kept


def code_digest(code: str) -> str:
    """Return the sha256 over content, execute bit and path of every shipped file below `code`.

    The controller computes the name of the shipped tree by the same rule: hidden and compiled
    files do not count, lines are sorted by path.
    """
    total = hashlib.sha256()
    for name in sorted(_shipped(code)):
        path = os.path.join(code, name)
        executable = "x" if os.stat(path).st_mode & 0o100 else "-"
        total.update("{} {} {}\n".format(file_digest(path), executable, name).encode())
    return total.hexdigest()


def _shipped(code: str) -> list[str]:
    found = []
    for folder, folders, names in os.walk(code):
        folders[:] = [n for n in folders if n != "__pycache__" and not n.startswith(".")]
        for name in names:
            if not name.startswith(".") and not name.endswith((".pyc", ".pyo")):
                found.append(os.path.relpath(os.path.join(folder, name), code))
    return found


def _numa_nodes() -> list[dict[str, Any]]:
    base = "/sys/devices/system/node"
    names = sorted(n for n in _list(base) if re.match(r"node\d+\Z", n))
    return [
        {"node": int(name[4:]), "cpus": read_text(os.path.join(base, name, "cpulist")) or ""}
        for name in names
    ]


def _network() -> list[dict[str, Any]]:
    found = []
    for card in cards():
        driver = os.path.join(NETWORK, card["name"], "device", "driver")
        known = os.path.exists(driver)
        found.append(
            {**card, "driver": os.path.basename(os.path.realpath(driver)) if known else None}
        )
    return found


def _infiniband() -> list[dict[str, Any]]:
    base, found = "/sys/class/infiniband", []
    for device in sorted(_list(base)):
        for port in sorted(_list(os.path.join(base, device, "ports"))):
            folder = os.path.join(base, device, "ports", port)
            found.append(
                {
                    "device": device,
                    "port": int(port),
                    "state": read_text(os.path.join(folder, "state")),
                    "rate": read_text(os.path.join(folder, "rate")),
                    "link_layer": read_text(os.path.join(folder, "link_layer")),
                    "firmware": read_text(os.path.join(base, device, "fw_ver")),
                }
            )
    return found


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


_GPU_KEYS = (
    ("index", "index"),
    ("uuid", "uuid"),
    ("model", "name"),
    ("driver", "driver_version"),
    ("vbios", "vbios_version"),
    ("memory_bytes", "memory.total"),
    ("compute_capability", "compute_cap"),
    ("power_limit_w", "power.limit"),
    ("max_sm_clock_mhz", "clocks.max.sm"),
)


def gpus() -> list[dict[str, Any]]:
    """Return the NVIDIA GPUs that nvidia-smi lists; none if it does not answer."""
    found = []
    for words in smi.rows("--query-gpu=" + ",".join(field for _, field in _GPU_KEYS)):
        if len(words) != len(_GPU_KEYS):
            continue
        gpu: dict[str, Any] = {key: word for (key, _), word in zip(_GPU_KEYS, words)}
        gpu["index"] = int(gpu["index"])
        for key in ("memory_bytes", "power_limit_w", "max_sm_clock_mhz"):
            gpu[key] = smi.number(gpu[key])
        if gpu["memory_bytes"] is not None:
            gpu["memory_bytes"] = int(gpu["memory_bytes"] * 2**20)
        found.append(gpu)
    return found


def _topology() -> str | None:
    text = answer(["nvidia-smi", "topo", "-m"])
    # nvidia-smi colours and underlines the header even when it writes into a pipe.
    return re.sub(r"\x1b\[[0-9;]*m", "", text).strip() if text else None


def _os_name() -> str:
    for line in (read_text("/etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip('"')
    return platform.system()
