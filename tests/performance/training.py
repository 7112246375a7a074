"""How far losses move by rounding and by faults: the tolerances of `detection/training.py`.

    python -m tests.performance training --line pytorch --python PYTHON [--workloads gpt2 ...]

Every workload is trained at its smallest scale as it is, on other instruction sets and with other
numbers of threads, and then with one fault after the other. A row has the relative difference of
each figure from the plain training, and the verdict after five nights as they were: with the same
version, and with another one.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nightbench.core.losses import training_losses
from nightbench.core.model import RankResult
from nightbench.detection.training import (
    FIGURES,
    TrainingNight,
    TrainingTraits,
    judge_training,
)
from nightbench.testkit.gangs import BENCHMARKS, described, job_of, run_gang

STEPS = 20


@dataclass(frozen=True)
class Change:
    """What one training does otherwise: variables, values of the workload, code behind a file."""

    env: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, float] = field(default_factory=dict)
    """Factors of the workload's values."""
    network: str = ""
    """Appended to the model file."""
    data: str = ""
    """Appended to data.py."""
    trainer: str = ""
    """Appended to the line's trainer."""


CONDITIONS = {
    "again": Change(),
    "2 threads": Change({"OMP_NUM_THREADS": "2"}),
    "no AVX": Change({"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}),
    "AVX2": Change({"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}),
}
_HALVE = """
_whole_loss = loss
def loss(model, batch):
    return _whole_loss(model, {name: x[: max(1, len(x) // 2)] for name, x in batch.items()})
"""
_SHIFT = """
_batch = batch
def batch(params, batch_size, random):
    made = _batch(params, batch_size, random)
    return {name: numpy.roll(x, 1, axis=0) if x.ndim == 1 else x for name, x in made.items()}
import numpy
"""
_SKIP = """
_plain_step = Trainer.step
def _step(self):
    self.taken = getattr(self, "taken", 0) + 1
    if self.taken % 4 == 1:
        return _plain_step(self)
    kept, self.scaler.step = self.scaler.step, lambda optimizer: None
    try:
        return _plain_step(self)
    finally:
        self.scaler.step = kept
Trainer.step = _step
"""
FAULTS = {
    "half a batch": Change(network=_HALVE),
    "3 of 4 updates skipped": Change(trainer=_SKIP),
    "learning rate +10 %": Change(params={"learning_rate": 1.1}),
    "no momentum": Change(params={"momentum": 0.0}),
    "no weight decay": Change(params={"weight_decay": 0.0}),
    "no dropout": Change(params={"dropout": 0.0}),
    "epsilon x 100": Change(params={"epsilon": 100.0}),
    "shifted labels": Change(data=_SHIFT),
}


def losses_of(
    line: str, workload: str, python: str, change: Change, axes: Mapping[str, Any]
) -> dict[str, float] | None:
    """Return the figures of one training; None where the change has no effect on the workload."""
    with tempfile.TemporaryDirectory(prefix="nightbench-training-") as made:
        code = Path(made) / "code"
        shutil.copytree(BENCHMARKS, code)
        job = job_of(line, workload, 1, code=code, strategy="single", **axes)
        params = job["workload"]["params"]
        for name, factor in change.params.items():
            if not params.get(name):
                return None
            params[name] *= factor
        for text, path in (
            (change.network, code / "workloads" / workload / f"{described(line)['api']}.py"),
            (change.data, code / "workloads" / workload / "data.py"),
            (change.trainer, code / "frameworks" / line / "trainer.py"),
        ):
            with path.open("a") as stream:
                stream.write(text)
        job["protocol"] = {"warmup_steps": 2, "measured_steps": STEPS, "min_seconds": 0}
        job["env"] = dict(change.env)
        folder = Path(made) / "run"
        folder.mkdir()
        (rank,) = run_gang(folder, job, python, code=code, env=change.env)
        process = {"name": "trainer-0", "role": "trainer", "rank": 0, "measured": True}
        return training_losses([RankResult.from_json("n1", {**process, "summary": rank})])


def verdict(
    plain: Mapping[str, float], changed: Mapping[str, float], traits: TrainingTraits, version: str
) -> str:
    """Return what is said of a night after five as they were with version 1."""
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def night(number: int, losses: Mapping[str, float], of: str) -> TrainingNight:
        ranges = {name: (value, value) for name, value in losses.items()}
        return TrainingNight(start + timedelta(days=number), ranges, of)

    past = [night(number, plain, "1") for number in range(5)]
    return judge_training(night(5, changed, version), past, traits).kind.value


def main(words: list[str]) -> int:
    """Run; see the module."""
    parser = argparse.ArgumentParser(prog="training", description=__doc__)
    parser.add_argument("--line", default="pytorch")
    parser.add_argument("--python", required=True, help="interpreter of the line's environment")
    parser.add_argument("--workloads", nargs="*", default=["gpt2", "resnet50_v1.5", "simnet_bow"])
    parser.add_argument("--batch-size", type=int, default=4)
    given = parser.parse_args(words)
    print(f"{'workload':16}{'change':26}", *(f"{name:>10}" for name in FIGURES), "same  another")
    for workload in given.workloads:
        axes = {"batch_size_per_device": given.batch_size}
        plain = losses_of(given.line, workload, given.python, Change(), axes)
        assert plain, f"{workload} recorded no losses"
        traits = TrainingTraits("fp32")
        for name, change in {**CONDITIONS, **FAULTS}.items():
            found = losses_of(given.line, workload, given.python, change, axes)
            if found is None:
                continue
            apart = [
                f"{abs(found[f] - plain[f]) / max(1.0, abs(plain[f])):10.1e}"
                if f in found
                else f"{'-':>10}"
                for f in FIGURES
            ]
            said = [verdict(plain, found, traits, version) for version in ("1", "2")]
            print(f"{workload:16}{name:26}", *apart, *said, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
