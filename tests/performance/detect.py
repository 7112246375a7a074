"""How long `nightbench detect` takes on a file of long series, as a user runs it.

    python -m tests.performance detect [--series 500] [--nights 1825]

The file is made before the clock starts; then the command reads it, judges each night of every
series as if it were the last, and writes JSON. Reading alone is timed apart.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tests.performance.detector import history

from nightbench.core.history_file import HistoryFile, read_nights


def write_histories(path: Path, series: int, nights: int) -> None:
    """Write histories with missing nights, and a fall in every second series."""
    rng = np.random.default_rng(20261122)
    with path.open("w", encoding="utf-8") as file:
        file.write("series,t,value,n,spread,fingerprint\n")
        for number in range(series):
            fallen = int(rng.integers(nights // 4, nights)) if number % 2 else nights
            missing = rng.random(nights) < 0.01
            for gone, night in zip(missing, history(number, nights, fallen), strict=True):
                value = "" if gone else f"{night.value:.4f}"
                file.write(
                    f"case-{number:04d} on gpu,{night.at.timestamp():.0f},{value},{night.n},"
                    f"{night.spread:.5f},{night.fingerprint_id}\n"
                )


def main(words: list[str]) -> int:
    """The command line; prints the figures."""
    parser = argparse.ArgumentParser(prog="tests.performance detect", description=__doc__)
    parser.add_argument("--series", type=int, default=500)
    parser.add_argument("--nights", type=int, default=1825)
    asked = parser.parse_args(words)
    rows = asked.series * asked.nights
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "histories.csv"
        write_histories(path, asked.series, asked.nights)
        start = time.perf_counter()
        read_nights(HistoryFile(path))
        reading = time.perf_counter() - start
        start = time.perf_counter()
        command = [str(Path(sys.executable).with_name("nightbench")), "detect", str(path), "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        spent = time.perf_counter() - start
    if done.returncode:
        return done.returncode
    reports = json.loads(done.stdout)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    changes = sum(len(each["changes"]) for each in reports)
    print(
        f"{asked.series} series of {asked.nights} nights: {spent:.1f} s by the clock, "
        f"{used.ru_utime + used.ru_stime:.1f} s of processor, {rows / spent:,.0f} nights a second, "
        f"{used.ru_maxrss / 1024:.0f} MiB in the largest process; {changes} changes. "
        f"Reading alone: {reading:.1f} s, {rows / reading:,.0f} rows a second"
    )
    return 0
