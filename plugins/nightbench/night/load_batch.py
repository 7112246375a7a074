"""Makes the batch that the warehouse loads from a run's files: parse, summarise, check."""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime

from nightbench.checks import CheckContext, check_measurements, check_repeats, checks_digest
from nightbench.core.documents import from_document, to_document
from nightbench.core.model import (
    CaseStatus,
    CaseToLoad,
    LoadBatch,
    Process,
    Reason,
    ReasonCode,
    RepeatRecord,
    RepeatToLoad,
    RunKind,
)
from nightbench.core.run_plan import CasePlan, RunPlan
from nightbench.core.scaling import scale
from nightbench.core.summarize import repeat_record, summarize_case, summarize_repeat
from nightbench.night.reference_plan import measured_pairs
from nightbench.nodes.device_peaks import with_model_flops
from nightbench.spool import CaseOutcome, CaseStore, Document, RunSpool
from nightbench.spool.documents import DamagedDocument, of_this_version, read_or_none
from nightbench.spool.plans import read_plan


def build_load_batch(folder: RunSpool) -> LoadBatch:
    """Summarise and check all results of a run.

    A damaged file of a repeat fails the repeat, and a damaged outcome fails its case: the other
    results of the run are kept.

    Raises:
        UserError: the run has no plan, or a file of it cannot be read now.
    """
    plan = read_plan(folder)
    fingerprints: dict[str, Document] = {}
    contexts: list[CheckContext] = []
    found: list[CaseToLoad] = []
    for case in plan.cases:
        store = folder.latest(case.planned.case_id)
        if store is not None:
            case = as_launched(case, store)
            of_nodes = _fingerprints(store, plan)
            fingerprints |= {document["id"]: document for document in of_nodes.values()}
            names = {node: document["id"] for node, document in of_nodes.items()}
            contexts.append(check_context(plan, case, of_nodes.values()))
            found.append(_case(plan, case, contexts[-1], store, names, fingerprints))

    scaled = scale([each.measurement for each in found if each.measurement is not None])
    pairs = list(zip(contexts, scaled, strict=True))
    # A case that did not fit into the night is no measurement and is not checked.
    checked = [pair for pair in pairs if pair[1].status is not CaseStatus.LEFT_OUT]
    results = iter(check_measurements(checked))
    for number, (_, measurement) in enumerate(pairs):
        held = () if measurement.status is CaseStatus.LEFT_OUT else next(results)
        checks = (*found[number].checks, *held)
        measured = dataclasses.replace(measurement, checks=checks)
        found[number] = dataclasses.replace(found[number], measurement=measured, checks=checks)
    return LoadBatch(
        run=plan.run,
        planned=tuple(case.planned for case in plan.cases),
        cases=tuple(found),
        checks_digest=checks_digest(),
        fingerprints=fingerprints,
        cluster=plan.cluster,
        pairs=measured_pairs(folder),
    )


def as_launched(case: CasePlan, store: CaseStore) -> CasePlan:
    """Return a case with the processes of its job, which may have left an unhealthy node."""
    sent = (read_or_none(store.folder / "job.json") or {}).get("processes", ())
    processes = tuple(from_document(Process, each) for each in sent)
    return dataclasses.replace(case, processes=processes or case.processes)


def check_context(plan: RunPlan, case: CasePlan, nodes: Iterable[Document]) -> CheckContext:
    """Expectations for the results of a planned case; `nodes` are fingerprints."""
    limits = [gpu.get("power_limit_w") for node in nodes for gpu in node.get("gpus", ())]
    known = [limit for limit in limits if limit] if plan.cluster.device_kind == "gpu" else []
    return CheckContext.of(
        case,
        plan.protocol,
        plan.cluster,
        acceptance=plan.run.run_kind is RunKind.ACCEPTANCE,
        power_limit_w=max(known) * case.planned.case.trainers if known else None,
    )


def _case(
    plan: RunPlan,
    case: CasePlan,
    context: CheckContext,
    store: CaseStore,
    fingerprints: Mapping[str, str],
    documents: Mapping[str, Document],
) -> CaseToLoad:
    """Return a case with its repeats and their checks; its measurement is not checked yet."""
    planned = case.planned
    records = tuple(_record(store, number, fingerprints) for number in store.repeats())
    summaries = tuple(summarize_repeat(record, planned.case) for record in records)
    checks = tuple(check_repeats(context, records, summaries))
    refused = [check for check in checks if check.quarantines]
    numbers = {check.repeat for check in refused}
    # The checks that the last quarantined repeat failed say why a case has no result.
    last = max((check.repeat or 0 for check in refused), default=0)
    outcome = _outcome(store)
    measurement = summarize_case(
        run_id=plan.run.run_id,
        case=planned.case,
        cluster=plan.cluster.name,
        build=planned.build,
        unit=planned.unit or "",
        repeats=summaries,
        records=records,
        good={r.repeat for r in records if r.status == "ok" and r.repeat not in numbers},
        refusals=[check.reason for check in refused if check.repeat == last],
        definition_digest=planned.definition_digest,
        status=outcome.status,
        reasons=outcome.reasons,
    )
    found = [documents[name] for record in records for name in record.fingerprints.values()]
    measurement = with_model_flops(measurement, planned, plan.cluster, found)
    return CaseToLoad(
        case=planned.case,
        generation=int(store.folder.name.removeprefix("g")),
        status=measurement.status,
        reasons=measurement.reasons,
        repeats=tuple(map(RepeatToLoad, records, summaries)),
        measurement=measurement,
        checks=checks,
        elapsed_s=_elapsed_s(records, outcome),
    )


def _outcome(store: CaseStore) -> CaseOutcome:
    """Return how a case ended; it failed if its file is damaged or missing."""
    try:
        with of_this_version(store.folder / "outcome.json"):
            if (outcome := store.outcome()) is not None:
                return CaseOutcome.from_json(outcome)
        why = Reason(ReasonCode.NO_OUTCOME)
    except DamagedDocument as error:
        why = _damage(error)
    return CaseOutcome(CaseStatus.FAILED, (why,), ended_at="")


def _damage(error: DamagedDocument) -> Reason:
    return Reason(ReasonCode.CONTROLLER_ERROR, observed=str(error))


def _record(store: CaseStore, number: int, fingerprints: Mapping[str, str]) -> RepeatRecord:
    """Return one repeat: the controller's record with the results of all nodes.

    It failed if one of its files is damaged.
    """
    try:
        with of_this_version(store.folder / f"repeat-{number:03d}"):
            said = {**(store.repeat(number) or {}), "repeat": number}
            return repeat_record(said, store.results(number), fingerprints)
    except DamagedDocument as error:
        failed = {"repeat": number, "status": "failed", "reasons": [to_document(_damage(error))]}
        return repeat_record(failed, {}, fingerprints)


def _fingerprints(store: CaseStore, plan: RunPlan) -> dict[str, Document]:
    found = {node.name: store.fingerprint(node.name) for node in plan.cluster.nodes}
    return {node: document for node, document in found.items() if document is not None}


def _elapsed_s(records: tuple[RepeatRecord, ...], outcome: CaseOutcome) -> float | None:
    starts = [record.started_at for record in records if record.started_at is not None]
    if not starts or not outcome.ended_at:
        return None
    return max(0.0, (datetime.fromisoformat(outcome.ended_at) - min(starts)).total_seconds())
