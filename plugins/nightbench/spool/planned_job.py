"""Jobs and cluster of a run as they were planned: read by workers and triggers.

    <spool>/runs/<run_id>/cluster.json
    <spool>/runs/<run_id>/jobs/<case_id>.json
    <spool>/runs/<run_id>/jobs/<case_id>.g1.json   of a generation that is measured otherwise

They are resolved once, when the run is planned: an edit of a YAML file afterwards changes no run
that is under way. Only the paths of host keys and wheels, which each machine has where its own
copy of the cluster's file says, are looked up where they are used (`config.on_this_machine`).
"""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from upath import UPath

from nightbench.config.clusters import without_paths
from nightbench.core.documents import from_document, to_document
from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, JobSpec, JumpHost, SlurmPolicy
from nightbench.spool.documents import Document, of_this_version, read_json, write_json
from nightbench.spool.run import RunSpool

SCHEMA = "nightbench.planned-job/1"
CLUSTER_SCHEMA = "nightbench.planned-cluster/1"

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class PlannedJob:
    """A job with what its controller must know of the cluster beside it."""

    job: JobSpec
    known_hosts: str | None
    jump: tuple[JumpHost, ...] = ()
    """Hops on the way to the cluster's nodes."""
    hours: str | None = None
    """When the cluster may be measured on; None: at any time, or the request overrides it."""
    slurm: SlurmPolicy | None = None
    """How the gang becomes a job of Slurm; None: its nodes are reached over SSH."""

    @classmethod
    def of(cls, job: JobSpec, cluster: Cluster, *, outside_hours: bool = False) -> PlannedJob:
        """A job of a cluster."""
        hours = None if outside_hours else cluster.window
        return cls(job, cluster.known_hosts, cluster.jump, hours, cluster.slurm)

    @property
    def cluster(self) -> Cluster:
        """The gang's part of the cluster: enough to log in to its nodes."""
        return Cluster(
            name=self.job.cluster,
            nodes=self.job.nodes,
            environments=self.job.environments,
            known_hosts=self.known_hosts,
            jump=self.jump,
            window=self.hours,
            slurm=self.slurm,
        )

    def generation(self, number: int) -> PlannedJob:
        """The same job as its n-th generation."""
        return dataclasses.replace(self, job=dataclasses.replace(self.job, generation=number))


def save_job(run: RunSpool, planned: PlannedJob, *, generation: int | None = None) -> None:
    """Keep a job of a run.

    Kept for one generation, or for all that have none of their own.
    """
    path = _path(run, planned.job.case.case_id, generation)
    stored = without_paths(planned.cluster)
    job = dataclasses.replace(planned.job, environments=stored.environments)
    planned = dataclasses.replace(planned, known_hosts=stored.known_hosts, job=job)
    write_json(path, {"schema": SCHEMA, **to_document(planned)})


def load_job(run: RunSpool, case_id: str, generation: int) -> PlannedJob:
    """A job as `save_job` kept it, in one of its generations.

    Raises:
        UserError: the run has no such job, or one of another version.
    """
    path = _path(run, case_id, generation)
    document = read_json(path)
    if document is None:
        path = _path(run, case_id)
        document = read_json(path)
    if document is None:
        raise UserError(
            f"{path}: not there; expected the job that the run's plan stored. Worker and "
            "triggerer must share the spool (NIGHTBENCH_SPOOL), or the run was removed: start a "
            "new one"
        )
    return _planned(PlannedJob, document, SCHEMA, path).generation(generation)


def save_cluster(run: RunSpool, cluster: Cluster) -> None:
    """Keep the cluster of a run as it was planned for."""
    write_json(
        _cluster_path(run), {"schema": CLUSTER_SCHEMA, **to_document(without_paths(cluster))}
    )


def load_cluster(run: RunSpool) -> Cluster:
    """The cluster as `save_cluster` kept it.

    Raises:
        UserError: the run has none, or one of another version.
    """
    path = _cluster_path(run)
    return _planned(Cluster, read_json(path) or {}, CLUSTER_SCHEMA, path)


def _planned(kind: type[T], document: Document, schema: str, path: UPath) -> T:
    found = document.pop("schema", None)
    if found != schema:
        raise UserError(f'{path}: schema: found {found!r}, expected "{schema}"')
    with of_this_version(path):
        return from_document(kind, document, extra="forbid")


def _cluster_path(run: RunSpool) -> UPath:
    return run.folder / "cluster.json"


def _path(run: RunSpool, case_id: str, generation: int | None = None) -> UPath:
    tail = "" if generation is None else f".g{generation}"
    return run.folder / "jobs" / f"{case_id}{tail}.json"
