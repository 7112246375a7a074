"""The request, the steps and the result of a bisect.

<spool>/comparisons/<id>/run.json           the request
<spool>/comparisons/<id>/steps/<n>.json     the n-th step: versions, comparison, result
<spool>/comparisons/<id>-<n>/               the launches of a step
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import InvalidVersion, Version

from nightbench.config.experiment_requests import BisectRequest
from nightbench.core.documents import from_document, to_document
from nightbench.core.errors import UserError
from nightbench.core.model.experiments import ExperimentKind
from nightbench.core.run_plan import build_of
from nightbench.experiments.engine import Turn, unfit_nodes
from nightbench.experiments.experiment_spool import Document, read_request, store_request
from nightbench.experiments.version_search import (
    SPEED,
    TRAINING,
    EndedStep,
    SearchState,
    StepKind,
    VersionResult,
    search_state,
)
from nightbench.gang.installable_versions import installable_versions
from nightbench.spool import RunSpool, read_json, utc_now, write_json
from nightbench.warehouse import Warehouse, opened
from nightbench.warehouse.connection import Connect

# --- the request --------------------------------------------------------------------------


def complete_request(request: BisectRequest, connect: Connect) -> BisectRequest:
    """Return a request with what it leaves open taken from its alert, before a node is looked at.

    Raises:
        UserError: there is no such alert, something is missing, or bad is not newer than good.
    """
    if request.alert_id is not None:
        with opened(connect) as warehouse:
            request = _of_alert(request, request.alert_id, warehouse)
    named = {"good": request.good, "bad": request.bad, "case": request.case_id}
    missing = ", ".join(name for name, value in named.items() if not value)
    if missing:
        raise UserError(
            f"{missing}: found nothing; expected an alert, or a case, a good and a bad version"
        )
    between(request.versions, request.good, request.bad)
    return request


def _of_alert(request: BisectRequest, alert_id: int, warehouse: Warehouse) -> BisectRequest:
    """Take the versions on both sides of the last change before the alert was opened."""
    alert = warehouse.alerts.get(alert_id)
    case_id, cluster = alert["case_id"], alert["cluster"]
    if request.good and request.bad:
        run = warehouse.runs.get(alert["opened_run_id"])
        assert run is not None  # no alert without its run
        change = {"suite": run.suite, "good": request.good, "bad": request.bad}
    else:
        found = warehouse.experiments.first("version_change", alert_id=alert_id)
        if found is None:
            raise UserError(
                f"alert {alert_id}: the framework's version is the same on all earlier nights of "
                f"{case_id} on {cluster}, so no version can be the cause; expected --good and --bad"
            )
        change = found
    return dataclasses.replace(
        request,
        good=request.good or change["good"].partition("+")[0],
        bad=request.bad or change["bad"].partition("+")[0],
        case_id=request.case_id or case_id,
        suite=request.suite or change["suite"],
        metric="training" if alert["metric"] == "training" else request.metric,
        cluster=request.cluster or cluster,
    )


async def with_versions(request: BisectRequest, turn: Turn) -> BisectRequest:
    """Look at the nodes and return the request with all its versions.

    The request is complete, and the context's suite has the one case. Sources of versions that do
    not answer are reported.

    Raises:
        UserError: no node is left, or no source of versions answers.
    """
    context = turn.context
    cluster, (case,) = context.cluster, context.suite.cases
    left_out = await unfit_nodes(turn, case.framework)
    offered: Sequence[str] = request.versions
    if not offered:
        nodes = [node for node in cluster.nodes if node.name not in left_out]
        if not nodes:
            raise UserError(f"cluster {cluster.name}: found no available node to list versions")
        variant = build_of(case.framework, context.suite, cluster, context.catalog).variant
        offered, problems = await installable_versions(
            cluster, nodes[0], context.targets, context.shipment, case.framework, variant
        )
        for problem in problems:
            turn.observer.say(f"no answer from a source of versions: {problem}")
    versions = between(offered, request.good, request.bad)
    return dataclasses.replace(request, line=case.framework, versions=versions, left_out=left_out)


def between(known: Sequence[str], good: str, bad: str) -> tuple[str, ...]:
    """Return the versions from good to bad, ascending, both of them included.

    Final versions only, unless good or bad is a candidate or a nightly build itself.

    Raises:
        UserError: a text is no version, or bad is not newer than good.
    """
    low, high = _version(good), _version(bad)
    if low >= high:
        raise UserError(f"versions: found good {good}, bad {bad}; expected bad to be newer")
    early = low.is_prerelease or high.is_prerelease
    inner = {_version(each): each for each in known}
    chosen = [
        text
        for version, text in sorted(inner.items())
        # 2.13.0+cpu is a build of 2.13.0, not a version after it.
        if low < version < high
        and version.public not in (low.public, high.public)
        and (early or not version.is_prerelease)
    ]
    return (good, *chosen, bad)


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise UserError(f'version: found "{text}"; expected a version such as 2.13.0') from None


# --- in the spool -------------------------------------------------------------------------


def store_bisect(
    folder: RunSpool, request: BisectRequest, requested_by: str, suite: str, cluster: str
) -> None:
    """Write the request before anything is measured.

    One that was begun continues with what it was begun with; only its limits change.

    Raises:
        UserError: the id belongs to another request.
    """
    document = to_document(request)
    free = ("budget_s", "most_tests", "outside_hours", "left_out")
    identity = {key: value for key, value in document.items() if key not in free}
    names = {"suite": suite, "cluster": cluster}
    store_request(folder, ExperimentKind.BISECT, document, identity, requested_by, **names)


def request_of(folder: RunSpool) -> BisectRequest:
    """Return the request of a bisect.

    Raises:
        UserError: there is no such bisect.
    """
    return from_document(BisectRequest, read_request(folder, ExperimentKind.BISECT)["request"])


def read_steps(folder: RunSpool) -> list[Document]:
    """Return the steps that were begun, in their order."""
    steps: list[Document] = []
    while (document := read_json(_step_file(folder, len(steps) + 1))) is not None:
        steps.append(document)
    return steps


def save_step(folder: RunSpool, step: Mapping[str, Any]) -> None:
    """Store a step as it is."""
    write_json(_step_file(folder, step["number"]), step)


def _step_file(folder: RunSpool, number: int) -> Any:
    return folder.folder / "steps" / f"{number:03d}.json"


def search_so_far(folder: RunSpool) -> SearchState:
    """Return the state of the search after the steps that have ended."""
    ended = [
        EndedStep(StepKind(s["kind"]), s["version"], s["against"], VersionResult(s["result"]))
        for s in read_steps(folder)
        if s["status"] == "ended"
    ]
    request = request_of(folder)
    return search_state(
        request.versions, ended, TRAINING if request.metric == "training" else SPEED
    )


def bisect_document(folder: RunSpool, state: str = "running", stopped: str = "") -> Document:
    """Return all that is known of a bisect: what `--json` prints and the warehouse stores."""
    document, request = read_request(folder, ExperimentKind.BISECT), request_of(folder)
    steps, search = read_steps(folder), search_so_far(folder)
    return {
        "bisect_id": folder.run_id,
        **{key: document[key] for key in ("schema", "suite", "cluster", "requested_by")},
        "started_at": document["started_at"],
        "ended_at": utc_now() if search.end else None,
        "state": state,
        "alert_id": request.alert_id,
        "case_id": request.case_id,
        "line": request.line,
        "metric": request.metric,
        "good": request.versions[0],
        "bad": request.versions[-1],
        "versions": list(request.versions),
        "outcome": str(search.end) if search.end else None,
        "last_good": search.last_good,
        "first_bad": search.first_bad,
        "suspects": list(search.suspects),
        "sentence": f"{stopped}; {search.sentence}" if stopped else search.sentence,
        "notes": list(search.notes),
        "ratio": checked_ratio(steps),
        "budget_s": request.budget_s,
        "spent_s": spent_s(steps),
        "steps": steps,
    }


def checked_ratio(steps: Sequence[Document]) -> float | None:
    """Return the bad version's throughput over the good one's; None before the check."""
    ratios = [s["ratio"] for s in steps if s["kind"] == StepKind.CHECK and s["status"] == "ended"]
    return ratios[-1] if ratios else None


def spent_s(steps: Sequence[Document]) -> float:
    """Return the seconds that steps have taken."""
    return math.fsum(step["spent_s"] for step in steps)
