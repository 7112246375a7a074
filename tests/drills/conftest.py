"""Hosts for the drills; says at once what this machine lacks for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.drills.gangs")

from tests.drills.hosts import Lab, missing  # noqa: E402 - what is registered comes first
from tests.drills.kubernetes import build  # noqa: E402 - as above
from tests.drills.kubernetes.cluster import IMAGE, started  # noqa: E402 - as above
from tests.drills.kubernetes.pods import Reached  # noqa: E402 - as above
from tests.drills.shares import ELSEWHERE, SHARES, share_of  # noqa: E402 - as above
from tests.shipped import shipped  # noqa: E402 - as above

from nightbench.gang import Shipment  # noqa: E402 - as above

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that CI gives."""
    words = f"run one of the {SHARES} shares of the drills, as 1/{SHARES}; see shares.py"
    parser.addoption("--share", default=None, metavar="N/M", help=words)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the drills of other shares; in a share, skip what needs other services."""
    if config.option.share is None:
        return
    try:
        files = share_of(config.option.share)
    except ValueError as error:
        raise pytest.UsageError(f"--share: {error}") from None
    config.hook.pytest_deselected(items=[each for each in items if each.path.name not in files])
    items[:] = [each for each in items if each.path.name in files]
    for item in items:
        if needed := ELSEWHERE.get(item.path.name):
            item.add_marker(pytest.mark.skip(reason=f"needs {needed}: `make drills` runs it"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Nothing is skipped silently: without what they need the drills do not start."""
    lacking = missing()
    if lacking:
        listed = "\n".join(f"  - {what}" for what in lacking)
        pytest.exit(f"the drills need what is not here:\n{listed}", returncode=2)


@pytest.fixture(scope="session")
def shipment(tmp_path_factory: pytest.TempPathFactory) -> Shipment:
    return Shipment(shipped(tmp_path_factory.mktemp("shipped")))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """An empty lab; hosts are made with `lab.host(name)`."""
    with Lab(tmp_path / "lab") as lab:
        yield lab


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[Reached]:
    """The cluster that KUBECONFIG names; otherwise one that is built and started here."""
    pytest.importorskip("kubernetes_asyncio")
    given = os.environ.get("KUBECONFIG")
    if given:
        yield Reached(given, os.environ.get("NIGHTBENCH_DRILL_IMAGE", IMAGE))
        return
    if lacking := build.missing():
        pytest.skip(lacking)
    try:
        build.build()
    except build.NoKubernetes as error:
        pytest.skip(f"no Kubernetes can be built: {error}")
    with started() as cluster:
        yield Reached(str(cluster.kubeconfig), own=cluster)
