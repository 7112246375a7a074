"""Control measurements: how fast a node is by itself, so that a slow one is told from slow code."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from typing import Any, Sequence

VALUES = 7
_BUDGET_S = 1.2
"""For each control of the CPU."""
_SIDE = 48
_COPY_BYTES = 32 * 2**20

_ON_DEVICE = """
import json, sys, time
import torch
name, side, copied, values = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.backends.cuda.matmul.allow_tf32 = False
found = []
def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)
def rates(device, work, amount):
    for _ in range(3):
        work()
    wait(device)
    said = []
    for _ in range(values):
        begin = time.perf_counter()
        work()
        wait(device)
        said.append(amount / (time.perf_counter() - begin) / 1e9)
    return said
if name == "cuda" and not torch.cuda.is_available():
    sys.exit("torch %s finds no usable GPU" % torch.__version__)
count = torch.cuda.device_count() if name == "cuda" else 1
for index in range(count):
    device = torch.device(name, index) if name == "cuda" else torch.device(name)
    backend = "torch-%s %s" % (torch.__version__, name)
    where = "gpu-%d" % index if name == "cuda" else "cpu"
    a, b = (torch.randn(side, side, device=device) for _ in range(2))
    out = torch.empty(side, side, device=device)
    product = rates(device, lambda: torch.mm(a, b, out=out), 2.0 * side ** 3)
    one = torch.empty(copied, dtype=torch.uint8, device=device)
    other = torch.empty_like(one)
    copy = rates(device, lambda: other.copy_(one), float(copied))
    both = (("matrix_product", "GFLOP/s", product), ("memory_copy", "GB/s", copy))
    for metric, unit, said in both:
        found.append(dict(metric=metric, unit=unit, backend=backend, device=where, values=said))
print(json.dumps(found))
"""


def of_cpu(cpus: Sequence[int]) -> list[dict[str, Any]]:
    """A matrix product and a copy of memory in this interpreter, on one of the job's cores.

    Rates of the interpreter, not of the machine: comparable only with themselves.
    """
    allowed = os.sched_getaffinity(0)
    if cpus:
        os.sched_setaffinity(0, set(cpus) & allowed or allowed)
    try:
        backend = "python-{}.{}".format(*platform.python_version_tuple()[:2])
        return [
            {
                "metric": "matrix_product",
                "unit": "GFLOP/s",
                "backend": backend,
                "device": "cpu",
                "values": _rates(_matrix_product()),
            },
            {
                "metric": "memory_copy",
                "unit": "GB/s",
                "backend": backend,
                "device": "cpu",
                "values": _rates(_memory_copy()),
            },
        ]
    finally:
        os.sched_setaffinity(0, allowed)


def _rates(work: Any) -> list[float]:
    """At least five rates in 1e9/s; fewer than `VALUES` where the machine is slow."""
    work()
    found: list[float] = []
    begun_s = time.perf_counter()
    while len(found) < 5 or (len(found) < VALUES and time.perf_counter() - begun_s < _BUDGET_S):
        before_s = time.perf_counter()
        amount = work()
        found.append(amount / (time.perf_counter() - before_s) / 1e9)
    return found


def _matrix_product() -> Any:
    rows = [[float((i * j) % 7) for j in range(_SIDE)] for i in range(_SIDE)]
    columns = [list(column) for column in zip(*rows)]
    often = 4

    def work() -> float:
        for _ in range(often):
            for row in rows:
                for column in columns:
                    sum(map(float.__mul__, row, column))
        return often * 2.0 * _SIDE**3

    return work


def _memory_copy() -> Any:
    source, target = bytearray(os.urandom(4096) * (_COPY_BYTES // 4096)), bytearray(_COPY_BYTES)
    to, often = memoryview(target), 3

    def work() -> float:
        for _ in range(often):
            to[:] = source
        return float(often * _COPY_BYTES)

    return work


def of_devices(
    python: str,
    kind: str = "cuda",
    side: int = 4096,
    copy_bytes: int = 512 * 2**20,
    timeout_s: float = 120.0,
) -> tuple[list[dict[str, Any]], str | None]:
    """The same with torch on every GPU; the controls, and why there are none.

    Args:
        python: interpreter of an environment with torch.
        kind: torch's name of the devices.
        side: of the square matrices, in full single precision.
        copy_bytes: copied within the device's memory; read and write count once.
        timeout_s: importing torch takes most of it.
    """
    argv = [python, "-c", _ON_DEVICE, kind, str(side), str(copy_bytes), str(VALUES)]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return [], "the GPUs' controls took longer than {:g} s".format(timeout_s)
    except OSError as error:
        return [], "cannot run {}: {}".format(python, error.strerror)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return [], "the GPUs' controls failed: {}".format(" ".join(said)[:300])
    return list(json.loads(done.stdout.decode())), None
