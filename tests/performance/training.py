"""How far losses move by rounding and by faults: the tolerances of `detection/training.py`.

    python -m tests.performance training --line pytorch --python PYTHON [--others PYTHON ...]

Every workload is trained at its smallest scale as it is, under other conditions (CPUs, threads,
instruction sets), in environments with other versions of the framework, and with one fault after
the other. A row has the difference of each figure from the plain training: of 1, or of the loss if
that is more. It has the verdict after five plain nights, with the same version and with another
one, and the checks that refuse the repeat. After the conditions comes the number of alerts in 30
nights, each under one of them. The plain losses of two lines in one precision show how far other
kernels round.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.performance.training_changes import CONDITIONS, FAULTS, Change, Code
from tests.performance.training_unlisted import UNLISTED

from nightbench.core.losses import training_losses
from nightbench.core.model import Case, RankResult, Strategy, TrainingKind
from nightbench.core.summarize import asynchronous
from nightbench.detection.training import judge_training
from nightbench.detection.training_night import FIGURES, TrainingNight
from nightbench.detection.training_tolerance import TrainingTraits
from nightbench.testkit.gangs import BENCHMARKS, catalog, described, job_of, refused, run_gang

NIGHTS = 30
WORKLOADS = ["gpt2", "resnet50_v1.5", "simnet_bow"]

Losses = Mapping[str, float]
Night = tuple[str, Sequence[Losses]]
"""Version, and the losses of each repeat."""


@dataclass(frozen=True)
class Trained:
    """The outcome of one training."""

    losses: Losses
    refusing: Mapping[str, str]
    """Checks that refuse the repeat."""
    has_dropout: bool
    seconds: float
    """Of the slowest rank after the window: the first batch again, and the counted step."""


TIMED = {
    "    again = trainer.step_again()\n": "again_s",
    "        count_step(trainer, context)\n": "count_s",
}
"""Lines of rank.py."""


ARGUMENTS = ("workload", "framework", "nodes", "trainers", "pservers")
"""Axes that `job_of` has arguments for."""


class NoEffect(Exception):
    """A change does not apply to a workload, or to the API of the line."""


def train(case: Case, python: str, change: Change, steps: int, warmup_steps: int = 2) -> Trained:
    """Train a case in a changed copy of benchmarks/."""
    line, workload = case.framework, case.workload
    if case.pservers and change.trainer:
        raise NoEffect  # Other code trains with servers.
    with tempfile.TemporaryDirectory(prefix="nightbench-training-") as made:
        code = Path(made) / "code"
        shutil.copytree(BENCHMARKS, code, ignore=shutil.ignore_patterns("__pycache__"))
        axes = {axis: value for axis, value in vars(case).items() if axis not in ARGUMENTS}
        job = job_of(line, workload, case.trainers, case.pservers, code=code, **axes)
        params = job["workload"]["params"]
        for name, factor in change.params.items():
            if not params.get(name):
                raise NoEffect
            params[name] *= factor
        change_code(code, case, change)
        _time(code / "rank.py")
        protocol = {"warmup_steps": warmup_steps, "measured_steps": steps, "min_seconds": 0}
        job["protocol"] = protocol
        folder = Path(made) / "run"
        folder.mkdir()
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, sorted(allowed)[: change.cpus])
        try:
            found = run_gang(folder, job, python, code=code, env=_known(change.env, line))
        finally:
            os.sched_setaffinity(0, allowed)
        measured = [process for process in job["processes"] if process["measured"]]
        results = [
            RankResult.from_json("n1", {**process, "summary": rank})
            for process, rank in zip(measured, found, strict=True)
        ]
        losses = training_losses(results)
        assert losses, f"{workload} recorded no losses"
        seconds = max(sum(rank[name] for name in TIMED.values()) for rank in found)
        return Trained(losses, refused(job, found), bool(params.get("dropout")), seconds)


def _known(env: Mapping[str, str], line: str) -> dict[str, str]:
    """Return the variables without flags that end a line whose XLA is too old for them."""
    return {name: x for name, x in env.items() if name != "XLA_FLAGS" or line != "tensorflow1"}


def change_code(code: Path, case: Case, change: Change) -> None:
    """Make a change in a copy of benchmarks/, as far as it is one of code."""
    line, workload = case.framework, code / "workloads" / case.workload
    api = described(line)["api"]
    trainer = code / ("apis/paddle" if api == "paddle" else f"frameworks/{line}") / "trainer.py"
    _append(workload / f"{api}.py", change.network, api)
    _append(workload / "data.py", change.data, api)
    _append(trainer, change.trainer, api)
    _append(code / "base_trainer.py", change.base, api)


def _append(path: Path, code: Code, api: str) -> None:
    text = code.get(api, code.get(""))
    if code and text is None:
        raise NoEffect
    with path.open("a") as stream:
        stream.write(text or "")


def _time(rank: Path) -> None:
    """Let rank.py state how long the lines take that serve the comparison of losses alone."""
    text = rank.read_text().replace('"rank.json"), rank)', '"rank.json"), {**rank, **TIMES})')
    for line, name in TIMED.items():
        indent = line[: len(line) - len(line.lstrip())]
        assert text.count(line) == 1
        ended = f"{indent}runtime.device_sync()\n{indent}TIMES[{name!r}] += time.monotonic()\n"
        text = text.replace(line, f"{indent}TIMES[{name!r}] = -time.monotonic()\n{line}{ended}")
    rank.write_text(text.replace("def main():\n", "TIMES = {}\n\n\ndef main():\n"))


def _night(number: int, repeats: Sequence[Losses], version: str) -> TrainingNight:
    values = {name: [losses[name] for losses in repeats] for name in repeats[0]}
    ranges = {name: (min(each), max(each)) for name, each in values.items()}
    return TrainingNight(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number), ranges, version)


def verdict(plain: Sequence[Losses], changed: Losses, traits: TrainingTraits, version: str) -> str:
    """Return the verdict on a night after five plain ones with version 1."""
    past = [_night(number, [losses], "1") for number, losses in enumerate(plain)]
    return judge_training(_night(5, [changed], version), past, traits).kind.value


def drawn(trainings: Sequence[tuple[str, Losses]], repeats: int = 1) -> list[Night]:
    """Return as many nights as are judged; each repeat has the losses of one of the trainings."""
    generator = random.Random(1)
    nights = [generator.choices(trainings, k=repeats) for _ in range(NIGHTS)]
    return [(night[0][0], [losses for _, losses in night]) for night in nights]


def alerts(nights: Sequence[Night], traits: TrainingTraits) -> int:
    """Return how many of the nights are judged as changed."""
    past, found = list[TrainingNight](), 0
    for number, (version, repeats) in enumerate(nights):
        tonight = _night(number, repeats, version)
        changed = judge_training(tonight, past, traits).kind is TrainingKind.CHANGED
        past.append(replace(tonight, is_changed=changed))
        found += changed
    return found


def traits_of(case: Case, has_dropout: bool, warmup_steps: int) -> TrainingTraits:
    """Return what the tolerance depends on."""
    grows = catalog().workloads[case.workload].increases_rounding(case)
    return TrainingTraits(
        case.precision, asynchronous(case), has_dropout, warmup_steps, rounding_grows=grows
    )


def difference(found: float, plain: float) -> float:
    return abs(found - plain) / max(1.0, abs(plain))


def _version(line: str, python: str) -> str:
    # Python 3.7 has no importlib.metadata.
    code = "import pkg_resources as p, sys; print(p.get_distribution(sys.argv[1]).version)"
    if line != "tensorflow1":
        code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    name = described(line)["package"]
    return subprocess.check_output([python, "-c", code, name], text=True).strip()


class Table:
    """Rows of one workload and precision."""

    def __init__(self, given: argparse.Namespace, workload: str, precision: str) -> None:
        self.given, self.workload, self.precision = given, workload, precision
        self._plain: dict[tuple[int, str], list[Trained]] = {}

    def train(self, change: Change, python: str | None = None) -> Trained:
        """Train with a change."""
        given, factors = self.given, dict(change.params)
        for name, factor in given.factors:
            factors[name] = factor * factors.get(name, 1.0)
        change = replace(change, params=factors)
        case, python = self.case(change), python or given.python
        return train(case, python, change, given.steps, given.warmup_steps)

    def case(self, change: Change) -> Case:
        """Return the case of a training with a change."""
        given, servers = self.given, self.given.servers
        ranks = 2 if servers else max(change.ranks, given.ranks)
        return Case(
            self.workload,
            given.line,
            Strategy.PARAMETER_SERVER
            if servers
            else Strategy.SINGLE
            if ranks == 1
            else Strategy.COLLECTIVE,
            trainers=ranks,
            pservers=servers,
            sync=given.sync if servers else "sync",
            batch_size_per_device=given.batch_size,
            precision=change.precision,
            scale="smoke",
        )

    def plain(self, change: Change) -> list[Trained]:
        """Return five nights with as many ranks and the precision of a change.

        Asynchronous trainers differ each time; others are trained once.
        """
        key = change.ranks, change.precision
        if key not in self._plain:
            plain = Change(ranks=change.ranks, precision=change.precision)
            trainings = 5 if asynchronous(self.case(plain)) else 1
            found = [self.train(plain) for _ in range(trainings)]
            self._plain[key] = found * (5 // len(found))
        return self._plain[key]

    def traits(self, plain: Trained, precision: str) -> TrainingTraits:
        """Return what the tolerance depends on."""
        case = self.case(Change(precision=precision))
        return traits_of(case, plain.has_dropout, self.given.warmup_steps)

    def row(self, name: str, change: Change, python: str | None = None) -> Losses | None:
        """Print how a training differs from the plain one."""
        try:
            found, nights = self.train(change, python), self.plain(change)
        except NoEffect:
            return None
        except AssertionError as error:
            last = str(error).strip().splitlines()[-1]
            print(f"| {self.workload} | {name} | did not run: {last[:160]} |", flush=True)
            return None
        plain, past = nights[0], [night.losses for night in nights]
        traits = self.traits(plain, change.precision)
        apart = [
            f"{difference(found.losses[figure], plain.losses[figure]):.1e}"
            if figure in found.losses
            else "-"
            for figure in FIGURES
        ]
        said = [verdict(past, found.losses, traits, version) for version in ("1", "2")]
        new = sorted(set(found.refusing) - set(plain.refusing))
        cells = [self.workload, name, *apart, *said, ", ".join(new) or "-"]
        print(f"| {' | '.join(cells)} |", flush=True)
        return found.losses

    def print(self) -> None:
        """Print all rows that were asked for."""
        given, precision = self.given, self.precision
        nights = self.plain(Change(precision=precision))
        plain, traits = nights[0], self.traits(nights[0], precision)
        values = [f"{plain.losses[f]:.9g}" if f in plain.losses else "-" for f in FIGURES]
        values.append(f"{plain.seconds:.3f} s after the window")
        print(f"| {self.workload} | {precision} plain | {' | '.join(values)} |", flush=True)
        if traits.is_asynchronous:
            ranges = [_range([night.losses for night in nights], f) for f in FIGURES]
            print(f"| {self.workload} | range of plain nights | {' | '.join(ranges)} |", flush=True)
        if "conditions" in given.rows:
            seen = [("1", plain.losses)]
            for name, change in CONDITIONS.items():
                if name in (given.only or CONDITIONS):
                    losses = self.row(f"{precision} {name}", replace(change, precision=precision))
                    seen += [("1", losses)] if losses else []
            self._print_alerts(seen, traits)
        if "versions" in given.rows:
            seen = [("1", plain.losses)]
            for python in given.others:
                version = _version(given.line, python)
                losses = self.row(f"{precision} {version}", Change(precision=precision), python)
                seen += [(version, losses)] if losses else []
            self._print_alerts(seen, traits)
        for rows, faults in (("faults", FAULTS), ("unlisted", UNLISTED)):
            for name, change in faults.items() if rows in given.rows else ():
                if name in (given.only or faults) and precision == "fp32":
                    self.row(name, change)

    def _print_alerts(self, seen: Sequence[tuple[str, Losses]], traits: TrainingTraits) -> None:
        found = alerts(drawn(seen), traits)
        print(f"{self.workload}: {found} alerts in {NIGHTS} nights", flush=True)


def _range(nights: Sequence[Losses], figure: str) -> str:
    values = [night[figure] for night in nights if figure in night]
    return f"{difference(max(values), min(values)):.1e}" if values else "-"


def _factor(text: str) -> tuple[str, float]:
    name, factor = text.split("=")
    return name, float(factor)


def main(words: list[str]) -> int:
    """Run; see the module."""
    parser = argparse.ArgumentParser(prog="training", description=__doc__)
    parser.add_argument("--line", default="pytorch")
    parser.add_argument("--python", required=True, help="interpreter of the line's environment")
    parser.add_argument("--others", nargs="*", default=[], help="of environments to compare with")
    parser.add_argument("--workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--precisions", nargs="*", default=["fp32"])
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20, help="of the window")
    parser.add_argument("--warmup-steps", type=int, default=2, help="before it [default: 2]")
    parser.add_argument(
        "--only",
        nargs="*",
        choices={**CONDITIONS, **FAULTS, **UNLISTED},
        metavar="NAME",
        help="these conditions or faults",
    )
    parser.add_argument("--ranks", type=int, default=1, help="without servers [default: 1]")
    parser.add_argument("--servers", type=int, default=0, help="of 2 trainers")
    parser.add_argument("--sync", default="async", help="updates of servers [default: async]")
    parser.add_argument(
        "--factors",
        nargs="*",
        default=[],
        type=_factor,
        metavar="NAME=FACTOR",
        help="change values of the workload in all trainings, for example dropout=0",
    )
    rows = ("conditions", "versions", "faults", "unlisted")
    parser.add_argument("--rows", nargs="*", default=rows, choices=rows)
    given = parser.parse_args(words)
    print(f"{given.line} {_version(given.line, given.python)}, batch size {given.batch_size}")
    figures = " | ".join(FIGURES.values())
    print(f"| workload | training | {figures} | same version | another | refused by |")
    print("|" + "---|" * (5 + len(FIGURES)))
    for workload in given.workloads:
        for precision in given.precisions:
            Table(given, workload, precision).print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
