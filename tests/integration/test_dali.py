"""Images by DALI: the batches of Pillow, and a trainer that says who has decoded them.

On CPUs: nothing here says what a GPU decodes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.integration.broken_lines import broken
from tests.shipped import shipped

from nightbench.local.home import find_home, venv_bin
from nightbench.testkit.gangs import BENCHMARKS, job_of, refused, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.large, pytest.mark.timeout(900)]

DALI = ("nvidia-dali-cuda120==2.4.0", "numpy>=2.2,<2.4")
SCRIPT = Path(__file__).parent / "scripts/dali_batches.py"
SAMPLE = BENCHMARKS / "samples/image_folder"
DEVIATION = np.array([0.229, 0.224, 0.225])
UNCUT = ("                roi_start=begin,\n                roi_end=end,\n", "")
UNMIRRORED = ("mirror=mirror", "mirror=0")
FEED = "        self.batches = self.feed(self._on_device)\n"
LEFT_OUT = f"        given, self.decoder = self.decoder, None\n{FEED}        self.decoder = given\n"
UNUSED = (FEED, LEFT_OUT)


@pytest.fixture(scope="module")
def python(interpreter: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The line's environment for CPUs and DALI beside it, as a site prepares a prefix."""
    own, prefix = Path(interpreter("pytorch")), tmp_path_factory.mktemp("dali") / "prefix"
    subprocess.run([own, "-m", "venv", "--without-pip", prefix], check=True)
    (packages,) = prefix.glob("lib/python*/site-packages")
    (line,) = own.parents[1].glob("lib/python*/site-packages")
    (packages / "pytorch.pth").write_text(f"{line}\n")
    made = prefix / "bin/python"
    env = {"UV_CACHE_DIR": str(find_home().root / "cache" / "uv"), **os.environ}
    uv = [str(venv_bin() / "uv"), "pip", "install", "-q", "--python", str(made)]
    subprocess.run([*uv, *DALI], env=env, check=True)
    return str(made)


def batches(
    python: str, folder: Path, images: Path = SAMPLE, size: int = 32, code: Path = BENCHMARKS
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the script prints, and what it keeps."""
    kept = folder / "batches.npz"
    argv = [python, str(SCRIPT), str(code), str(images), str(size), str(kept)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1]), dict(np.load(kept)) if kept.exists() else {}


def levels(kept: dict[str, Any]) -> Any:
    """How far pixels are apart, (n, 3, size, size), in 255ths."""
    return np.abs(kept["dali"] - kept["pillow"]) * DEVIATION[:, None, None] * 255


def broken_reader(folder: Path, breakage: tuple[str, str]) -> Path:
    code = shipped(folder)
    reader = code / "readers/dali.py"
    text = reader.read_text()
    assert text.count(breakage[0]) == 1
    reader.write_text(text.replace(*breakage))
    return code


@pytest.mark.parametrize("size", [16, 32, 224])
def test_batches_are_those_of_pillow(python: str, tmp_path: Path, size: int) -> None:
    said, kept = batches(python, tmp_path, size=size)
    assert said["error"] is None
    assert said["threads"][0] == said["threads"][1]
    assert kept["labels"].tolist() == kept["dali_labels"].tolist()
    assert kept["labels"].dtype == kept["dali_labels"].dtype
    assert (kept["dali"].shape, kept["dali"].dtype) == ((42, 3, size, size), np.float32)
    apart = levels(kept)
    # One by rounding; where a cut ends at the image's edge, DALI's filter repeats the last pixels,
    # of which Pillow's has none.
    assert apart[:, :, 1:-1, 1:-1].max() <= 1.01
    assert apart.max() < 20
    assert apart.mean() < 0.3


@pytest.mark.parametrize("breakage", [UNCUT, UNMIRRORED], ids=["uncut", "unmirrored"])
def test_other_pixels_are_seen(python: str, tmp_path: Path, breakage: tuple[str, str]) -> None:
    _, kept = batches(python, tmp_path, code=broken_reader(tmp_path, breakage))
    assert levels(kept).mean() > 5


@pytest.mark.parametrize("of_head", [True, False], ids=["no image", "cut off"])
def test_an_image_that_is_broken_is_named(python: str, tmp_path: Path, of_head: bool) -> None:
    images = Path(shutil.copytree(SAMPLE, tmp_path / "images"))
    wrong = images / "red/1.jpg"
    wrong.write_bytes(b"no image" if of_head else wrong.read_bytes()[:-60])
    said, _ = batches(python, tmp_path, images)
    assert said["error"].startswith(f"{wrong}: found no readable image: ")
    assert said["threads"][0] == said["threads"][1]


@pytest.mark.parametrize(
    ("breakage", "expected"), [(None, set()), (UNUSED, {"mode_used"})], ids=["used", "left out"]
)
def test_a_trainer_says_who_has_decoded(
    python: str, tmp_path: Path, breakage: tuple[str, str] | None, expected: set[str]
) -> None:
    axes = {"strategy": "single", "data": "sample", "tuning": "dali", "batch_size_per_device": 4}
    code = broken(tmp_path, "pytorch", breakage) if breakage else BENCHMARKS
    job = job_of("pytorch", "resnet50_v1.5", trainers=1, code=code, **axes)
    (rank,) = ranks = run_gang(tmp_path, job, python, code=code)
    assert set(refused(job, ranks)) == expected
    assert rank["modes"] == {"tuning": "default" if breakage else "dali"}
    assert rank["data_wait_s"] >= 0
