"""The processor of a node: model, sockets, cores, threads and instruction sets.

x86 names its model, sockets and cores in `/proc/cpuinfo`. On aarch64, that file has only numbers of
the implementer and the part. Its sockets and cores are read from sysfs, as `lscpu` does.
"""

from __future__ import annotations

import glob
import os
import platform
from typing import Any, Iterator, Mapping

from nodeside.files import read_text

PROC = "/proc/cpuinfo"
SYSFS = "/sys/devices/system/cpu"

_FLAGS = frozenset(
    (
        *("sse4_2", "avx", "avx2", "fma", "f16c"),
        *("avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"),
        *("asimd", "asimdhp", "asimddp", "asimdfhm", "bf16", "i8mm"),
        *("sve", "sve2", "svebf16", "svei8mm", "sme", "sme2"),
    )
)

_IMPLEMENTERS = {
    0x41: "ARM",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x6D: "Microsoft",
    0xC0: "Ampere",
}
_PARTS = {
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD42): "Cortex-A78AE",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x41, 0xD83): "Neoverse-V3AE",
    (0x41, 0xD84): "Neoverse-V3",
    (0x41, 0xD85): "Cortex-X925",
    (0x41, 0xD87): "Cortex-A725",
    (0x41, 0xD8E): "Neoverse-N3",
    (0x43, 0x0AF): "ThunderX2-99xx",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "Kunpeng-920",
    (0x4E, 0x010): "Olympus",
    (0x6D, 0xD49): "Azure-Cobalt-100",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1a",
}
"""Cores of servers and of workstations with GPUs by implementer and part, as `lscpu` names them.

Graviton2 and Altra have Neoverse-N1, Graviton3 Neoverse-V1, Graviton4 and Grace Neoverse-V2, and
GB10 Cortex-X925 with Cortex-A725.
"""


def cpu_description(proc: str = PROC, sysfs: str = SYSFS) -> dict[str, Any]:
    """Return model, machine, sockets, cores, threads, and the relevant instruction sets."""
    with open(proc) as handle:
        threads = list(_threads(handle.read()))
    flags: set[str] = set()
    for thread in threads:
        flags.update(thread.get("flags", thread.get("Features", "")).split())
    models = {_model(thread) for thread in threads} - {None}
    sockets = {thread["physical id"] for thread in threads if "physical id" in thread}
    cores = {(t.get("physical id", "0"), t["core id"]) for t in threads if "core id" in t}
    of_arm = any("CPU part" in thread for thread in threads)
    count = _topology(sysfs) if of_arm else (len(sockets), len(cores))
    return {
        "model": " + ".join(sorted(map(str, models))) or platform.machine(),
        "machine": platform.machine(),
        "sockets": count[0] or 1,
        "cores": count[1] or len(threads),
        "threads": len(threads),
        "flags": sorted(_FLAGS & flags),
    }


def _threads(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each thread; a block on the whole machine is skipped."""
    for block in text.split("\n\n"):
        lines = (line.partition(":") for line in block.splitlines())
        fields = {key.strip(): value.strip() for key, _, value in lines}
        if "processor" in fields:
            yield fields


def _model(thread: Mapping[str, str]) -> str | None:
    """Return the name of a thread's core, on Arm in the form `Neoverse-V2 r0p0`."""
    if "model name" in thread or "CPU part" not in thread:
        return thread.get("model name")
    try:
        implementer, part, variant = (
            int(thread[key], 16) for key in ("CPU implementer", "CPU part", "CPU variant")
        )
    except (KeyError, ValueError):
        return None
    maker = _IMPLEMENTERS.get(implementer, "CPU")
    unnamed = "{} implementer 0x{:02x} part 0x{:03x}".format(maker, implementer, part)
    name = _PARTS.get((implementer, part), unnamed)
    return "{} r{}p{}".format(name, variant, thread.get("CPU revision", "0"))


def _topology(sysfs: str) -> tuple[int, int]:
    """Return the numbers of sockets and cores in sysfs; 0 if the kernel lists none."""
    sockets, cores = set(), set()
    for folder in glob.glob(os.path.join(glob.escape(sysfs), "cpu[0-9]*", "topology")):
        # -1 if the firmware describes no sockets.
        sockets.add(read_text(os.path.join(folder, "physical_package_id")))
        cores.add(read_text(os.path.join(folder, "thread_siblings_list")))
    return len(sockets - {None, "-1"}), len(cores - {None})
