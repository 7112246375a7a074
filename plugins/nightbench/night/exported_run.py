"""A run that is measured without SSH: its directory, and what comes back in it.

    DIR/export.json                  the run, and its cases in their order
    DIR/code/                        what is shipped to nodes, by the plan's digest
    DIR/jobs/<case_id>/job.json      as it would cross SSH

`benchmarks/nodeside/offline.py` measures there and adds results with their digests.
"""

import dataclasses
import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from upath import UPath

from nightbench.core.code_digest import code_digest
from nightbench.core.documents import to_document
from nightbench.core.errors import UserError
from nightbench.core.model import Build, Catalog, ClockOffset, Cluster, JobSpec, Suite
from nightbench.core.run_plan import RunPlan
from nightbench.core.summarize import repeat_record
from nightbench.core.variants import variant_of
from nightbench.gang.decisions import conclude, conclude_by_deadline
from nightbench.gang.repeat_status import repeat_end
from nightbench.night.code_snapshot import shipment_of_now
from nightbench.spool import CaseOutcome, RepeatOutcome, RunSpool, Spool
from nightbench.spool.documents import read_json, write_json
from nightbench.spool.plans import EXPORTED, PlannedJob, load_job, mark_ended, save_job, store_plan

SCHEMA = "nightbench.export/1"
PRESENT = "present"
"""Location of the builds of such a run: the interpreter that is there, whatever its version."""


def for_export(suite: Suite, cluster: Cluster, catalog: Catalog) -> tuple[Suite, list[str]]:
    """Return the suite as it is measured without SSH, and the names of the cases that are not.

    An export is of one machine. Lines run from what is installed there, so that no lock is needed.

    Raises:
        UserError: no case is left.
    """
    cases = tuple(case for case in suite.cases if case.nodes == 1)
    if not cases:
        raise UserError(
            f"suite {suite.name}: found no case with one node; expected a case for the export, "
            "which is for one machine"
        )
    builds = {}
    for line in {case.framework for case in cases}:
        path = Build(line, "", "path", None, PRESENT)
        variant = variant_of(catalog.frameworks[line], cluster, {line: path})
        builds[line] = dataclasses.replace(path, variant=str(variant))
    dropped = [case.case_id for case in suite.cases if case not in cases]
    return dataclasses.replace(suite, cases=cases, builds=builds), dropped


