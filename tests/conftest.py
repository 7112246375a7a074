"""How the suite is spread over worker processes; see tests/README.md."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from xdist.scheduler import LoadScopeScheduling

SERVERS = ("integration", "sql")
"""Folders whose files start servers of their own: the tests of a file stay in one worker."""
LIVE = "test_airflow_"
"""How the files of integration/ begin that share one Airflow: they all stay in one worker."""
ONE_CORE = "unit/node/test_neighbours.py"
"""Its tests load one core: two at once would disturb each other."""


def group(nodeid: str) -> str:
    """What runs in one worker, one after another; most tests are a group by themselves."""
    path = PurePosixPath(nodeid.partition("::")[0]).relative_to("tests")
    if path.parts[0] == "integration" and path.name.startswith(LIVE):
        return LIVE
    if path.parts[0] in SERVERS or str(path) == ONE_CORE:
        # The nodes of a file are started once for each kind of server.
        return f"{path}{' openssh' if '[openssh' in nodeid else ''}"
    return nodeid


def rank(item: pytest.Item) -> int:
    """Its place in the order; what is equal stays in the order of files."""
    which = group(item.nodeid)
    if which == LIVE:
        return 0
    return 1 if which.startswith("integration") else 2 if which.startswith("sql") else 3


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the groups that take longest: one that came last would end alone."""
    items.sort(key=rank)


class Groups(LoadScopeScheduling):
    """Hands groups to workers, in the order in which they were collected.

    The mark xdist_group is no way to it: xdist 3.8 hands it on in the id of a test, which
    pytest 9.2 computes anew.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Groups:
    """The scheduler of `pytest -n`."""
    config.option.loadscopereorder = False
    return Groups(config, log)
