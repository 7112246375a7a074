"""Results of one case of a run, generation by generation, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from upath import UPath

from nightbench.core.documents import from_document, to_document
from nightbench.core.model import SLUG, CaseStatus, Reason
from nightbench.core.sentences import sentences
from nightbench.spool.documents import (
    Document,
    component,
    entries,
    read_json,
    read_or_none,
    utc_now,
    write_bytes,
    write_json,
)


@dataclass(frozen=True)
class RepeatOutcome:
    """How a repeat ended."""

    repeat: int
    status: str
    """ok, failed, aborted, or disturbed: measured, but not counted."""
    reasons: tuple[Reason, ...] = ()
    """Why it does not count; empty if it does."""
    throughput: float | None = field(default=None, compare=False)
    """If the caller says how it is found, for an adaptive protocol."""
    seconds: float | None = field(default=None, compare=False)
    """From its claim to its record."""
    faults: tuple[Reason, ...] = field(default=(), compare=False)
    """Faults of nodes as nodes: unreachable, rebooted, ..."""
    missing: tuple[str, ...] = field(default=(), compare=False)
    """Nodes whose result is not available."""

    @classmethod
    def from_record(
        cls, repeat: int, record: Mapping[str, Any], throughput: float | None = None
    ) -> RepeatOutcome:
        """From the controller.json of the repeat."""
        ends = [record.get("started_at"), record.get("ended_at")]
        began, ended = (datetime.fromisoformat(d) if d else None for d in ends)
        seconds = (ended - began).total_seconds() if began and ended else None
        found = {"repeat": repeat, "throughput": throughput, "seconds": seconds}
        return from_document(cls, {**record, "missing": record.get("missing") or (), **found})

    @property
    def why(self) -> str:
        """The reasons in one line, for people; empty if there is none."""
        return sentences(self.reasons)

    @property
    def failed(self) -> bool:
        """Whether it was neither measured nor disturbed."""
        return self.status not in ("ok", "disturbed")


@dataclass(frozen=True)
class CaseOutcome:
    """How a case ended; what outcome.json holds."""

    status: CaseStatus
    reasons: tuple[Reason, ...]
    repeats: tuple[RepeatOutcome, ...] = ()
    ended_at: str = field(default_factory=utc_now)
    faults: tuple[Reason, ...] = ()
    """Faults of nodes, of a case that failed because of them."""

    @property
    def why(self) -> str:
        """The reasons in one line, for people; empty if there is none."""
        return sentences(self.reasons)

    def to_json(self) -> Document:
        """The outcome.json document."""
        return to_document(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> CaseOutcome:
        """The inverse of `to_json`."""
        return from_document(cls, document)


class CaseStore:
    """One generation of one case of a run."""

    def __init__(self, folder: UPath) -> None:
        self.folder = folder

    def job(self) -> Document | None:
        """The job.json that was sent to the nodes."""
        return self._read("job.json")

    def save_job(self, document: Mapping[str, Any]) -> None:
        """Keep the job.json that is sent to the nodes."""
        write_json(self.folder / "job.json", document)

    def prepared_at(self) -> datetime:
        """When job.json was kept: the case was handed to its controller."""
        return datetime.fromtimestamp((self.folder / "job.json").stat().st_mtime, UTC)

    def progress(self) -> Document | None:
        """Progress of the gang, by its controller; None if a power cut destroyed it."""
        return read_or_none(self.folder / "progress.json")

    def save_progress(self, document: Mapping[str, Any]) -> None:
        """Store the gang's progress; `at` is added."""
        # Rewritten every second: after a power cut it is soon complete again.
        write_json(self.folder / "progress.json", {**document, "at": utc_now()}, lasting=False)

    def outcome(self) -> Document | None:
        """How the case ended; None while it has not."""
        return self._read("outcome.json")

    def save_outcome(self, document: Mapping[str, Any]) -> None:
        """Say how the case ended. Written last: from then on nothing is launched."""
        write_json(self.folder / "outcome.json", document)

    def end(
        self, status: CaseStatus, reasons: Sequence[Reason], faults: Sequence[Reason] = ()
    ) -> None:
        """Say how the case ended if no gang does; nothing if it has an outcome."""
        if self.outcome() is not None:
            return
        repeats = tuple(
            RepeatOutcome.from_record(number, record)
            for number in self.repeats()
            if (record := self.repeat(number)) is not None
        )
        outcome = CaseOutcome(status, tuple(reasons), repeats, faults=tuple(faults))
        self.save_outcome(outcome.to_json())

    def epoch(self) -> int:
        """The highest epoch of a controller that has written here; 0 before the first."""
        names = (path.name for path in entries(self.folder))
        found = (re.fullmatch(r"controller-(\d+)\.json", name) for name in names)
        return max((int(match[1]) for match in found if match), default=0)

    def save_epoch(self, epoch: int) -> None:
        """Say which controller writes here from now on; a later one is never unsaid."""
        write_json(self.folder / f"controller-{epoch:04d}.json", {"epoch": epoch, "at": utc_now()})

    def repeat(self, repeat: int) -> Document | None:
        """The controller's record of a repeat: present once all its files have been fetched."""
        return self._read(self._repeat(repeat), "controller.json")

    def save_repeat(self, repeat: int, document: Mapping[str, Any]) -> None:
        """Keep the controller's record of a repeat, after its results."""
        write_json(self.folder / self._repeat(repeat) / "controller.json", document)

    def result(self, repeat: int, node: str) -> Document | None:
        """A node's result.json of a repeat."""
        return self._read(self._repeat(repeat), f"{component(node, 'node')}.json")

    def save_result(self, repeat: int, node: str, document: Mapping[str, Any]) -> None:
        """Keep a node's result.json of a repeat."""
        name = f"{component(node, 'node')}.json"
        write_json(self.folder / self._repeat(repeat) / name, document)

    def results(self, repeat: int) -> dict[str, Document]:
        """All nodes' result.json of a repeat, by node."""
        found = {node: self.result(repeat, node) for node in self.nodes(repeat)}
        return {node: document for node, document in found.items() if document is not None}

    def nodes(self, repeat: int) -> list[str]:
        """The nodes whose result of a repeat came back."""
        found = entries(self.folder / self._repeat(repeat))
        names = {path.stem for path in found if path.suffix == ".json"} - {"controller"}
        return sorted(name for name in names if SLUG.match(name))

    def logs(self, repeat: int) -> dict[str, UPath]:
        """The ends of the logs of a repeat's processes, by process."""
        folder = self.folder / self._repeat(repeat) / "logs"
        return {path.stem: path for path in entries(folder) if path.suffix == ".log"}

    def save_log(self, repeat: int, process: str, content: bytes) -> None:
        """Keep the end of the log of a process."""
        name = f"{component(process, 'process')}.log"
        # No measurement depends on it, so the repeat does not wait for the disk.
        write_bytes(self.folder / self._repeat(repeat) / "logs" / name, content, lasting=False)

    def repeats(self) -> list[int]:
        """Numbers of the repeats that have a record of the controller."""
        found = [(path, re.fullmatch(r"repeat-(\d+)", path.name)) for path in entries(self.folder)]
        return sorted(
            int(named[1]) for path, named in found if named and (path / "controller.json").exists()
        )

    def fingerprint(self, node: str) -> Document | None:
        """A node's fingerprint; None if it is damaged."""
        return read_or_none(self.folder / f"fingerprint-{component(node, 'node')}.json")

    def save_fingerprint(self, node: str, document: Mapping[str, Any]) -> None:
        """Keep a node's fingerprint."""
        write_json(self.folder / f"fingerprint-{component(node, 'node')}.json", document)

    @staticmethod
    def _repeat(repeat: int) -> str:
        return f"repeat-{repeat:03d}"

    def _read(self, *parts: str) -> Document | None:
        return read_json(self.folder.joinpath(*parts))
