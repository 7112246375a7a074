"""What is split between ranks trains as one device does with the same global batch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from nightbench.core.model import Case, Strategy, WorkloadInfo
from nightbench.core.model_memory import device_bytes
from nightbench.testkit.gangs import BENCHMARKS, job_of, refused, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.timeout(900)]
LARGE = pytest.mark.large
"""What `make test-lines` does beside the one of its kind that stays with what is slow."""

STEPS = 8
TOLERANCE = 1e-5
"""Relative, of each of the first losses: sums of float32 in another order."""

JOINED = """

import numpy


def _joined(own):
    \"\"\"The batches of all ranks as one, for a rank that is alone.\"\"\"
    sources = [numpy.random.RandomState([1, 1 + rank]) for rank in range({ranks})]

    def batch(params, batch_size, random):
        parts = [own(params, batch_size // {ranks}, each) for each in sources]
        return {{name: numpy.concatenate([part[name] for part in parts]) for name in parts[0]}}

    return batch


batch = _joined(batch)
"""

HELD = {
    "pytorch": """

class Trainer(Trainer):
    \"\"\"Writes the bytes that this rank holds of weights, gradients and optimizer states.\"\"\"

    def losses(self):
        weights = list(self.model.parameters())
        states = getattr(self.optimizer, "optim", self.optimizer).state.values()
        parts = {
            "weights": weights,
            "gradients": [weight.grad for weight in weights],
            "optimizer states": [each for state in states for each in state.values()],
        }
        held = {
            part: sum(getattr(each, "_local_tensor", each).nbytes for each in tensors)
            for part, tensors in parts.items()
        }
        with open("held.json", "w") as stream:
            json.dump(held, stream)
        return super().losses()
""",
    "paddle3": """

class Trainer(Trainer):
    \"\"\"Writes the bytes that this rank holds of weights, gradients and optimizer states.\"\"\"

    def losses(self):
        weights = self.model.parameters()
        states = sharding.states_of(self.optimizer).values()
        parts = {
            "weights": [getattr(weight, "fw_storage", weight) for weight in weights],
            "optimizer states": [each for state in states for each in state.values()],
        }
        if self.context.case["shard_stage"] < 3:  # Else gone with the step.
            parts["gradients"] = [w.grad for w in weights if w.grad is not None]
        held = {
            part: sum(each.size * each.element_size() for each in tensors)
            for part, tensors in parts.items()
        }
        with open("held.json", "w") as stream:
            json.dump(held, stream)
        return super().losses()


def as_on_a_gpu(*given, **named):
    \"\"\"PaddlePaddle's own, past its checks that refuse a CPU.\"\"\"
    paddle.set_device = lambda device: None
    with (
        mock.patch.object(paddle.base.core, "is_compiled_with_cuda", lambda: True),
        mock.patch.object(paddle, "get_device", lambda: "gpu:0"),
        mock.patch.object(paddle, "CUDAPlace", lambda number: paddle.CPUPlace()),
        mock.patch.object(paddle.Tensor, "cpu", paddle.Tensor.clone),
    ):
        return group_sharded_parallel(*given, **named)


group_sharded_parallel = sharding.group_sharded_parallel
sharding.group_sharded_parallel = as_on_a_gpu
""",
    "jax": """

class Trainer(Trainer):
    \"\"\"Writes the bytes that this rank holds of weights and optimizer states.\"\"\"

    def losses(self):
        named = {"weights": "weights", "optimizer states": "slots"}
        held = {
            part: sum(each.addressable_data(0).nbytes for each in jax.tree.leaves(self.state[key]))
            for part, key in named.items()
        }
        with open("held.json", "w") as stream:
            json.dump(held, stream)
        return super().losses()
""",
}

IMPORTS = {
    "paddle3": "from unittest import mock\nimport paddle\nfrom frameworks.paddle3 import sharding\n"
}

COMPILERS = {"pytorch": "none", "jax": "xla", "paddle3": "none"}
# Adam would hide gradients that are summed and not averaged.
MOMENTUM = {"optimizer": "momentum", "momentum": 0.9, "learning_rate": 0.02}


def job_like(line: str, workload: str, changes: dict[str, Any], **axes: Any) -> Any:
    job = job_of(line, workload, compiler=COMPILERS[line], **axes)
    job["workload"]["params"] |= changes
    job["protocol"] = {"warmup_steps": 1, "measured_steps": STEPS - 1, "min_seconds": 0.0}
    return job


def losses_of(rank: Any) -> list[float]:
    return [rank["loss"]["first"], *rank["loss"]["window"]]


def alone(
    folder: Path,
    python: str,
    line: str,
    workload: str,
    ranks: int,
    changes: dict[str, Any],
    samples: int | None = None,
) -> list[float]:
    """The losses of one rank that gets the batches of so many, two samples of each if not given."""
    code = folder / "code"
    shutil.copytree(BENCHMARKS, code, ignore=shutil.ignore_patterns("__pycache__"))
    data = code / "workloads" / workload / "data.py"
    data.write_text(data.read_text() + JOINED.format(ranks=ranks))
    size = {"batch_size_per_device": samples or 2 * ranks}
    job = job_like(line, workload, changes, trainers=1, strategy="single", **size)
    (folder / "alone").mkdir()
    (rank,) = run_gang(folder / "alone", job, python, code=code)
    return losses_of(rank)


def resources_of(folder: Path, ranks: int) -> dict[str, float]:
    """What a rank holds between two steps, in the mean."""
    read = [json.loads((folder / f"trainer-{i}" / "held.json").read_text()) for i in range(ranks)]
    return {part: mean(each[part] for each in read) for part in read[0]}


def predicted(job: Any, ranks: int) -> dict[str, float]:
    written = job["case"]
    keys = ("shard", "shard_stage", "state_precision")
    shards = {key: written[key] for key in keys if key in written}
    case = Case(
        written["workload"], written["framework"], Strategy.COLLECTIVE, trainers=ranks, **shards
    )
    params = job["workload"]["params"]
    spec = WorkloadInfo(
        name="w", title="W", unit="tokens", strategies=("single",), scales={"full": params}
    )
    whole = case.framework == "paddle3"
    held = device_bytes(case, spec, whole_weights=whole)
    assert held
    if case.shard_stage == 2 and not whole:  # What is gathered is there within a step.
        held["weights"] -= 4 * params["parameters"]
    return held


def sent_by(line: str, ranks: int, shard: int, stage: int) -> float:
    """Bytes that a rank of llama at smoke sends in a step."""
    most, layers, rotations = 4 * 220480, 4 * (220480 - 2 * 64000 - 64), 4 * 2 * 128 * 8
    apart, copies = (shard - 1) / shard, ranks // shard
    if line == "paddle3":  # Gradients are summed for the owner alone, at stage 3 for all.
        return (4 if stage == 3 else 2) * most * apart
    if stage == 1:  # Gradients are summed for all; each parameter comes from its owner.
        return (2 * most + rotations) * (ranks - 1) / ranks + most * apart
    gathered = 2 * most + (layers if stage == 3 else 0)
    return gathered * apart + 2 * most / shard * (copies - 1) / copies


@pytest.mark.parametrize(
    ("line", "workload", "ranks", "changes", "shards"),
    [
        ("pytorch", "llama", 2, {}, ((2, 1), (2, 2), (2, 3, "bf16"))),
        pytest.param("pytorch", "llama", 2, {}, ((2, 3), (2, 1, "bf16")), marks=LARGE),
        ("pytorch", "llama", 4, MOMENTUM, ((2, 3),)),
        pytest.param("pytorch", "llama", 4, MOMENTUM, ((2, 1),), marks=LARGE),
        ("pytorch", "gpt2", 2, {}, ((2, 3),)),
        pytest.param("pytorch", "mixtral", 2, {}, ((2, 3),), marks=LARGE),
        ("jax", "llama", 2, {}, ((2, 2, "bf16"),)),
        pytest.param("jax", "llama", 2, {}, ((2, 2), (2, 3)), marks=LARGE),
        pytest.param("jax", "gpt2", 4, MOMENTUM, ((2, 3),), marks=LARGE),
        ("paddle3", "llama", 2, {}, ((2, 1), (2, 2), (2, 3))),
        ("paddle3", "llama", 4, MOMENTUM, ((4, 1),)),
    ],
)
def test_shards_train_as_one_device_does(
    tmp_path: Path,
    interpreter: Callable[[str], str],
    line: str,
    workload: str,
    ranks: int,
    changes: dict[str, Any],
    shards: tuple[tuple[int, int, *tuple[str, ...]], ...],
) -> None:
    python = interpreter(line)
    expected = alone(tmp_path, python, line, workload, ranks, changes)
    assert expected[-1] < expected[0]
    code = tmp_path / "held"
    shutil.copytree(BENCHMARKS, code, ignore=shutil.ignore_patterns("__pycache__"))
    trainer = code / "frameworks" / line / "trainer.py"
    imports = "import json\n" + IMPORTS.get(line, "")
    trainer.write_text(imports + trainer.read_text() + HELD[line])
    for shard, stage, *kept in shards:
        axes = {"strategy": "collective", "shard": shard, "shard_stage": stage}
        if kept:
            axes["state_precision"] = kept[0]
        job = job_like(line, workload, changes, trainers=ranks, **axes)
        (folder := tmp_path / f"{shard}-{stage}{kept}").mkdir()
        found = run_gang(folder, job, python, code=code)
        losses = [losses_of(rank) for rank in found]
        assert [mean(each) for each in zip(*losses, strict=True)] == pytest.approx(
            expected, rel=TOLERANCE
        ), (shard, stage, kept)
        assert losses[0] != losses[1], "ranks had the same data"
        assert refused(job, found) == {}
        if line != "jax" and workload == "llama":
            sent = max(rank["sent_bytes_per_step"] for rank in found)
            expected_sent = sent_by(line, ranks, shard, stage)
            rel = 0.02 if line == "paddle3" else 1e-3  # It gathers some twice.
            if (line, stage) == ("paddle3", 2):  # In buffers as large as the largest part.
                rel = 0.15
            assert sent == pytest.approx(expected_sent, rel=rel), (shard, stage)
        held, expected_bytes = resources_of(folder, ranks), predicted(job, ranks)
        assert held == pytest.approx({part: expected_bytes[part] for part in held}, rel=0.01)
