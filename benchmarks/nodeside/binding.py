"""The cores of processes: each process gets cores of the NUMA node of its GPU."""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, Sequence

from nodeside.files import read_text

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_RANGES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*\Z")


def beside_devices(
    devices: Mapping[str, str],
    fingerprint: Mapping[str, Any],
    allowed: Sequence[int],
    with_others: bool,
) -> dict[str, list[int]]:
    """Return the cores of each process, from the NUMA node of its GPU.

    Processes with GPUs of one NUMA node share its cores evenly, as whole cores with all their
    threads. If it has fewer cores than processes, each process may use all of them.

    Args:
        devices: name of a process -> its GPU, by index or UUID.
        fingerprint: of the node, with `gpus` and the table of `nvidia-smi topo -m`.
        allowed: cores that the job may use.
        with_others: other jobs may use the node's other GPUs: leave their share to them.

    Returns:
        Nothing if a GPU's topology is unknown, if a GPU has none of the allowed cores near it, or
        if all allowed cores are near all GPUs.
    """
    near = _cores_of_gpus(fingerprint["gpu_topology"] or "")
    number = {gpu["uuid"]: gpu["index"] for gpu in fingerprint["gpus"]}
    number.update({str(gpu["index"]): gpu["index"] for gpu in fingerprint["gpus"]})
    mine = {name: number.get(device, -1) for name, device in devices.items()}
    usable = {gpu: sorted(near[gpu] & set(allowed)) for gpu in near}
    if not all(usable.get(gpu) for gpu in mine.values()):
        return {}
    if all(len(usable[gpu]) == len(allowed) for gpu in mine.values()):
        return {}
    sharing = sorted(near) if with_others else sorted(set(mine.values()))
    found = {}
    for name, gpu in mine.items():
        beside = [each for each in sharing if near[each] == near[gpu]]
        found[name] = _share(usable[gpu], len(beside), beside.index(gpu))
    return found


def _cores_of_gpus(table: str) -> dict[int, set[int]]:
    """Return the cores near each GPU, from the column `CPU Affinity`; empty without the column."""
    rows = [[cell.strip() for cell in line.split("\t")] for line in table.splitlines()]
    if not rows or "CPU Affinity" not in rows[0]:
        return {}
    # The header's first cell is empty, and the fingerprint has no blanks around its table.
    column = rows[0].index("CPU Affinity") + 1
    found = {}
    for row in rows[1:]:
        gpu = re.match(r"GPU(\d+)\Z", row[0]) if len(row) > column else None
        if gpu and _RANGES.match(row[column]):
            found[int(gpu.group(1))] = set(cores_in(row[column]))
    return found


def _share(cores: Sequence[int], parts: int, part: int) -> list[int]:
    """Return share number `part` of `parts` equal shares; threads of a core stay together."""
    together: dict[str, list[int]] = {}
    for core in cores:
        together.setdefault(read_text(_SIBLINGS.format(core)) or str(core), []).append(core)
    each = len(together) // parts
    if each == 0:
        return list(cores)
    chosen = list(together.values())[part * each : (part + 1) * each]
    return sorted(core for threads in chosen for core in threads)


def cores_in(ranges: str) -> list[int]:
    """Return the numbers in a list as the kernel writes it: `0-3,8`."""
    found: list[int] = []
    for piece in ranges.split(","):
        first, _, last = piece.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def as_ranges(cores: Iterable[int]) -> str:
    """Write numbers as the kernel does: `0-3,8`."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join(str(r[0]) if len(r) == 1 else "{}-{}".format(r[0], r[-1]) for r in runs)
