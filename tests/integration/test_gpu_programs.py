"""What a line's trainer makes for a GPU, proved where there is none: by the program, not by a run.

The environment is the GPU variant's own. That a program has its casts, its compressed gradients and
its ranks says nothing of its speed, nor that it fits: the line's GPUs stay untried.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nightbench.testkit.gangs import BENCHMARKS, build_environment, job_of, launch

pytestmark = [pytest.mark.framework, pytest.mark.large]

SCRIPTS = Path(__file__).parent / "scripts"
SCRIPT = SCRIPTS / "fluid_gpu_program.py"
PRODUCTS = ("conv2d", "mul", "conv2d_grad", "mul_grad")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment for GPUs, built as on a node that has one: its driver is a line of text."""
    folder = tmp_path_factory.mktemp("gpu")
    tool = folder / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho Tesla V100, 450.80.02, 7.0\n")
    tool.chmod(0o755)
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return build_environment(folder / "envs", "paddle1", "cuda10")


def program(
    python: str, folder: Path, trainers: int, code: Path = BENCHMARKS, **axes: Any
) -> subprocess.CompletedProcess[str]:
    """What the script prints of the last rank: trainer 0 would wait for the others' ports."""
    job = job_of("paddle1", "resnet50_v1.5", trainers, **axes)
    for process in job["processes"]:
        process["device"] = "0"
    names = ["master", *(process["name"] for process in job["processes"])]
    job["ports"] = {name: 20000 + number for number, name in enumerate(names)}
    (folder / "job.json").write_text(json.dumps(job))
    last = job["processes"][-1]
    (started,) = launch("paddle1")(job, last["node"], job["ports"], python, str(code))
    return subprocess.run(
        [python, str(SCRIPT), str(code), str(folder / "job.json"), last["name"]],
        env={**os.environ, **started["env"]},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def proved(*asked: Any, **axes: Any) -> Any:
    done = program(*asked, **axes)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("trainers", [1, 2])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_products_have_the_precision_of_the_case(
    python: str, tmp_path: Path, trainers: int, precision: str
) -> None:
    found = proved(python, tmp_path, trainers, strategy="collective", precision=precision)
    operators = found["operators"]
    assert {name for op in PRODUCTS for name in operators[op]} == {precision.upper()}
    # Weights are updated in float32, and the loss scale moves with what overflows.
    assert operators["momentum"] == ["FP32"]
    assert ("isfinite" in operators) is (precision == "fp16")
    assert found["precision"] == precision
    assert found["ranks"] == trainers
    assert ("gen_nccl_id" in operators) is (trainers > 1)


def test_gradients_are_compressed(python: str, tmp_path: Path) -> None:
    operators = proved(python, tmp_path, 2, strategy="collective", compression="dgc")["operators"]
    assert {"dgc", "dgc_momentum"} <= set(operators)


def test_a_cast_that_is_left_out_is_seen(python: str, tmp_path: Path) -> None:
    code = broken(tmp_path, 'self.context.precision == "fp16"\n', "False\n")
    done = program(python, tmp_path, 2, code, strategy="collective", precision="fp16")
    assert done.returncode == 1
    assert "the case says fp16, but a probe shows that the device computes in fp32" in done.stderr


def test_a_sum_that_is_left_out_is_seen(python: str, tmp_path: Path) -> None:
    code = broken(tmp_path, "elif context.grouped:", "elif False:")
    found = proved(python, tmp_path, 2, code, strategy="collective")
    assert (found["ranks"], "gen_nccl_id" in found["operators"]) == (1, False)


def broken(folder: Path, written: str, instead: str) -> Path:
    """A copy of the benchmarks whose trainer has another text in one place."""
    code = folder / "code"
    shutil.copytree(BENCHMARKS, code)
    trainer = code / "frameworks" / "paddle1" / "trainer.py"
    text = trainer.read_text()
    assert text.count(written) == 1
    trainer.write_text(text.replace(written, instead))
    return code


def test_paddle3_casts_products_and_keeps_the_loss_in_float32(tmp_path: Path) -> None:
    """On a CPU the program that it traces has the casts; float16 has no product there to trace."""
    python = build_environment(tmp_path / "envs", "paddle3", "cpu")
    job = job_of("paddle3", "vgg16", 1, strategy="single", precision="bf16")
    job["ports"] = {"master": 20000, **{each["name"]: 20001 for each in job["processes"]}}
    (tmp_path / "job.json").write_text(json.dumps(job))

    def types(code: Path) -> dict[str, list[str]]:
        words = [str(SCRIPTS / "paddle_gpu_program.py"), str(code), str(tmp_path / "job.json")]
        done = subprocess.run(
            [python, *words, job["processes"][0]["name"]],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        return {
            op: found[f"pd_op.{op}"] for op in ("conv2d", "matmul", "cross_entropy_with_softmax")
        }

    found = types(BENCHMARKS)
    assert [*found.values()] == [["paddle.bfloat16"], ["paddle.bfloat16"], ["paddle.float32"]]
    # Without the cast it shows.
    broken = tmp_path / "code"
    shutil.copytree(BENCHMARKS, broken)
    trainer = broken / "apis" / "paddle" / "trainer.py"
    text = trainer.read_text()
    cast = "with self.autocast():\n            return"
    assert cast in text
    trainer.write_text(text.replace(cast, "if True:\n            return"))
    assert {kind for kinds in types(broken).values() for kind in kinds} == {"paddle.float32"}
