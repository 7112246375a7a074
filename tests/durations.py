"""Durations by folder, from the output of `pytest --durations=0 -vv`, one column for each log.

    python -m tests.durations before.log after.log

Sums are seconds of setup, call and teardown in all workers: with several workers they exceed the
time on the wall, which the last row has.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path, PurePosixPath

DURATION = re.compile(r"^([\d.]+)s (setup|call|teardown) +(tests/[^:]+)::", re.MULTILINE)
WALL = re.compile(r"^=* ?.*\b(?:passed|failed)\b.* in ([\d.]+)s", re.MULTILINE)


def folder_of(file: str) -> str:
    """tests/unit/gang/test_x.py -> unit/gang; the long files of integration/ by themselves."""
    inner = PurePosixPath(file).relative_to("tests")
    return str(inner if inner.parts[0] == "integration" else inner.parent)


def sums(log: str) -> tuple[Counter[str], float]:
    """Seconds by folder, and on the wall."""
    found: Counter[str] = Counter()
    for seconds, _, file in DURATION.findall(log):
        found[folder_of(file)] += float(seconds)
    walls = WALL.findall(log)
    if not found or not walls:
        raise SystemExit("no durations in the log: expected the output of pytest --durations=0")
    return found, float(walls[-1])


def main(logs: list[str]) -> None:
    """Print the table."""
    columns = [sums(Path(log).read_text()) for log in logs]
    width = max(len(Path(log).name) for log in logs) + 2
    print(f"{'seconds':40}" + "".join(f"{Path(log).name:>{width}}" for log in logs))
    for folder in sorted(set().union(*(found for found, _ in columns))):
        print(f"{folder:40}" + "".join(f"{found[folder]:{width}.1f}" for found, _ in columns))
    print(f"{'all':40}" + "".join(f"{found.total():{width}.1f}" for found, _ in columns))
    print(f"{'on the wall':40}" + "".join(f"{wall:{width}.1f}" for _, wall in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
