"""What is computed again in a backward pass by `recompute`, and what PyTorch keeps until then."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nightbench.config import load_catalog
from nightbench.core.model import Case, Strategy
from nightbench.core.model_memory import device_bytes, kept_bytes
from nightbench.testkit.gangs import BENCHMARKS, job_of, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.timeout(600)]

COUNT = """
import json
from collections import Counter
from types import SimpleNamespace

import torch
from frameworks.pytorch.trainer import Trainer
from torch.utils._python_dispatch import TorchDispatchMode
from workloads.llama import pytorch as network


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.seen[str(operator.overloadpacket)] += 1
        return operator(*args, **(kwargs or {}))


params = json.load(open("workloads/llama/spec.json"))["scales"]["smoke"]
found = {}
for recompute in ("none", "selective", "full"):
    torch.manual_seed(0)
    model = network.model(params)
    rank = SimpleNamespace(model=model, context=SimpleNamespace(shards="layers"))
    if recompute != "none":
        Trainer._recompute(rank, recompute)
    torch.manual_seed(1)
    words = params["vocabulary"]
    batch = {name: torch.randint(0, words, (2, 128)) for name in ("tokens", "labels")}
    loss = network.loss(model, batch)
    with Operators() as operators:
        loss.backward()
    gradients = sum(float(weight.grad.double().abs().sum()) for weight in model.parameters())
    found[recompute] = {**operators.seen, "loss": loss.item(), "gradients": gradients}
print(json.dumps(found))
"""
KEPT = """
import importlib
import json
import sys
from types import SimpleNamespace

import torch
from frameworks.pytorch.trainer import Trainer
from torch.distributed._tools.mem_tracker import MemTracker

(workload,) = sys.argv[1:]
network = importlib.import_module(f"workloads.{workload}.pytorch")
params = json.load(open(f"workloads/{workload}/spec.json"))["scales"]["smoke"]
shape = (8, params["sequence_length"])
found = {}
for precision in ("fp32", "bf16"):
    for recompute in ("none", "selective", "full"):
        model = network.model(params)
        for weight in model.parameters():
            if weight.ndim == 3:  # Matrices of experts, which trainers alone initialise.
                torch.nn.init.normal_(weight, std=0.02)
        rank = SimpleNamespace(model=model, context=SimpleNamespace(shards="layers"))
        if recompute != "none":
            Trainer._recompute(rank, recompute)
        batch = {name: torch.randint(0, 9, shape) for name in ("tokens", "labels")}
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        network.loss(model, batch).backward()
        optimizer.step()  # The step below has states from its begin.
        optimizer.zero_grad(set_to_none=True)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                loss = network.loss(model, batch)
            loss.backward()
            optimizer.step()
        (peak,) = tracker.get_tracker_snapshot("peak").values()
        sizes = {str(kind).rpartition(".")[2]: size for kind, size in peak.items()}
        found[f"{precision} {recompute}"] = sizes
print(json.dumps(found))
"""
AGAIN = """
import json
from types import SimpleNamespace

import paddle
from frameworks.paddle3.trainer import recompute_layers
from workloads.llama.paddle import _network as network

params = json.load(open("workloads/llama/spec.json"))["scales"]["smoke"]
paddle.seed(0)
model = network.model(params)
batch = {name: paddle.randint(0, params["vocabulary"], [2, 128]) for name in ("tokens", "labels")}
own, calls = network.rotate, []
network.rotate = lambda *given: (calls.append(1), own(*given))[1]
found = {}
for recompute in ("none", "full"):
    if recompute == "full":
        recompute_layers(model.layers)
    loss = network.loss(model, batch)
    calls.clear()
    loss.backward()
    gradients = sum(float(weight.grad.abs().sum()) for weight in model.parameters())
    found[recompute] = {"rotations": len(calls), "loss": loss.item(), "gradients": gradients}
    model.clear_gradients()
