"""Readers of real data, on the samples that ship: bytes reach the batch, ranks share the files."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from base_trainer import Base
from PIL import Image
from readers import dali, image_folder
from readers.files import DataError, Part
from readers.text import Corpus
from tests.unit.frameworks.test_data import WORKLOADS, load

from nightbench.testkit.cell_tests import trained

SAMPLES = WORKLOADS.parent / "samples"
SPECS = {name: json.loads((WORKLOADS / name / "spec.json").read_text()) for name in trained()}
READING = sorted(name for name, spec in SPECS.items() if "reads" in spec)


def trainer(workload: str, path: Path | None = None, **changes: Any) -> Base:
    spec = SPECS[workload]
    known = {"params": spec["scales"]["smoke"], "seed": 1, "together": 1}
    known |= {
        "data_rank": 0,
        "data_ranks": 1,
        "batch_size": 4,
        "data_path": str(path or SAMPLES / spec["reads"]),
    }
    return Base(SimpleNamespace(**{**known, **changes}), None, load(workload))


def take(made: Base, count: int) -> list[dict[str, Any]]:
    return list(itertools.islice(made.feed(dict), count))


@pytest.mark.parametrize("workload", READING)
def test_a_batch_of_the_sample_is_as_a_synthetic_one(workload: str) -> None:
    made = trainer(workload)
    found = {name: (x.shape, x.dtype, x.flags.c_contiguous) for name, x in take(made, 1)[0].items()}
    expected = {name: (x.shape, x.dtype, True) for name, x in made.example().items()}
    assert found == expected
    assert made.data_waits_s
    first, again = (take(trainer(workload), 3)[2] for _ in range(2))
    assert all(np.array_equal(x, again[name]) for name, x in first.items())


@pytest.mark.parametrize("workload", READING)
def test_synthetic_data_are_not_read(workload: str) -> None:
    made = trainer(workload, data_path=None)
    assert take(made, 1)[0].keys() == made.example().keys()
    assert made.data_waits_s is None


@pytest.mark.parametrize("workload", ["resnet50_v1.5", "ctr_dnn", "bert_base", "llama", "word2vec"])
def test_ranks_read_different_samples(workload: str) -> None:
    first, second = (take(trainer(workload, data_rank=rank, data_ranks=2), 1)[0] for rank in (0, 1))
    different = [name for name, x in first.items() if not np.array_equal(x, second[name])]
    assert {"images", "dense", "tokens", "word"} & set(different)


# --- images --------------------------------------------------------------------------------


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Six images of one grey each, two to a class: what was cut from them does not matter."""
    for number in range(6):
        folder = tmp_path / "images" / f"class{number // 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (40 * number,) * 3).save(folder / f"{number}.png")
    return tmp_path / "images"


def greys(batches: Iterator[dict[str, Any]], count: int) -> list[tuple[int, int]]:
    """Number and label of each image, taken from its pixels."""
    found: list[tuple[int, int]] = []
    for batch in itertools.islice(batches, count):
        pixels = batch["images"][:, 0] * image_folder.DEVIATION[0] + image_folder.MEAN[0]
        assert np.ptp(pixels, axis=(1, 2)).max() < 1e-6
        numbers = (pixels[:, 0, 0] * 255 / 40).round().astype(int).tolist()
        found += zip(numbers, batch["labels"].tolist(), strict=True)
    return found


def read_images(folder: Path, rank: int, ranks: int, batch_size: int = 3) -> Any:
    part = Part(str(folder), rank, ranks, seed=1)
    return image_folder.batches(16, 10, batch_size, part, np.random.RandomState(1))


