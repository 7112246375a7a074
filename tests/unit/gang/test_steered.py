"""Whether somebody steers a run, as the kernel tells it."""

import fcntl
from pathlib import Path

from nightbench.spool import Spool


def test_a_run_is_steered_for_as_long_as_somebody_says_so(tmp_path: Path) -> None:
    run = Spool(tmp_path).run("r1")
    assert run.is_steered() is None
    with run.steered():
        assert run.is_steered() is True
    assert run.is_steered() is False


def test_who_asks_is_not_taken_for_one_who_steers(tmp_path: Path) -> None:
    run = Spool(tmp_path).run("r1")
    with run.steered():
        pass
    with (run.folder / "steering.lock").open() as another:
        fcntl.flock(another, fcntl.LOCK_SH)  # asks at this very moment
        assert run.is_steered() is False
