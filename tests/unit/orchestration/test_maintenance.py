from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nightbench.local import logfiles
from nightbench.orchestration import upkeep_dags
from nightbench.orchestration.upkeep_dags import expire_logs

DAY = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "at", "previous", "due"),
    [
        ("scheduled", "12:15", "12:00", False),
        ("scheduled", "12:30", "12:15", True),
        ("scheduled", "12:45", "12:30", False),
        # The scheduler was away at half past twelve.
        ("scheduled", "13:15", "12:15", True),
        ("scheduled", "00:15", "-12:15", True),
        ("scheduled", "00:15", "-12:30", False),
        # A new deployment, and a person.
        ("scheduled", "09:00", None, True),
        ("manual", "09:00", "08:45", True),
    ],
)
def test_the_daily_work_is_due_once_a_day(
    kind: str, at: str, previous: str | None, due: bool
) -> None:
    def moment(text: str) -> datetime:
        hours, minutes = text.removeprefix("-").split(":")
        day = DAY - timedelta(days=text.startswith("-"))
        return day + timedelta(hours=int(hours), minutes=int(minutes))

    before = previous and SimpleNamespace(run_after=moment(previous))
    context: dict[str, Any] = {
        "dag_run": SimpleNamespace(run_type=kind, run_after=moment(at)),
        "ti": SimpleNamespace(get_previous_dagrun=lambda: before),
    }
    task: Any = upkeep_dags.is_daily_work_due
    assert task.function(**context) is due


def test_old_logs_go_and_nothing_else(tmp_path: Path) -> None:
    old, new = tmp_path / "dag_id=a" / "old.log", tmp_path / "dag_id=a" / "new.log"
    other = tmp_path / "dag_id=a" / "notes.txt"
    alone = tmp_path / "dag_id=b" / "old.log"
    ago = time.time() - 40 * 86400
    for path in (old, new, other, alone):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    for path in (old, other, alone):
        os.utime(path, (ago, ago))

    assert expire_logs(tmp_path, 30) == 2

    assert not old.exists()
    assert new.exists()
    assert other.exists()
    assert not alone.exists()


@pytest.mark.parametrize("expire", [expire_logs, logfiles.expire])
def test_a_log_that_cannot_be_removed_keeps_no_other(
    expire: Callable[[Path, float], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ago = time.time() - 40 * 86400
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (path := tmp_path / name / f"{name}.log").write_text("x")
        os.utime(path, (ago, ago))
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.name == "b.log":
            raise PermissionError(13, "Permission denied")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    assert expire(tmp_path, 30) == 2
    assert [path.name for path in tmp_path.rglob("*.log")] == ["b.log"]
    assert "b/b.log is not removed: [Errno 13] Permission denied" in caplog.text