def test_pixels_and_labels_are_those_of_the_files(images: Path) -> None:
    found = greys(read_images(images, 0, 1), 4)
    assert sorted(found[:6]) == sorted(found[6:]) == [(n, n // 2) for n in range(6)]
    assert found[:6] != found[6:], "both epochs have the same order"


def test_ranks_share_the_images_of_an_epoch(images: Path) -> None:
    first, second = (greys(read_images(images, rank, 2), 2) for rank in (0, 1))
    for epoch in (slice(0, 3), slice(3, 6)):
        assert sorted(first[epoch] + second[epoch]) == [(n, n // 2) for n in range(6)]


def corrupt(folder: Path) -> str:
    for path in folder.glob("*/*"):
        path.write_bytes(path.read_bytes()[:40])
    return "no readable image"


def empty(folder: Path) -> str:
    for path in folder.glob("*/*"):
        path.unlink()
    return "found no images in 3 class folders; expected files *.jpeg, *.jpg, *.png"


def of_many_classes(folder: Path) -> str:
    for number in range(20):
        (folder / f"more{number}").mkdir()
    return "found folders for 23 classes; expected at most the 10"


def of_few_images(folder: Path) -> str:
    for path in [*folder.glob("*/*")][1:]:
        path.unlink()
    return "found 1 images; expected at least one for each of 2 ranks"


def not_there(folder: Path) -> str:
    shutil.rmtree(folder)
    return "no such file or folder on this node"


@pytest.mark.parametrize("fault", [corrupt, empty, of_many_classes, of_few_images, not_there])
def test_a_wrong_folder_is_named(images: Path, fault: Callable[[Path], str]) -> None:
    expected = fault(images)
    with pytest.raises(DataError) as caught:
        next(read_images(images, 0, 2))
    assert expected in str(caught.value)
    assert str(caught.value).startswith(str(images))


def test_an_error_of_the_thread_reaches_the_step(images: Path) -> None:
    corrupt(images)
    batches = trainer("resnet50_v1.5", images).feed(dict)
    with pytest.raises(DataError, match=r"class\d/\d\.png: found no readable image"):
        next(batches)


class ByPillow:
    """A decoder that decodes as the reader itself does."""

    def batches(self, size: int, batch_size: int, chosen: Iterator[Any]) -> Iterator[Any]:
        decode = image_folder.pillow(size)
        for paths, drawn, labels in chosen:
            assert len(paths) == len(drawn) == len(labels) == batch_size
            images = np.stack([decode(*each) for each in zip(paths, drawn, strict=True)])
            yield {"images": images, "labels": labels, "by": "the decoder"}


def test_a_decoder_gets_the_same_images_and_numbers() -> None:
    own, other = trainer("resnet50_v1.5"), trainer("resnet50_v1.5")
    other.decoder = ByPillow()
    for expected, found in zip(take(own, 5), take(other, 5), strict=True):
        assert found.pop("by") == "the decoder"
        assert all(np.array_equal(x, found[name]) for name, x in expected.items())


def test_a_missing_dali_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvidia", None)
    said = "found no NVIDIA DALI in the environment of this line; expected DALI, for `tuning: dali`"
    with pytest.raises(DataError, match=said):
        dali.Decoder(gpu=False)


# --- lines ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_every_line_belongs_to_one_rank(tmp_path: Path, ranks: int) -> None:
    expected = []
    for name, lengths in (("a", [3, 0, 12, 7]), ("b", [15, 1, 2, 9, 5, 8])):
        lines = [f"{name}{number}" + "x" * length for number, length in enumerate(lengths)]
        (tmp_path / name).write_text("\n".join(lines) + ("\n" if name == "a" else ""))
        expected += lines
    found = []
    for rank in range(ranks):
        part = Part(str(tmp_path), rank, ranks, seed=1)
        lines = [
            line.decode() for _, _, line in itertools.islice(part.lines(part.text_files()), 40)
        ]
        epoch = lines[: lines.index(lines[0], 1)]
        assert (epoch * 40)[:40] == lines, "epochs differ"
        found += epoch
    assert found == expected


def test_a_rank_without_a_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("only\n")
    part = Part(str(tmp_path / "one"), 1, 2, seed=1)
    with pytest.raises(DataError, match="found no line for rank 1; expected at least one for each"):
        next(part.lines(part.text_files()))


# --- clicks --------------------------------------------------------------------------------


def clicks(tmp_path: Path, *rows: list[str]) -> Base:
    path = tmp_path / "clicks.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return trainer("ctr_dnn", path, batch_size=len(rows))


ROW = ["1", *(str(10**n) for n in range(12)), "", *(f"{n:08x}" for n in range(25)), ""]


def test_columns_of_a_click_reach_the_batch(tmp_path: Path) -> None:
    (batch,) = take(clicks(tmp_path, ROW, ["0", "-2", *ROW[2:14], "ffffffff", *ROW[15:]]), 1)
    assert batch["label"].tolist() == [[1], [0]]
    dense = [*np.log1p([10.0**n for n in range(12)]), 0.0]
    assert batch["dense"][0] == pytest.approx(dense, rel=1e-6)
    assert batch["dense"][1][0] == 0
    span = 10001 // 26
    slots = [batch[f"slot{slot}"][0, 0] - slot * span for slot in range(26)]
    assert slots == [*range(25), 0]
    assert batch["slot0"][1, 0] == 0xFFFFFFFF % span


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (ROW[:39], "line 2: found 39 columns; expected 40"),
        (["2", *ROW[1:]], "line 2: column 1: found '2'; expected 0 or 1"),
        ([*ROW[:5], "x", *ROW[6:]], "line 2: column 6: found 'x'; expected a number, or nothing"),
        (
            [*ROW[:5], "inf", *ROW[6:]],
            "line 2: column 6: found 'inf'; expected a number, or nothing",
        ),
        ([*ROW[:39], "0g"], "line 2: column 40: found '0g'; expected a hexadecimal number"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, row: list[str], said: str) -> None:
    with pytest.raises(DataError) as caught:
        take(clicks(tmp_path, ROW, row), 1)
    assert str(caught.value).startswith(f"{tmp_path}/clicks.tsv, {said}")


# --- text ----------------------------------------------------------------------------------

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cafe", "is", "open", "##ed", "."]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "vocabulary.txt").write_text("\n".join(TOKENS) + "\n")
    (folder / "a.txt").write_text("The Café\nis opened.\n\n\nthe quay\n")
    (folder / "b.txt").write_text("open\n")
    return folder


def words(folder: Path, count: int) -> str:
    part = Part(str(folder), 0, 1, seed=1)
    return " ".join(TOKENS[token] for token in Corpus(part, 100).take(count))


def test_text_becomes_word_pieces(corpus: Path) -> None:
    expected = "the cafe is open ##ed . [SEP] the [UNK] [SEP] open [SEP]"
    assert words(corpus, 24) == f"{expected} {expected}"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("vocabulary.txt", b"[UNK]\n[CLS]\n[SEP]\n", "vocabulary.txt: found no [MASK]"),
        ("vocabulary.txt", None, "vocabulary.txt: no such file"),
        ("vocabulary.txt", b"[UNK]\n\xff\n", "vocabulary.txt: found no UTF-8"),
        (
            "vocabulary.txt",
            "\n".join([*TOKENS, *map(str, range(90))]).encode(),
            "vocabulary.txt, line 101: found more tokens than the 100",
        ),
        ("a.txt", b"fine\nG\xfcte\n", "a.txt, line 2: found no UTF-8"),
        ("a.txt", b"\n" * 100001, "found 100000 lines without a word"),
    ],
)
def test_a_wrong_corpus_is_named(corpus: Path, file: str, content: bytes | None, said: str) -> None:
    (corpus / "b.txt").unlink()
    (corpus / file).unlink()
    if content is not None:
        (corpus / file).write_bytes(content)
    with pytest.raises(DataError) as caught:
        words(corpus, 3)
    assert said in str(caught.value)


def test_sequences_of_bert_are_full_and_masked(corpus: Path) -> None:
    made = trainer("bert_base", batch_size=64)
    batch = take(made, 1)[0]
    ids = Corpus(Part(str(SAMPLES / "text"), 0, 1, 1), 1000).ids
    tokens, positions = batch["tokens"], batch["masked_positions"]
    half = (128 - 3) // 2
    assert (tokens[:, [0]] == ids["[CLS]"]).all()
    assert (tokens[:, [half + 1, 127]] == ids["[SEP]"]).all()
    assert not np.isin(positions, [0, half + 1, 127]).any()
    assert all(len(set(row)) == 20 for row in positions.tolist())
    assert 0.7 < (np.take_along_axis(tokens, positions, 1) == ids["[MASK]"]).mean() < 0.9
    restored = tokens.copy()
    np.put_along_axis(restored, positions, batch["masked_tokens"], axis=1)
    assert (restored != ids["[MASK]"]).all()
    stream = Corpus(Part(str(SAMPLES / "text"), 0, 1, 1), 1000)
    other = stream.take(128 - 3 - half)
    for row, follows in zip(restored, batch["next_sentence"], strict=True):
        assert np.array_equal(row[1 : 1 + half], stream.take(half))
        following = stream.take(len(other))
        found = row[half + 2 : -1]
        assert np.array_equal(found, following if follows else other)
        other = other if follows else following
    assert {0, 1} == set(batch["next_sentence"].tolist())


@pytest.mark.parametrize("workload", ["gpt2", "llama", "mixtral"])
def test_packed_sequences_are_the_text_without_gaps(workload: str) -> None:
    batches = take(trainer(workload), 2)
    stream = Corpus(Part(str(SAMPLES / "text"), 0, 1, 1), 1000)
    for row, labels in zip(
        np.concatenate([x["tokens"] for x in batches]),
        np.concatenate([x["labels"] for x in batches]),
        strict=True,
    ):
        following = stream.take(129)
        assert np.array_equal(row, following[:-1])
        assert np.array_equal(labels, following[1:])


def test_neighbours_of_word2vec_stand_near_each_other() -> None:
    made = trainer("word2vec", batch_size=50)
    batches = take(made, 3)
    stream = Corpus(Part(str(SAMPLES / "text"), 0, 1, 1), 1000).take(200)
    centres = np.concatenate([batch["word"][:, 0] for batch in batches])
    assert np.array_equal(centres, stream[5:155]), "every word is a centre once"
    neighbours = np.concatenate([batch["neighbour"][:, 0] for batch in batches])
    for place, neighbour in enumerate(neighbours, start=5):
        near = np.delete(stream[place - 5 : place + 6], 5)
        assert neighbour in near
    assert np.isin(batches[0]["negatives"], stream[:60]).all()
