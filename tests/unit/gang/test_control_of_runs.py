"""Whether a process controls a run, from the lock of the kernel."""

import fcntl
from pathlib import Path

from nightbench.spool import Spool


def test_a_run_is_controlled_while_its_process_has_the_lock(tmp_path: Path) -> None:
    run = Spool(tmp_path).run("r1")
    assert run.is_controlled() is None
    with run.controlled():
        assert run.is_controlled() is True
    assert run.is_controlled() is False


def test_a_reader_of_the_lock_is_not_taken_for_its_owner(tmp_path: Path) -> None:
    run = Spool(tmp_path).run("r1")
    with run.controlled():
        pass
    with (run.folder / "control.lock").open() as another:
        fcntl.flock(another, fcntl.LOCK_SH)  # asks at this very moment
        assert run.is_controlled() is False
