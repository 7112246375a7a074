"""How the plan of a run lies in the spool: run.json and planned.json.

The plan is stored before anything is launched. What the ingest needs to judge results stands in
it, so that a run is loaded as it was planned, even when its YAML has changed since.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import (
    Build,
    Case,
    CaseStatus,
    Cluster,
    Node,
    PlannedCase,
    Process,
    Protocol,
    Reason,
    RegressionPolicy,
    Route,
    Run,
    RunKind,
    VerdictKind,
)
from nightbench.core.run_plan import CasePlan, RunPlan
from nightbench.spool.documents import of_this_version, utc_now
from nightbench.spool.root import Spool
from nightbench.spool.run import RunSpool

SCHEMA = "nightbench.run/1"
EXPORTED = "exported"
"""Key of run.json: the run is measured elsewhere, and nobody here knows how long that takes."""


def store_plan(plan: RunPlan, spool: Spool) -> RunSpool:
    """Write run.json and planned.json; the same plan may be stored again.

    What the night has no room for, and what cannot be run from broken folders, gets its outcome
    here: whoever looks at the run finds it ended.
    """
    folder = spool.run(plan.run.run_id)
    folder.save_planned([_case_document(case) for case in plan.cases])
    for case in plan.cases:
        if case.left_out is not None:
            folder.case(case.planned.case_id).end(CaseStatus.LEFT_OUT, [case.left_out])
    for case_id, reason in plan.unavailable.items():
        folder.case(case_id).end(CaseStatus.UNAVAILABLE, [reason])
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
        "units_per_trainer_step": case.units_per_trainer_step,
        "from_log": case.from_log,
        "left_out": case.left_out and case.left_out.to_json(),
        "private_build": planned.private_build,
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
    with of_this_version(folder.folder / "run.json"):
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
            left_out=Reason.from_json(entry["left_out"]) if entry["left_out"] else None,
            private_build=entry["private_build"],
        ),
        processes=tuple(Process(**process) for process in entry["processes"]),
        parameters=entry["parameters"],
        converges=entry["converges"],
        units_per_trainer_step=entry["units_per_trainer_step"],
        from_log=entry["from_log"],
    )


def mark_ended(folder: RunSpool) -> None:
    """Say that nothing more is measured for this run: from now on it may be loaded."""
    document = folder.run()
    if document is None:
        raise UserError(f"run {folder.run_id}: no run.json below {folder.folder}")
    if "ended_at" not in document:
        folder.save_run({**document, "ended_at": utc_now()})
