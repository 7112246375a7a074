"""All that a spool holds."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from upath import UPath

from nightbench.config import locations
from nightbench.spool.case import CaseStore
from nightbench.spool.documents import SpoolError, component, entries, is_local, write_bytes
from nightbench.spool.run import RunSpool, started_at

log = logging.getLogger(__name__)

_SAID: set[str] = set()
"""Warnings that this process has given."""


class Spool:
    """All runs below one folder or URL."""

    def __init__(self, root: UPath | str | os.PathLike[str]) -> None:
        path = UPath(root)
        # fsspec keeps what it has listed: files that other hosts write would stay unseen.
        self.root = path if is_local(path) else UPath(root, use_listings_cache=False)

    def run(self, run_id: str) -> RunSpool:
        """The spool of a run; nothing is created."""
        return RunSpool(self.root / "runs" / component(run_id, "run"))

    def case(self, run_id: str, case_id: str, generation: int = 0) -> CaseStore:
        """The store of one generation of a case of a run."""
        return self.run(run_id).case(case_id, generation)

    def comparison(self, comparison_id: str) -> RunSpool:
        """The files of a comparison of two builds, its launches as cases; nothing is created."""
        return RunSpool(self.root / "comparisons" / component(comparison_id, "comparison"))

    def comparisons(self) -> list[RunSpool]:
        """All comparisons, oldest first as `runs`."""
        return _by_date(self.root / "comparisons")

    def bisect(self, bisect_id: str) -> RunSpool:
        """The files of a bisect, whose tests are comparisons; nothing is created."""
        return RunSpool(self.root / "bisects" / component(bisect_id, "bisect"))

    def bisects(self) -> list[RunSpool]:
        """All bisects, oldest first as `runs`."""
        return _by_date(self.root / "bisects")

    def drill(self, drill_id: str) -> RunSpool:
        """The files of a drill of the detector, with runs of its own; nothing is created."""
        return RunSpool(self.root / "drills" / component(drill_id, "drill"))

    def drills(self) -> list[RunSpool]:
        """All drills, oldest first as `runs`."""
        return _by_date(self.root / "drills")

    def runs(self) -> list[RunSpool]:
        """All runs, oldest first by the date in run.json (by name where that is missing).

        A run whose run.json is damaged is passed over, and named in the log.
        """
        return _by_date(self.root / "runs")

    def keep_reports(self, made: Path) -> UPath:
        """Keep all files of a folder as reports, which every host can read; returns their folder.

        Raises:
            SpoolError: they cannot be written.
        """
        folder = self.root / "reports"
        for file in sorted(made.rglob("*")):
            if file.is_file():
                write_bytes(folder / file.relative_to(made).as_posix(), file.read_bytes())
        return folder

    def expire(self, days: float, now: datetime | None = None) -> list[str]:
        """Remove loaded runs, comparisons, bisects and drills that are older; returns their ids.

        A run that the warehouse does not have yet stays, however old it is.
        """
        limit = (now or datetime.now(UTC)).replace(tzinfo=None) - timedelta(days=days)
        removed = []
        unneeded = [run for run in self.runs() if run.loaded() is not None]
        unneeded += [*self.comparisons(), *self.bisects(), *self.drills()]
        for run in unneeded:
            started = started_at(run)
            if started is not None and started < limit and not run.is_steered():
                run.remove()
                removed.append(run.run_id)
        return removed


def open_spool() -> Spool:
    """The spool of this deployment; worker and triggerer must both reach it."""
    return Spool(locations.spool_root())


def _by_date(folder: UPath) -> list[RunSpool]:
    found = []
    for run in map(RunSpool, entries(folder)):
        try:
            found.append((started_at(run) or datetime.max, run.run_id, run))
        except SpoolError as error:
            # One damaged run must not keep all the others from their ingest.
            said = f"run {run.run_id} is passed over: {error}"
            if said not in _SAID:  # a live view looks every second
                _SAID.add(said)
                log.warning("%s", said)
    return [run for *_, run in sorted(found, key=lambda each: each[:2])]
