"""What trainers send is what parameter servers hold: each gradient is counted in the weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shipped import shipped

from nightbench.testkit.gangs import job_of, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.timeout(1200)]

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """benchmarks/ with the workload `counted`, whose ranks say what they count."""
    copy = shipped(tmp_path_factory.mktemp("code"))
    shutil.copytree(HERE / "counted", copy / "workloads" / "counted")
    (copy / "rank.py").rename(copy / "original_rank.py")
    shutil.copy(HERE / "counting_rank.py", copy / "rank.py")
    return copy


@pytest.mark.parametrize(
    ("line", "sync"),
    [
        ("paddle1", "sync"),
        pytest.param("paddle1", "async", marks=pytest.mark.large),
        ("tensorflow1", "sync"),
        pytest.param("tensorflow1", "async", marks=pytest.mark.large),
        ("mxnet", "sync"),
        ("mxnet", "async"),
    ],
)
def test_servers_hold_every_gradient_once(
    line: str, sync: str, interpreter: Callable[[str], str], code: Path, tmp_path: Path
) -> None:
    """Gradients are 1 in trainer 0 and 3 in trainer 1; synchronous servers take their mean."""
    params = json.loads((code / "workloads/counted/spec.json").read_text())["scales"]["smoke"]
    axes = {"strategy": "parameter_server", "sync": sync, "batch_size_per_device": 4}
    job = job_of(line, "counted", trainers=2, pservers=2, code=code, **axes)
    gradients = 20 * 2 if sync == "sync" else 20 * 1 + 25 * 3
    job["expected"] = -params["learning_rate"] * gradients
    first, second = run_gang(tmp_path, job, interpreter(line), code=code)
    assert first["held"] == second["held"] == [job["expected"]]
