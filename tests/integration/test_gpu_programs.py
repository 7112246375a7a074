"""What a line's trainer makes for a GPU, proved where there is none: by the program, not by a run.

The environment is the GPU variant's own. That a program has its casts, its compressed gradients and
its ranks says nothing of its speed, nor that it fits: the line's GPUs stay untried.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nightbench.testkit.gangs import (
    BENCHMARKS,
    build_environment,
    free_ports,
    job_of,
    launch,
    run_gang,
)

pytestmark = [pytest.mark.framework, pytest.mark.large]

SCRIPTS = Path(__file__).parent / "scripts"
SCRIPT = SCRIPTS / "fluid_gpu_program.py"
MEGENGINE = "megengine/trainer.py"
MXNET = "mxnet/trainer.py"
PADDLE = "../apis/paddle/trainer.py"
PRODUCTS = ("conv2d", "mul", "conv2d_grad", "mul_grad")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return gpu_environment(tmp_path_factory.mktemp("gpu"), "paddle1", "cuda10")


def gpu_environment(
    folder: Path, line: str, variant: str, card: str = "Tesla V100, 450.80.02, 7.0"
) -> str:
    """An environment for GPUs, built as on a node that has one: its driver is a line of text."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho {card}\n")
    tool.chmod(0o755)
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return build_environment(folder / "envs", line, variant)


def program(
    python: str, folder: Path, trainers: int, code: Path = BENCHMARKS, **axes: Any
) -> subprocess.CompletedProcess[str]:
    """What the script prints of the last rank: trainer 0 would wait for the others' ports."""
    job = gpu_job(folder, "paddle1", trainers, **axes)
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


def gpu_job(
    folder: Path, line: str, trainers: int, workload: str = "resnet50_v1.5", **axes: Any
) -> Any:
    """A job whose trainers have a GPU each, which lies in `job.json` too."""
    job = job_of(line, workload, trainers, **axes)
    for process in job["processes"]:
        process["device"] = "0"
    names = ["master", *(process["name"] for process in job["processes"])]
    job["ports"] = {name: 20000 + number for number, name in enumerate(names)}
    (folder / "job.json").write_text(json.dumps(job))
    return job


