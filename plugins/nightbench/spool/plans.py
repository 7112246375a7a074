"""How the plan of a run lies in the spool: run.json and planned.json.

The plan is stored before anything is launched. What the ingest needs to judge results stands in
it, so that a run is loaded as it was planned, even when its YAML has changed since.
"""

from __future__ import annotations

import dataclasses

from nightbench.core.documents import from_document, to_document
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, Run
from nightbench.core.run_plan import CasePlan, RunPlan
from nightbench.spool.documents import Document, of_this_version, utc_now
from nightbench.spool.run import RunSpool, Spool

SCHEMA = "nightbench.run/1"
EXPORTED = "exported"
"""Key of run.json: the run is measured elsewhere, and nobody here knows how long that takes."""

_OF_PLAN = ("owner", "protocol", "policy", "channels", "routes", "zone")
_OF_CASE = ("processes", "parameters", "converges", "units_per_trainer_step", "from_log")
_OF_CLUSTER = (
    *("description", "device_kind", "devices_per_node", "shared", "transport", "peak_flops"),
)


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
    document = to_document(dataclasses.replace(plan, jobs=()))
    folder.save_run(
        {
            **(folder.run() or {}),
            "schema": SCHEMA,
            **document["run"],
            "started_at": plan.run.started_at.isoformat(),
            **{name: document[name] for name in _OF_PLAN},
            "nodes": [node.name for node in plan.cluster.nodes],
            "cluster_info": {name: document["cluster"][name] for name in _OF_CLUSTER},
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
            "run": {field.name: document[field.name] for field in dataclasses.fields(Run)},
            # Plans of older versions have neither routes nor a zone.
            **{name: document[name] for name in _OF_PLAN if name in document},
            "cluster": {
                "name": document["cluster"],
                "nodes": [{"name": n, "host": n, "ssh_conn_id": ""} for n in document["nodes"]],
                **document["cluster_info"],
            },
            "cases": [_case(entry) for entry in folder.planned()],
        }
        return from_document(RunPlan, plan, extra="forbid")


def _case(entry: Document) -> Document:
    planned = {key: value for key, value in entry.items() if key not in ("case_id", "axes")}
    own = {name: planned.pop(name) for name in _OF_CASE}
    return {**own, "planned": {"case": entry["axes"], **planned}}


def mark_ended(folder: RunSpool) -> None:
    """Say that nothing more is measured for this run: from now on it may be loaded."""
    document = folder.run()
    if document is None:
        raise UserError(f"run {folder.run_id}: no run.json below {folder.folder}")
    if "ended_at" not in document:
        folder.save_run({**document, "ended_at": utc_now()})
