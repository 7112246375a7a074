"""Each line's trainer next to a reference training loop of its framework: same model, same core.

    python -m tests.performance lines [--lines pytorch,paddle3] [--modes all] [--node DIR] [--gpu]

The loops (`loops/`) are written as the frameworks' own examples write theirs. Each round starts
trainer and loop, each in a process, and lets them take turns of a quarter second, so that the load
of the machine disturbs both alike; the result of a round is the median of its turns. Of two equal
processes the one that starts first stays 2 to 3 % slower, so that rounds alternate and are even.
`--control` runs a second loop in place of the trainer: by how much two equal loops differ.

`--modes all` adds the other precisions, executions, compilers and layouts that a line has on the
device to its default. Some of them are named by their axes:

    python -m tests.performance lines --gpu --lines pytorch --python /opt/torch/bin/python \
        --scale full --batch-size 128 --modes "default,precision bf16 layout channels_last"

On CPUs each process has one core and one thread. `--gpu` uses the first GPU of this machine.

Against a model of transformers, in the environment of the recipe hf-trainer (docs/recipes.md),
which has the line's PyTorch; also with `--workload gpt2`:

    python -m tests.performance lines --lines pytorch --workload llama --python ENV/bin/python \
        --loop tests/performance/loops/transformers_loop.py
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nightbench.core.model import LINE_AXES
from nightbench.testkit.gangs import (
    BENCHMARKS,
    build_environment,
    described,
    free_ports,
    job_of,
    launch,
)

LOOPS = Path(__file__).parent / "loops"
TRAINER = LOOPS / "trainer.py"
WARMUP = 5
TURN_S = 0.25
FEWEST, MOST = 3, 500
"""Steps of a turn."""
OF_GANG = {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "DMLC_ROLE"}
"""Variables by which a framework would look for other ranks."""


class Loop:
    """The process of a training loop; use it as a context.

    Raises:
        LookupError: the loop does not support the job, or its process ended.
    """

    def __init__(self, python: str, script: Path, job: Any, *, gpu: bool = False) -> None:
        name = job["processes"][0]["name"]
        ports = dict(zip(("master", name), free_ports(2), strict=True))
        (process,) = launch(job["case"]["framework"])(job, "n1", ports, python, str(BENCHMARKS))
        env = {"OMP_NUM_THREADS": "1", **os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        env |= process["env"]
        if script != TRAINER:
            env = {name: value for name, value in env.items() if name not in OF_GANG}
        self.loss: float | None = None
        self._process = subprocess.Popen(
            [python, str(LOOPS / "process.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        given = {"script": str(script), "code": str(BENCHMARKS), "job": job, "gpu": gpu}
        self._ask(json.dumps(given))

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def seconds_of(self, steps: int) -> float:
        """Train so many steps; return how long they took. `loss` is that of the last."""
        answer = self._ask(str(steps))
        self.loss = answer["loss"]
        return float(answer["seconds"])

    def _ask(self, question: str) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            print(question, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"why": "its process ended; the error is above"}
        if "why" in answer:
            self.__exit__()
            raise LookupError(answer["why"])
        return answer


def loop_of(line: str) -> Path | None:
    """The reference loop of a line, else of all lines with its API; None without one."""
    paths = [LOOPS / f"{name}_loop.py" for name in (line, described(line)["api"])]
    return next((path for path in paths if path.exists()), None)


def modes_of(line: str, device: str) -> list[str]:
    """The default of a line, then what its description says it has on a device beside it."""
    axes = described(line)["axes"]
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


def in_turn(own: Loop, loop: Loop, turns: int) -> list[tuple[float, float]]:
    """Seconds of a step of both in each turn."""
    steps = math.ceil(TURN_S / (own.seconds_of(WARMUP) / WARMUP))
    steps = max(FEWEST, min(MOST, steps))
    found = []
    for number in range(turns):
        taken_s = {
            each: each.seconds_of(steps) / steps
            for each in ((own, loop) if number % 2 == 0 else (loop, own))
        }
        found.append((taken_s[own], taken_s[loop]))
    return found


def ratios(python: str, line: str, mode: str, given: argparse.Namespace) -> list[float]:
    """Of each round: the trainer's throughput over that of the loop, by the median of its turns.

    Raises:
        LookupError: a loop does not support the mode, or failed.
    """
    found, job = [], job_in(line, mode, given)
    script = given.loop or loop_of(line)
    for number in range(given.rounds):
        loop_first = number % 2 == 1
        with ExitStack() as started:
            loops = []
            for which in (script if given.control else TRAINER, script)[:: -1 if loop_first else 1]:
                loops.append(started.enter_context(Loop(python, which, job, gpu=given.gpu)))
                loops[-1].seconds_of(WARMUP)
            own, loop = reversed(loops) if loop_first else loops
            turns = in_turn(own, loop, given.turns)
        found.append(statistics.median(loop_s / own_s for own_s, loop_s in turns))
        own_s, loop_s = (statistics.median(each) for each in zip(*turns, strict=True))
        print(
            f"{line} {mode} round {number + 1}: {found[-1]:.3f}, steps of {own_s * 1e3:.4g} ms, "
            f"loop {loop_s * 1e3:.4g} ms{' (started first)' if loop_first else ''}",
            flush=True,
        )
    return found


def main(words: list[str]) -> int:
    """Print a line for each framework line; 1 where a mode is below 0.99 of its loop."""
    folders = sorted((BENCHMARKS / "frameworks").glob("[!.]*"))
    lines = [each.name for each in folders if loop_of(each.name)]
    options = argparse.ArgumentParser(prog="python -m tests.performance lines")
    options.add_argument("--lines", default=",".join(lines), help="with commas between (all)")
    options.add_argument("--modes", default="default", help="default, all, or some (see above)")
    options.add_argument("--workload", default="resnet50_v1.5")
    options.add_argument("--batch-size", type=int, default=4)
    options.add_argument("--scale", help="of the workload (its smallest)")
    options.add_argument("--gpu", action="store_true", help="on this machine's first GPU")
    options.add_argument("--rounds", type=int, default=4, help="an even number (4)")
    options.add_argument("--turns", type=int, default=12, help="of both in each round (12)")
    options.add_argument("--control", action="store_true", help="two loops, no trainer")
    options.add_argument("--node", type=Path, help="root of a node's environments (a new one)")
    options.add_argument("--python", help="interpreter of an environment that is there already")
    options.add_argument("--loop", type=Path, help="another loop: loops/transformers_loop.py")
    given = options.parse_args(words)
    if given.rounds % 2:
        options.error(f"--rounds: found {given.rounds}; expected an even number")
    for mode in given.modes.split(","):
        words = mode.split()
        if not words or (given.modes != "all" and mode != "default" and len(words) % 2):
            options.error(f'--modes: found "{mode}"; expected axes and values, "precision bf16"')
    # This process waits: not on the core of what is measured, where there is another.
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
                    f"{line:12} {mode:20} {what}: {middle:.3f} of the loop's throughput, "
                    f"{min(found):.3f} to {max(found):.3f} in {given.rounds} rounds, "
                    f"load average {os.getloadavg()[1]:.1f}",
                    flush=True,
                )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
