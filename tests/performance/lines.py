"""Each line's loop beside a plain loop of its framework: same model, same flags, same core.

python -m tests.performance lines [--lines pytorch,paddle3] [--modes all] [--rounds 5] [--node DIR]

The plain loop, `plain_loop.py` of the line or its API, is written as the framework's own examples
write theirs; `nightbench accept` measures by it, too (benchmarks/plain.py). Rounds alternate which
of the two goes first, and each is said when it has ended: each starts both anew, which takes a
minute where a framework compiles (MindSpore's BERT). Each process has one core and one thread, and
trains for `--seconds` after its first steps. Work of others on the machine disturbs: its load
average stands beside each figure. `--modes all`: after a line's default its other executions,
compilers and layouts that a CPU has.

Against a model of transformers, in the environment of the recipe hf-trainer (docs/recipes.md),
which has the line's PyTorch; `--workload gpt2`, too:

    python -m tests.performance lines --lines pytorch --workload llama --python ENV/bin/python \\
        --loop tests/performance/transformers_loop.py
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from nightbench.core.model import LINE_AXES
from nightbench.testkit.gangs import BENCHMARKS, build_environment, job_of, run_gang

WARMUP = 5
FEWEST = 5
"""Steps of a process, however long they take."""


def modes_of(line: str) -> list[str]:
    """The default of a line, then what its description says it has on a CPU beside it."""
    axes = json.loads((BENCHMARKS / "frameworks" / line / "framework.json").read_text())["axes"]
    found = [""]
    for axis in ("execution", "compiler", "layout"):
        values = axes.get(axis, {})
        # Of a line that always compiles, that is the default.
        if isinstance(values.get("none", True), str):
            continue
        for value, answer in values.items():
            here = answer.get("cpu") if isinstance(answer, dict) else answer
            if here is True and value != LINE_AXES[axis]:
                found.append(f"{axis} {value}")
    return found


def on_one_core(python: str, core: int, folder: Path) -> str:
    """An interpreter that runs on one core."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec taskset -c {core} {shlex.quote(python)} "$@"\n')
    script.chmod(0o755)
    return str(script)


def ours(python: str, line: str, mode: str, given: argparse.Namespace) -> float:
    """Seconds of a step of a rank as the agent launches it."""
    axes = dict([mode.split()]) if mode else {}
    job = job_of(line, given.workload, trainers=1, strategy="single", **axes)
    job["case"]["batch_size_per_device"] = given.batch_size
    job["protocol"] = {
        "warmup_steps": WARMUP,
        "measured_steps": FEWEST,
        "min_seconds": given.seconds,
    }
    with tempfile.TemporaryDirectory() as folder:
        (rank,) = run_gang(Path(folder), job, python)
    seconds: float = rank["window"]["wall_s"] / rank["window"]["steps"]
    return seconds


def plain(python: str, line: str, mode: str, given: argparse.Namespace) -> float:
    """Seconds of a step of the plain loop."""
    from plain import Loop, loop_of

    axes = dict([mode.split()]) if mode else {}
    job = job_of(line, given.workload, trainers=1, strategy="single", **axes)
    case = {**job["case"], "batch_size_per_device": given.batch_size}
    code = str(BENCHMARKS)
    script = str(given.loop) if given.loop else loop_of(code, line)
    os.environ["OMP_NUM_THREADS"] = "1"
    params = job["workload"]["params"]
    with Loop(python, script, code, case, params, gpu=False, limit_s=900.0) as loop:
        loop.seconds_of(WARMUP)
        lap_s = loop.seconds_of(FEWEST) / FEWEST
        steps = max(FEWEST, math.ceil(given.seconds / lap_s))
        seconds: float = loop.seconds_of(steps) / steps
    return seconds


def ratios(python: str, line: str, mode: str, given: argparse.Namespace) -> list[float]:
    """Of each round: our throughput over that of the plain loop."""
    found = []
    for number in range(given.rounds):
        order: list[Any] = [ours, plain] if number % 2 == 0 else [plain, ours]
        seconds = {run.__name__: run(python, line, mode, given) for run in order}
        found.append(seconds["plain"] / seconds["ours"])
        print(f"{line} {mode or 'default'} round {number + 1}: {found[-1]:.3f}", flush=True)
    return found


def main(words: list[str]) -> int:
    """Print a line for each framework line; 1 where a mode is below 0.99 of its plain loop."""
    # Launchers import what lines share.
    sys.path.insert(0, str(BENCHMARKS))
    from plain import loop_of

    folders = sorted((BENCHMARKS / "frameworks").glob("[!.]*"))
    lines = [each.name for each in folders if loop_of(str(BENCHMARKS), each.name)]
    options = argparse.ArgumentParser(prog="python -m tests.performance lines")
    options.add_argument("--lines", default=",".join(lines), help="with commas between (all)")
    options.add_argument("--modes", choices=["default", "all"], default="default")
    options.add_argument("--workload", default="resnet50_v1.5")
    options.add_argument("--batch-size", type=int, default=4)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=10.0, help="of each process in a round")
    options.add_argument("--node", type=Path, help="root of a node's environments (a new one)")
    options.add_argument("--python", help="interpreter of an environment that is there already")
    options.add_argument("--loop", type=Path, help="another plain loop: transformers_loop.py")
    given = options.parse_args(words)
    # This process polls: not on the core of what is measured, where there is another.
    *others, last = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, others or [last])
    good = True
    with tempfile.TemporaryDirectory() as made:
        for line in given.lines.split(","):
            python = given.python or build_environment(given.node or Path(made), line)
            python = on_one_core(python, last, Path(made))
            for mode in modes_of(line) if given.modes == "all" else [""]:
                found = ratios(python, line, mode, given)
                middle = statistics.median(found)
                good = good and middle >= 0.99
                print(
                    f"{line:12} {mode or 'default':20} {given.workload}: {middle:.3f} of the plain "
                    f"loop's throughput, {min(found):.3f} to {max(found):.3f} in {given.rounds} "
                    f"rounds, load average {os.getloadavg()[1]:.1f}",
                    flush=True,
                )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
