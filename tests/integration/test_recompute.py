"""What PyTorch computes again in a backward pass, by `recompute`, counted operator by operator."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from nightbench.testkit.gangs import BENCHMARKS

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
MATRICES = 7
"""Of a layer: query, key, value, attended, gate, widen, narrow."""
LAYERS = 2


def test_selective_recomputes_all_but_products_and_attention(
    interpreter: Callable[[str], str],
) -> None:
    ran = subprocess.run(
        [interpreter("pytorch"), "-c", COUNT],
        cwd=BENCHMARKS,
        env={"PYTHONPATH": str(BENCHMARKS), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    none, selective, full = (json.loads(ran.stdout)[each] for each in ("none", "selective", "full"))

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
