"""The one Airflow that all live tests of this folder share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.contained import SERVERS
from tests.integration.live_airflow import CLUSTER, Live, airflow_stack, environment
from tests.integration.live_suites import PEAK_TFLOPS, SUITES
from tests.shipped import shipped

from nightbench.gang import Shipment
from nightbench.testkit.gangs import build_environment


@pytest.fixture(scope="session")
def shipment(tmp_path_factory: pytest.TempPathFactory) -> Shipment:
    return Shipment(shipped(tmp_path_factory.mktemp("shipped")))


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Line -> interpreter of its environment; one for all workers, of which the first builds it.

    What is imported there is compiled once, too: of PyTorch in six seconds of CPU.
    """
    root = Path(os.environ.get(SERVERS) or tmp_path_factory.getbasetemp()) / "node"
    return functools.cache(functools.partial(build_environment, root))


@pytest.fixture(scope="session")
def airflow() -> Live:
    """The stack, on a cluster that takes two cases at once and states the peak of its devices."""
    cluster = CLUSTER + "limits: {parallel_cases: 2}\n"
    cluster += f"devices: {{peak_tflops: {{fp32: {PEAK_TFLOPS['cluster']}}}}}\n"
    return _opened.enter_context(airflow_stack(SUITES, cluster))


@pytest.fixture
def live(airflow: Live) -> Iterator[Live]:
    """The stack; for this test it is also the one that our own code finds."""
    with environment(airflow.settings):
        yield airflow


_opened = ExitStack()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End the stack with the last test that uses it: its scheduler computes all the time."""
    try:
        yield
    finally:
        if item.get_closest_marker("live") and not (
            nextitem and nextitem.get_closest_marker("live")
        ):
            _opened.close()
