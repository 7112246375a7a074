"""All that a spool holds: runs, experiments, and wheels for comparisons."""

import hashlib
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from upath import UPath

from nightbench.config import locations
from nightbench.core.errors import ItemErrors
from nightbench.core.hours import in_utc
from nightbench.core.model import SLUG
from nightbench.spool import control
from nightbench.spool.case import CaseStore
from nightbench.spool.documents import (
    Document,
    SpoolError,
    atomic_stream,
    component,
    entries,
    is_local,
    of_this_version,
    read_bytes,
    read_json,
    read_list,
    read_or_none,
    write_bytes,
    write_json,
)


class Uploads:
    """Wheels that people sent, or commits were built to, each in a folder of its digest.

    `commits/<build>.json` says which wheel a build made, `commits/<build>.log` what it said.
    Nothing of a wheel is ever opened here.
    """

    def __init__(self, root: UPath) -> None:
        self._root = root

    def path(self, sha256: str, name: str) -> UPath:
        """Path of a wheel, stored or not.

        Raises:
            SpoolError: a name that is none of a file below the folder.
        """
        component(name.replace("+", "-").replace("!", "-"), "wheel")  # as versions have them
        return self._root / component(sha256, "digest") / name

    def size(self) -> int:
        """Bytes of all together."""
        return sum(int(path.stat().st_size) for path in self._wheels())

    def keep(self, sha256: str, name: str, content: IO[bytes]) -> None:
        """Keep a wheel; it appears whole, or not at all.

        Raises:
            SpoolError: the disk is full, or it may not be written.
        """
        place = self.path(sha256, name)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with atomic_stream(place) if is_local(place) else place.open("wb") as target:
                shutil.copyfileobj(content, target)
        except OSError as error:
            raise SpoolError(f"{place}: cannot be written: {error.strerror or error}") from error

    def open(self, sha256: str, name: str) -> IO[bytes]:
        """Open a wheel to read it.

        Raises:
            SpoolError: there is none.
        """
        try:
            opened: IO[bytes] = self.path(sha256, name).open("rb")
        except FileNotFoundError:
            raise SpoolError(
                f"build: found no uploaded wheel {sha256}/{name}; the wheel was never uploaded, "
                "or was removed after its retention time. Upload the wheel again"
            ) from None
        return opened

    def built(self, build: str) -> Document | None:
        """Return the document of a commit's build whose wheel is here; None if there is none."""
        found = self.note(build)
        if found is None or not self.path(found["sha256"], found["wheel"]).exists():
            return None
        return found

    def note(self, name: str) -> Document | None:
        """Return what is noted of a build, or of a comparison's commits; None if nothing is."""
        return read_json(self._commit(name, "json"))

    def save_note(self, name: str, document: Mapping[str, Any]) -> None:
        """Store the result of a build, after its wheel is kept, or the commits of a comparison."""
        write_json(self._commit(name, "json"), document)

    def save_log(self, build: str, log: bytes) -> None:
        """Store what a commit's build said; that of another try before is replaced."""
        write_bytes(self._commit(build, "log"), log)

    def log(self, build: str) -> bytes | None:
        """Return what a commit's build said; None if it was never tried, or long ago."""
        return read_bytes(self._commit(build, "log"))

    def _commit(self, build: str, kind: str) -> UPath:
        return self._root / "commits" / f"{component(build, 'build')}.{kind}"

    def expire(self, oldest: datetime) -> list[UPath]:
        """Remove those that were sent before; returns them."""
        old, errors = [], ItemErrors()
        for path in [*self._wheels(), *entries(self._root / "commits")]:
            with errors.of(str(path)):
                if path.stat().st_mtime < oldest.timestamp():
                    path.unlink()
                    old.append(path)
                    if is_local(path) and path.suffix == ".whl":
                        Path(path.parent.path).rmdir()
        return old

    def _wheels(self) -> Iterator[UPath]:
        if self._root.exists():
            yield from self._root.glob("*/*.whl")


log = logging.getLogger(__name__)

_SAID: set[str] = set()
"""Warnings that this process has given."""


