"""Each line's loop beside a plain loop of its framework: same model, same flags, same core.

python -m tests.performance lines [--lines pytorch,paddle3] [--modes all] [--rounds 6] [--node DIR]

The plain loop, `plain_loop.py` of the line or its API, is written as the framework's own examples
write theirs; `nightbench accept` measures by it, too (benchmarks/plain.py). Rounds alternate which
of the two goes first, and each is said when it has ended: each starts both anew, which takes a
minute where a framework compiles (MindSpore's BERT). Each process has one core and one thread, and
trains for `--seconds` after its first steps. Work of others on the machine disturbs: its load
average stands beside each figure. `--modes all`: after a line's default its other precisions,
executions, compilers and layouts that the device has; or some modes, by their axes:

    python -m tests.performance lines --gpu --lines pytorch --python /opt/torch/bin/python \
        --scale full --batch-size 128 --modes "default,precision bf16 layout channels_last"

`--turns 30`: instead, in each round the two take so many turns of a quarter second, as in
`nightbench accept`, and its figure is their median. Work of others then disturbs both alike. The
first to start gets the worse memory (`early` in benchmarks/plain.py): it is the loop in every
second round, and rounds are even. `--control`: another plain loop in place of the trainer; what it
is beside its like is chance, and no trainer can be told from its loop by less.

`--gpu` is for the first GPU of this machine, where the processes run on all cores.

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
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nightbench.core.model import LINE_AXES
from nightbench.testkit.gangs import BENCHMARKS, build_environment, job_of, run_gang

WARMUP = 5
FEWEST = 5
"""Steps of a process, however long they take."""


def modes_of(line: str, device: str) -> list[str]:
    """The default of a line, then what its description says it has on a device beside it."""
    axes = json.loads((BENCHMARKS / "frameworks" / line / "framework.json").read_text())["axes"]
    found = ["default"]
    for axis in ("precision", "execution", "compiler", "layout"):
        values = axes.get(axis, {})
        # Of a line that always compiles, that is the default.
        if isinstance(values.get("none", True), str):
            continue
        for value, answer in values.items():
            here = answer.get(device, answer) if isinstance(answer, dict) else answer
            if not isinstance(here, str) and value != LINE_AXES[axis]:
                found.append(f"{axis} {value}")
    return found


def on_one_core(python: str, core: int, folder: Path) -> str:
    """An interpreter that runs on one core."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec taskset -c {core} {shlex.quote(python)} "$@"\n')
    script.chmod(0o755)
    return str(script)


def job_in(line: str, mode: str, given: argparse.Namespace) -> Any:
    """The job of a mode, `precision bf16 layout channels_last` say."""
    words = mode.split() if mode != "default" else []
    axes: dict[str, Any] = dict(zip(words[::2], words[1::2], strict=True))
    if given.scale:
        axes["scale"] = given.scale
    job = job_of(line, given.workload, trainers=1, strategy="single", **axes)
    job["case"]["batch_size_per_device"] = given.batch_size
    job["processes"][0]["device"] = "0" if given.gpu else None
    return job


def ours(python: str, line: str, mode: str, given: argparse.Namespace) -> float:
    """Seconds of a step of a rank as the agent launches it."""
    job = job_in(line, mode, given)
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

    job = job_in(line, mode, given)
    code = str(BENCHMARKS)
    script = str(given.loop) if given.loop else loop_of(code, line)
    os.environ["OMP_NUM_THREADS"] = "1"
    params = job["workload"]["params"]
    with Loop(python, script, code, job["case"], params, gpu=given.gpu, limit_s=900.0) as loop:
        loop.seconds_of(WARMUP)
        lap_s = loop.seconds_of(FEWEST) / FEWEST
        steps = max(FEWEST, math.ceil(given.seconds / lap_s))
        seconds: float = loop.seconds_of(steps) / steps
    return seconds


def in_turns(
    python: str, line: str, mode: str, given: argparse.Namespace, loop_first: bool
) -> list[tuple[float, float]]:
    """Seconds of a step of the rank and of the plain loop, in each turn as `accept` takes them."""
    from plain import FIRST

    job = job_in(line, mode, given)
    job["protocol"] = {"warmup_steps": WARMUP, "measured_steps": FEWEST, "min_seconds": 0}
    job["run_id"] = "acceptance-lines"
    job["env"]["NIGHTBENCH_PLAIN_ROUNDS"] = str(given.turns)
    if loop_first:
        job["env"][FIRST] = "1"
    with tempfile.TemporaryDirectory() as folder:
        (rank,) = run_gang(Path(folder), job, python)
    return steps_of(rank["plain"])


