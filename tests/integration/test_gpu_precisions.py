"""The precisions of a line's GPUs, proved where there is none: by the types of a step's operators.

As test_gpu_programs.py, for the lines whose own wheels show it: each precision's step is traced by
the line's trainer, and run on nothing. A process traces several cases; a copy of the trainer with
its casts left out shows that they would be missed.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_gpu_programs import gpu_environment
from tests.shipped import shipped

from nightbench.testkit.gangs import BENCHMARKS, job_of, refused, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPTS = Path(__file__).parent / "scripts"


def traced(
    python: str,
    folder: Path,
    script: str,
    code: Path,
    *cases: dict[str, Any],
    words: Sequence[str] = (),
) -> list[Any]:
    """What a script prints of each case's trainer: a line of JSON."""
    jobs = []
    for number, axes in enumerate(cases):
        job = job_of(**{"trainers": 1, "strategy": "single", **axes})
        job["ports"] = {"master": 20000, **{each["name"]: 20001 for each in job["processes"]}}
        jobs.append(folder / f"job-{number}.json")
        jobs[-1].write_text(json.dumps(job))
    done = subprocess.run(
        [python, SCRIPTS / script, code, *jobs, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def without(folder: Path, file: str, *breakages: tuple[str, str]) -> Path:
    """A copy of the benchmarks, in which a file below frameworks/ has other texts."""
    code = shipped(folder)
    path = code / "frameworks" / file
    text = path.read_text()
    for written, instead in breakages:
        assert text.count(written) == 1
        text = text.replace(written, instead)
    path.write_text(text)
    return code


def test_jax_asks_for_the_precision_of_the_case(
    interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    def found(code: Path, *precisions: str) -> list[Any]:
        case = {"line": "jax", "workload": "resnet50_v1.5"}
        cases = [{**case, "precision": each} for each in precisions]
        return traced(interpreter("jax"), tmp_path, "jax_gpu_program.py", code, *cases)

    def products(program: Any) -> list[str]:
        of = program["products"]
        return [*of["convolution"], *of["dot_general"]]

    fp32, tf32, bf16, fp16 = found(BENCHMARKS, "fp32", "tf32", "bf16", "fp16")
    # JAX reads HIGH as TF32 on a GPU, and takes TF32 by default too: only HIGHEST is float32.
    assert products(fp32) == ["f32 f32 f32 HIGHEST"] * 2
    assert products(tf32) == ["f32 f32 f32 HIGH"] * 2
    assert products(bf16) == ["bf16 bf16 bf16 DEFAULT"] * 2
    assert products(fp16) == ["f16 f16 f16 DEFAULT"] * 2
    for each in (fp32, tf32, bf16, fp16):
        # Weights are updated in float32, and the loss is a sum in float32.
        assert {tuple(each["state"][name]) for name in ("weights", "slots")} == {("float32",)}
        assert each["state"]["loss"] == "float32"
        assert ("loss_scale" in each["state"]) is (each is fp16)
    cast = "x.astype(dtype) if x.dtype == jnp.float32 else x"
    asked = '"tf32": "tensorfloat32"'
    code = without(tmp_path, "jax/trainer.py", (cast, "x"), (asked, '"tf32": "highest"'))
    tf32, bf16 = found(code, "tf32", "bf16")
    assert products(tf32) == ["f32 f32 f32 HIGHEST"] * 2
    assert products(bf16) == ["f32 f32 f32 DEFAULT"] * 2


@pytest.mark.large
def test_tensorflow2_computes_in_the_precision_of_the_case(
    interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    def found(code: Path, *modes: tuple[str, str]) -> list[Any]:
        case = {"line": "tensorflow2", "workload": "vgg16_cifar"}
        cases = [{**case, "precision": each, "compiler": compiler} for each, compiler in modes]
        return traced(
            interpreter("tensorflow2"), tmp_path, "tensorflow2_gpu_graph.py", code, *cases
        )

    def products(graph: Any) -> set[str]:
        forward = ("Conv2D", "MatMul")
        backward = ("Conv2DBackpropInput", "Conv2DBackpropFilter")
        return {name for op in (*forward, *backward) for name in graph["types"][op]}

    modes = ("fp32", "none"), ("tf32", "none"), ("bf16", "xla"), ("fp16", "xla")
    fp32, tf32, bf16, fp16 = found(BENCHMARKS, *modes)
    named = {"bfloat16": bf16, "float16": fp16, "float32": fp32}
    for name, graph in {**named, "TF32": tf32}.items():
        assert products(graph) == {name if graph is not tf32 else "float32"}
        # Weights are updated in float32, in which the loss is computed too.
        for op in ("ResourceApplyAdam", "SparseSoftmaxCrossEntropyWithLogits"):
            assert graph["types"][op] == ["float32"]
        assert graph["tf32"] is (graph is tf32)
        assert ("IsFinite" in graph["types"]) is (graph is fp16)
        assert graph["compiled"] == (["_train"] if graph in (bf16, fp16) else [])
    code = without(
        tmp_path,
        "tensorflow2/trainer.py",
        ("TYPES.get(context.precision, tf.float32)", "tf.float32"),
        ('context.precision == "tf32")', "False)"),
        ("jit_compile=xla and whole", "jit_compile=False"),
    )
    tf32, bf16 = found(code, *modes[1:3])
    assert products(bf16) == {"float32"}
    assert bf16["compiled"] == []
    assert not tf32["tf32"]


@pytest.fixture
def pytorch(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PyTorch for CUDA: tensors without values may lie on a GPU that is not there."""
    with pytest.MonkeyPatch.context() as changed:
        # A folder of wheels may hold the one for CPUs alone, which has the same version.
        changed.setenv("PIP_CONFIG_FILE", os.devnull)
        for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
            changed.delenv(name, raising=False)
        card = "NVIDIA H100, 590.48.01, 9.0"
        return gpu_environment(tmp_path_factory.mktemp("gpu"), "pytorch", "cuda13", card)


@pytest.mark.large
def test_pytorch_computes_in_the_modes_of_the_case(pytorch: str, tmp_path: Path) -> None:
    def found(code: Path, *modes: dict[str, str]) -> list[Any]:
        cases = [{"line": "pytorch", "workload": "vgg16_cifar", **each} for each in modes]
        return traced(pytorch, tmp_path, "pytorch_gpu_program.py", code, *cases)

    def products(step: Any) -> set[str]:
        of = ("convolution", "convolution_backward", "addmm", "mm")
        return {name for op in of for name in step["types"]["aten::" + op]}

    precisions = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
    steps = found(BENCHMARKS, *({"precision": each} for each in precisions))
    for (name, dtype), step in zip(precisions.items(), steps, strict=True):
        assert products(step) == {dtype}
        # Weights are updated in float32, and the loss is a mean in float32.
        for op in ("_fused_adam_", "nll_loss_forward"):
            assert step["types"]["aten::" + op] == ["float32"]
        assert step["tf32"] == [name == "tf32"]
        unscaled = "aten::_amp_foreach_non_finite_check_and_unscale_"
        assert (unscaled in step["types"]) is (name == "fp16")
    last = {"precision": "fp32", "layout": "channels_last"}
    gpt2 = {"workload": "gpt2", "precision": "bf16"}
    kernels = ("sdpa_math", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn")
    updates = ("optimizer_fused", "optimizer_foreach", "optimizer_for_loop")
    tuned = [{**gpt2, "tuning": each} for each in (*kernels, *updates)]
    modes = [step["modes"] for step in found(BENCHMARKS, last, *tuned)]
    assert modes[0] == {"layout": "channels_last"}
    assert modes[1:] == [{"tuning": each["tuning"]} for each in tuned]
    code = without(
        tmp_path,
        "pytorch/trainer.py",
        ("AUTOCAST.get(self.context.precision)", "None"),
        ('context.precision == "tf32"', "False"),
        ("layout = torch.channels_last\n", "pass\n"),
        ("memory_format=layouts[name], copy", "copy"),
        ("ATTENTION[self.tuning]", 'ATTENTION["sdpa_math"]'),
        (
            "make(self.model.parameters(), params, **updates)",
            "make(self.model.parameters(), params)",
        ),
    )
    bf16, tf32, *others = found(
        code, {"precision": "bf16"}, {"precision": "tf32"}, last, tuned[1], tuned[5]
    )
    assert (products(bf16), tf32["tf32"]) == ({"float32"}, [False])
    assert [step["modes"] for step in others] == [{"layout": "default"}] + [
        {"tuning": "default"}
    ] * 2


def test_pytorch_exchanges_gradients_in_bf16(
    interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    """The hook that PyTorch keeps for NCCL, over gloo: it is told that there is an NCCL."""

    def outside(folder: Path, tuning: str) -> set[str]:
        folder.mkdir()
        written = "tuning.replicated(self.model, self.tuning,"
        instead = f"tuning.replicated(self.model, {tuning},"
        code = without(folder, "pytorch/trainer.py", (written, instead))
        with (code / "frameworks" / "pytorch" / "runtime.py").open("a") as runtime:
            runtime.write('torch.version.cuda = "13.0"\n')
            runtime.write("dist.is_nccl_available = lambda: True\n")
            runtime.write("torch.cuda.nccl.version = lambda: (2, 27)\n")
        axes = {"strategy": "collective", "tuning": "ddp_bf16"}
        job = job_of("pytorch", "gpt2", 2, code=code, **axes)
        return set(refused(job, run_gang(folder, job, interpreter("pytorch"), code=code)))

    assert outside(tmp_path / "whole", "self.tuning") == set()
    assert outside(tmp_path / "broken", '"default"') == {"mode_used"}


def test_tensorflow1_has_xla_compile_what_lies_on_gpus(
    interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    def found(code: Path, *compilers: str) -> list[Any]:
        case = {"line": "tensorflow1", "workload": "simnet_bow"}
        cases = [{**case, "compiler": each} for each in compilers]
        python = interpreter("tensorflow1")
        steps = traced(python, tmp_path, "tensorflow_xla_clusters.py", code, *cases)
        return [step["operators"] for step in steps]

    assert found(BENCHMARKS, "xla", "none") == [["_XlaCompile", "_XlaRun"], []]
    left_out = 'if case["compiler"] == "xla":', "if False:"
    assert found(without(tmp_path, "tensorflow1/runtime.py", left_out), "xla") == [[]]


def test_paddle3_casts_to_float16(interpreter: Callable[[str], str], tmp_path: Path) -> None:
    """Its wheel for CPUs refuses the first product, and says what it was given."""
    case = {"line": "paddle3", "workload": "vgg16_cifar", "precision": "fp16"}
    script, word = "paddle_gpu_program.py", "trainer-0"
    with pytest.raises(AssertionError, match=r"op: conv2d, .*input\.dtype: float16"):
        traced(interpreter("paddle3"), tmp_path, script, BENCHMARKS, case, words=[word])