class RunSpool:
    """One run or experiment."""

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

    def tried(self, case_id: str) -> Document | None:
        """tried.json: generation and `max_tries` of the newest try of its task in Airflow."""
        return read_json(self._tried(case_id))

    def save_tried(self, case_id: str, document: Mapping[str, Any]) -> None:
        """Keep tried.json, which the next try reads."""
        write_json(self._tried(case_id), document)

    def _tried(self, case_id: str) -> UPath:
        return self.folder / "cases" / component(case_id, "case") / "tried.json"

    def latest(self, case_id: str) -> CaseStore | None:
        """The store of the highest generation; None if the case was never prepared."""
        generations = self.generations(case_id)
        return self.case(case_id, generations[-1]) if generations else None

    def outcome(self, case_id: str) -> Document | None:
        """How the newest generation of a case ended; None while it has not."""
        store = self.latest(case_id)
        return store.outcome() if store is not None else None

    def case_ids(self) -> list[str]:
        """Cases that have files, sorted."""
        return sorted(p.name for p in entries(self.folder / "cases") if SLUG.match(p.name))

    def run(self) -> Document | None:
        """run.json: the run, its suite, protocol, builds, policy and channels."""
        return read_json(self.folder / "run.json")

    @property
    def has_ended(self) -> bool:
        """Whether run.json says when it ended."""
        return bool((self.run() or {}).get("ended_at"))

    def save_run(self, document: Mapping[str, Any]) -> None:
        """Keep run.json."""
        write_json(self.folder / "run.json", document)

    def planned(self) -> list[Document]:
        """planned.json: every case that the run was meant to measure."""
        return read_list(self.folder / "planned.json")

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
        return read_or_none(self.folder / "loaded.json")

    def save_loaded(self, document: Mapping[str, Any]) -> None:
        """Say that the warehouse has everything of this run."""
        write_json(self.folder / "loaded.json", document)

    def controlled(self) -> AbstractContextManager[None]:
        """Record, while this lasts, that this process controls the run; see `controlling`."""
        return control.controlling(self.folder)

    def is_controlled(self) -> bool | None:
        """Whether the process that controls the run is alive; None if none was recorded."""
        return control.is_controlled(self.folder)

    def remove(self) -> None:
        """Remove the run with all its files."""
        self.folder.rmdir(recursive=True)


def started_at(run: RunSpool) -> datetime | None:
    """When a run began, in UTC; None if its run.json does not say."""
    started = (run.run() or {}).get("started_at")
    if not started:
        return None
    with of_this_version(run.folder / "run.json"):
        return in_utc(datetime.fromisoformat(started))


class Spool:
    """All runs below one folder or URL."""

    def __init__(self, root: UPath | str | os.PathLike[str]) -> None:
        path = UPath(root)
        # fsspec caches listings and would not see files that other hosts write.
        self.root = path if is_local(path) else UPath(root, use_listings_cache=False)

    def run(self, run_id: str) -> RunSpool:
        """The spool of a run; nothing is created."""
        return RunSpool(self.root / "runs" / component(run_id, "run"))

    def planned_by(self, dag_id: str, dag_run_id: str) -> Document | None:
        """The run that a DAG run planned: `run_id`, `started_at`, `max_tries` of the task."""
        return read_json(self._dag_run(dag_id, dag_run_id))

    def save_planned_by(self, dag_id: str, dag_run_id: str, document: Mapping[str, Any]) -> None:
        """Keep which run a DAG run plans, before it is planned: a retry plans the same."""
        write_json(self._dag_run(dag_id, dag_run_id), document)

    def _dag_run(self, dag_id: str, dag_run_id: str) -> UPath:
        # A digest, because users choose the names of DAG runs.
        digest = hashlib.sha256(f"{dag_id}\n{dag_run_id}".encode()).hexdigest()
        return self.root / "dag_runs" / f"{digest[:32]}.json"

    def comparison(self, comparison_id: str) -> RunSpool:
        """The files of an experiment, a drill too, or of a comparison; nothing is created."""
        return RunSpool(self.root / "comparisons" / component(comparison_id, "comparison"))

    def comparisons(self) -> list[RunSpool]:
        """All experiments, drills too, and their comparisons, oldest first as `runs`."""
        return _by_date(self.root / "comparisons")

    @property
    def uploads(self) -> Uploads:
        """Wheels that were sent for comparisons."""
        return Uploads(self.root / "uploads")

    def runs(self) -> list[RunSpool]:
        """All runs, oldest first by the date in run.json (by name if that is missing).

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
        """Remove loaded runs and experiments that are older; returns their ids.

        A run that the warehouse does not have yet stays, however old it is.
        """
        limit = (now or datetime.now(UTC)) - timedelta(days=days)
        removed, errors = [], ItemErrors()
        unneeded = [run for run in self.runs() if run.loaded() is not None]
        unneeded += self.comparisons()
        for run in unneeded:
            with errors.of(f"run {run.run_id} is not removed"):
                started = started_at(run)
                if started is not None and started < limit and not run.is_controlled():
                    run.remove()
                    removed.append(run.run_id)
        for path in entries(self.root / "dag_runs"):
            with errors.of(f"{path} is not removed"):
                if datetime.fromtimestamp(path.stat().st_mtime, UTC) < limit:
                    path.unlink()
        return removed


def open_spool() -> Spool:
    """The spool of this deployment; worker and triggerer must both reach it."""
    return Spool(locations.spool_root())


def _by_date(folder: UPath) -> list[RunSpool]:
    found = []
    for run in map(RunSpool, entries(folder)):
        try:
            component(run.run_id, "run")
            found.append((started_at(run) or datetime.max.replace(tzinfo=UTC), run.run_id, run))
        except SpoolError as error:
            said = f"skipped: {error}"
            if said not in _SAID:  # a live view looks every second
                _SAID.add(said)
                log.warning("%s", said)
    return [run for *_, run in sorted(found, key=lambda each: each[:2])]
