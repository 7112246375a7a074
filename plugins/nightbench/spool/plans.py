"""The plan of a run in the spool: the run, its cases, its jobs and its cluster.

    <spool>/runs/<run_id>/run.json, planned.json, cluster.json   what the ingest judges results by
    <spool>/runs/<run_id>/jobs/<case_id>.json      read by workers and triggers
    <spool>/runs/<run_id>/jobs/<case_id>.g1.json   of a generation that is measured otherwise

All of it is stored before anything is launched. An edit of a YAML file afterwards changes no run
that is under way, and a run is loaded as it was planned. Only the paths of host keys and wheels,
which each machine has where its own copy of the cluster's file says, are looked up where they are
used (`config.on_this_machine`).
"""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from upath import UPath

from nightbench.config.clusters import without_paths
from nightbench.core.documents import from_document, to_document
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, Cluster, JobSpec, Run
from nightbench.core.run_plan import CasePlan, RunPlan
from nightbench.spool.documents import Document, of_this_version, read_json, utc_now, write_json
from nightbench.spool.run import RunSpool, Spool

SCHEMA = "nightbench.run/1"
JOB_SCHEMA = "nightbench.planned-job/1"
CLUSTER_SCHEMA = "nightbench.planned-cluster/1"
EXPORTED = "exported"
"""Key of run.json: the run is measured elsewhere, and its duration is unknown here."""

T = TypeVar("T")

_OF_PLAN = ("owner", "protocol", "policy", "channels", "routes", "zone", "pairs")


def store_plan(plan: RunPlan, spool: Spool) -> RunSpool:
    """Write run.json, planned.json and cluster.json; the same plan may be stored again.

    Cases that the night has no room for, or that cannot be run from broken folders, get their
    outcome here. So they have ended for every reader of the run.
    """
    folder = spool.run(plan.run.run_id)
    folder.save_planned([_case_document(case) for case in plan.cases])
    save_cluster(folder, plan.cluster)
    for case in plan.cases:
        if case.left_out is not None:
            folder.case(case.planned.case_id).end(CaseStatus.LEFT_OUT, [case.left_out])
    for case_id, reason in plan.unavailable.items():
        folder.case(case_id).end(CaseStatus.UNAVAILABLE, [reason])
    document = to_document(dataclasses.replace(plan, jobs=()))
    folder.save_run(
        {
            **(folder.run() or {}),
            "schema": SCHEMA,
            **document["run"],
            "started_at": plan.run.started_at.isoformat(),
            **{name: document[name] for name in _OF_PLAN},
        }
    )
    return folder


def _case_document(case: CasePlan) -> Document:
    document = to_document(case)
    planned = document.pop("planned")
    return {"case_id": case.planned.case_id, "axes": planned.pop("case"), **planned, **document}


def read_plan(folder: RunSpool) -> RunPlan:
    """Read a plan back as `store_plan` wrote it.

    Raises:
        UserError: the run has no plan, or one that this version does not read.
    """
    document = folder.run()
    if document is None:
        raise UserError(
            f"run {folder.run_id}: no run.json below {folder.folder}; expected the id of a run "
            "of this spool (nightbench results --json shows the latest)"
        )
    if document.get("schema") != SCHEMA:
        raise UserError(
            f'{folder.folder}/run.json: schema: found "{document.get("schema")}", '
            f'expected "{SCHEMA}"'
        )
    with of_this_version(folder.folder / "run.json"):
        plan = {
            "run": {name: document[name] for name in Run.__dataclass_fields__ if name in document},
            **{name: document[name] for name in _OF_PLAN},
            "cluster": load_cluster(folder),
            "cases": [_case(entry) for entry in folder.planned()],
        }
        return from_document(RunPlan, plan, extra="forbid")


def _case(entry: Document) -> Document:
    planned = {key: value for key, value in entry.items() if key not in ("case_id", "axes")}
    own = {
        field.name: planned.pop(field.name)
        for field in dataclasses.fields(CasePlan)
        if field.name in planned and field.name != "planned"
    }
    return {**own, "planned": {"case": entry["axes"], **planned}}


def mark_ended(folder: RunSpool) -> None:
    """Say that nothing more is measured for this run: from now on it may be loaded."""
    document = folder.run()
    if document is None:
        raise UserError(f"run {folder.run_id}: no run.json below {folder.folder}")
    if "ended_at" not in document:
        folder.save_run({**document, "ended_at": utc_now()})


# --- jobs and cluster -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class PlannedJob:
    """A job with the cluster that it runs on."""

    job: JobSpec
    on: Cluster
    """The cluster without nodes; without hours if the request overrides them."""

    @classmethod
    def of(cls, job: JobSpec, cluster: Cluster, *, outside_hours: bool = False) -> PlannedJob:
        """A job of a cluster."""
        hours = None if outside_hours else cluster.window
        return cls(job, dataclasses.replace(cluster, nodes=(), window=hours))

    @property
    def cluster(self) -> Cluster:
        """The gang's part of the cluster: its nodes, and how to log in to them."""
        nodes, environments = self.job.nodes, self.job.environments
        return dataclasses.replace(self.on, nodes=nodes, environments=environments)


def save_job(run: RunSpool, planned: PlannedJob, *, generation: int | None = None) -> None:
    """Keep a job of a run.

    Kept for one generation, or for all that have none of their own.
    """
    path = _path(run, planned.job.case.case_id, generation)
    environments = without_paths(planned.cluster).environments
    job = dataclasses.replace(planned.job, environments=environments)
    planned = PlannedJob(job, without_paths(planned.on))
    write_json(path, {"schema": JOB_SCHEMA, **to_document(planned)})


def load_job(run: RunSpool, case_id: str, generation: int) -> PlannedJob:
    """A job as `save_job` kept it, in one of its generations.

    Raises:
        UserError: the run has no such job, or one of another version.
    """
    for path in (_path(run, case_id, generation), _path(run, case_id)):
        if (document := read_json(path)) is not None:
            planned = _planned(PlannedJob, document, JOB_SCHEMA, path)
            job = dataclasses.replace(planned.job, generation=generation)
            return dataclasses.replace(planned, job=job)
    raise UserError(
        f"{path}: found no file; expected the job that the run's plan stored. Either worker "
        "and triggerer do not share the spool (NIGHTBENCH_SPOOL), or the run was removed: "
        "start a new run"
    )


def save_cluster(run: RunSpool, cluster: Cluster) -> None:
    """Keep the cluster of a run as it was planned for."""
    document = {"schema": CLUSTER_SCHEMA, **to_document(without_paths(cluster))}
    write_json(run.folder / "cluster.json", document)


def load_cluster(run: RunSpool) -> Cluster:
    """The cluster as `save_cluster` kept it.

    Raises:
        UserError: the run has none, or one of another version.
    """
    path = run.folder / "cluster.json"
    return _planned(Cluster, read_json(path) or {}, CLUSTER_SCHEMA, path)


def _planned(kind: type[T], document: Document, schema: str, path: UPath) -> T:
    found = document.pop("schema", None)
    if found != schema:
        raise UserError(f'{path}: schema: found {found!r}, expected "{schema}"')
    with of_this_version(path):
        return from_document(kind, document, extra="forbid")


def _path(run: RunSpool, case_id: str, generation: int | None = None) -> UPath:
    tail = "" if generation is None else f".g{generation}"
    return run.folder / "jobs" / f"{case_id}{tail}.json"
