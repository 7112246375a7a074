"""What malloc keeps of what a step frees."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from nightbench.testkit.gangs import BENCHMARKS

STEPS = """
import resource
import sys

import numpy
from heap import keep_what_is_freed

if sys.argv[1] == "kept":
    keep_what_is_freed()
for number in range(6):
    if number == 2:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [numpy.ones(3 * 2**17) for _ in range(16)]
    del blocks
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 4)
"""


def faults_per_step(how: str) -> int:
    argv = [sys.executable, "-c", STEPS, how]
    env = {"PYTHONPATH": str(BENCHMARKS)}
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's malloc")
def test_a_step_finds_the_memory_that_the_last_one_freed() -> None:
    # 48 MB in pieces of 3 MB: by itself malloc keeps 6 MB of them.
    assert faults_per_step("as it is") > 5000
    assert faults_per_step("kept") < 500
