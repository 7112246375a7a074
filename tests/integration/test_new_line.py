"""A framework line and a workload that nobody knows: two folders, and they are measured.

`newcomer/` brings a new value of an axis (compression `rounded`), roles of its own (scheduler,
server, worker), a variable of its launcher, and a new unit (frames).
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.openssh import SshNodes, local_nodes
from tests.shipped import shipped

from nightbench.config import ConfigError, load_catalog, load_suite
from nightbench.core.model import Catalog, Cluster, RankResult, Suite
from nightbench.core.run_plan import resolve
from nightbench.core.summarize import repeat_record, summarize_repeat
from nightbench.gang import Shipment, prepare, run_gang
from nightbench.spool import Spool

REPO = Path(__file__).resolve().parents[2]

SUITE = """\
suite: films
owner: tests
cluster: local
protocol: {warmup_steps: 3, measured_steps: 20, repeats: 1}
role_env: {scheduler: {SCHEDULED: "1"}}
matrix:
  - workload: film
    frameworks: relay
    strategy: parameter_server
    pservers: 2
    trainers: 2
    compression: rounded
    batch_size_per_device: 4
"""


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = shipped(tmp_path_factory.mktemp("shipped"))
    newcomer = Path(__file__).parent / "newcomer"
    shutil.copytree(newcomer, copy, dirs_exist_ok=True)
    return copy


@pytest.fixture(scope="module")
def catalog(benchmarks: Path) -> Catalog:
    return load_catalog(benchmarks)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshNodes]:
    with local_nodes(tmp_path_factory.mktemp("newcomer")) as found:
        yield found


@pytest.fixture
def cluster(nodes: SshNodes) -> Cluster:
    return Cluster("local", nodes.nodes, shared=True, environments=nodes.environments)


def suite_of(folder: Path, catalog: Catalog, cluster: Cluster, text: str = SUITE) -> Suite:
    path = folder / "films.yaml"
    path.write_text(text)
    return load_suite(path, catalog, cluster=cluster)


async def test_it_is_planned_and_measured(
    tmp_path: Path, benchmarks: Path, catalog: Catalog, nodes: SshNodes, cluster: Cluster
) -> None:
    suite = suite_of(tmp_path, catalog, cluster)
    (case,) = suite.cases
    assert case.case_id == "film-relay-ps-2ps2tr-bs4-rounded"
    job = resolve(case, suite, cluster, catalog, f"test-{tmp_path.name}")
    first, second = (node.name for node in cluster.nodes)
    assert [(p.name, p.node, p.measured) for p in job.processes] == [
        ("scheduler-0", first, False),
        ("server-0", first, False),
        ("server-1", second, False),
        ("worker-0", first, True),
        ("worker-1", second, True),
    ]
    job = dataclasses.replace(job, limits=dataclasses.replace(job.limits, repeat_s=60))
    store = Spool(tmp_path / "spool").run("films").case(case.case_id)
    shipment = Shipment(benchmarks)
    await prepare(job, nodes.targets, shipment)
    outcome = await run_gang(job, nodes.targets, store)
    assert outcome.status == "ok", outcome.why
    record = repeat_record(store.repeat(1), store.results(1))
    ranks: dict[str, RankResult] = {rank.name: rank for rank in record.ranks}
    assert ranks.keys() == {p.name for p in job.processes}
    assert ranks["worker-1"].transport == "relay/rounded"
    summary = summarize_repeat(record, case)
    assert (job.unit, summary.samples) == ("frames", 2 * 20 * 4 * 24)
    assert summary.throughput


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rounded", "top1", "relay does not support compression top1: one number cannot be sparse"),
        (
            "scheduler:",
            "schedular:",
            'found "schedular"; expected one of chief, ps, pserver, scheduler, ',
        ),
        ('SCHEDULED: "1"', 'RELAY_SCHEDULER: "1"', "set for each process by the launcher of relay"),
        ("frameworks: relay", "frameworks: fake", "film is not written for fake (for relay)"),
    ],
)
def test_its_declarations_are_what_users_are_held_to(
    tmp_path: Path, catalog: Catalog, cluster: Cluster, old: str, new: str, said: str
) -> None:
    assert old in SUITE
    with pytest.raises(ConfigError) as caught:
        suite_of(tmp_path, catalog, cluster, SUITE.replace(old, new))
    assert said in str(caught.value)
