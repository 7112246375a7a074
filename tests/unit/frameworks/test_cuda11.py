"""The links by which a framework finds CUDA's libraries: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
RANK = """\
import os
import sys
sys.path.insert(0, sys.argv[1])
import cuda11
cuda11.find_without_versions([sys.argv[2] + "/libcudnn.so.8", sys.argv[2] + "/libcudart.so.11.0"])
print(os.getpid(), os.environ["LD_LIBRARY_PATH"], *sys.argv[3:])
"""


def test_a_process_starts_once_more_with_links_on_its_path(tmp_path: Path) -> None:
    env = {**os.environ, "NIGHTBENCH_PROCESS_DIR": str(tmp_path), "LD_LIBRARY_PATH": "/site/lib"}
    command = [sys.executable, "-u", "-c", RANK, str(BENCHMARKS), "/wheels", "one word"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as rank:
        said, _ = rank.communicate(timeout=300)
    links = tmp_path / "cuda11"
    assert said.split() == [str(rank.pid), f"{links}:/site/lib", "one", "word"]
    targets = {link.name: str(link.readlink()) for link in links.iterdir()}
    assert targets == {
        "libcudart.so": "/wheels/libcudart.so.11.0",
        "libcudnn.so": "/wheels/libcudnn.so.8",
    }


def test_an_environment_without_the_wheels_loads_nothing() -> None:
    command = [sys.executable, "-c", "import cuda11; print(cuda11.load())"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
