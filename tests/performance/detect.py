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

from nightbench.core.detect_file import read_nights
from nightbench.core.history_file import HistoryFile

FIRST = 1_609_466_400
"""2021-01-01 02:00 UTC."""
DAY = 86_400


def write_histories(path: Path, series: int, nights: int) -> None:
    """Noise, slow nights, missing nights, and a fall of 5 % in every second series."""
    rng = np.random.default_rng(20261122)
    with path.open("w", encoding="utf-8") as file:
        file.write("series,t,value,n,spread,fingerprint\n")
        for number in range(series):
            sigma = rng.uniform(0.003, 0.03)
            level = np.full(nights, 100.0)
            if number % 2:
                level[int(rng.integers(nights // 4, nights)) :] = 95.0
            slow = np.where(rng.random(nights) < 0.02, rng.exponential(0.06, nights), 0.0)
            values = level * np.exp(sigma * rng.standard_normal(nights) - slow)
            spreads = np.abs(rng.normal(2.7 * sigma, 0.3 * sigma, nights))
            missing = rng.random(nights) < 0.01
            for night in range(nights):
                value = "" if missing[night] else f"{values[night]:.4f}"
                file.write(
                    f"case-{number:04d} on gpu,{FIRST + DAY * night},{value},7,"
                    f"{spreads[night]:.5f},one\n"
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
