"""How the suite is spread over worker processes; see tests/README.md."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import PurePosixPath

import pytest
from tests import programs
from xdist.scheduler import LoadScopeScheduling

SERVERS = ("integration", "sql")
"""Folders whose files start servers of their own: the tests of a file stay in one worker."""
LIVE = "test_airflow_"
"""How the files of integration/ begin that share one Airflow: they all stay in one worker."""
TOGETHER = (
    "dags",  # parsed once for all
    "unit/checks",  # Great Expectations takes seconds to import
    "unit/local/test_postgres.py",  # one server for all
    "unit/node/test_neighbours.py",  # on one core two would disturb each other
)
"""Folders and files whose tests stay in one worker."""


# What `python -m tests.contained` unpacked, for what tests start.
os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(programs.BIN)])


def group(nodeid: str) -> str:
    """What runs in one worker, one after another; most tests are a group by themselves."""
    path = PurePosixPath(nodeid.partition("::")[0]).relative_to("tests")
    if path.parts[0] == "integration" and path.name.startswith(LIVE):
        return LIVE
    for shared in TOGETHER:
        if path.is_relative_to(shared):
            return shared
    if path.parts[0] in SERVERS:
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


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--most-skips N`: a run that skips more fails."""
    words = "fail where more than this many tests are skipped"
    parser.addoption("--most-skips", type=int, default=None, metavar="N", help=words)


def _skipped(config: pytest.Config) -> list[pytest.TestReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("skipped", []) if reporter else []


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let a run with too many skips fail."""
    most = session.config.option.most_skips
    if most is not None and exitstatus == 0 and len(_skipped(session.config)) > most:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped, and why: each reason names what would bring it."""
    config = terminalreporter.config
    skipped = _skipped(config)
    if not skipped:
        return
    most = config.option.most_skips
    held = (
        "" if most is None else f", {'more than' if len(skipped) > most else 'of'} {most} allowed"
    )
    terminalreporter.section(f"{len(skipped)} skipped{held}")
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:5}  {reason}")
