"""The model FLOPs that workloads state, against what counters of PyTorch and of XLA see."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nightbench.config import load_catalog
from nightbench.core.model import Case, Strategy
from nightbench.core.model_flops import TRAINING, evaluate, flops_per_unit
from nightbench.testkit.gangs import BENCHMARKS

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPTS = Path(__file__).parent / "scripts"
BY_PYTORCH = {
    "bert_base": (1.0, 1.0),
    "bert_large": (1.0, 1.0),
    "resnet50_v1.5": (1.0, 1.0),
    "se_resnext50_32x4d": (1.0, 1.0),
    "vgg16": (1.0, 1.0),
    "vgg16_cifar": (1.0, 1.0),
    # The counters take the whole of the decoder's own attention, of which half is masked.
    "gpt2": (0.91, 0.93),
    "llama": (0.91, 0.92),
    "mixtral": (0.91, 0.92),
    "transformer_base": (0.97, 1.0),
    "transformer_big": (0.97, 1.0),
    # Two cosines, which are sums to the counters.
    "simnet_bow": (1.0, 1.03),
}
"""Workload -> what its formulas may be of the counters' figures. The scores of word2vec are sums of
products, none of which the counters see; ctr_dnn has no model in PyTorch."""

BY_XLA = {
    # What XLA counts beside products: norms, softmax, activations, in parts of these widths.
    **dict.fromkeys(("bert_base", "bert_large"), (0.98, 1.0)),
    **dict.fromkeys(("gpt2", "llama", "mixtral"), (0.99, 1.0)),
    # It leaves out what of a convolution lies in the padding, and the gradient of the images.
    **dict.fromkeys(("resnet50_v1.5", "vgg16"), (1.01, 1.04)),
}
"""Workload -> the same, where each term is counted as XLA does (`_as_xla`), at its full widths."""


def _outside(ratios: dict[Any, float], limits: dict[str, tuple[float, float]]) -> bool:
    return any(
        not limits[name][0] - 1e-9 <= ratio <= limits[name][1] + 1e-9
        for (name, _), ratio in ratios.items()
    )


def test_formulas_are_what_two_counters_of_pytorch_see(interpreter: Callable[[str], str]) -> None:
    workloads = load_catalog().workloads
    assert BY_PYTORCH.keys() == workloads.keys() - {"sleep", "word2vec", "ctr_dnn"}
    argv = [interpreter("pytorch"), str(SCRIPTS / "pytorch_flops.py"), str(BENCHMARKS), *BY_PYTORCH]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    ratios = {}
    for name, found in json.loads(done.stdout.splitlines()[-1]).items():
        case = Case(name, "pytorch", Strategy.SINGLE, scale="smoke")
        stated = flops_per_unit(workloads[name], case)
        assert stated is not None
        for counter, flops in found["flops"].items():
            ratios[name, counter] = stated / TRAINING * found["units"] / flops
    assert not _outside(ratios, BY_PYTORCH), ratios


def _as_xla(terms: dict[str, float], params: dict[str, Any]) -> float:
    """FLOPs of a forward pass with what XLA computes and a model does not need."""
    computed: dict[str, int] = {
        # Products of all scores; those to the right of the diagonal are masked afterwards.
        "causal attention": 2,
        # Without a kernel for ragged products each row meets the matrices of every expert.
        "active experts": params.get("experts", 1),
    }
    return math.fsum(flops * computed.get(name, 1) for name, flops in terms.items())


@pytest.mark.large
def test_formulas_are_what_xla_counts(interpreter: Callable[[str], str]) -> None:
    workloads = load_catalog().workloads
    assert BY_XLA.keys() == {name for name, each in workloads.items() if "jax" in each.frameworks}
    asked = {}
    for name in BY_XLA:
        params = workloads[name].params_of(Case(name, "jax", Strategy.SINGLE))
        # Two layers take a sixth of the time to trace; random numbers are no part of the model.
        fewer = {"layers": 2} if "layers" in params else {}
        asked[name] = {**params, **fewer, "dropout": 0.0}
    argv = [interpreter("jax"), str(SCRIPTS / "jax_flops.py"), str(BENCHMARKS)]
    done = subprocess.run(
        argv, input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ratios = {}
    for name, (forward, training) in json.loads(done.stdout).items():
        formulas = workloads[name].forward_flops.items()
        terms = {term: evaluate(formula, asked[name]) for term, formula in formulas}
        stated = _as_xla(terms, asked[name])
        ratios[name, "forward"] = stated / forward
        ratios[name, "training"] = TRAINING * stated / training
    assert not _outside(ratios, BY_XLA), ratios
