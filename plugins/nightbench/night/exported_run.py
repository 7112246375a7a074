"""A run that is measured on a machine without SSH: its directory, and what comes back in it.

    DIR/export.json                  the run, its node, the cases in their order
    DIR/code/                        what is shipped to nodes, by the plan's digest
    DIR/jobs/<case_id>/job.json      as it would cross SSH

`benchmarks/nodeside/offline.py` measures there and adds results with their digests.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upath import UPath

from nightbench.core.capabilities import variant_of
from nightbench.core.code_digest import code_digest, shipped_files
from nightbench.core.errors import UserError
from nightbench.core.model import (
    Build,
    Catalog,
    Cluster,
    JobSpec,
    Reason,
    Suite,
    reasons_to_json,
)
from nightbench.core.repeat_record import repeat_record
from nightbench.core.run_plan import RunPlan
from nightbench.gang.decisions import conclude, conclude_by_deadline
from nightbench.gang.failed_processes import log_tail, process_error
from nightbench.gang.repeat_status import agent_deaths, repeat_status
from nightbench.spool import CaseOutcome, RepeatOutcome, RunSpool, Spool
from nightbench.spool.documents import read_json, write_json
from nightbench.spool.planned_job import PlannedJob, load_job, save_job
from nightbench.spool.plans import EXPORTED, mark_ended, store_plan

SCHEMA = "nightbench.export/1"
PRESENT = "present"
"""Location of the builds of such a run: the interpreter that is there, whatever its version."""


def for_one_machine(suite: Suite, cluster: Cluster, catalog: Catalog) -> tuple[Suite, list[str]]:
    """Return the suite as one machine measures it, and the names of the cases that it cannot.

    Its lines run from what is installed there, so that no lock is needed.

    Raises:
        UserError: no case is left.
    """
    cases = tuple(case for case in suite.cases if case.nodes == 1)
    if not cases:
        raise UserError(f"suite {suite.name}: no case has one node; an export is of one machine")
    builds = {}
    for line in {case.framework for case in cases}:
        path = Build(line, "", "path", None, PRESENT)
        variant = variant_of(catalog.frameworks[line], cluster, {line: path})
        builds[line] = dataclasses.replace(path, variant=str(variant))
    dropped = [case.case_id for case in suite.cases if case.nodes != 1]
    return dataclasses.replace(suite, cases=cases, builds=builds), dropped


def export(plan: RunPlan, spool: Spool, benchmarks: Path, folder: Path) -> None:
    """Write the directory of a run, whose plan is kept in the spool until it is loaded.

    Raises:
        UserError: the directory is not empty, or cannot be written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder}: is not empty; expected a new folder")
    run = store_plan(plan, spool)
    run.save_run({**(run.run() or {}), EXPORTED: True})
    try:
        for name, path in shipped_files(benchmarks):
            target = folder / "code" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from error
    for job in plan.jobs:
        alone = for_loopback(job)
        save_job(run, PlannedJob.of(alone, plan.cluster))
        write_json(UPath(folder) / "jobs" / job.case.case_id / "job.json", alone.to_json())
    document = {
        "schema": SCHEMA,
        "run_id": plan.run.run_id,
        "code_digest": plan.run.code_digest,
        "node": plan.jobs[0].lead.name,
        "cases": [job.case.case_id for job in plan.jobs],
    }
    write_json(UPath(folder) / "export.json", document)


def for_loopback(job: JobSpec) -> JobSpec:
    """Return a job whose node reaches itself wherever it is measured."""
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
        raise UserError(f"{folder}: no export.json of a run; expected what plan --export wrote")
    run = spool.run(str(found["run_id"]))
    planned = run.run()
    if planned is None:
        raise UserError(
            f"{folder}: run {run.run_id} was not planned here; expected a run of {spool.root}"
        )
    if all(run.case(entry["case_id"]).outcome() for entry in run.planned()):
        return run
    if code_digest(folder / "code") != planned["code_digest"]:
        raise UserError(f"{folder / 'code'}: was changed after the export; expected it as planned")
    cases = [name for name in found["cases"] if load_job_or_none(run, name) is not None]
    wanted = [entry["case_id"] for entry in run.planned()]
    if set(cases) != set(found["cases"]) or not set(cases) <= set(wanted):
        raise UserError(f"{folder}: its cases are not those of run {run.run_id}")
    measured = [_measured(folder / "jobs" / name, load_job(run, name, 0).job) for name in cases]
    for each in measured:
        _take(run, each)
    mark_ended(run)
    return run