def of_two_loops(
    python: str, line: str, mode: str, given: argparse.Namespace, other_first: bool
) -> list[tuple[float, float]]:
    """The same of two processes of the plain loop."""
    from plain import Loop, in_turn, loop_of

    os.environ["OMP_NUM_THREADS"] = "1"
    job, code = job_in(line, mode, given), str(BENCHMARKS)
    what = loop_of(code, line), code, job["case"], job["workload"]["params"], given.gpu
    with ExitStack() as started:
        loops = []
        for _ in range(2):
            loops.append(started.enter_context(Loop(python, *what, limit_s=900.0)))
            loops[-1].seconds_of(WARMUP)
        if other_first:
            loops.reverse()
        return steps_of(in_turn(*loops, given.turns))


def steps_of(found: dict[str, Any]) -> list[tuple[float, float]]:
    """Seconds of a step of both in each turn, of what they took together.

    Raises:
        LookupError: there are none.
    """
    if "why" in found:
        raise LookupError(found["why"])
    return [(own / found["steps"], plain / found["steps"]) for own, plain in found["rounds"]]


def ratios(python: str, line: str, mode: str, given: argparse.Namespace) -> list[float]:
    """Of each round: our throughput over that of the plain loop, by the median of its turns.

    Raises:
        LookupError: the plain loop does not write the mode, or failed.
    """
    found = []
    for number in range(given.rounds):
        plain_first = number % 2 == 1
        if given.turns:
            take = of_two_loops if given.control else in_turns
            turns = take(python, line, mode, given, plain_first)
        else:
            order: list[Any] = [plain, ours] if plain_first else [ours, plain]
            seconds = {run.__name__: run(python, line, mode, given) for run in order}
            turns = [(seconds["ours"], seconds["plain"])]
        found.append(statistics.median(plain / own for own, plain in turns))
        own_s, plain_s = (statistics.median(each) for each in zip(*turns, strict=True))
        print(
            f"{line} {mode} round {number + 1}: {found[-1]:.3f}, steps of {own_s * 1e3:.4g} ms "
            f"beside {plain_s * 1e3:.4g}{', which came first' if plain_first else ''}",
            flush=True,
        )
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
    options.add_argument("--modes", default="default", help="default, all, or some (see above)")
    options.add_argument("--workload", default="resnet50_v1.5")
    options.add_argument("--batch-size", type=int, default=4)
    options.add_argument("--scale", help="of the workload (its smallest)")
    options.add_argument("--gpu", action="store_true", help="on this machine's first GPU")
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--turns", type=int, help="of both in each round, a quarter second each")
    options.add_argument("--control", action="store_true", help="two plain loops (see above)")
    options.add_argument("--seconds", type=float, default=10.0, help="of each process in a round")
    options.add_argument("--node", type=Path, help="root of a node's environments (a new one)")
    options.add_argument("--python", help="interpreter of an environment that is there already")
    options.add_argument("--loop", type=Path, help="another plain loop: transformers_loop.py")
    given = options.parse_args(words)
    if given.turns and given.loop:
        options.error("--turns: found --loop; expected the plain loop of the line")
    if given.turns and given.rounds % 2:
        options.error(f"--rounds: found {given.rounds}; expected an even number with --turns")
    if given.control and not given.turns:
        options.error("--control: expected --turns")
    for mode in given.modes.split(","):
        words = mode.split()
        if not words or (given.modes != "all" and mode != "default" and len(words) % 2):
            options.error(f'--modes: found "{mode}"; expected axes and values, "precision bf16"')
    # This process polls: not on the core of what is measured, where there is another.
    *others, last = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, others or [last])
    good = True
    with tempfile.TemporaryDirectory() as made:
        for line in given.lines.split(","):
            python = given.python or build_environment(given.node or Path(made), line)
            python = python if given.gpu else on_one_core(python, last, Path(made))
            all_modes = modes_of(line, "gpu" if given.gpu else "cpu")
            for mode in all_modes if given.modes == "all" else given.modes.split(","):
                try:
                    found = ratios(python, line, mode, given)
                except LookupError as missing:
                    print(f"{line} {mode}: {missing.args[0]}", flush=True)
                    good = False
                    continue
                middle = statistics.median(found)
                good = good and middle >= 0.99
                what = f"{given.workload}{', another loop' if given.control else ''}"
                print(
                    f"{line:12} {mode:20} {what}: {middle:.3f} of the plain "
                    f"loop's throughput, {min(found):.3f} to {max(found):.3f} in {given.rounds} "
                    f"rounds, load average {os.getloadavg()[1]:.1f}",
                    flush=True,
                )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
