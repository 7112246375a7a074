"""Model FLOPs: formulas; those of the workloads against published counts and weights."""

from __future__ import annotations

import importlib

import numpy
import pytest
from tests.shipped import BENCHMARKS

from nightbench.config import load_catalog
from nightbench.core.model import Case, Strategy
from nightbench.core.model_flops import TRAINING, evaluate, flops_per_unit, tokens_per_unit

PARAMS = {"hidden": 64, "layers": 2, "widths": [3, 4], "name": "x", "converges": True}


def test_a_formula_takes_parameters_and_arithmetic():
    assert evaluate("2 * layers * hidden ** 2 / 4 + sum(widths) - 1", PARAMS) == 4096 + 6


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("2 * absent", "`absent` is not a number among the scale's parameters"),
        ("2 * name", "`name` is not a number among the scale's parameters"),
        ("converges", "`converges` is not a number among the scale's parameters"),
        ("sum(hidden)", "`hidden` is not a list among the scale's parameters"),
        ("__import__('os').getpid()", "expected numbers, parameters"),
        ("hidden[0]", "expected numbers, parameters"),
        ("2 *", "invalid syntax"),
        ("2 / (hidden - 64)", "division by zero"),
        ("hidden - 64", "its value is 0"),
    ],
)
def test_what_is_no_formula_is_refused(formula, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        evaluate(formula, PARAMS)


@pytest.fixture(scope="module")
def workloads():
    return load_catalog().workloads


def case(workload: str, scale: str = "full", **axes: object) -> Case:
    return Case(workload, "pytorch", Strategy.SINGLE, scale=scale, **axes)


def forward(workloads, name: str, scale: str = "full") -> float:
    return flops_per_unit(workloads[name], case(name, scale)) / TRAINING


@pytest.mark.parametrize(
    ("name", "multiply_adds"),
    # Of torchvision 0.23's documentation (weights' GFLOPS), which counts multiply-adds.
    [("resnet50_v1.5", 4.089e9), ("vgg16", 15.470e9)],
)
def test_images_take_the_published_multiply_adds(workloads, name, multiply_adds):
    assert forward(workloads, name) == pytest.approx(2 * multiply_adds, rel=2e-3)


def test_only_a_stand_in_for_tests_states_no_cost(workloads):
    silent = {name for name, each in workloads.items() if not each.cost}
    assert silent == {"sleep"}
    assert flops_per_unit(workloads["sleep"], case("sleep")) is None


def test_tokens_are_those_of_the_unit(workloads):
    bert = workloads["bert_base"]
    assert tokens_per_unit(bert, case("bert_base", sequence_length=512)) == 512
    assert tokens_per_unit(workloads["transformer_big"], case("transformer_big")) == 1
    assert tokens_per_unit(workloads["vgg16"], case("vgg16")) is None


@pytest.mark.parametrize("length", [128, 512])
def test_bert_follows_the_axis_of_length(workloads, length):
    """PaLM's 6 N + 12 L H Q T per token (arXiv:2204.02311, B), N of what all tokens pass."""
    found = flops_per_unit(workloads["bert_base"], case("bert_base", sequence_length=length))
    layers = 12 * 12 * 768**2
    predictions = {128: 20, 512: 80}[length]
    head = predictions * (768**2 + 768 * 30522) + 768**2 + 2 * 768
    assert found == (6 * layers + 12 * 12 * 768 * length) * length + 6 * head


@pytest.mark.parametrize("name", ["ctr_dnn", "transformer_base", "transformer_big"])
def test_each_weight_is_used_where_the_network_uses_it(workloads, name, monkeypatch):
    """Counted again from the shapes of data.py's initial weights."""
    params = workloads[name].params_of(case(name, "smoke"))
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    data = importlib.import_module(f"workloads.{name}.data")
    made = data.weights(params, numpy.random.RandomState(1))
    matrices = {k: x.size for k, x in made.items() if x.ndim == 2}
    if name == "ctr_dnn":
        counted = sum(matrices.values()) - matrices["table.weight"]
    else:
        length, hidden = params["sequence_length"], params["hidden"]
        counted = length * sum(matrices.values())
        # Encoder and decoder to source see all; of the decoder's own half is masked.
        counted += params["layers"] * 2.5 * 2 * length**2 * hidden
    units = params.get("units_per_example", 1)
    assert forward(workloads, name, "smoke") * units == pytest.approx(2 * counted, rel=1e-12)


@pytest.mark.parametrize(
    ("workload", "scale", "published"),
    # Of the releases' weights: Llama 3.2 1B, Llama 3.1 8B and 70B; GPT-2 and its larger siblings.
    [
        ("llama", "full", 1_235_814_400),
        ("llama", "8b", 8_030_261_248),
        ("llama", "70b", 70_553_706_496),
        ("gpt2", "full", 124_439_808),
        ("gpt2", "350m", 354_823_168),
        ("gpt2", "1.5b", 1_557_611_200),
    ],
)
def test_the_weights_of_a_scale_s_shapes_are_the_published_ones(
    workloads, workload, scale, published
):
    params = workloads[workload].params_of(case(workload, scale))
    hidden, layers = params["hidden"], params["layers"]
    if workload == "gpt2":
        ends = (params["vocabulary"] + params["positions"]) * hidden + 2 * hidden
        layer = 12 * hidden**2 + 13 * hidden
    else:
        ends = params["vocabulary"] * hidden * (1 if params["tied"] else 2) + hidden
        shared = params["key_value_heads"] * hidden // params["heads"]
        layer = 2 * hidden * (hidden + shared) + 3 * hidden * params["inner"] + 2 * hidden
    assert ends + layers * layer == params["parameters"] == published


@pytest.mark.parametrize("scale", ["full", "350m", "1.5b"])
def test_gpt2_takes_six_flops_for_each_weight_of_a_matrix(workloads, scale):
    """And 6 L H Q T for its causal attention, per token."""
    gpt2 = workloads["gpt2"]
    params = gpt2.params_of(case("gpt2", scale))
    hidden, layers = params["hidden"], params["layers"]
    vectors = layers * 13 * hidden + 2 * hidden
    matrices = params["parameters"] - params["positions"] * hidden - vectors
    found = flops_per_unit(gpt2, case("gpt2", scale))
    assert found == 6 * matrices + 6 * layers * hidden * 1024


@pytest.mark.parametrize(
    ("scale", "flops"),
    # Of dgxc-benchmarking v25.04 (llama3.1/README.md) for 8192 tokens; they count attention whole.
    [("8b", 4.74e14), ("70b", 3.94e15)],
)
def test_llama_takes_the_published_flops_with_half_its_attention(workloads, scale, flops):
    llama = workloads["llama"]
    params = llama.params_of(case("llama", scale))
    half = TRAINING * evaluate(llama.cost.forward["causal attention"], params)
    example = flops_per_unit(llama, case("llama", scale)) * params["units_per_example"]
    assert example + half == pytest.approx(flops, rel=2e-3)


@pytest.mark.parametrize(
    ("scale", "parameters", "active"),
    # Of the authors' releases: 46.7B and 12.9B (arXiv:2401.04088), 141B and 39B.
    [("full", 46.7e9, 12.9e9), ("8x22b", 140.6e9, 39.2e9)],
)
def test_mixtral_takes_six_flops_for_each_active_weight(workloads, scale, parameters, active):
    """And 6 L H T for its causal attention, per token."""
    mixtral = workloads["mixtral"]
    params = mixtral.params_of(case("mixtral", scale))
    assert params["parameters"] == pytest.approx(parameters, rel=2e-3)
    hidden, layers = params["hidden"], params["layers"]
    idle = layers * (params["experts"] - params["active_experts"]) * 3 * hidden * params["inner"]
    assert params["parameters"] - idle == pytest.approx(active, rel=3e-3)
    matrices = params["parameters"] - idle - params["vocabulary"] * hidden
    matrices -= (2 * layers + 1) * hidden
    found = flops_per_unit(mixtral, case("mixtral", scale))
    assert found == 6 * matrices + 6 * layers * hidden * params["sequence_length"]


DIGESTS = {
    "bert_base": "3da4f7a3",
    "bert_large": "28b3e453",
    "ctr_dnn": "b5fd1fee",
    "resnet50_v1.5": "ee9a4f5f",
    "se_resnext50_32x4d": "374d1342",
    "simnet_bow": "64311b68",
    "sleep": "ea9f816d",
    "transformer_base": "ab2fc924",
    "transformer_big": "58db4b81",
    "vgg16": "c0cb928e",
    "vgg16_cifar": "3e23fe6a",
    "word2vec": "6b50d0e3",
}
"""Digests of workloads before their files said how to count model FLOPs."""


def test_a_cost_cuts_no_history(workloads):
    """What defines a workload's work does not depend on how it is counted."""
    digests = {name: each.digest[:8] for name, each in workloads.items()}
    assert digests.items() >= DIGESTS.items()
