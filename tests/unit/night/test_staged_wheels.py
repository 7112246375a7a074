"""Staged wheels: which ones go, and which ones a run may still use."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nightbench.config.builds import stage_wheels
from nightbench.night.staged_wheels import UNUSED, remove_unused_wheels
from nightbench.spool import Spool

NOW = datetime(2026, 11, 22, tzinfo=UTC)
LONG_AGO = NOW - UNUSED - timedelta(days=1)
NAME = "torch-2.0-py3-none-any.whl"


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that was staged long ago."""
    monkeypatch.setenv("NIGHTBENCH_WHEELS", str(tmp_path / "wheels"))
    given = tmp_path / NAME
    given.write_bytes(b"a wheel")
    (build,) = stage_wheels([f"pytorch={given}"])
    return aged(Path(build.partition("=")[2]))


def aged(path: Path) -> Path:
    os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    return path


def spool(tmp_path: Path, wheel: Path, began: datetime, ended: datetime | None) -> Spool:
    made = Spool(tmp_path / "spool")
    run = made.run("demo-1")
    run.save_planned([{"case_id": "a", "build": {"source": "wheel", "location": str(wheel)}}])
    document = {"run_id": "demo-1", "started_at": began.isoformat()}
    run.save_run({**document, **({"ended_at": ended.isoformat()} if ended else {})})
    return made


def test_one_that_no_run_has_used_for_long_goes(tmp_path: Path, staged: Path) -> None:
    made = spool(tmp_path, staged, LONG_AGO, LONG_AGO)
    assert remove_unused_wheels(made, NOW) == [staged]
    assert list((tmp_path / "wheels").iterdir()) == []
    assert remove_unused_wheels(made, NOW) == []


@pytest.mark.parametrize(
    ("began", "ended"),
    [(NOW - timedelta(days=29), NOW), (LONG_AGO, None)],
    ids=["of a young run", "of a run that goes on"],
)
def test_one_that_a_run_uses_stays(
    tmp_path: Path, staged: Path, began: datetime, ended: datetime | None
) -> None:
    assert remove_unused_wheels(spool(tmp_path, staged, began, ended), NOW) == []
    assert staged.is_file()


def test_one_of_a_comparison_that_may_be_resumed_stays(tmp_path: Path, staged: Path) -> None:
    made = Spool(tmp_path / "spool")
    request = {"a": "pytorch=2.0", "b": f"pytorch={staged}"}
    made.comparison("ab-1").save_run(
        {"request": request, "started_at": (NOW - timedelta(days=3)).isoformat()}
    )
    assert remove_unused_wheels(made, NOW) == []


def test_one_that_is_staged_again_stays(tmp_path: Path, staged: Path) -> None:
    stage_wheels([f"pytorch={tmp_path / NAME}"])
    later = datetime.now(UTC) + UNUSED - timedelta(days=1)
    assert remove_unused_wheels(Spool(tmp_path / "spool"), later) == []


def test_a_wheel_that_a_person_put_there_stays(tmp_path: Path, staged: Path) -> None:
    by_name = aged_copy(tmp_path / "wheels/mine" / NAME)
    by_digest = aged_copy(tmp_path / "wheels/0123456789abcdef" / NAME)
    assert remove_unused_wheels(Spool(tmp_path / "spool"), NOW) == [staged]
    assert by_name.is_file()
    assert by_digest.is_file()


def aged_copy(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"a wheel")
    return aged(path)
