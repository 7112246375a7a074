"""`batch_size_per_device: max` through agents: found within a memory limit, measured, shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.terminal import Terminal, terminal

from nightbench.testkit.gangs import BENCHMARKS

pytestmark = [pytest.mark.framework, pytest.mark.large, pytest.mark.timeout(900)]
"""Large: two searches of minutes."""

LIMIT_MB = 550
CASE = f"bert_base-pytorch-collective-2x1-bsmax-memory{LIMIT_MB}-smoke"
SUITE = f"""\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {{warmup_steps: 2, measured_steps: 5, repeats: 2}}
matrix:
  - workload: bert_base
    frameworks: pytorch
    strategy: collective
    devices: 2x1
    batch_size_per_device: max
    memory: {LIMIT_MB}MB
"""


@pytest.fixture(scope="module")
def here(
    interpreter: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    sys.path.insert(0, str(BENCHMARKS))
    from nodeside.cgroups import Cgroup
    from nodeside.files import AgentError

    try:
        Cgroup(9010, memory_mb=LIMIT_MB).close()
    except AgentError as error:
        pytest.skip(f"needs a login that may make cgroups: root ({error})")
    prefix = Path(interpreter("pytorch")).parents[1]
    place = tmp_path_factory.mktemp("largest")
    with terminal(place, SUITE) as made:
        cluster = place / "dags/clusters/local.yaml"
        paths = f"environments:\n  paths: {{pytorch: {prefix}}}\n"
        cluster.write_text(cluster.read_text().replace("environments:\n", paths))
        done = made.run("run", "trial", "--direct")
        assert done.returncode == 0, done.stdout + done.stderr
        yield made


def ranks(here: Terminal, repeat: int) -> list[dict[str, Any]]:
    case = here.newest().case(CASE)
    results = [case.result(repeat, node) for node in ("n1", "n2")]
    processes = [process for result in results if result for process in result["processes"]]
    return [process["summary"] for process in processes]


def test_repeats_are_measured_with_the_largest_batch_that_fits(here: Terminal) -> None:
    first, second = (ranks(here, repeat) for repeat in (1, 2))
    (found,) = {rank["batch_size_per_device"] for rank in (*first, *second)}
    assert found > 4
    for rank in (*first, *second):
        assert rank["samples_per_step"] == found
        # Within the limit, and not far below it: a tenth is left free.
        assert 0.7 * LIMIT_MB < rank["peak_memory"]["resident_bytes"] / 1e6 < LIMIT_MB
    rows = here.rows()
    (row,) = [row for row in rows if row["case_id"] == CASE]
    assert (row["batch_size_per_device"], row["status"], row["n"]) == (found, "ok", 2)


def test_attempts_are_no_faults_of_the_node(here: Terminal) -> None:
    case = here.newest().case(CASE)
    for repeat in (1, 2):
        result = case.result(repeat, "n1") or {}
        assert (result["status"], result["reasons"], result["killed"]) == ("ok", [], [])
