"""CPU, memory, GPU use and energy during a repeat, sampled every second.

Read from /proc, nvidia-smi, and the energy counters of CPU packages (RAPL).
"""

from __future__ import annotations

import glob
import os
import time
from typing import Any, Sequence

from nodeside import smi
from nodeside.files import read_text
from nodeside.shell import Stream
from nodeside.system import memory_state

INTERVAL_S = 1.0
STALE_S = 5.0
"""Age from which an answer of nvidia-smi is left out of samples."""

POWERCAP = "NIGHTBENCH_POWERCAP"
"""Environment variable with a folder that replaces /sys/class/powercap."""

GPU_FIELDS = (
    ("index", "index", int),
    ("uuid", "uuid", str),
    ("sm_clock_mhz", "clocks.sm", float),
    ("power_w", "power.draw", float),
    ("temperature_c", "temperature.gpu", float),
    ("throttle", "clocks_event_reasons.active", str),
    ("utilization_percent", "utilization.gpu", float),
    ("memory_used_bytes", "memory.used", float),
)
"""Key, nvidia-smi's name of the field, type. nvidia-smi counts memory in MiB."""


def cpu_times(cpus: Sequence[int]) -> tuple[float, float]:
    """Return busy and total jiffies of the given cores (all when empty) since boot."""
    wanted = {"cpu{}".format(number) for number in cpus} or {"cpu"}
    busy = total = 0.0
    with open("/proc/stat") as handle:
        for line in handle:
            words = line.split()
            if words and words[0] in wanted:
                values = [float(word) for word in words[1:9]]
                total += sum(values)
                busy += sum(values) - values[3] - values[4]
    return busy, total


def parse_gpu(line: str) -> dict[str, Any] | None:
    """Parse a line of `nvidia-smi --format=csv,noheader,nounits`; return None for another line."""
    words = smi.row(line)
    if len(words) != len(GPU_FIELDS):
        return None
    gpu: dict[str, Any] = {}
    for (key, _, kind), word in zip(GPU_FIELDS, words):
        try:
            gpu[key] = kind(word)
        except ValueError:
            gpu[key] = None  # "[N/A]": this device does not report it
    if gpu["memory_used_bytes"] is not None:
        gpu["memory_used_bytes"] = int(gpu["memory_used_bytes"] * 2**20)
    return gpu


class PackageEnergy:
    """Energy of all CPU packages since it was made, from the kernel's RAPL counters.

    A counter starts again at 0 after `max_energy_range_uj`: at a full package in minutes. It must
    be read at least once in that time. Zones inside a package (cores, graphics) are parts of it;
    DRAM is another device's. Most kernels let only root read them (CVE-2020-8694).
    """

    def __init__(self) -> None:
        self._joules = 0.0
        self._ranges: dict[str, int] = {}
        self._last: dict[str, int] = {}
        root = os.environ.get(POWERCAP) or "/sys/class/powercap"
        for zone in sorted(glob.glob(os.path.join(glob.escape(root), "intel-rapl:*"))):
            name = read_text(os.path.join(zone, "name")) or ""
            if name.strip().startswith("package"):
                self._ranges[zone] = _counter(zone, "max_energy_range_uj")
                self._last[zone] = _counter(zone, "energy_uj")

    def read(self) -> float | None:
        """Return joules so far; None as soon as any package could not be read."""
        for zone, last in self._last.items():
            now = _counter(zone, "energy_uj")
            if min(now, last, self._ranges[zone]) < 0:
                self._last = {}
                break
            self._joules += (now - last + (self._ranges[zone] if now < last else 0)) / 1e6
            self._last[zone] = now
        return self._joules if self._last else None


def _counter(zone: str, name: str) -> int:
    """Return a counter of a zone; -1 if it cannot be read."""
    try:
        with open(os.path.join(zone, name)) as handle:
            return int(handle.read())
    except (OSError, ValueError):
        return -1


class Telemetry:
    """Samples of one repeat; `tick` does nothing until a second has passed."""

    def __init__(self, cpus: Sequence[int] = (), devices: Sequence[str] = ()) -> None:
        self._cpus = tuple(cpus)
        self._last_cpu = cpu_times(self._cpus)
        self._due = time.monotonic()
        self._gpus: dict[str, tuple[float, dict[str, Any]]] = {}
        self._packages = PackageEnergy()
        # One that repeats: a new nvidia-smi each second would use a whole core.
        query = "--query-gpu=" + ",".join(smi.named(field) for _, field, _ in GPU_FIELDS)
        argv = ["nvidia-smi", query, smi.FORMAT, "-lms", str(int(INTERVAL_S * 1000))]
        self._smi = Stream(argv + ["--id=" + ",".join(devices)] * bool(devices))
        self.samples: list[dict[str, Any]] = []

    def tick(self) -> None:
        """Take a sample at its time."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + INTERVAL_S
        self._read_gpus(now)
        busy, total = cpu_times(self._cpus)
        spent = total - self._last_cpu[1]
        percent = 100.0 * (busy - self._last_cpu[0]) / spent if spent > 0 else 0.0
        self._last_cpu = (busy, total)
        memory = memory_state()
        self.samples.append(
            {
                "t_s": round(now, 3),
                "cpu_percent": round(percent, 1),
                "memory_used_bytes": memory["total_bytes"] - memory["available_bytes"],
                "load1": os.getloadavg()[0],
                "cpu_energy_j": self._packages.read(),
                "gpus": [gpu for _, (at, gpu) in sorted(self._gpus.items()) if now - at < STALE_S],
            }
        )

    def _read_gpus(self, now: float) -> None:
        for line in self._smi.lines():
            gpu = parse_gpu(line)
            if gpu is not None:
                self._gpus[str(gpu["index"]).zfill(4)] = (now, gpu)

    def close(self) -> dict[str, Any]:
        """Stop sampling; return the `telemetry` of result.json."""
        self._smi.close()
        return {"interval_s": INTERVAL_S, "samples": self.samples}