print(json.dumps(found))
"""
MATRICES = 7
"""Of a layer: query, key, value, attended, gate, widen, narrow."""
LAYERS = 2


def printed(python: str, program: str, *words: str) -> dict[str, Any]:
    ran = subprocess.run(
        [python, "-c", program, *words],
        cwd=BENCHMARKS,
        env={"PYTHONPATH": str(BENCHMARKS), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return dict(json.loads(ran.stdout))


@pytest.mark.parametrize(
    ("workload", "precision", "most"),
    [
        ("llama", "fp32", 1.2),
        ("mixtral", "fp32", 1.2),
        pytest.param("llama", "bf16", 1.25, marks=pytest.mark.large),
        pytest.param("mixtral", "bf16", 1.5, marks=pytest.mark.large),
    ],
)
def test_layers_keep_what_the_plan_counts_at_least(
    interpreter: Callable[[str], str], workload: str, precision: str, most: float
) -> None:
    """In bf16 norms stay in float32, which the plan does not count.

    A step's peak is at the begin of its backward: gradients are not there yet, but those of logits
    are, twice, which the plan does not count either.
    """
    peaks = printed(interpreter("pytorch"), KEPT, workload)
    info = load_catalog(BENCHMARKS).workloads[workload]
    single = Case(workload, "pytorch", Strategy.SINGLE, scale="smoke", precision=precision)
    for recompute in ("none", "selective", "full"):
        case = replace(single, batch_size_per_device=8, recompute=recompute)
        planned = kept_bytes(case, info, keeps_casts=True)
        peak = peaks[f"{precision} {recompute}"]
        assert 1 <= peak["ACT"] / planned <= most
        held = device_bytes(case, info, keeps_casts=True)
        assert held
        assert peak["GRAD"] == 0
        assert peak["TEMP"] >= 2 * 4 * 8 * 128 * info.scales["smoke"]["vocabulary"]
        assert 1 <= peak["Total"] / sum(held.values()) <= 2.1


def test_selective_recomputes_all_but_products_and_attention(
    interpreter: Callable[[str], str],
) -> None:
    counted = printed(interpreter("pytorch"), COUNT)
    none, selective, full = (counted[each] for each in ("none", "selective", "full"))

    products, attention = "aten.mm", "aten._scaled_dot_product_flash_attention_for_cpu"
    # Nothing after the last product of a layer is needed, so that one is not computed again.
    assert selective[products] == none[products] == full[products] - LAYERS * (MATRICES - 1)
    assert [each.get(attention, 0) for each in (none, selective, full)] == [0, 0, LAYERS]
    for cheap, of_a_layer in (("aten.rsqrt", 2), ("aten.silu", 1)):
        again = [each.get(cheap, 0) for each in (none, selective, full)]
        assert again == [0, LAYERS * of_a_layer, LAYERS * of_a_layer], cheap
    for each in (selective, full):
        assert each["loss"] == none["loss"]
        assert each["gradients"] == pytest.approx(none["gradients"], rel=1e-6)


def test_paddlepaddle_computes_layers_again(interpreter: Callable[[str], str]) -> None:
    counted = printed(interpreter("paddle3"), AGAIN)
    none, full = counted["none"], counted["full"]
    assert [none["rotations"], full["rotations"]] == [0, LAYERS * 2]  # queries and keys
    assert full["loss"] == none["loss"]
    assert full["gradients"] == pytest.approx(none["gradients"], rel=1e-6)


@pytest.mark.parametrize(
    ("line", "workload", "more_steps", "lost"),
    [
        # Kept where the forward left it, PyTorch's loss makes malloc lose 4 MB in each step.
        ("pytorch", "gpt2", 60, 100e6),
        # Kept as a tensor, PaddlePaddle's has 7 kB in pages of its own.
        ("paddle3", "word2vec", 3000, 10e6),
        # MindSpore's is as PyTorch's: 0.6 MB in each step.
        pytest.param("mindspore", "bert_base", 60, 20e6, marks=pytest.mark.large),
    ],
)
def test_steps_on_a_cpu_leave_no_memory_behind(
    interpreter: Callable[[str], str],
    tmp_path: Path,
    line: str,
    workload: str,
    more_steps: int,
    lost: float,
) -> None:
    peaks = []
    for steps in (10, 10 + more_steps):
        job = job_of(line, workload, trainers=1, strategy="single", batch_size_per_device=8)
        job["protocol"] = {"warmup_steps": 2, "measured_steps": steps, "min_seconds": 0}
        folder = tmp_path / str(steps)
        folder.mkdir()
        (rank,) = run_gang(folder, job, interpreter(line))
        peaks.append(rank["peak_memory"]["resident_bytes"])
    assert peaks[1] - peaks[0] < lost, peaks
