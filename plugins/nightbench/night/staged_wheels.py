"""Removes wheels that `nightbench run --build` staged, once no run uses them any more."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nightbench.config.builds import locked_staging, staged_wheels
from nightbench.core.code_digest import file_digest
from nightbench.spool import RunSpool, Spool
from nightbench.spool.run import started_at

UNUSED = timedelta(days=30)
"""Age from which a wheel goes that was not staged, nor used by a run, since."""


def remove_unused_wheels(spool: Spool, now: datetime) -> list[Path]:
    """Remove staged wheels without use for `UNUSED`; returns them.

    One stays while a run or an experiment names it that began since or has not ended. So does
    every wheel that a person put there: its folder is not named by its digest.
    """
    if not staged_wheels():
        return []  # The folder may be missing, or not ours to lock.
    oldest = now - UNUSED
    removed = []
    with locked_staging():
        old = [wheel for wheel in staged_wheels() if _modified(wheel) < oldest]
        used = list(_used_since(spool, oldest)) if old else []
        for wheel in old:
            written = json.dumps(str(wheel), ensure_ascii=False)[1:-1]
            if any(written in text for text in used):
                continue
            if file_digest(wheel).startswith(wheel.parent.name):
                wheel.unlink()
                wheel.parent.rmdir()
                removed.append(wheel)
    return removed


def _used_since(spool: Spool, oldest: datetime) -> Iterator[str]:
    """Yield as JSON what each run and experiment that began since, or goes on, measures."""
    for folder in (*spool.runs(), *spool.comparisons()):
        began = started_at(folder)
        recent = began is None or began >= oldest.replace(tzinfo=None)
        if recent or _goes_on(folder):
            yield json.dumps([folder.run(), folder.planned()], ensure_ascii=False)


def _goes_on(folder: RunSpool) -> bool:
    return bool(folder.planned()) and not folder.has_ended


def _modified(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)
