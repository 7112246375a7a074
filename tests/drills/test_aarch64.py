"""Nodes with another CPU architecture than the controller's; see `arm`."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.drills.arm import NoEmulation, arm_host, emulated
from tests.drills.gangs import check_accounts, make_job, make_store, measure
from tests.drills.hosts import Lab
from tests.shipped import shipped

from nightbench.core.model import Build, CaseStatus, JobSpec
from nightbench.gang import EnvironmentUnavailable, Shipment, local_shipment, prepare
from nightbench.gang.errors import MachinesDiffer
from nightbench.gang.preflight import preflight
from nightbench.gang.wheels import download_wheels
from nightbench.nodes import compare, findings

LINE = "numbers"
VARIANTS = {"cpu": ["x86_64", "aarch64"], "narrow": ["x86_64"]}

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="emulates aarch64 on x86_64")


@pytest.fixture(scope="module", autouse=True)
def emulation() -> Iterator[None]:
    try:
        with emulated():
            yield
    except NoEmulation as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped code with a line that needs NumPy, locked for both architectures."""
    benchmarks = shipped(tmp_path_factory.mktemp("tree"))
    folder = benchmarks / "frameworks" / LINE
    folder.mkdir()
    described = {
        "line": LINE,
        "title": "NumPy",
        "version": "2.2.6",
        "package": "numpy",
        "api": "python",
        "devices": {"cpu": True},
        "variants": {
            name: {"device": "cpu", "pythons": ["3.11"], "machines": machines}
            for name, machines in VARIANTS.items()
        },
    }
    (folder / "framework.json").write_text(json.dumps(described))
    uv = [str(Path(sys.prefix) / "bin/uv"), "pip", "compile", "--universal", "--generate-hashes"]
    lock = subprocess.run(
        [*uv, "--python-version", "3.11", "-"],
        input="numpy==2.2.6\n",
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in VARIANTS:
        (folder / f"requirements-{name}.lock").write_text(lock.stdout)
    return benchmarks


def numbers_job(lab: Lab, shipment: Shipment, variant: str = "cpu", node: str = "n1") -> JobSpec:
    job = make_job(lab, shipment, nodes=[node])
    case = dataclasses.replace(job.case, framework=LINE)
    return dataclasses.replace(job, case=case, build=Build(LINE, variant))


def ssh(lab: Lab, command: str, node: str = "n1") -> str:
    """Run a command in a session on a host, by OpenSSH's own client."""
    target = lab.targets()[node]
    words = ["ssh", "-i", str(lab.key), "-o", f"UserKnownHostsFile={lab.known_hosts}"]
    done = subprocess.run(
        [*words, "-o", "BatchMode=yes", f"bench@{target.host}", command],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


async def test_a_case_on_an_aarch64_node(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """Agent, repeats and fingerprint on a node whose every program is arm64's."""
    arm_host(lab, "n1")
    assert ssh(lab, "uname -m") == "aarch64"
    job = make_job(lab, shipment, repeats=2, daemon=True)
    store = make_store(tmp_path)
    outcome = await measure(lab, shipment, job, store)
    check_accounts(lab, job, store, outcome)
    assert outcome.status is CaseStatus.OK, outcome.why
    fingerprint = store.fingerprint("n1")
    assert fingerprint is not None
    cpu = fingerprint["cpu"]
    assert (cpu["model"], cpu["machine"]) == ("Neoverse-V2 r0p0", "aarch64")
    assert cpu["flags"] == ["asimd", "asimdhp", "bf16", "i8mm", "sve", "sve2"]
    assert cpu["threads"] == os.cpu_count()


async def test_environments_of_both_architectures_below_one_root(
    lab: Lab, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv for aarch64 is fetched and shipped; each node builds from one lock what runs there."""
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    machines = {"n1": "aarch64", "n2": "x86_64"}
    lab.host("n2", shares_home_of=arm_host(lab, "n1"))
    house = tmp_path / "house"
    house.mkdir()
    shipment = local_shipment(str(house), tree)
    root, version = "~/.nightbench-node", shipment.uv_version
    for node, machine in machines.items():
        (wheel,) = download_wheels(house, tree, LINE, "cpu", machine, print)
        assert wheel.path.name.endswith(f"_{machine}.whl")
        await prepare(numbers_job(lab, shipment, node=node), lab.targets(), shipment)
        uv = f"{root}/tools/uv-{version}-{machine}"
        said = ssh(lab, f"{uv} --version", node)
        assert said == f"uv {version} ({machine}-unknown-linux-gnu)"
    assert sorted(os.listdir(tmp_path / "home/tools")) == [
        f".uv-{version}-aarch64.lock",
        f"uv-{version}-aarch64",
    ]
    oldest_first = ssh(lab, f"ls -dtr {root}/envs/{LINE}-*").split()
    script = "import numpy, os; print(int(numpy.arange(5).sum()), os.uname().machine)"
    for (node, machine), environment in zip(machines.items(), oldest_first, strict=True):
        assert ssh(lab, f'{environment}/bin/python -c "{script}"', node) == f"10 {machine}"


async def test_a_line_without_wheels_for_the_node(lab: Lab, tree: Path) -> None:
    """It is unavailable with a sentence, before uv is shipped or an environment is begun."""
    host = arm_host(lab, "n1")
    shipment = local_shipment(None, tree)
    with pytest.raises(EnvironmentUnavailable, match=r"numbers.*wheels for x86_64.*aarch64"):
        await prepare(numbers_job(lab, shipment, "narrow"), lab.targets(), shipment)
    assert not (host.home / "bench/.nightbench-node").exists()


async def test_nodes_of_both_architectures(lab: Lab, shipment: Shipment) -> None:
    """A gang over both is refused before anything is written; doctor says why."""
    arm_host(lab, "n1")
    lab.host("n2")
    job = make_job(lab, shipment)
    with pytest.raises(MachinesDiffer, match=r"n2.*found x86_64, but n1 is aarch64"):
        await prepare(job, lab.targets(), shipment)
    for host in lab.hosts.values():
        assert not (host.home / "bench/.nightbench-node").exists()
    seen, _ = await preflight(lab.cluster(), lab.targets(), shipment)
    between = {finding.title: finding for finding in compare(seen)}
    assert between["machine"].found == "n1: aarch64; n2: x86_64"
    assert "set `machine`" in between["machine"].advice
    assert [finding.title for finding in findings(seen[0], lab.cluster())].count("machine") == 0