def export(plan: RunPlan, spool: Spool, folder: Path) -> None:
    """Write the directory of a run, whose plan is kept in the spool until it is loaded.

    Raises:
        UserError: the directory is not empty, or cannot be written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder}: found files in the folder; expected a new folder")
    run = store_plan(plan, spool)
    run.save_run({**(run.run() or {}), EXPORTED: True})
    code = shipment_of_now(plan.run.code_digest, None).benchmarks
    try:
        shutil.copytree(code, folder / "code")
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from error
    for job in plan.jobs:
        there = for_loopback(job)
        save_job(run, PlannedJob.of(there, plan.cluster))
        write_json(UPath(folder) / "jobs" / job.case.case_id / "job.json", there.to_json())
    cases = [job.case.case_id for job in plan.jobs]
    document = export_document(plan.run.run_id, plan.run.code_digest, cases)
    write_json(UPath(folder) / "export.json", document)


def export_document(run_id: str, code_digest: str, case_ids: Sequence[str]) -> dict[str, Any]:
    """Return the content of export.json."""
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "code_digest": code_digest,
        "cases": list(case_ids),
    }


def for_loopback(job: JobSpec) -> JobSpec:
    """Return a job of one node, which reaches itself wherever it is measured."""
    nodes = tuple(dataclasses.replace(n, data_address="127.0.0.1") for n in job.nodes)
    return dataclasses.replace(job, nodes=nodes)


def load(folder: Path, spool: Spool) -> RunSpool:
    """Take the results of an exported run into the spool, from which it is ingested.

    Nothing is taken unless all of it is in order. A run that has ended is left as it is.

    Raises:
        UserError: it is no export of this spool's, it is not complete, or a file was changed.
    """
    found = _document(folder / "export.json")
    if found.get("schema") != SCHEMA:
        raise UserError(
            f"{folder}: found no export.json; expected a folder of `nightbench offline export`"
        )
    run = spool.run(str(found["run_id"]))
    planned = run.run()
    if planned is None:
        raise UserError(
            f"{folder}: run {run.run_id} was not planned here; expected a run of {spool.root}"
        )
    if all(run.case(entry["case_id"]).outcome() for entry in run.planned()):
        return run
    if code_digest(folder / "code") != planned["code_digest"]:
        raise UserError(f"{folder / 'code'}: was changed after the export; expected the old code")
    if not {*found["cases"]} <= {entry["case_id"] for entry in run.planned()}:
        raise UserError(f"{folder}: its cases are not the cases of run {run.run_id}")
    measured = [
        _measured(folder / "jobs" / name, load_job(run, name, 0).job) for name in found["cases"]
    ]
    for each in measured:
        _take(run, each)
    mark_ended(run)
    return run


@dataclasses.dataclass(frozen=True)
class ReturnedRepeat:
    """One repeat: its record as a controller would have written it, and node -> its result."""

    record: Mapping[str, Any]
    results: Mapping[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class ReturnedCase:
    """One case as it came back, all of whose files are what they were when it was measured."""

    job: JobSpec
    folder: Path
    fingerprints: Mapping[str, dict[str, Any]]
    repeats: tuple[ReturnedRepeat, ...]


def _measured(folder: Path, job: JobSpec) -> ReturnedCase:
    measured = _document(folder / "measured.json")
    if measured.get("schema") != SCHEMA or measured.get("job_id") != job.job_id:
        raise UserError(
            f"{folder}: not measured completely; run in that folder: python3 code/agent.py run ."
        )
    files = measured["files"]
    for name, digest in files.items():
        path = folder / name
        if not path.is_relative_to(folder) or ".." in path.parts or not path.is_file():
            raise UserError(f"{path}: is missing; expected the file as it was measured")
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise UserError(f"{path}: was changed after it was measured")
    if "job.json" not in files or _document(folder / "job.json") != job.to_json():
        raise UserError(f"{folder / 'job.json'}: is not the job that was planned")
    repeats: list[ReturnedRepeat] = []
    while (name := f"repeats/{len(repeats) + 1:03d}.json") in files:
        repeats.append(_repeat(folder, job, len(repeats) + 1, files, _document(folder / name)))
    prints = {
        node.name: _document(folder / path)
        for node in job.nodes
        if (path := f"nodes/{node.name}/fingerprint.json") in files
    }
    return ReturnedCase(job, folder, prints, tuple(repeats))


def _repeat(
    folder: Path, job: JobSpec, number: int, files: Mapping[str, str], record: dict[str, Any]
) -> ReturnedRepeat:
    results = {}
    for node in job.nodes:
        name = f"nodes/{node.name}/repeats/{number:03d}/result.json"
        if name not in files:
            raise UserError(f"{folder / name}: is missing; expected the file as it was measured")
        result = _document(folder / name)
        named = (result.get("job_id"), result.get("repeat"), result.get("node"))
        if named != (job.job_id, number, node.name):
            raise UserError(f"{folder / name}: is the result of {named}, and not of {job.job_id}")
        results[node.name] = result
    path = folder / f"repeats/{number:03d}.json"
    try:
        written = _record(job, number, record, results)
        repeat_record(written, results)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a result of a repeat: {error!r}") from None
    return ReturnedRepeat(written, results)


def _document(path: Path) -> dict[str, Any]:
    return read_json(UPath(path)) or {}


def _take(run: RunSpool, measured: ReturnedCase) -> None:
    """Write what a controller of the gang would have written."""
    job = measured.job
    store = run.case(job.case.case_id, job.generation)
    store.save_job(job.to_json())
    for node, found in measured.fingerprints.items():
        store.save_fingerprint(node, found)
    outcomes = []
    for number, repeat in enumerate(measured.repeats, start=1):
        for node, result in repeat.results.items():
            store.save_result(number, node, result)
            logs = measured.folder / f"nodes/{node}/repeats/{number:03d}"
            for process in result["processes"]:
                path = logs / process["name"] / "out.log"
                if path.is_file():
                    store.save_log(number, process["name"], path.read_bytes()[-(256 << 10) :])
        store.save_repeat(number, repeat.record)
        outcomes.append(RepeatOutcome.from_record(number, repeat.record))
    # A disturbed repeat is not launched again: the good repeats must be enough.
    end = conclude(job, outcomes) or conclude_by_deadline(job, outcomes)
    store.save_outcome(CaseOutcome(end.status, end.reasons, tuple(outcomes)).to_json())


def _record(
    job: JobSpec, number: int, record: Mapping[str, Any], results: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    nodes = [node.name for node in job.nodes]
    # A case has one node, so all times are from one clock.
    clocks = {node: ClockOffset(0.0, 0.0) for node in nodes}
    end = repeat_end(
        nodes,
        results,
        (),
        clocks=clocks,
        rebooted=(),
        died=(),
        abort_was_sent=False,
        counts_disturbance=job.neighbours.action != "record",
    )
    known = {key: record[key] for key in ("started_at", "ended_at")}
    readings = {node: to_document(clock) for node, clock in clocks.items()}
    return end.record(number, nodes, results, epoch=1, faults=end.deaths, clocks=readings, **known)
