"""One run, comparison, bisect or drill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

from upath import UPath

from nightbench.spool import steering
from nightbench.spool.case import CaseStore
from nightbench.spool.documents import (
    Document,
    component,
    entries,
    read_bytes,
    read_json,
    unless_damaged,
    write_bytes,
    write_json,
)


class RunSpool:
    """One run."""

    def __init__(self, folder: UPath) -> None:
        self.folder = folder
        self.run_id = folder.name

    def case(self, case_id: str, generation: int = 0) -> CaseStore:
        """The store of one generation of a case; nothing is created."""
        return CaseStore(self.folder / "cases" / component(case_id, "case") / f"g{generation}")

    def generations(self, case_id: str) -> list[int]:
        """The generations of a case that have files, ascending."""
        found = entries(self.folder / "cases" / component(case_id, "case"))
        return sorted(int(p.name[1:]) for p in found if p.name[:1] == "g" and p.name[1:].isdigit())

    def latest(self, case_id: str) -> CaseStore | None:
        """The store of the highest generation; None where the case was never prepared."""
        generations = self.generations(case_id)
        return self.case(case_id, generations[-1]) if generations else None

    def case_ids(self) -> list[str]:
        """Cases that have files, sorted."""
        return sorted(p.name for p in entries(self.folder / "cases"))

    def run(self) -> Document | None:
        """run.json: the run, its suite, protocol, builds, policy and channels."""
        found: Document | None = read_json(self.folder / "run.json")
        return found

    def save_run(self, document: Mapping[str, Any]) -> None:
        """Keep run.json."""
        write_json(self.folder / "run.json", document)

    def planned(self) -> list[Document]:
        """planned.json: every case that the run was meant to measure."""
        return read_json(self.folder / "planned.json") or []

    def save_planned(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Keep planned.json; written before anything is launched."""
        write_json(self.folder / "planned.json", list(documents))

    def code(self) -> bytes | None:
        """code.tar.gz: what was below `benchmarks/` when the run was planned."""
        return read_bytes(self.folder / "code.tar.gz")

    def save_code(self, archive: bytes) -> None:
        """Keep code.tar.gz; written before anything is launched."""
        write_bytes(self.folder / "code.tar.gz", archive)

    def loaded(self) -> Document | None:
        """loaded.json: what the ingest wrote after the warehouse had everything.

        A damaged one counts as none: loading a run again changes nothing.
        """
        return unless_damaged(self.folder / "loaded.json")

    def save_loaded(self, document: Mapping[str, Any]) -> None:
        """Say that the warehouse has everything of this run."""
        write_json(self.folder / "loaded.json", document)

    def steered(self) -> AbstractContextManager[None]:
        """Say for as long as this lasts that this process steers the run; see `steering`."""
        return steering.steering(self.folder)

    def is_steered(self) -> bool | None:
        """Whether a process lives that steers the run; None where none ever said so."""
        return steering.is_steered(self.folder)

    def remove(self) -> None:
        """Remove the run with all its files."""
        self.folder.rmdir(recursive=True)


def started_at(run: RunSpool) -> datetime | None:
    """When a run began, in UTC without a zone; None where its run.json does not say."""
    started = (run.run() or {}).get("started_at")
    if not started:
        return None
    moment = datetime.fromisoformat(started)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
