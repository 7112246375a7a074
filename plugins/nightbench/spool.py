"""The spool: runs as files, from their plan to their ingest, on any fsspec URL.

    <spool>/runs/<run_id>/run.json, planned.json, loaded.json
    <spool>/runs/<run_id>/cases/<case_id>/g<generation>/
        job.json, progress.json, outcome.json, controller-<epoch>.json,
        fingerprint-<node>.json
        repeat-001/<node>.json, repeat-001/controller.json
    <spool>/comparisons/<id>/    two builds beside each other: run.json, cases/, result.json
    <spool>/bisects/<id>/        a search for the first bad version: run.json, steps/
    <spool>/drills/<id>/         a drill of the detector: run.json, runs/ of its own

Whatever steers a gang writes here, and the ingest reads here; neither needs the other's disk. On
local disks a document appears by rename, so that a reader sees all of it or nothing; object
stores give the same by themselves.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from upath import UPath

from nightbench.errors import UserError
from nightbench.model import SLUG

Document = dict[str, Any]

log = logging.getLogger(__name__)

_SAID: set[str] = set()
"""Warnings that this process has given."""


class SpoolError(UserError):
    """A document that cannot be read or written, or a name that is no path component."""


def write_json(path: UPath, document: object, lasting: bool = True) -> None:
    """Write a document so that readers see all of it or the one before.

    Args:
        path: where.
        document: what JSON can say.
        lasting: on the disk before this returns, so that a power cut leaves no empty file.

    Raises:
        SpoolError: the disk is full, or it may not be written.
    """
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if _is_local(path):
            _write_beside(Path(path.path), text, lasting)
        else:
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpoolError(
            f"{path}: cannot be written: {error.strerror or error}. Make room or give the right to "
            "write, then go on: what has ended on the nodes is fetched again."
        ) from error


def _write_beside(path: Path, text: str, lasting: bool) -> None:
    """Make a file appear by rename; what a full disk cut short is taken away again."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        with beside.open("w", encoding="utf-8") as stream:
            stream.write(text)
            if lasting:
                stream.flush()
                os.fsync(stream.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def read_json(path: UPath) -> Any | None:
    """The document, or None where there is none.

    Raises:
        SpoolError: the file is not JSON.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise SpoolError(
            f"{path}: not a JSON document ({error}). Remove the file: what it held is measured "
            "or fetched again where that is possible."
        ) from error


def _is_local(path: UPath) -> bool:
    return path.protocol in ("", "file", "local")


def _component(name: str, what: str) -> str:
    if not SLUG.match(name):
        raise SpoolError(f"{what} {name!r} cannot be a path component: expected {SLUG.pattern}")
    return name


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

    def progress(self) -> Document | None:
        """Where the gang stands, as its controller said last; None where a power cut took it."""
        return _unless_damaged(self.folder / "progress.json")

    def save_progress(self, document: Mapping[str, Any]) -> None:
        """Say where the gang stands; `at` is added."""
        # Rewritten every second: what a power cut takes of it is soon said again.
        write_json(self.folder / "progress.json", {**document, "at": utc_now()}, lasting=False)

    def outcome(self) -> Document | None:
        """How the case ended; None while it has not."""
        return self._read("outcome.json")

    def save_outcome(self, document: Mapping[str, Any]) -> None:
        """Say how the case ended. Written last: from then on nothing is launched."""
        write_json(self.folder / "outcome.json", document)

    def epoch(self) -> int:
        """The highest epoch of a controller that has written here; 0 before the first."""
        names = (path.name for path in _entries(self.folder))
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
        return self._read(self._repeat(repeat), f"{_component(node, 'node')}.json")

    def save_result(self, repeat: int, node: str, document: Mapping[str, Any]) -> None:
        """Keep a node's result.json of a repeat."""
        name = f"{_component(node, 'node')}.json"
        write_json(self.folder / self._repeat(repeat) / name, document)

    def results(self, repeat: int) -> dict[str, Document]:
        """All nodes' result.json of a repeat, by node."""
        found = {}
        folder = self.folder / self._repeat(repeat)
        for path in _entries(folder):
            if path.suffix == ".json" and path.name not in ("controller.json",):
                document = read_json(path)
                if document is not None and not path.name.startswith("."):
                    found[path.stem] = document
        return found

    def repeats(self) -> list[int]:
        """Numbers of the repeats that have a record of the controller."""
        numbers = []
        for path in _entries(self.folder):
            if path.name.startswith("repeat-") and (path / "controller.json").exists():
                numbers.append(int(path.name.removeprefix("repeat-")))
        return sorted(numbers)

    def fingerprint(self, node: str) -> Document | None:
        """A node's fingerprint."""
        return self._read(f"fingerprint-{_component(node, 'node')}.json")

    def save_fingerprint(self, node: str, document: Mapping[str, Any]) -> None:
        """Keep a node's fingerprint."""
        write_json(self.folder / f"fingerprint-{_component(node, 'node')}.json", document)

    @staticmethod
    def _repeat(repeat: int) -> str:
        return f"repeat-{repeat:03d}"

    def _read(self, *parts: str) -> Document | None:
        found: Document | None = read_json(self.folder.joinpath(*parts))
        return found


class RunSpool:
    """One run."""

    def __init__(self, folder: UPath) -> None:
        self.folder = folder
        self.run_id = folder.name

    def case(self, case_id: str, generation: int = 0) -> CaseStore:
        """The store of one generation of a case; nothing is created."""
        return CaseStore(self.folder / "cases" / _component(case_id, "case") / f"g{generation}")

    def generations(self, case_id: str) -> list[int]:
        """The generations of a case that have files, ascending."""
        found = _entries(self.folder / "cases" / _component(case_id, "case"))
        return sorted(int(p.name[1:]) for p in found if p.name[:1] == "g" and p.name[1:].isdigit())

    def latest(self, case_id: str) -> CaseStore | None:
        """The store of the highest generation; None where the case was never prepared."""
        generations = self.generations(case_id)
        return self.case(case_id, generations[-1]) if generations else None

    def case_ids(self) -> list[str]:
        """Cases that have files, sorted."""
        return sorted(p.name for p in _entries(self.folder / "cases"))

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

    def loaded(self) -> Document | None:
        """loaded.json: what the ingest wrote after the warehouse had everything.

        A damaged one counts as none: loading a run again changes nothing.
        """
        return _unless_damaged(self.folder / "loaded.json")

    def save_loaded(self, document: Mapping[str, Any]) -> None:
        """Say that the warehouse has everything of this run."""
        write_json(self.folder / "loaded.json", document)

    @contextmanager
    def steered(self) -> Iterator[None]:
        """Say for as long as this lasts that this very process steers the run.

        The kernel lets go of it with the process, however that ends. Only on a local disk: a
        spool elsewhere keeps no such note.
        """
        path = self._steering()
        if path is None:
            yield
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="ascii") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def is_steered(self) -> bool | None:
        """Whether a process lives that steers the run; None where none ever said so."""
        path = self._steering()
        if path is None or not path.exists():
            return None
        with path.open("r", encoding="ascii") as stream:
            try:
                # Shared: somebody else who asks at the same time is not taken for one who steers.
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def _steering(self) -> Path | None:
        return Path(self.folder.path) / "steering.lock" if _is_local(self.folder) else None

    def remove(self) -> None:
        """Remove the run with all its files."""
        self.folder.rmdir(recursive=True)


