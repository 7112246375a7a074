"""A mode that silently runs as another, or computes something else, is refused by its own check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.broken_lines import broken
from tests.performance.lines import Loop, loop_of

from nightbench.testkit.gangs import BENCHMARKS, job_of, refused, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.timeout(900)]

COMPILED, LAST = {"compiler": "inductor"}, {"layout": "channels_last"}
GRAPH = {"framework": "paddle3", "execution": "graph"}
MERGED = {"framework": "paddle3", "tuning": "optimizer_multi_tensor"}
FUSED = {"framework": "oneflow", "execution": "graph"}
UNFUSED = ("(name == tuning)", "(False)")
MADE_OF_LOSS = "torch.compile(self.loss, **tuning.COMPILE.get(self.tuning, {}))"
BACKWARD = "        self.scaler.scale(loss).backward()\n"
LEFT_OUT = BACKWARD.replace("(loss)", "(loss / 2)")
EXPERTS = "        if context.devices_of_experts > 1:\n            from"
REPLICAS = EXPERTS.replace("context.devices_of_experts > 1", "False")
RANKS = {"trainers": 2, "strategy": "collective"}
SPLIT = {**RANKS, "expert": 2}
TUNED = {**RANKS, "tuning": "ddp_powersgd"}
UNTUNED = ("tuning.replicated(self.model, self.tuning", 'tuning.replicated(self.model, "default"')
MADE = "        self.model = network.model(params)\n"
CONTIGUOUS = f"""{MADE}        self.model.register_forward_pre_hook(
            lambda model, given: [
                x.contiguous() for x in given if model.to(memory_format=torch.contiguous_format)
            ][0]
        )
"""


@pytest.mark.parametrize(
    ("workload", "axes", "breakage", "expected"),
    [
        pytest.param("gpt2", COMPILED, None, set(), id="compiled", marks=pytest.mark.large),
        pytest.param(
            "gpt2", COMPILED, (MADE_OF_LOSS, "self.loss"), {"mode_used"}, id="not compiled",
        ),
        pytest.param(
            "resnet50_v1.5", LAST, (MADE, CONTIGUOUS), {"mode_used"},
            id="layout ignored",
        ),
        pytest.param(
            "mixtral", SPLIT, (EXPERTS, REPLICAS), {"mode_used"}, id="experts replicated"
        ),
        pytest.param("gpt2", TUNED, None, set(), id="tuned"),
        pytest.param("gpt2", TUNED, UNTUNED, {"mode_used"}, id="gradients sent whole"),
        pytest.param(
            "vgg16_cifar", {**LAST, "framework": "paddle3"},
            ('self.last = context.case["layout"] == "channels_last"', "self.last = False"),
            {"mode_used"}, id="layout ignored by PaddlePaddle", marks=pytest.mark.large,
        ),
        pytest.param("vgg16_cifar", {**GRAPH, **LAST}, None, set(), id="a graph, channels last"),
        pytest.param(
            "vgg16_cifar", GRAPH, ("full_graph=True)", "full_graph=True) and None"), {"mode_used"},
            id="no graph",
        ),
        pytest.param("vgg16_cifar", MERGED, None, set(), id="one update of all"),
        pytest.param(
            "vgg16_cifar", MERGED, ('switches["use_multi_tensor"] = True', "pass"), {"mode_used"},
            id="updates one by one",
        ),
        *(
            pytest.param(
                "resnet50_v1.5", {**FUSED, "tuning": tuning}, breakage, expected,
                id=f"{tuning}{' left out' * bool(breakage)}", marks=pytest.mark.large,
            )
            for tuning in ("fuse_model_update_ops", "fuse_add_to_output")
            for breakage, expected in ((None, set()), (UNFUSED, {"mode_used"}))
        ),
        *(
            pytest.param(
                "vgg16_cifar", {**LAST, "framework": "oneflow", "execution": execution},
                ('self.last = context.case["layout"] == "channels_last"', "self.last = False"),
                {"mode_used"}, id=f"layout ignored, {execution}", marks=pytest.mark.large,
            )
            for execution in ("default", "graph")
        ),
        pytest.param(
            "simnet_bow", {}, (BACKWARD, LEFT_OUT), {"losses_of_reference"}, id="half a gradient"
        ),
    ],
)  # fmt: skip
def test_what_a_mode_really_does(
    workload: str,
    axes: dict[str, Any],
    breakage: tuple[str, str] | None,
    expected: set[str],
    interpreter: Callable[[str], str],
    tmp_path: Path,
) -> None:
    axes = {"trainers": 1, "strategy": "single", "batch_size_per_device": 8, **axes}
    line = axes.pop("framework", "pytorch")
    code = broken(tmp_path, line, breakage) if breakage else BENCHMARKS
    job = job_of(line, workload, code=code, **axes)
    job["protocol"] |= {"warmup_steps": 2, "min_seconds": 0.0}
    ranks = run_gang(tmp_path, job, interpreter(line), code=code)
    assert set(refused(job, ranks)) == expected


def test_the_different_rows_of_sparse_gradients_are_what_is_sent(
    interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    job = job_of(
        "pytorch", "simnet_bow", batch_size_per_device=8, tuning="optimizer_for_loop", **RANKS
    )
    ranks = run_gang(tmp_path, job, interpreter("pytorch"))
    assert refused(job, ranks) == {}
    dense, row = 4 * 2 * (32 * 32 + 32), 8 + 4 * 32  # two layers, of which a ring sends all once
    for rank in ranks:
        rows, rest = divmod(rank["sent_bytes_per_step"] - dense, row)
        assert rest == 0
        assert 50 < rows < 8 * (10 + 2 * 20) * 0.8, "words of a batch repeat themselves"


@pytest.mark.parametrize(
    ("line", "workload", "axes"),
    [
        ("pytorch", "mixtral", {}),
        ("paddle2", "resnet50_v1.5", {"execution": "graph", "layout": "channels_last"}),
    ],
)
def test_a_reference_training_loop_trains(
    line: str, workload: str, axes: dict[str, Any], interpreter: Callable[[str], str]
) -> None:
    job = job_of(line, workload, trainers=1, strategy="single", **axes)
    script = loop_of(line)
    assert script is not None
    with Loop(interpreter(line), script, job) as loop:
        loop.seconds_of(1)
        first = loop.loss
        loop.seconds_of(5)
        assert loop.loss is not None
        assert first is not None
        assert loop.loss < first < 20, "not a number where weights were no one's"
