"""Batches and initial weights of the workloads: one rule from one seed, for ever the same."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from base_trainer import Base, DoesNotFit

WORKLOADS = Path(__file__).parents[3] / "benchmarks" / "workloads"


def load(workload: str) -> Any:
    path = WORKLOADS / workload / "data.py"
    spec = importlib.util.spec_from_file_location("data", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trainer(workload: str, scale: str = "smoke", **changes: Any) -> Base:
    spec = json.loads((WORKLOADS / workload / "spec.json").read_text())
    params = spec["scales"][scale]
    known = {"params": params, "seed": 1, "data_rank": 0, "together": 1}
    known |= {"batch_size": 8, "data_path": None}
    known["parameters"] = params.get("parameters", spec.get("parameters"))
    return Base(SimpleNamespace(**{**known, **changes}), None, load(workload))


def batches_of(made: Base, count: int) -> list[dict[str, Any]]:
    return list(itertools.islice(made.feed(dict), count))


def shapes_of(workload: str, scale: str = "smoke") -> dict[str, tuple[int, ...]]:
    spec = json.loads((WORKLOADS / workload / "spec.json").read_text())
    made = load(workload).weights(spec["scales"][scale], np.random.RandomState(0))
    return {name: value.shape for name, value in made.items()}


def digest(arrays: dict[str, Any]) -> str:
    found = hashlib.sha256()
    for name in sorted(arrays):
        found.update(name.encode() + arrays[name].tobytes())
    return found.hexdigest()[:12]


@pytest.mark.parametrize(
    ("workload", "weights", "batch"),
    [
        ("bert_base", "a908f5fad8ee", "01b72b7a5bd0"),
        ("bert_large", "190e26c99081", "01b72b7a5bd0"),
        ("ctr_dnn", "f777a68377dc", "bb5c7f99bfc0"),
        ("gpt2", "d63ff2451506", "92745f249a60"),
        ("llama", "b6a2d015454f", "92745f249a60"),
        ("mixtral", "c778d125bad6", "92745f249a60"),
        ("resnet50_v1.5", "218a002f5ad3", "3d4e57f0c6ff"),
        ("se_resnext50_32x4d", "ef990f4d5467", "3d4e57f0c6ff"),
        ("simnet_bow", "a6d19f7959b6", "1e0d9c3a5666"),
        ("transformer_base", "9228b884d7d0", "03dcc8001c64"),
        ("transformer_big", "7b038fb67f05", "03dcc8001c64"),
        ("vgg16_cifar", "18f85e8448f5", "3f45b902c2ea"),
        ("word2vec", "26cb971712f3", "fca2efcac912"),
        pytest.param("vgg16", "6ad4eac6845f", "3d4e57f0c6ff", marks=pytest.mark.large),
    ],
)
def test_the_rule_never_changes(workload: str, weights: str, batch: str) -> None:
    """Otherwise lines whose histories began at different times would not do the same work."""
    each = trainer(workload)
    assert digest(each.initial_weights(shapes_of(workload))) == weights
    assert digest(each.example()) == batch


def test_a_network_that_does_not_fit_is_told_by_its_parameters() -> None:
    shapes = shapes_of("ctr_dnn")
    shapes["click.weight"] = (2, 64)
    shapes["extra.bias"] = shapes.pop("click.bias")
    with pytest.raises(DoesNotFit) as caught:
        trainer("ctr_dnn").initial_weights(shapes)
    assert str(caught.value).splitlines()[1:] == [
        "click.bias: found in data.py; not found in the network",
        "click.weight: found (2, 64) in the network; expected (64, 2) by data.py",
        "extra.bias: found in the network; not found in data.py",
    ]


def test_packed_sequences_count_every_token() -> None:
    each = trainer("llama")
    batch = each.example()
    assert batch["tokens"].shape == batch["labels"].shape == (8, 128)
    assert np.array_equal(batch["tokens"][:, 1:], batch["labels"][:, :-1])
    assert each.samples_per_step == batch["labels"].size


def test_a_head_is_rotated_by_its_position() -> None:
    params = json.loads((WORKLOADS / "llama" / "spec.json").read_text())["scales"]["smoke"]
    cosines, sines = load("llama").rotations(params)
    assert cosines.shape == sines.shape == (128, 8)
    assert (cosines[0] == 1).all()
    assert (sines[0] == 0).all()
    # By 1 / base ** (2 i / size) radians a position, i counting the pairs.
    angle = 127 / 500000 ** (6 / 16)
    assert cosines[127, 3] == pytest.approx(np.cos(angle), abs=1e-6)
    assert sines[127, 3] == pytest.approx(np.sin(angle), abs=1e-6)


@pytest.mark.parametrize("batch_size", [8, 7, 1])
def test_every_batch_of_sentences_counts_equally_many_words(batch_size: int) -> None:
    each = trainer("transformer_base", batch_size=batch_size)
    for batch in batches_of(each, 3):
        words = (batch["labels"] != 0).sum(axis=1)
        assert words.sum() == 48 * batch_size
        assert ((words >= 32) & (words <= 64)).all()
        # The decoder's input is one word behind its labels, and padded where they are.
        assert np.array_equal(batch["target"] == 0, batch["labels"] == 0)
        assert (batch["target"][:, 0] == 1).all()
        shifted = batch["target"][:, 1:]
        assert np.array_equal(shifted, np.where(shifted == 0, 0, batch["labels"][:, :-1]))
