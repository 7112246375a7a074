"""A dags/ folder of one's own, and a catalog that no change of benchmarks/ can move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nightbench.core.model import (
    Catalog,
    FrameworkInfo,
    Role,
    Strategy,
    Untried,
    Variant,
    WorkloadInfo,
)

EVERYWHERE: dict[str, Untried | str | None] = {"cpu": None, "gpu": None}
SERVED = {
    "strategy": {str(strategy): EVERYWHERE for strategy in Strategy},
    "sync": {"sync": EVERYWHERE, "async": EVERYWHERE},
}
ROLES = {
    Strategy.PARAMETER_SERVER: {
        "pserver": Role(count="pservers"),
        "trainer": Role(count="trainers", measured=True),
    }
}
BUILDS = {"cpu": "cpu", "cu126": "gpu"}
ON_CPUS = {"cpu": Variant(device="cpu", pythons=("3.11",))}
ALL = (Strategy.SINGLE, Strategy.COLLECTIVE, Strategy.PARAMETER_SERVER)


def framework(line: str, **changes: object) -> FrameworkInfo:
    fields: dict[str, object] = {
        "line": line,
        "title": line,
        "version": "1.0",
        "api": line,
        "devices": EVERYWHERE,
        "variants": {
            name: Variant(device=kind, pythons=("3.11",)) for name, kind in BUILDS.items()
        },
        "axes": {
            "strategy": {
                "single": EVERYWHERE,
                "collective": EVERYWHERE,
                "parameter_server": dict.fromkeys(EVERYWHERE, "the wheel is built without it"),
            },
            "precision": {"fp32": EVERYWHERE, "bf16": {"cpu": "too slow", "gpu": None}},
        },
        "launcher_env": ("RANK", "CUDA_VISIBLE_DEVICES"),
    }
    return FrameworkInfo(**{**fields, **changes})


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(
        frameworks={
            "fake": framework("fake", axes=SERVED, roles=ROLES),
            "paddle1": framework("paddle1", axes=SERVED, roles=ROLES, variants=ON_CPUS),
            "paddle3": framework("paddle3"),
            "pytorch": framework("pytorch"),
        },
        workloads={
            "net": WorkloadInfo(
                name="net",
                title="Net",
                unit="images",
                frameworks=("fake", "paddle1", "paddle3", "pytorch"),
                strategies=ALL,
                scales={"full": {"size": 224}, "smoke": {"size": 32}},
                digest="d0",
            ),
            "words": WorkloadInfo(
                name="words",
                title="Words",
                unit="tokens",
                frameworks=("fake",),
                strategies=ALL,
                scales={"full": {"sequence_length": 128}},
            ),
        },
        code_digest="c0",
    )


CLUSTER = """\
cluster: pair
nodes:
  - hosts: node[1-2]
    ssh_conn_id: ssh_pair
"""

SUITE = """\
suite: trial
owner: tests
cluster: pair
matrix:
  - workload: net
    frameworks: [pytorch, paddle3]
    strategy: collective
    devices: [1x1, 2x1]
    batch_size_per_device: 2
"""


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("clusters/pair.yaml", CLUSTER), ("suites/trial.yaml", SUITE)):
        path = tmp_path / "dags" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "dags"


@pytest.fixture
def suite_file(dags: Path) -> Callable[..., Path]:
    """Writes the suite with some texts replaced by others."""

    def write(*changes: tuple[str, str]) -> Path:
        return _rewrite(dags / "suites" / "trial.yaml", SUITE, changes)

    return write


@pytest.fixture
def cluster_file(dags: Path) -> Callable[..., Path]:
    """Writes the cluster with some texts replaced by others."""

    def write(*changes: tuple[str, str]) -> Path:
        return _rewrite(dags / "clusters" / "pair.yaml", CLUSTER, changes)

    return write


def _rewrite(path: Path, text: str, changes: tuple[tuple[str, str], ...]) -> Path:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    return path
