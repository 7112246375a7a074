"""How the suite is spread over worker processes; see tests/README.md."""

from __future__ import annotations

import os
import random
import re
import zlib
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, settings
from tests import programs
from xdist.scheduler import LoadScopeScheduling

SERVERS = ("integration", "sql")
"""Folders whose files start servers of their own: the tests of a file stay in one worker."""
LIVE = "test_airflow_"
"""How the files of integration/ begin that share one Airflow: they all stay in one worker."""
LONG = "sql/test_acceptance.py"
"""Its slow test waits for a dozen launches, one after another."""
TOGETHER = (
    "dags",  # parsed once for all
    "unit/checks",  # Great Expectations takes seconds to import
    "unit/local/test_postgres.py",  # one server for all
    "unit/node/test_neighbours.py",  # on one core two would disturb each other
)
"""Folders and files whose tests stay in one worker."""
SINGLY = tuple(
    f"integration/test_{name}.py"
    for name in (
        *("dgc", "first_step", "work_done", "gpu_precisions", "modes_used"),
        *(
            "parameter_servers",
            "ranks_agree",
            "parallelism",
            "recompute",
            "sharding",
            "weights_move",
        ),
    )
)
"""Files of integration/ that start no servers: their tests train for up to minutes each, with
environments that all workers share."""


# How long an example takes says how busy this machine is.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

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
    if path.parts[0] in SERVERS and str(path) not in SINGLY:
        # The nodes of a file are started once for each kind of server.
        return f"{path}{' openssh' if '[openssh' in nodeid else ''}"
    return nodeid.removeprefix("tests/")


def rank(item: pytest.Item) -> int:
    """Its place in the order; what is equal stays in the order of files."""
    which = group(item.nodeid)
    if which in (LIVE, LONG):
        return 0
    if which.startswith("integration"):
        return 2 if "::" in which else 1
    return 3 if which.startswith("sql") else 4


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the groups that take longest: one that came last would end alone."""
    items.sort(key=rank)
    if config.option.random_order is not None:
        shuffle(items, config.option.random_order)
    if config.option.slow_share:
        number, shares = _share(config.option.slow_share)
        slow = [item.nodeid for item in items if _is_slow(item)]
        _leave_out(config, items, {each for each in slow if share(each, shares) != number})
    if config.option.passed_in:
        _leave_out(config, items, set(Path(config.option.passed_in).read_text().splitlines()))


def _leave_out(config: pytest.Config, items: list[pytest.Item], ids: set[str]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in ids])
    items[:] = [item for item in items if item.nodeid not in ids]


def share(nodeid: str, shares: int) -> int:
    """Return which of so many shares has a test: 1 to `shares`; a group has one."""
    return zlib.crc32(group(nodeid).encode()) % shares + 1


def _share(text: str) -> tuple[int, int]:
    if found := re.fullmatch(r"([1-9]\d?)/([1-9]\d?)", text):
        number, shares = int(found[1]), int(found[2])
        if number <= shares:
            return number, shares
    raise pytest.UsageError(f"--slow-share: found {text!r}; expected N/M, for example 2/3")


def _is_slow(item: pytest.Item) -> bool:
    return "slow" in item.keywords or item.nodeid.startswith("tests/browser")


def shuffle(items: list[pytest.Item], seed: int) -> None:
    """Put the groups in a random order, and the tests within each."""
    groups = defaultdict(list)
    for item in items:
        groups[group(item.nodeid)].append(item)
    chance, order = random.Random(seed), list(groups.values())
    chance.shuffle(order)
    for together in order:
        chance.shuffle(together)
    items[:] = [item for together in order for item in together]


class Groups(LoadScopeScheduling):
    """Hands groups to workers, in the order in which they were collected.

    The mark xdist_group is no way to it: xdist 3.8 hands it on in the id of a test, which
    pytest 9.2 computes anew.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Groups:
    """The scheduler of `pytest -n`."""
    config.option.loadscopereorder = False
    return Groups(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that tests/README.md describes."""
    words = "fail where more than this many tests are skipped"
    parser.addoption("--most-skips", type=int, default=None, metavar="N", help=words)
    words = "run the tests in the random order of this seed"
    parser.addoption("--random-order", type=int, default=None, metavar="SEED", help=words)
    words = "of the slow tests and those of a browser, run one share of M"
    parser.addoption("--slow-share", default=None, metavar="N/M", help=words)
    words = "write the ids of the tests that passed"
    parser.addoption("--passed-to", default=None, metavar="FILE", help=words)
    words = "leave out the tests that passed elsewhere: a file that --passed-to wrote"
    parser.addoption("--passed-in", default=None, metavar="FILE", help=words)


def _reports(config: pytest.Config, outcome: str) -> list[pytest.TestReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get(outcome, []) if reporter else []


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let a run with too many skips fail; keep what passed."""
    config = session.config
    most, passed = config.option.most_skips, config.option.passed_to
    if most is not None and exitstatus == 0 and len(_reports(config, "skipped")) > most:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if passed and not hasattr(config, "workerinput"):
        lines = [f"{report.nodeid}\n" for report in _reports(config, "passed")]
        Path(passed).parent.mkdir(parents=True, exist_ok=True)
        Path(passed).write_text("".join(lines))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped, and why: each reason names what would bring it."""
    config = terminalreporter.config
    skipped = _reports(config, "skipped")
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
