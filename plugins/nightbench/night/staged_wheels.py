"""Removes wheels that `nightbench run --build` staged, once no run uses them any more."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from nightbench.config.builds import locked_staging, staged_wheels
from nightbench.core.code_digest import file_digest
from nightbench.core.errors import ItemErrors
from nightbench.spool import Spool
from nightbench.spool.documents import read_bytes
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
    removed, errors = [], ItemErrors()
    with locked_staging():
        old = [x for x in staged_wheels() if x.stat().st_mtime < oldest.timestamp()]
        used = list(_used_since(spool, oldest)) if old else []
        for wheel in old:
            written = json.dumps(str(wheel), ensure_ascii=False)[1:-1].encode()
            if any(written in text for text in used):
                continue
            with errors.of(f"{wheel} is not removed"):
                if file_digest(wheel).startswith(wheel.parent.name):
                    wheel.unlink()
                    wheel.parent.rmdir()
                    removed.append(wheel)
    return removed


def _used_since(spool: Spool, oldest: datetime) -> Iterator[bytes]:
    """Yield the files that say what each run and experiment measures that began since, or goes on.

    They are not parsed: a damaged one names its wheels as well.
    """
    for folder in (*spool.runs(), *spool.comparisons()):
        began = started_at(folder)
        recent = began is None or began >= oldest
        if recent or ((folder.folder / "planned.json").exists() and not folder.has_ended):
            for name in ("run.json", "planned.json"):
                yield read_bytes(folder.folder / name) or b""
