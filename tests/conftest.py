"""How the suite is spread over worker processes; see tests/README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIVE = "airflow"
"""The group of all tests that use the shared Airflow: one worker starts it, once."""
SERVERS = ("integration", "sql")
"""Folders whose files start servers of their own: a file stays in one worker."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest; in workers, say which tests stay together.

    A long group that came last would have one worker busy while the others are done.
    """
    items.sort(key=rank)
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        if folder(item) in SERVERS:
            live = item.get_closest_marker("live") is not None
            item.add_marker(pytest.mark.xdist_group(LIVE if live else item.path.stem))


def folder(item: pytest.Item) -> str:
    """The folder of tests/ that holds an item."""
    return item.path.relative_to(HERE).parts[0]


def rank(item: pytest.Item) -> int:
    """Its place in the order; what is equal stays in the order of files."""
    if folder(item) == "integration":
        return 0 if item.get_closest_marker("live") else 1
    return 2 if folder(item) == "sql" else 3