class Spool:
    """All runs below one folder or URL."""

    def __init__(self, root: UPath | str | os.PathLike[str]) -> None:
        self.root = UPath(root)

    def run(self, run_id: str) -> RunSpool:
        """The spool of a run; nothing is created."""
        return RunSpool(self.root / "runs" / _component(run_id, "run"))

    def case(self, run_id: str, case_id: str, generation: int = 0) -> CaseStore:
        """The store of one generation of a case of a run."""
        return self.run(run_id).case(case_id, generation)

    def comparison(self, comparison_id: str) -> RunSpool:
        """The files of a comparison of two builds, its launches as cases; nothing is created."""
        return RunSpool(self.root / "comparisons" / _component(comparison_id, "comparison"))

    def comparisons(self) -> list[RunSpool]:
        """All comparisons, oldest first as `runs`."""
        return _by_date(self.root / "comparisons")

    def bisect(self, bisect_id: str) -> RunSpool:
        """The files of a bisect, whose tests are comparisons; nothing is created."""
        return RunSpool(self.root / "bisects" / _component(bisect_id, "bisect"))

    def bisects(self) -> list[RunSpool]:
        """All bisects, oldest first as `runs`."""
        return _by_date(self.root / "bisects")

    def drill(self, drill_id: str) -> RunSpool:
        """The files of a drill of the detector, with runs of its own; nothing is created."""
        return RunSpool(self.root / "drills" / _component(drill_id, "drill"))

    def drills(self) -> list[RunSpool]:
        """All drills, oldest first as `runs`."""
        return _by_date(self.root / "drills")

    def runs(self) -> list[RunSpool]:
        """All runs, oldest first by the date in run.json (by name where that is missing).

        A run whose run.json is damaged is passed over, and named in the log.
        """
        return _by_date(self.root / "runs")

    def expire(self, days: float, now: datetime | None = None) -> list[str]:
        """Remove loaded runs, comparisons, bisects and drills that are older; returns their ids.

        A run that the warehouse does not have yet stays, however old it is.
        """
        limit = (now or datetime.now(UTC)).replace(tzinfo=None) - timedelta(days=days)
        removed = []
        unneeded = [run for run in self.runs() if run.loaded() is not None]
        unneeded += [*self.comparisons(), *self.bisects(), *self.drills()]
        for run in unneeded:
            started = _started(run)
            if started is not None and started < limit and not run.is_steered():
                run.remove()
                removed.append(run.run_id)
        return removed


def utc_now() -> str:
    """Now, as a UTC ISO-8601 date with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _entries(folder: UPath) -> Iterator[UPath]:
    try:
        yield from sorted(folder.iterdir(), key=lambda path: path.name)
    except (FileNotFoundError, NotADirectoryError):
        return


def _by_date(folder: UPath) -> list[RunSpool]:
    found = []
    for run in map(RunSpool, _entries(folder)):
        try:
            found.append((_started(run) or datetime.max, run.run_id, run))
        except SpoolError as error:
            # One damaged run must not keep all the others from their ingest.
            said = f"run {run.run_id} is passed over: {error}"
            if said not in _SAID:  # a live view looks every second
                _SAID.add(said)
                log.warning("%s", said)
    return [run for *_, run in sorted(found, key=lambda each: each[:2])]


def _unless_damaged(path: UPath) -> Document | None:
    try:
        found: Document | None = read_json(path)
    except SpoolError as error:
        log.warning("%s", error)
        return None
    return found


def _started(run: RunSpool) -> datetime | None:
    started = (run.run() or {}).get("started_at")
    if not started:
        return None
    moment = datetime.fromisoformat(started)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
