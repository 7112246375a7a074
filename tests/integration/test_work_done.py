"""The FLOPs that trainers count of their own steps are their model's, for the whole of a batch."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.broken_lines import HALF_A_BATCH, HALF_A_BATCH_WITH_SERVERS, broken

from nightbench.config import load_catalog
from nightbench.core.model import Case, Strategy
from nightbench.core.model_flops import step_flops_per_unit
from nightbench.testkit.gangs import BENCHMARKS, job_of, refused, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).parent / "scripts" / "counted_steps.py"
SLOW, LARGE = pytest.mark.slow, pytest.mark.large
TOLERANCE = 0.002
"""A tenth of the check's: of VGG's first convolution the gradient of images is not computed."""


@pytest.mark.parametrize("line", [
    pytest.param("pytorch", marks=SLOW),
    pytest.param("jax", marks=SLOW),
    pytest.param("paddle3", marks=LARGE),
    pytest.param("tensorflow2", marks=LARGE),
    pytest.param("tensorflow1", marks=LARGE),
    pytest.param("paddle1", marks=LARGE),
])  # fmt: skip
def test_formulas_are_what_a_line_counts(line: str, interpreter: Callable[[str], str]) -> None:
    """Of every workload that has a model for the line and states products."""
    workloads = load_catalog().workloads
    model = {
        name: flops
        for name, each in workloads.items()
        if line in each.frameworks and each.cost
        if (flops := step_flops_per_unit(
            each, each.params_of(Case(name, line, Strategy.SINGLE, scale="smoke"))
        ))
    }  # fmt: skip
    argv = [interpreter(line), str(SCRIPT), str(BENCHMARKS), line, *model]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    counted = json.loads(done.stdout.splitlines()[-1])
    ratios = {name: flops / units / model[name] for name, (flops, units) in counted.items()}
    assert len(ratios) > 3
    assert all(abs(ratio - 1) < TOLERANCE for ratio in ratios.values()), ratios


def test_a_compiled_step_is_compiled_after_it_was_counted(
    interpreter: Callable[[str], str],
) -> None:
    argv = [interpreter("pytorch"), str(SCRIPT.with_name("compiled_steps.py")), str(BENCHMARKS)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    before, afterwards, flops = json.loads(done.stdout.splitlines()[-1])
    assert before > 0
    assert afterwards == before
    assert flops > 0


def cells() -> list[object]:
    """Three workloads of each line; the first belongs before a commit."""
    found = []
    for line in HALF_A_BATCH:
        for workload in ("simnet_bow", "gpt2", "resnet50_v1.5"):
            if line not in load_catalog().workloads[workload].frameworks:
                continue
            first = (line, workload) == ("pytorch", "simnet_bow")
            marks = () if first else SLOW if line in ("pytorch", "jax") else LARGE
            found.append(pytest.param(line, workload, id=f"{line}-{workload}", marks=marks))
    return found


@pytest.mark.parametrize(("line", "workload"), cells())
def test_half_of_each_batch_is_refused(
    line: str, workload: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    """Forward and backward of half of each batch, while all of its samples are counted."""
    job = job_of(line, workload, trainers=1, strategy="single", batch_size_per_device=4)
    broken_code = broken(tmp_path, line, HALF_A_BATCH[line])
    _expect_half(job, broken_code, interpreter(line), tmp_path)


@pytest.mark.parametrize("line", [
    pytest.param("paddle2", marks=SLOW),
    pytest.param("paddle1", marks=LARGE),
    pytest.param("tensorflow2", marks=LARGE),
])  # fmt: skip
def test_half_of_each_batch_is_refused_with_servers(
    line: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    axes = {"strategy": "parameter_server", "sync": "async", "batch_size_per_device": 4}
    job = job_of(line, "ctr_dnn", trainers=2, pservers=1, **axes)
    # A window of fewer steps moves no tensor of PaddlePaddle 2.
    job["protocol"] = {"warmup_steps": 1, "measured_steps": 60, "min_seconds": 0}
    broken_code = broken(tmp_path, line, HALF_A_BATCH_WITH_SERVERS[line])
    _expect_half(job, broken_code, interpreter(line), tmp_path)


def _expect_half(job: Any, broken_code: Path, python: str, folder: Path) -> None:
    found = {}
    for name, code in (("whole", BENCHMARKS), ("half", broken_code)):
        (folder / name).mkdir()
        found[name] = refused(job, run_gang(folder / name, job, python, code=code)).get("work_done")
    assert found["whole"] is None
    assert "-0: 50.0%" in (found["half"] or "")


@pytest.mark.parametrize("line", [
    pytest.param("pytorch", marks=SLOW),
    pytest.param("jax", marks=SLOW),
    pytest.param("tensorflow2", marks=LARGE),
])  # fmt: skip
def test_updates_that_a_loss_scale_skips_are_counted(
    line: str, interpreter: Callable[[str], str]
) -> None:
    script = SCRIPT.with_name("skipped_updates.py")
    argv = [interpreter(line), str(script), str(BENCHMARKS), line]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    stated, skipped = json.loads(done.stdout.splitlines()[-1])
    assert stated == skipped > 0
