"""A run ships the code that it was planned with, whatever becomes of the folder."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import time
from pathlib import Path

import pytest

from nightbench.core.code_digest import code_digest
from nightbench.core.errors import UserError
from nightbench.night.code_snapshot import UNUSED_DAYS, keep_code, kept_shipment, shipment_of_now
from nightbench.spool import RunSpool, Spool


@pytest.fixture
def benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "benchmarks"
    (folder / "frameworks").mkdir(parents=True)
    (folder / "rank.py").write_text("print('planned')\n")
    (folder / "agent.py").write_text("#!/usr/bin/env python3\n")
    (folder / "agent.py").chmod(0o755)
    monkeypatch.setenv("NIGHTBENCH_BENCHMARKS", str(folder))
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> RunSpool:
    return Spool(tmp_path / "spool").run("r1")


def test_an_edit_after_the_plan_is_not_shipped(benchmarks: Path, run: RunSpool) -> None:
    digest = code_digest(benchmarks)
    keep_code(run, digest)
    (benchmarks / "rank.py").write_text("print('edited')\n")
    shutil.rmtree(benchmarks / "frameworks")
    for _ in range(2):  # unpacked, and found unpacked
        shipment = kept_shipment(run, digest, None)
        assert shipment.code_digest() == digest
        assert (shipment.benchmarks / "rank.py").read_text() == "print('planned')\n"
        assert os.access(shipment.benchmarks / "agent.py", os.X_OK)


def test_what_changes_while_it_is_planned_is_refused(benchmarks: Path, run: RunSpool) -> None:
    digest = code_digest(benchmarks)
    (benchmarks / "rank.py").write_text("print('edited')\n")
    with pytest.raises(UserError, match="changed while the run was being planned"):
        keep_code(run, digest)
    with pytest.raises(UserError, match="changed while the run was being planned"):
        shipment_of_now(digest, None)
    assert run.code() is None


def test_a_run_without_its_code_says_so(benchmarks: Path, run: RunSpool) -> None:
    with pytest.raises(UserError, match=r"found no code\.tar\.gz next to"):
        kept_shipment(run, code_digest(benchmarks), None)
    keep_code(run, code_digest(benchmarks))
    with pytest.raises(UserError, match="expected the planned 000000000000"):
        kept_shipment(run, "0" * 64, None)


def test_copies_that_no_run_uses_any_more_are_removed(benchmarks: Path, tmp_path: Path) -> None:
    old = shipment_of_now(code_digest(benchmarks), None).benchmarks
    past = time.time() - (UNUSED_DAYS + 1) * 86400
    os.utime(old, (past, past))
    (benchmarks / "rank.py").write_text("print('edited')\n")
    new = shipment_of_now(code_digest(benchmarks), None).benchmarks
    assert [each.name for each in (tmp_path / "home/code").iterdir()] == [new.name]


def test_a_copy_that_another_process_removes_meanwhile_is_no_error(
    benchmarks: Path, tmp_path: Path
) -> None:
    (tmp_path / "home/code").mkdir(parents=True)
    (tmp_path / "home/code/gone").symlink_to(tmp_path / "removed")
    assert shipment_of_now(code_digest(benchmarks), None).benchmarks.is_dir()


@pytest.mark.parametrize("name", ["../outside.py", "/tmp/outside.py"])
def test_an_archive_writes_nowhere_else(run: RunSpool, benchmarks: Path, name: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    run.save_code(packed.getvalue())
    with pytest.raises(UserError, match="expected files below benchmarks/ only"):
        kept_shipment(run, "0" * 64, None)
