"""A gang of which a rank was killed, launched again, trains as one that nothing has happened to."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from tests.integration.test_sharding import TOLERANCE, alone, job_like, losses_of

from nightbench.testkit.gangs import BENCHMARKS, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.large, pytest.mark.timeout(1800)]

KILLED = """

class Trainer(Trainer):
    \"\"\"Rank 1 of the first launch is killed in its fourth step.\"\"\"

    def step(self):
        if self.context.rank == 1 and len(self.kept) == 3 and not os.path.exists({mark!r}):
            open({mark!r}, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        super().step()
"""


@pytest.mark.parametrize(
    ("line", "splits"),
    [
        (
            "pytorch",
            [
                {"shard": 2, "shard_stage": 3},
                {"tensor": 2},
                {"pipeline": 2, "schedule": "1f1b", "micro_batches": 2},
            ],
        ),
        (
            "jax",
            [
                {"shard": 2, "shard_stage": 2},
                {"tensor": 2},
                {"pipeline": 2, "schedule": "gpipe", "micro_batches": 2},
            ],
        ),
    ],
)
def test_a_gang_launched_again_trains_as_one_device_does(
    tmp_path: Path, interpreter: Callable[[str], str], line: str, splits: list[dict[str, Any]]
) -> None:
    python = interpreter(line)
    together = {"tensor", "pipeline"}  # Of these both ranks have the same samples.
    expected = {}
    for sources in (1, 2):
        (folder := tmp_path / f"of-{sources}").mkdir()
        expected[sources] = alone(folder, python, line, "llama", sources, {}, 4)
    code = tmp_path / "killed"
    shutil.copytree(BENCHMARKS, code, ignore=shutil.ignore_patterns("__pycache__"))
    trainer = code / "frameworks" / line / "trainer.py"
    own = trainer.read_text()
    for number, axes in enumerate(splits):
        mark = tmp_path / f"{number}-killed"
        trainer.write_text("import os\nimport signal\n" + own + KILLED.format(mark=str(mark)))
        job = job_like(line, "llama", {}, trainers=2, strategy="collective", **axes)
        (first := tmp_path / f"{number}-first").mkdir()
        with pytest.raises(AssertionError, match=r"trainer-\d: "):
            run_gang(first, job, python, code=code)
        assert mark.exists(), axes
        assert not (first / "trainer-1" / "rank.json").exists()
        (again := tmp_path / f"{number}-again").mkdir()
        losses = [losses_of(rank) for rank in run_gang(again, job, python, code=code)]
        sources = 1 if together & axes.keys() else 2
        assert [mean(each) for each in zip(*losses, strict=True)] == pytest.approx(
            expected[sources], rel=TOLERANCE
        ), axes