def proved(*asked: Any, **axes: Any) -> Any:
    done = program(*asked, **axes)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def printed(python: str, script: str, *words: object) -> Any:
    """The document that one of the scripts prints last."""
    done = subprocess.run(
        [python, SCRIPTS / script, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
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


@pytest.mark.parametrize("tuning", ["nccl_comm_num_2", "hierarchical_allreduce"])
def test_the_switches_of_nccl_are_in_the_program(python: str, tmp_path: Path, tuning: str) -> None:
    axes = {"strategy": "collective", "devices_per_node": 2, "tuning": tuning}
    assert proved(python, tmp_path, 4, **axes)["modes"] == {"tuning": tuning}


def test_a_switch_of_nccl_that_is_left_out_is_seen(python: str, tmp_path: Path) -> None:
    code = broken(tmp_path, "strategy.use_hierarchical_allreduce = True", "pass")
    axes = {"strategy": "collective", "devices_per_node": 2, "tuning": "hierarchical_allreduce"}
    assert proved(python, tmp_path, 4, code, **axes)["modes"] == {"tuning": "default"}


def test_bert_is_cast_and_updated_in_float32(python: str, tmp_path: Path) -> None:
    axes = {"workload": "bert_base", "strategy": "collective", "precision": "fp16"}
    found = proved(python, tmp_path, 2, **axes)
    operators = found["operators"]
    products = ("mul", "matmul", "mul_grad", "matmul_grad")
    assert {name for op in products for name in operators[op]} == {"FP16"}
    for op in ("adam", "softmax_with_cross_entropy", "layer_norm"):
        assert operators[op] == ["FP32"]
    assert "isfinite" in operators
    assert (found["precision"], found["ranks"]) == ("fp16", 2)


def test_a_cast_that_is_left_out_is_seen(python: str, tmp_path: Path) -> None:
    code = broken(tmp_path, 'self.context.precision == "fp16"\n', "False\n")
    done = program(python, tmp_path, 2, code, strategy="collective", precision="fp16")
    assert done.returncode == 1
    assert "the case says fp16, but a probe shows that the device computes in fp32" in done.stderr


def test_a_sum_that_is_left_out_is_seen(python: str, tmp_path: Path) -> None:
    code = broken(tmp_path, "elif context.grouped:", "elif False:")
    found = proved(python, tmp_path, 2, code, strategy="collective")
    assert (found["ranks"], "gen_nccl_id" in found["operators"]) == (1, False)


def broken(folder: Path, written: str, instead: str, file: str = "paddle1/trainer.py") -> Path:
    """A copy of the benchmarks, in which a file of a line has another text in one place."""
    code = folder / "code"
    shutil.copytree(BENCHMARKS, code)
    trainer = code / "frameworks" / file
    text = trainer.read_text()
    assert text.count(written) == 1
    trainer.write_text(text.replace(written, instead))
    return code


@pytest.fixture(scope="module")
def tensorflow1(tmp_path_factory: pytest.TempPathFactory) -> str:
    return gpu_environment(tmp_path_factory.mktemp("gpu"), "tensorflow1", "cuda10")


def graph(
    python: str, folder: Path, trainers: int, code: Path = BENCHMARKS, **axes: Any
) -> dict[str, Any]:
    """What the script prints of trainer 0 of tensorflow1."""
    gpu_job(folder, "tensorflow1", trainers, strategy="collective", **axes)
    found: dict[str, Any] = printed(
        python, "tensorflow_gpu_graph.py", code, folder / "job.json", "trainer-0"
    )
    return found


def types_of_products(found: dict[str, Any]) -> set[str]:
    products = ("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "MatMul")
    return {name for op in products for name in found["types"][op]}


def test_tensorflow1_casts_products_and_scales_the_loss(tensorflow1: str, tmp_path: Path) -> None:
    fp32, fp16 = (
        graph(tensorflow1, tmp_path, 1, precision=precision) for precision in ("fp32", "fp16")
    )
    assert types_of_products(fp32) == {"float32"}
    assert types_of_products(fp16) == {"float16"}
    assert fp16["types"]["ResourceApplyMomentum"] == ["float32"]
    assert fp16["types"]["SparseSoftmaxCrossEntropyWithLogits"] == ["float32"]
    # On a CPU nothing is cast: what is left of the mode is a scale that is divided out again.
    assert fp16["losses"] == pytest.approx(fp32["losses"], rel=1e-5)
    for op in ("Conv2D", "VarHandleOp", "ResourceApplyMomentum", "ResourceGather"):
        assert fp16["placed"][op] == ["/device:GPU:0"]
    assert "CollectiveReduce" not in fp16["placed"]


def test_tensorflow1_sums_between_ranks_by_nccl(tensorflow1: str, tmp_path: Path) -> None:
    found = graph(tensorflow1, tmp_path, 2, precision="fp16")
    assert types_of_products(found) == {"float16"}
    assert found["placed"]["CollectiveReduce"] == ["/job:trainer/task:0/device:GPU:0"]
    assert found["collectives"] == {"CollectiveReduce": ["nccl"]}


def test_what_is_left_out_of_tensorflow1s_graph_is_seen(tensorflow1: str, tmp_path: Path) -> None:
    left_out = 'if case["precision"] == "fp16":', "if False:"
    code = broken(tmp_path, *left_out, "tensorflow1/runtime.py")
    assert types_of_products(graph(tensorflow1, tmp_path, 1, code, precision="fp16")) == {"float32"}
    shutil.rmtree(code)
    divided = "[gradient / scale() for gradient in self._exchanged(gradients)]", "gradients"
    code = broken(tmp_path, *divided, "tensorflow1/trainer.py")
    fp16 = graph(tensorflow1, tmp_path, 1, code, precision="fp16")
    fp32 = graph(tensorflow1, tmp_path, 1, precision="fp32")
    assert fp16["losses"][1:] != pytest.approx(fp32["losses"][1:], rel=1e-5)


@pytest.fixture(scope="module")
def paddle3(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_environment(tmp_path_factory.mktemp("paddle3"), "paddle3", "cpu")


def paddle_types(python: str, folder: Path, code: Path, *words: str, **axes: Any) -> Any:
    """What the script prints: on a CPU the program has the casts; float16 has no product there."""
    job = job_of("paddle3", "vgg16", 1, strategy="single", precision="bf16", **axes)
    job["ports"] = {"master": 20000, **{each["name"]: 20001 for each in job["processes"]}}
    (folder / "job.json").write_text(json.dumps(job))
    given = code, folder / "job.json", job["processes"][0]["name"], *words
    found = printed(python, "paddle_gpu_program.py", *given)
    return {op.removeprefix("pd_op."): types for op, types in found.items()}


def test_paddle3_casts_products_and_keeps_the_loss_in_float32(paddle3: str, tmp_path: Path) -> None:
    def types(code: Path) -> list[list[str]]:
        found = paddle_types(paddle3, tmp_path, code)
        assert found["builtin.parameter"] == ["paddle.float32"]
        return [found[op] for op in ("conv2d", "matmul", "cross_entropy_with_softmax")]

    assert types(BENCHMARKS) == [["paddle.bfloat16"], ["paddle.bfloat16"], ["paddle.float32"]]
    # Without the cast it shows.
    code = broken(tmp_path, "if dtype is None:", "if True:", PADDLE)
    assert types(code) == [["paddle.float32"]] * 3


def test_paddle3_at_level_o2_has_parameters_in_16_bits(paddle3: str, tmp_path: Path) -> None:
    def kept(code: Path) -> tuple[Any, ...]:
        found = paddle_types(paddle3, tmp_path, code, "network", tuning="amp_o2")
        return (*(found[op] for op in ("builtin.parameter", "relu")), found["multi_precision"])

    assert kept(BENCHMARKS) == (["paddle.bfloat16"], ["paddle.bfloat16"], True)
    code = broken(tmp_path, 'if self.level == "O2":', "if False:", PADDLE)
    assert kept(code) == (["paddle.float32"], ["paddle.float32"], False)


@pytest.fixture(scope="module")
def mxnet(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_environment(tmp_path_factory.mktemp("mxnet"), "mxnet", "cpu")


def mxnet_symbol(
    python: str, folder: Path, steps: int, code: Path = BENCHMARKS, **axes: Any
) -> Any:
    job = job_of("mxnet", "resnet50_v1.5", 1, strategy="single", **axes)
    job["ports"] = {"master": 20000, **{each["name"]: 20001 for each in job["processes"]}}
    (folder / "job.json").write_text(json.dumps(job))
    name = job["processes"][0]["name"]
    return printed(python, "mxnet_gpu_symbol.py", code, folder / "job.json", name, steps)


def test_mxnet_casts_products_and_has_channels_last(mxnet: str, tmp_path: Path) -> None:
    """A CPU has neither: the casts are the graph's, and all around convolutions is laid out."""
    half = mxnet_symbol(mxnet, tmp_path, 0, precision="fp16")
    full = mxnet_symbol(mxnet, tmp_path, 3, precision="fp32")
    products = ("Convolution", "FullyConnected")
    assert [half["casts"][op] for op in products] == [["float16"]] * 2
    assert [full["casts"][op] for op in products] == [[None]] * 2

    last = mxnet_symbol(mxnet, tmp_path, 3, layout="channels_last")
    assert (last["layout"], full["layout"]) == ("channels_last", "default")
    assert last["losses"] == pytest.approx(full["losses"], rel=1e-3)
    code = broken(tmp_path, 'network.LAYOUT = "NHWC"', "self.last = False", MXNET)
    assert mxnet_symbol(mxnet, tmp_path, 0, code, layout="channels_last")["layout"] == "default"


@pytest.mark.skipif(
    "avx512" not in Path("/proc/cpuinfo").read_text(), reason="needs a CPU with AVX-512"
)
def test_mxnet_scales_the_loss(mxnet: str, tmp_path: Path) -> None:
    """A CPU has no products in float16: bfloat16 takes its steps."""
    full = mxnet_symbol(mxnet, tmp_path, 3, precision="fp32")
    code = broken(tmp_path, 'dtype="float16"', 'dtype="bfloat16"', MXNET)
    half = mxnet_symbol(mxnet, tmp_path, 3, code, precision="fp16")
    assert half["losses"] == pytest.approx(full["losses"], rel=0.1)
    # Gradients that stay as large as the scaled loss made them show.
    trainer = code / "frameworks" / MXNET
    scale = "with amp.scale_loss(loss, self.trainer) as scaled:\n                    pass"
    assert scale in trainer.read_text()
    trainer.write_text(trainer.read_text().replace(scale, "scaled = loss * 2.0**16"))
    half = mxnet_symbol(mxnet, tmp_path, 3, code, precision="fp16")
    assert half["losses"] != pytest.approx(full["losses"], rel=0.1)


@pytest.mark.timeout(900)
def test_oneflow_keeps_parts_of_weights_and_states(tmp_path: Path) -> None:
    python = build_environment(tmp_path / "envs", "oneflow", "cpu")
    axes = {"strategy": "collective", "execution": "graph", "tuning": "zero"}
    job = job_of("oneflow", "resnet50_v1.5", 2, **axes)
    names = ["master", *(process["name"] for process in job["processes"])]

    def graph(code: Path = BENCHMARKS) -> Any:
        job["ports"] = dict(zip(names, free_ports(len(names)), strict=True))
        (tmp_path / "job.json").write_text(json.dumps(job))
        started = [
            subprocess.Popen(
                [python, SCRIPTS / "oneflow_gpu_graph.py", code, tmp_path / "job.json", name],
                env={**os.environ, **each["env"]},
                stdout=subprocess.PIPE,
                text=True,
            )
            for process in job["processes"]
            for each in launch("oneflow")(job, process["node"], job["ports"], python, str(code))
            if each["name"] == (name := process["name"])
        ]
        try:
            said = [each.communicate(timeout=300)[0].splitlines()[-1:] for each in started]
        finally:
            for each in started:
                each.kill()
        assert said[0] == said[1] != []
        return json.loads(said[0][0])

    whole = graph()
    assert whole["split"]
    parts = {name for name, lies in whole["kept"].items() if lies == ["S(0)"]}
    # OneFlow leaves biases and norms, of which a device would have few numbers, whole.
    convolution, norm = "model.blocks.0.conv1.0.weight", "model.blocks.0.conv1.1.bias"
    for end in ("", "-momentum"):
        assert convolution + end in parts
        assert norm + end in whole["kept"].keys() - parts
    code = broken(tmp_path, "self.config.enable_zero(True, stage=2)", "pass", "oneflow/trainer.py")
    assert not graph(code)["split"]


@pytest.fixture(scope="module")
def megengine(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_environment(tmp_path_factory.mktemp("megengine"), "megengine", "cpu")


def megengine_ranks(python: str, folder: Path, written: str, instead: str) -> set[str]:
    """Weights that two ranks end with, which begin unequal; files take the place of NCCL."""
    code = broken(folder, written, instead, MEGENGINE)
    runtime = code / "frameworks" / "megengine" / "runtime.py"
    stand_in = (SCRIPTS / "megengine_without_nccl.py").read_text()
    runtime.write_text(runtime.read_text() + stand_in)
    job = job_of("megengine", "resnet50_v1.5", 2, strategy="collective")
    ranks = run_gang(folder, job, python, seed_of=lambda rank: rank + 1, code=code)
    assert [rank["transport"] for rank in ranks] == ["nccl"] * 2
    return {rank["weights_digest"] for rank in ranks}


@pytest.mark.timeout(900)
def test_megengine_sums_gradients_between_ranks(megengine: str, tmp_path: Path) -> None:
    for folder in (tmp_path / "whole", tmp_path / "broken"):
        folder.mkdir()
    attached = "self.model.parameters(), exchange)"
    assert len(megengine_ranks(megengine, tmp_path / "whole", attached, attached)) == 1
    alone = "self.model.parameters())"
    assert len(megengine_ranks(megengine, tmp_path / "broken", attached, alone)) == 2


@pytest.mark.timeout(900)
def test_megengine_casts_products_and_scales_the_loss(megengine: str, tmp_path: Path) -> None:
    def found(steps: int, precision: str, code: Path = BENCHMARKS) -> Any:
        job = gpu_job(tmp_path, "megengine", 1, strategy="single", precision=precision)
        name = job["processes"][0]["name"]
        return printed(
            megengine, "megengine_gpu_types.py", code, tmp_path / "job.json", name, steps
        )

    half, full = found(0, "fp16"), found(3, "fp32")
    assert half["types"] == {"Conv2d": ["float16"], "Linear": ["float16"]}
    assert (half["loss"], half["weights"]) == ("float32", ["float32"])
    assert full["types"] == {"Conv2d": ["float32"], "Linear": ["float32"]}
    # Without casts what is left of the mode is a scale, a power of two, that is divided out again.
    code = broken(tmp_path, "enabled=self.scaler is not None", "enabled=False", MEGENGINE)
    assert found(3, "fp16", code)["losses"] == full["losses"]
    trainer = code / "frameworks" / MEGENGINE
    scaled = "self.scaler.backward(self.gradients, loss)"
    assert scaled in trainer.read_text()
    trainer.write_text(trainer.read_text().replace(scaled, scaled[:-1] + ", unscale_grad=False)"))
    assert found(3, "fp16", code)["losses"][1:] != full["losses"][1:]


@pytest.mark.timeout(900)
def test_paddle2_sends_copies_on_the_cpu_to_servers(tmp_path: Path) -> None:
    """The way of a GPU's gradients and weights, gone on a CPU with a real server."""
    python = build_environment(tmp_path / "envs", "paddle2", "cpu")
    axes = {"strategy": "parameter_server", "sync": "async", "batch_size_per_device": 64}
    job = job_of("paddle2", "ctr_dnn", 1, 1, **axes)
    job["protocol"] = {"warmup_steps": 5, "measured_steps": 200, "min_seconds": 0.0}
    for process in job["processes"]:
        process["device"] = "0" if process["measured"] else None

    def trained(folder: Path, written: str, instead: str) -> Any:
        folder.mkdir()
        code = broken(folder, written, instead, "paddle2/trainer.py")
        runtime = code / "frameworks" / "paddle2" / "runtime.py"
        stand_in = (SCRIPTS / "paddle_without_gpu.py").read_text()
        runtime.write_text(runtime.read_text() + stand_in)
        (rank,) = run_gang(folder, job, python, code=code)
        return rank

    copied = "rename(name, copy.name)"
    rank = trained(tmp_path / "whole", copied, copied)
    window = rank["loss"]["window"]
    assert sum(window[-20:]) / 20 < 0.9 * rank["loss"]["first"]
    with pytest.raises(AssertionError, match="gradients are sent from a GPU"):
        trained(tmp_path / "sent", copied, "pass")
    # Weights that are not fetched into the GPU's memory stay as they were.
    fetched = "if scope is not own:"
    stale = trained(tmp_path / "stale", fetched, "if False:")["loss"]["window"]
    assert sum(stale[-20:]) / 20 > 0.9 * rank["loss"]["first"]


def test_processes_of_two_nodes_reduce_together(tmp_path: Path) -> None:
    """The control between GPUs of several nodes, over gloo: NCCL needs a device."""
    python = build_environment(tmp_path / "envs", "pytorch")
    argv = [python, str(BENCHMARKS / "frameworks/pytorch/controls.py"), "3", "--device", "cpu"]
    argv += ["--copy-bytes", "1000000", "--world", "2", "--listen-range", "23800-23899", "--rank"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    nodes = [subprocess.Popen([*argv, str(rank)], **pipes) for rank in (0, 1, 0)]
    ports = [json.loads(node.stdout.readline())["port"] for node in nodes]
    for node, of_first in zip(nodes, (ports[0], ports[0], ports[2]), strict=True):
        node.stdin.write(json.dumps([f"127.0.0.1:{of_first}", "127.0.0.1:0"]) + "\n")
        node.stdin.flush()
    *nodes, alone = nodes
    # Nobody meets it, and its controller goes: it does not wait for others any more.
    alone.communicate(timeout=60)
    assert alone.returncode == -signal.SIGKILL
    said = [json.loads(node.stdout.readline()) for node in nodes]
    for node in nodes:
        node.communicate(timeout=60)
        assert node.returncode == 0
    assert said[0] == said[1]
    assert (said[0]["bytes"], said[0]["backend"], len(said[0]["seconds"])) == (1000000, "gloo", 3)
    assert min(said[0]["seconds"]) > 0
