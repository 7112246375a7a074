"""How the suite is spread over worker processes; see tests/README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
ONE_STACK = "airflow"
"""The group of all tests that use the live stack: one worker starts it, once."""
LONGEST_FIRST = ("live", "framework")
SERVERS = ("integration", "sql")
"""Folders whose files start servers of their own: a file stays in one worker."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker: say which tests stay together, and begin with what takes longest.

    A long group that came last would have one worker busy while the others are done.
    """
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.xdist_group(ONE_STACK))
        elif folder(item) in SERVERS:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=rank)


def folder(item: pytest.Item) -> str:
    """The folder of tests/ that holds an item."""
    return item.path.relative_to(HERE).parts[0]


def rank(item: pytest.Item) -> int:
    """Its place in the order; what is equal stays in the order of files."""
    for place, marker in enumerate(LONGEST_FIRST):
        if item.get_closest_marker(marker):
            return place
    return len(LONGEST_FIRST) + (folder(item) not in SERVERS)
