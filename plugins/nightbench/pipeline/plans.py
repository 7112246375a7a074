"""The plan of a run, and how it lies in the spool: run.json and planned.json.

The plan is stored before anything is launched. What the ingest needs to judge results stands in
it, so that a run is loaded as it was planned, even when its YAML has changed since.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nightbench.errors import UserError
from nightbench.hours import Hours
from nightbench.model import (
    Build,
    Case,
    CaseStatus,
    Catalog,
    Cluster,
    JobSpec,
    Node,
    Process,
    Protocol,
    RegressionPolicy,
    Route,
    Run,
    RunKind,
    Suite,
    VerdictKind,
)
from nightbench.night import Night, Past
from nightbench.plan import resolve
from nightbench.spool import RunSpool, Spool, utc_now
from nightbench.warehouse.bundle import PlannedCase

SCHEMA = "nightbench.run/1"


@dataclass(frozen=True)
class CasePlan:
    """What the ingest must know of one planned case."""

    planned: PlannedCase
    processes: tuple[Process, ...]
    parameters: int | None
    converges: bool

    @property
    def left_out(self) -> str | None:
        """Why the night had no room for it."""
        return self.planned.left_out


@dataclass(frozen=True)
class RunPlan:
    """A run as it was planned; `jobs` is empty where it was read back from the spool."""

    run: Run
    owner: str
    protocol: Protocol
    policy: RegressionPolicy
    channels: tuple[str, ...]
    """Where alerts go, as the suite names them: an Apprise URL, or a Connection that holds one."""
    cluster: Cluster
    cases: tuple[CasePlan, ...]
    """In the order in which they are measured; those that are left out come last."""
    jobs: tuple[JobSpec, ...] = ()
    """Of the cases that are not left out."""
    routes: tuple[Route, ...] = ()
    """Whose alerts are whose; the first that matches counts."""
    zone: str = "UTC"
    """By whose clock nights begin and end: of the suite's window, or of the cluster's."""


def new_run_id(suite: str, now: datetime) -> str:
    """Readable, sortable and unique: `demo-20261121T010203-9f3a`."""
    return f"{suite}-{now.astimezone(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"


def make_plan(
    suite: Suite,
    cluster: Cluster,
    catalog: Catalog,
    *,
    run_kind: RunKind,
    requested_by: str = "",
    run_id: str | None = None,
    started_at: datetime | None = None,
    dag_id: str | None = None,
    dag_run_id: str | None = None,
    night: Night | None = None,
    deadline: datetime | None = None,
    past: Mapping[str, Past] | None = None,
) -> RunPlan:
    """Resolve all cases of a suite for a cluster.

    Args:
        suite: the suite.
        cluster: where it runs.
        catalog: what can be run.
        run_kind: why the run is made.
        requested_by: who asked for it.
        run_id: a new one where None.
        started_at: now where None.
        dag_id: the DAG that makes it.
        dag_run_id: and its run.
        night: order, end and what is left out; all cases in the order of the file where None.
        deadline: no repeat is started that cannot end by then; the night's end where None.
        past: how long repeats take, for the deadline.

    Raises:
        UserError: the cluster cannot run a case, or a build is not to be had.
    """
    started_at = started_at or datetime.now(UTC)
    run = Run(
        run_id=run_id or new_run_id(suite.name, started_at),
        suite=suite.name,
        cluster=cluster.name,
        run_kind=run_kind,
        started_at=started_at,
        requested_by=requested_by,
        dag_id=dag_id,
        dag_run_id=dag_run_id,
        code_digest=catalog.code_digest,
    )
    cases = {case.case_id: case for case in suite.cases}
    order = [entry.case_id for entry in night.entries] if night else list(cases)
    end = deadline or (night.room.end if night else None)
    jobs = [
        _expecting(resolve(cases[name], suite, cluster, catalog, run.run_id, deadline=end), past)
        for name in order
    ]
    left_out = night.left_out if night else {}
    return RunPlan(
        run=run,
        owner=suite.owner,
        protocol=suite.protocol,
        policy=suite.policy,
        channels=suite.alerts,
        cluster=cluster,
        cases=tuple(_case_plan(job, catalog, left_out.get(job.case.case_id)) for job in jobs),
        jobs=tuple(job for job in jobs if job.case.case_id not in left_out),
        routes=suite.routes,
        zone=_zone(suite, cluster),
    )


def _zone(suite: Suite, cluster: Cluster) -> str:
    hours = suite.night.window or cluster.window
    return Hours.parse(hours).zone.key if hours else "UTC"


def _expecting(job: JobSpec, past: Mapping[str, Past] | None) -> JobSpec:
    """The job with what its repeats usually take."""
    known = (past or {}).get(job.case.case_id)
    if known is None:
        return job
    usual = known.of(job.definition_digest).repeat_s
    return dataclasses.replace(job, expected_repeat_s=usual)


def _case_plan(job: JobSpec, catalog: Catalog, left_out: str | None) -> CasePlan:
    workload = catalog.workloads[job.case.workload]
    return CasePlan(
        planned=PlannedCase(job.case, job.build, job.definition_digest, job.unit, left_out),
        processes=job.processes,
        # Some workloads have one network at every scale, others a count for each.
        parameters=job.workload_params.get("parameters", workload.parameters),
        converges=bool(job.workload_params.get("converges", False)),
    )


def store_plan(plan: RunPlan, spool: Spool) -> RunSpool:
    """Write run.json and planned.json; the same plan may be stored again.

    What the night has no room for gets its outcome here: whoever looks at the run finds it ended.
    """
    folder = spool.run(plan.run.run_id)
    folder.save_planned([_case_document(case) for case in plan.cases])
    for case in plan.cases:
        store = folder.case(case.planned.case_id)
        if case.left_out is not None and store.outcome() is None:
            store.save_outcome(
                {
                    "status": str(CaseStatus.LEFT_OUT),
                    "reason": case.left_out,
                    "repeats": [],
                    "ended_at": utc_now(),
                }
            )
    run = dataclasses.asdict(plan.run)
    known = folder.run() or {}
    folder.save_run(
        {
            **known,
            "schema": SCHEMA,
            **run,
            "run_kind": plan.run.run_kind.value,
            "started_at": plan.run.started_at.isoformat(),
            "owner": plan.owner,
            "protocol": dataclasses.asdict(plan.protocol),
            "policy": dataclasses.asdict(plan.policy),
            "channels": list(plan.channels),
            "routes": [dataclasses.asdict(route) for route in plan.routes],
            "zone": plan.zone,
            "nodes": [node.name for node in plan.cluster.nodes],
            "cluster_info": {
                name: getattr(plan.cluster, name)
                for name in (
                    "description",
                    "device_kind",
                    "devices_per_node",
                    "shared",
                    "transport",
                )
            },
        }
    )
    return folder


def _case_document(case: CasePlan) -> dict[str, Any]:
    planned = case.planned
    return {
        "case_id": planned.case_id,
        "axes": planned.case.axes(),
        "build": dataclasses.asdict(planned.build),
        "definition_digest": planned.definition_digest,
        "unit": planned.unit,
        "processes": [dataclasses.asdict(process) for process in case.processes],
        "parameters": case.parameters,
        "converges": case.converges,
        "left_out": case.left_out,
    }


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
    return RunPlan(
        run=_run(document),
        owner=document["owner"],
        protocol=Protocol(**document["protocol"]),
        policy=RegressionPolicy(**document["policy"]),
        channels=tuple(document["channels"]),
        cluster=Cluster(
            name=document["cluster"],
            nodes=tuple(Node(name, host=name, ssh_conn_id="") for name in document["nodes"]),
            **document["cluster_info"],
        ),
        cases=tuple(_case(entry) for entry in folder.planned()),
        # Plans of older versions have neither.
        routes=tuple(_route(entry) for entry in document.get("routes", ())),
        zone=document.get("zone", "UTC"),
    )


def _route(entry: Mapping[str, Any]) -> Route:
    given = {name: tuple(entry[name]) for name in ("frameworks", "workloads", "clusters")}
    return Route(
        **given,
        verdicts=tuple(VerdictKind(kind) for kind in entry["verdicts"]),
        owner=entry["owner"],
        alerts=None if entry["alerts"] is None else tuple(entry["alerts"]),
    )


def _run(document: Mapping[str, Any]) -> Run:
    fields = {field.name: document[field.name] for field in dataclasses.fields(Run)}
    fields["run_kind"] = RunKind(fields["run_kind"])
    fields["started_at"] = datetime.fromisoformat(fields["started_at"])
    return Run(**fields)


def _case(entry: Mapping[str, Any]) -> CasePlan:
    return CasePlan(
        planned=PlannedCase(
            case=Case.from_axes(entry["axes"]),
            build=Build(**entry["build"]),
            definition_digest=entry["definition_digest"],
            unit=entry["unit"],
            left_out=entry.get("left_out"),
        ),
        processes=tuple(Process(**process) for process in entry["processes"]),
        parameters=entry["parameters"],
        converges=entry["converges"],
    )


def mark_ended(folder: RunSpool) -> None:
    """Say that nothing more is measured for this run: from now on it may be loaded."""
    document = folder.run()
    if document is None:
        raise UserError(f"run {folder.run_id}: no run.json below {folder.folder}")
    if "ended_at" not in document:
        folder.save_run({**document, "ended_at": utc_now()})