def load_job_or_none(run: RunSpool, case_id: str) -> PlannedJob | None:
    """The job of a case; None where the run planned none of that name."""
    try:
        return load_job(run, str(case_id), 0)
    except UserError:
        return None


@dataclasses.dataclass(frozen=True)
class ReturnedCase:
    """One case as it came back, all of whose files are what they were when it was measured."""

    job: JobSpec
    folder: Path
    fingerprint: dict[str, Any]
    results: tuple[dict[str, Any], ...]


def _measured(folder: Path, job: JobSpec) -> ReturnedCase:
    measured = _document(folder / "measured.json")
    if measured.get("schema") != SCHEMA or measured.get("job_id") != job.job_id:
        raise UserError(
            f"{folder}: has not been measured to its end; run there: python3 code/agent.py run ."
        )
    for name, digest in measured["files"].items():
        path = folder / name
        if not path.is_relative_to(folder) or ".." in path.parts or not path.is_file():
            raise UserError(f"{path}: is missing; expected it as it was measured")
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise UserError(f"{path}: was changed after it was measured")
    if _document(folder / "job.json") != job.to_json():
        raise UserError(f"{folder / 'job.json'}: is not the job that was planned")
    results: list[dict[str, Any]] = []
    while f"repeats/{len(results) + 1:03d}/result.json" in measured["files"]:
        path = folder / "repeats" / f"{len(results) + 1:03d}" / "result.json"
        result = _document(path)
        named = (result.get("job_id"), result.get("repeat"), result.get("node"))
        if named != (job.job_id, len(results) + 1, job.lead.name):
            raise UserError(f"{path}: is the result of {named}, and not of {job.job_id}")
        try:
            there = {job.lead.name: result}
            repeat_record(_record(job, len(results) + 1, there, folder), there)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: is no result of a repeat: {error!r}") from None
        results.append(result)
    prints = _document(folder / "fingerprint.json")
    return ReturnedCase(job, folder, prints, tuple(results))


def _document(path: Path) -> dict[str, Any]:
    found = read_json(UPath(path))
    return found if isinstance(found, dict) else {}


def _take(run: RunSpool, measured: ReturnedCase) -> None:
    """Write what a controller of the gang would have written."""
    job, node = measured.job, measured.job.lead.name
    store = run.case(job.case.case_id, job.generation)
    store.save_job(job.to_json())
    store.save_fingerprint(node, measured.fingerprint)
    outcomes = []
    for number, result in enumerate(measured.results, start=1):
        store.save_result(number, node, result)
        for process in result["processes"]:
            path = measured.folder / f"repeats/{number:03d}" / process["name"] / "out.log"
            if path.is_file():
                store.save_log(number, process["name"], path.read_bytes()[-(256 << 10) :])
        record = _record(job, number, {node: result}, measured.folder)
        store.save_repeat(number, record)
        outcomes.append(RepeatOutcome.from_record(number, record))
    # There is no launch again for a disturbed one: what is good has to be enough.
    end = conclude(job, outcomes) or conclude_by_deadline(job, outcomes)
    store.save_outcome(CaseOutcome(end.status, end.reasons, tuple(outcomes)).to_json())


def _record(
    job: JobSpec, number: int, results: Mapping[str, Mapping[str, Any]], folder: Path
) -> dict[str, Any]:
    nodes = [node.name for node in job.nodes]
    deaths: list[Reason] = agent_deaths(nodes, results, (), ())
    status, reasons = repeat_status(
        nodes,
        results,
        (),
        deaths,
        abort_was_sent=False,
        counts_disturbance=job.neighbours.action != "record",
    )
    times = _document(folder / f"repeats/{number:03d}/times.json")
    return {
        "repeat": number,
        "status": status,
        "reasons": reasons_to_json(reasons),
        "log_tail": log_tail(results),
        "error": process_error(results),
        "started_at": times["started_at"],
        "ended_at": times["ended_at"],
        "epoch": 1,
        "missing": [],
        "faults": reasons_to_json(deaths),
        # One machine has one clock.
        "clocks": {name: {"offset_s": 0.0, "error_s": 0.0} for name in nodes},
    }
