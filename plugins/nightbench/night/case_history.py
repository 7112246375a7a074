"""Reads durations and last tries of cases from the warehouse, or else from the spool."""

import logging
import statistics
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from nightbench.core.budget import CaseHistory
from nightbench.core.model import CaseStatus, RunKind
from nightbench.spool import CaseStore, RunSpool, Spool, SpoolError
from nightbench.warehouse import Warehouse, WarehouseRefused, WarehouseUnavailable
from nightbench.warehouse.connection import Connect

log = logging.getLogger(__name__)

_RUNS_LOOKED_AT = 20
_TRIED = (CaseStatus.OK, CaseStatus.FAILED, CaseStatus.UNAVAILABLE)


def case_histories(cluster: str, connect: Connect, spool: Spool) -> dict[str, CaseHistory]:
    """Return case_id -> durations and last try of the cases on a cluster.

    Where the warehouse is away, the newest runs in the spool are read.
    """
    try:
        with closing(connect()) as connection:
            return Warehouse(connection).runs.case_past(cluster)
    except (WarehouseUnavailable, WarehouseRefused) as error:
        log.warning("Estimates come from the spool: %s", error)
        return _of_files(cluster, spool)


@dataclass(frozen=True)
class _Trial:
    """One case in one run that lies in the spool."""

    case_id: str
    status: str
    seconds: float | None
    repeats: int
    at: datetime
    nightly: bool
    definition: str | None


def _of_files(cluster: str, spool: Spool) -> dict[str, CaseHistory]:
    found: dict[str, list[_Trial]] = {}
    for run in spool.runs()[-_RUNS_LOOKED_AT:]:
        try:
            trials = list(_trials(run, cluster))
        except SpoolError:
            continue  # Its own ingest reports the damage; the estimate goes without it.
        for trial in trials:
            found.setdefault(trial.case_id, []).append(trial)
    return {case_id: _past(trials) for case_id, trials in found.items()}


def _trials(run: RunSpool, cluster: str) -> Iterator[_Trial]:
    document = run.run() or {}
    if document.get("cluster") != cluster:
        return
    definitions = {entry["case_id"]: entry["definition_digest"] for entry in run.planned()}
    for case_id in run.case_ids():
        store = run.latest(case_id)
        outcome = store.outcome() if store else None
        if store is None or outcome is None:
            continue
        yield _Trial(
            case_id=case_id,
            status=outcome["status"],
            seconds=_seconds(store, outcome["ended_at"]),
            repeats=sum(each["status"] == "ok" for each in outcome["repeats"]),
            at=datetime.fromisoformat(document["started_at"]),
            nightly=document.get("run_kind") == RunKind.NIGHTLY.value,
            definition=definitions.get(case_id),
        )


def _seconds(store: CaseStore, ended_at: str) -> float | None:
    """Return the seconds from the first launch to the end; None where nothing was launched."""
    began = (store.repeat(1) or {}).get("started_at")
    if not began:
        return None
    return (datetime.fromisoformat(ended_at) - datetime.fromisoformat(began)).total_seconds()


def _past(trials: list[_Trial]) -> CaseHistory:
    good = [t for t in trials if t.status == CaseStatus.OK and t.seconds is not None]
    tried = [t.at for t in trials if t.nightly and (t.status in _TRIED or t.seconds is not None)]
    if not good:
        return CaseHistory(last=max(tried, default=None))
    # Trials are ordered oldest first.
    newest = good[-1].definition
    each = [
        (t.seconds, t.seconds / max(t.repeats, 1))
        for t in good
        if t.seconds is not None and t.definition == newest
    ]
    return CaseHistory(
        seconds=statistics.median(whole for whole, _ in each),
        repeat_s=statistics.median(one for _, one in each),
        last=max(tried, default=None),
        definition=newest,
    )
