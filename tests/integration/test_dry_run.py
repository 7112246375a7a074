"""Llama 3.1 8B on 32 devices without them: what `plan` counts is what trainers would hold."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nightbench.config import load_catalog
from nightbench.core.model import Case, Strategy
from nightbench.core.model_memory import device_bytes
from nightbench.testkit.gangs import BENCHMARKS, job_of

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.timeout(1800)]

SCRIPTS = Path(__file__).parent / "scripts"
CATALOG = load_catalog(BENCHMARKS)
LLAMA = CATALOG.workloads["llama"]
PARAMS = dict(LLAMA.scales["8b"]) | {"batches": 1}
RANKS, WEIGHTS, ENDS = 32, 8030261248, 2 * 128256 * 4096 + 4096
STAGES = {"pipeline": 4, "schedule": "1f1b", "micro_batches": 4}
ROTATIONS = 8192 * 64 * 2 * 4
"""Bytes of the table that DistributedDataParallel broadcasts with each forward."""


def dry_runs(python: str, line: str, cases: list[tuple[int, dict[str, Any]]]) -> list[Any]:
    """What a rank holds and sends by each of its cases."""
    jobs = []
    for rank, axes in cases:
        named: dict[str, Any] = {
            "precision": "bf16",
            "batch_size_per_device": 1,
            "strategy": "collective",
        }
        job = job_of(line, "llama", RANKS, **named, **axes)
        job["workload"]["params"] = PARAMS
        jobs.append((job, rank))
    ran = subprocess.run(
        [python, str(SCRIPTS / f"{line}_dry_run.py"), str(BENCHMARKS)],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return [json.loads(row) for row in ran.stdout.splitlines()]


def planned(line: str, axes: dict[str, Any]) -> dict[str, float]:
    """The same by the formula of `plan`, but for what is gathered within a step."""
    named = {"scale": "8b", "precision": "bf16", "batch_size_per_device": 1}
    case = Case("llama", line, Strategy.COLLECTIVE, **named, **axes)
    info = CATALOG.frameworks[line]
    held = device_bytes(case, LLAMA, shares_ends=info.shares_ends, keeps_casts=info.keeps_casts)
    assert held
    if case.shard_stage == 2:
        held["weights"] -= 2 * WEIGHTS / (case.tensor * case.pipeline)
    return held


@pytest.mark.large  # minutes
def test_trainers_in_pytorch_hold_and_send_what_is_counted(
    interpreter: Callable[[str], str],
) -> None:
    layers = WEIGHTS - ENDS
    hidden = 8 * 8192 * 4096 * 2  # Bytes for the samples of 8 devices, in bf16.
    # Rings of N ranks send (N - 1) / N; gathered in bf16, gradients summed in float32.
    alike = 2 * 4 * WEIGHTS * 31 / 32 + ROTATIONS * 31 / 32
    stepped = [
        (0, {}, alike),
        # Each parameter comes from its owner.
        (0, {"shard": 8, "shard_stage": 1}, alike + 4 * WEIGHTS * 7 / 8),
        (0, {"shard": 32, "shard_stage": 3}, (2 * WEIGHTS + 2 * layers + 4 * WEIGHTS) * 31 / 32),
        (
            0,
            {"shard": 8, "shard_stage": 2},
            (2 + 4) * WEIGHTS * 7 / 8 + 2 * 4 * WEIGHTS / 8 * 3 / 4,
        ),
        (
            0,
            {"tensor": 8, "shard": 4, "shard_stage": 3},
            (6 * WEIGHTS + 2 * layers) / 8 * 3 / 4 + (8 * 32 + 4) * hidden * 7 / 8,
        ),
    ]
    # Of 8 replicas of a stage; there and back of its 4 samples, in bf16.
    both = {**STAGES, "schedule": "zero_bubble"}
    for number, axes, handed_on in ((0, STAGES, 1), (31, STAGES, 1), (0, both, 2)):
        summed = 2 * planned("pytorch", axes)["gradients"] * 7 / 8
        stepped.append((number, axes, summed + handed_on * hidden / 2))
    cases = [(number, axes) for number, axes, _ in stepped]
    found = dry_runs(interpreter("pytorch"), "pytorch", cases)
    for (number, axes, sent), each in zip(stepped, found, strict=True):
        assert each.pop("sent") == pytest.approx(sent, rel=1e-3), axes
        expected = planned("pytorch", axes)
        kept = each.pop("activations") / expected["activations"]
        if number == 0:  # Of stages the first keeps most.
            most = 1.5 if axes.get("schedule") == "zero_bubble" else 1.3
            assert 1 <= kept <= most, (axes, kept)
        # Norms are whole on every device, and rows of what is split may not come out even.
        assert each == pytest.approx({part: expected[part] for part in each}, rel=1e-3), axes


def test_trainers_in_jax_hold_what_is_counted(interpreter: Callable[[str], str]) -> None:
    own: list[dict[str, Any]] = [
        {"shard": 32, "shard_stage": 2},
        {"shard": 8, "shard_stage": 2, "state_precision": "bf16"},
        {"tensor": 8, "shard": 4, "shard_stage": 2},
        {"tensor": 8},
        {"pipeline": 4, "schedule": "gpipe", "micro_batches": 4},
        {"pipeline": 4, "schedule": "gpipe", "micro_batches": 4, "shard": 8, "shard_stage": 2},
        {"pipeline": 4, "schedule": "gpipe", "micro_batches": 4, "shard": 8, "shard_stage": 3},
        {"tensor": 2, "pipeline": 4, "schedule": "gpipe", "micro_batches": 4},
    ]
    cases = [(0, {"compiler": "xla", **axes}) for axes in own]
    found = dry_runs(interpreter("jax"), "jax", cases)
    for (_, axes), held in zip(cases, found, strict=True):
        expected = planned("jax", axes)
        assert held == pytest.approx({part: expected[part] for part in held}, rel=1e-3), axes
