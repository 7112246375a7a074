"""Health of GPUs, reasons of throttling, and processes that compute on them, from nvidia-smi."""

from __future__ import annotations

import glob
import os
import re
import shutil
import time
from typing import Any, Sequence

from nodeside import smi
from nodeside.files import read_text
from nodeside.neighbours import describe_process
from nodeside.processes import is_marked
from nodeside.shell import Stream, answer

THROTTLE_BITS = (
    (0x1, "gpu_idle"),
    (0x2, "applications_clocks_setting"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
)
"""Names of the bits of clocks_event_reasons.active (NVML's nvmlClocksEventReason*)."""
DISTURBING = 0x8 | 0x20 | 0x40 | 0x80
"""Bits that count as throttling; a power cap does not, because it is normal for GPUs."""

_HEALTH = (
    ("index", "index"),
    ("uuid", "uuid"),
    ("name", "name"),
    ("driver", "driver_version"),
    ("temperature_c", "temperature.gpu"),
    ("ecc_uncorrected", "ecc.errors.uncorrected.volatile.total"),
    ("retired_pages", "retired_pages.double_bit.count"),
    ("throttle", "clocks_event_reasons.active"),
    ("persistence", "persistence_mode"),
    ("clock_sm_mhz", "clocks.sm"),
    ("clock_sm_max_mhz", "clocks.max.sm"),
    ("pcie_gen", "pcie.link.gen.current"),
    ("pcie_gen_max", "pcie.link.gen.max"),
    ("pcie_width", "pcie.link.width.current"),
    ("pcie_width_max", "pcie.link.width.max"),
)
COMPUTE_INTERVAL_S = 5.0
_COMPUTE_QUERY = "--query-compute-apps=gpu_uuid,pid,process_name,used_memory"
_IDENTITIES: dict[str, str] = {}


def throttle_names(bits: str | int | None) -> list[str]:
    """Return the reasons in a bit mask ("0x0000000000000044")."""
    try:
        value = int(bits, 16) if isinstance(bits, str) else int(bits or 0)
    except ValueError:
        return []
    return [name for bit, name in THROTTLE_BITS if value & bit]


def throttled(samples: Sequence[dict[str, Any]], devices: Sequence[str]) -> list[dict[str, Any]]:
    """Return the devices that heat or hardware slowed down in some telemetry samples.

    Returns:
        [{"gpu": uuid or index, "reasons": [name], "samples": how many show it}].
    """
    found: dict[str, dict[str, Any]] = {}
    for sample in samples:
        for gpu in sample["gpus"]:
            if not is_among(gpu, devices):
                continue
            try:
                bits = int(gpu["throttle"] or "0", 16) & DISTURBING
            except ValueError:
                continue
            if bits:
                name = gpu["uuid"] or str(gpu["index"])
                entry = found.setdefault(name, {"gpu": name, "bits": 0, "samples": 0})
                entry["bits"] |= bits
                entry["samples"] += 1
    return [
        {
            "gpu": entry["gpu"],
            "reasons": throttle_names(entry["bits"]),
            "samples": entry["samples"],
        }
        for _, entry in sorted(found.items())
    ]


def is_among(gpu: dict[str, Any], devices: Sequence[str]) -> bool:
    """Return whether a GPU is one of `devices` (indices or UUIDs)."""
    return str(gpu["index"]) in devices or str(gpu["uuid"]) in devices


def health() -> tuple[list[dict[str, Any]], str | None]:
    """Return the state of every GPU, and why the node's GPUs cannot be used, if so."""
    if shutil.which("nvidia-smi") is None:
        cards = len(_nvidia_cards())
        if cards:
            return [], (
                "{} NVIDIA device{} on the PCI bus, but no nvidia-smi: the driver is not "
                "installed".format(cards, "" if cards == 1 else "s")
            )
        return [], None
    rows, problem = _table()
    pending, links = _remapped_pending(), _nvlinks()
    gpus = []
    for row in rows:
        gpu: dict[str, Any] = {"index": int(row["index"]), "uuid": row["uuid"]}
        for key in ("name", "driver"):
            gpu[key] = smi.word(row.get(key))
        for key in ("temperature_c", "clock_sm_mhz", "clock_sm_max_mhz"):
            gpu[key] = smi.number(row.get(key))
        for key, _ in _HEALTH:
            if key.startswith(("ecc", "retired", "pcie")):
                number = smi.number(row.get(key))
                gpu[key] = None if number is None else int(number)
        said = smi.word(row.get("persistence"))
        gpu["persistence"] = None if said is None else said == "Enabled"
        gpu["throttle"] = throttle_names(smi.word(row.get("throttle")))
        gpu["remapped_rows_pending"] = pending.get(str(row["uuid"]))
        gpu["nvlinks"] = links.get(str(row["uuid"]))
        gpus.append(gpu)
    for gpu in gpus:
        alike = [each["nvlinks"] for each in gpus if each["name"] == gpu["name"]]
        gpu["nvlinks_max"] = max((up for up in alike if up is not None), default=None)
        if gpu["nvlinks_max"] is not None:
            gpu["nvlinks"] = gpu["nvlinks"] or 0
    return gpus, problem


def _table() -> tuple[list[dict[str, str]], str | None]:
    """Return a row per GPU with the fields that the driver knows, and the problem or None."""
    fields = dict(_HEALTH)
    code, text = smi.ask("--query-gpu=" + ",".join(fields.values()))
    if code != 0 and "not a valid field" in text:
        names = {key: smi.known(field) for key, field in fields.items()}
        fields = {key: name for key, name in names.items() if name}
        code, text = smi.ask("--query-gpu=" + ",".join(fields.values()))
    answers = [smi.row(line) for line in text.splitlines()]
    rows = [
        dict(zip(fields, words))
        for words in answers
        if len(words) == len(fields) and words[0].isdigit()
    ]
    if code != 0 or not rows:
        said = " ".join(text.split())[:300] or "no output"
        return rows, "nvidia-smi fails (exit code {}): {}".format(code, said)
    cards = len(_nvidia_cards())
    if cards > len(rows):
        return rows, "{} NVIDIA devices on the PCI bus, nvidia-smi shows {}".format(
            cards, len(rows)
        )
    return rows, None


def _remapped_pending() -> dict[str, bool]:
    """Return UUID -> whether row remapping waits for a restart, if GPU and driver support it."""
    rows = smi.rows("--query-remapped-rows=gpu_uuid,remapped_rows.pending")
    return {row[0]: row[1] not in ("0", "No") for row in rows if len(row) == 2 and smi.word(row[1])}


def _nvlinks() -> dict[str, int]:
    """Return UUID -> number of active NVLinks, of GPUs with NVLink; boards differ in the number."""
    found: dict[str, int] = {}
    uuid = ""
    for line in (answer(["nvidia-smi", "nvlink", "-s"]) or "").splitlines():
        header = re.match(r"GPU \d+: .*\(UUID: (\S+)\)", line)
        if header:
            uuid = header.group(1)
        elif re.match(r"\s+Link \d+:", line):
            found[uuid] = found.get(uuid, 0) + ("inactive" not in line.lower())
    return found


def _nvidia_cards() -> list[str]:
    """Return the PCI devices of class display or 3D controller whose vendor is NVIDIA."""
    found = []
    for folder in sorted(glob.glob("/sys/bus/pci/devices/*")):
        vendor = read_text(os.path.join(folder, "vendor"))
        kind = read_text(os.path.join(folder, "class")) or ""
        if vendor == "0x10de" and kind.startswith("0x03"):
            found.append(folder)
    return found


# --- processes that compute on the GPUs ------------------------------------------------------


def identities() -> dict[str, str]:
    """Return index -> UUID of this node's GPUs, read once; empty without nvidia-smi."""
    if _IDENTITIES:
        return _IDENTITIES
    rows = smi.rows("--query-gpu=index,uuid")
    _IDENTITIES.update({row[0]: row[1] for row in rows if len(row) == 2})
    return _IDENTITIES


def compute_processes(devices: Sequence[str]) -> list[dict[str, Any]]:
    """Return the processes of all users that compute now on the given GPUs (indices or UUIDs).

    Returns:
        Entries as of `neighbours.who`, with `gpu`. A process that is not visible here (that of
        another container) has neither user nor, perhaps, command.
    """
    rows = smi.rows(_COMPUTE_QUERY) if devices else []
    return _computing(rows, resolve(devices) if rows else ())


def resolve(devices: Sequence[str]) -> list[str]:
    """Return the UUIDs of devices (indices or UUIDs); unchanged without nvidia-smi."""
    known = identities() if devices else {}
    return [known.get(device, device) for device in devices]


def foreign(
    job_id: str | None, found: Sequence[dict[str, Any]], before_launch: bool
) -> list[dict[str, Any]]:
    """Return the entries of `found` that have neither the job's mark nor its agent's.

    Args:
        job_id: the job; None: a process with any Nightbench mark is not foreign.
        found: compute processes.
        before_launch: no process of the job runs. So a process that is not visible here cannot be
            the job's own (in a container, nvidia-smi shows the host's numbers).
    """
    kept = []
    for entry in found:
        if not os.path.exists("/proc/{}".format(entry["pid"])):
            if before_launch:
                kept.append(entry)
        elif not is_marked(entry["pid"], job_id):
            kept.append(entry)
    return kept


class ComputeProcessMonitor:
    """Foreign compute processes while a repeat runs, from one nvidia-smi that keeps running."""

    def __init__(self, job_id: str, devices: Sequence[str]) -> None:
        self._job_id = job_id
        self._wanted = resolve(devices)
        loop = ["-lms", str(int(COMPUTE_INTERVAL_S * 1000))]
        self._stream = Stream(["nvidia-smi", _COMPUTE_QUERY, smi.FORMAT, *loop])
        self._seen: list[tuple[float, dict[str, Any]]] = []

    def tick(self) -> None:
        """Read new output without waiting."""
        now_s = time.monotonic()
        mine = _computing([smi.row(line) for line in self._stream.lines()], self._wanted)
        self._seen += [(now_s, entry) for entry in foreign(self._job_id, mine, False)]

    def during(self, from_s: float, to_s: float) -> list[dict[str, Any]]:
        """Return the foreign processes seen in a span, each once."""
        found = {}
        for t_s, entry in self._seen:
            if from_s <= t_s <= to_s + COMPUTE_INTERVAL_S:
                found[entry["pid"], entry["gpu"]] = entry
        return [found[key] for key in sorted(found)]

    def close(self) -> None:
        """End nvidia-smi."""
        self._stream.close()


def _computing(rows: Sequence[Sequence[str]], wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Return the processes on the `wanted` GPUs (UUIDs)."""
    found = []
    for words in rows:
        if len(words) >= 4 and words[1].isdigit() and words[0] in wanted:
            entry = describe_process(int(words[1]))
            entry["gpu"] = words[0]
            if entry["command"] is None and not words[2].startswith("["):
                entry["command"] = words[2]
            found.append(entry)
    return found
