"""The request, the steps and the state of a bisect: in the spool and in the warehouse.

<spool>/bisects/<id>/run.json           the request, and how the bisect stands
<spool>/bisects/<id>/steps/<n>.json     the n-th step: versions, comparison, result
<spool>/comparisons/<id>/               the launches of a step
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from nightbench.core.documents import from_document, to_document
from nightbench.core.errors import UserError, WarehouseRefused, WarehouseUnavailable
from nightbench.core.run_plan import build_of
from nightbench.experiments.engine import ExperimentContext, unfit_nodes
from nightbench.experiments.experiment_spool import BISECT, Document, read_request, store_request
from nightbench.experiments.version_search import (
    EndedStep,
    SearchState,
    StepKind,
    VersionResult,
    search_state,
)
from nightbench.gang.installable_versions import installable_versions
from nightbench.nodes import NodesOut
from nightbench.spool import RunSpool, Spool, read_json, write_json
from nightbench.warehouse import Warehouse, opened
from nightbench.warehouse.connection import Connect

DEFAULT_ROUNDS = 5
"""Of each step: the fall is known by then, and half of it decides."""


_RUN_KEYS = (
    *("schema", "suite", "cluster", "state", "stopped"),
    *("requested_by", "started_at", "ended_at"),
)
"""Of run.json, in the bisect's document."""


@dataclass(frozen=True)
class BisectRequest:
    """What a bisect searches, and its limits."""

    case_id: str
    suite: str
    """By name, or the absolute path of its file."""
    cluster: str | None
    """By name or path; the suite's own where None."""
    line: str
    versions: tuple[str, ...]
    """Ascending: the good one first, the bad one last."""
    budget_s: float
    """Of measuring, over all calls."""
    most_tests: int
    rounds: int = DEFAULT_ROUNDS
    min_effect: float = 0.01
    """The smallest fall that is looked for; half of the fall that is found decides later."""
    seed: int = 1
    alert_id: int | None = None
    outside_hours: bool = False
    left_out: NodesOut = dataclasses.field(default_factory=dict)


# --- the request --------------------------------------------------------------------------


@dataclass(frozen=True)
class BisectGoal:
    """What a person names of a bisect; an alert says what is empty."""

    alert_id: int | None = None
    good: str = ""
    bad: str = ""
    case_id: str = ""
    suite: str = ""
    cluster: str | None = None
    versions: Sequence[str] = ()
    """The candidates; all that a node offers where there are none."""


def complete_goal(goal: BisectGoal, connect: Connect) -> BisectGoal:
    """Return a goal with what it leaves open taken from its alert, before a node is looked at.

    Raises:
        UserError: there is no such alert, something is missing, or bad is not newer than good.
    """
    if goal.alert_id is not None:
        with opened(connect) as warehouse:
            goal = _of_alert(goal, goal.alert_id, warehouse)
    named = {"good": goal.good, "bad": goal.bad, "case": goal.case_id}
    missing = ", ".join(name for name, value in named.items() if not value)
    if missing:
        raise UserError(
            f"{missing}: found nothing; expected an alert, or a good version, a bad one and a case"
        )
    between(goal.versions, goal.good, goal.bad)
    return goal


def _of_alert(goal: BisectGoal, alert_id: int, warehouse: Warehouse) -> BisectGoal:
    """Take the versions on both sides of the last change before the alert was opened."""
    alert = warehouse.alerts.get(alert_id)
    case_id, cluster = alert["case_id"], alert["cluster"]
    if goal.good and goal.bad:
        run = warehouse.runs.get(alert["opened_run_id"])
        assert run is not None  # no alert without its run
        change = {"suite": run.suite, "good": goal.good, "bad": goal.bad}
    else:
        found = warehouse.bisects.first("version_change", alert_id=alert_id)
        if found is None:
            raise UserError(
                f"alert {alert_id}: the framework's version is the same on all nights of {case_id} "
                f"on {cluster} before it, so no version can be to blame; name both versions, good "
                "and bad (--good and --bad)"
            )
        change = found
    return dataclasses.replace(
        goal,
        good=goal.good or change["good"].partition("+")[0],
        bad=goal.bad or change["bad"].partition("+")[0],
        case_id=goal.case_id or case_id,
        suite=goal.suite or change["suite"],
        cluster=goal.cluster or cluster,
    )


async def make_request(
    goal: BisectGoal, context: ExperimentContext, **limits: Any
) -> tuple[BisectRequest, tuple[str, ...]]:
    """Look at the nodes and return the request, with the sources of versions that failed.

    The goal is complete, with its suite, and the context's suite has the one case. `limits` are
    those of the request: budget_s, most_tests, rounds, ...

    Raises:
        UserError: no node is left, or none can be asked for versions.
    """
    cluster, (case,) = context.cluster, context.suite.cases
    left_out = await unfit_nodes(context, case.framework)
    offered: Sequence[str] = goal.versions
    problems: tuple[str, ...] = ()
    if not offered:
        nodes = [node for node in cluster.nodes if node.name not in left_out]
        if not nodes:
            raise UserError(f"cluster {cluster.name}: no node is left to ask for versions")
        variant = build_of(case.framework, context.suite, cluster, context.catalog).variant
        found = await installable_versions(
            cluster, nodes[0], context.targets, context.shipment, case.framework, variant
        )
        offered, problems = found.versions, found.problems
    request = BisectRequest(
        case_id=case.case_id,
        suite=goal.suite,
        cluster=goal.cluster,
        line=case.framework,
        versions=between(offered, goal.good, goal.bad),
        alert_id=goal.alert_id,
        left_out=left_out,
        **limits,
    )
    return request, problems


def between(known: Sequence[str], good: str, bad: str) -> tuple[str, ...]:
    """Return the versions from good to bad, ascending, both of them included.

    Final versions only, unless good or bad is a candidate or a nightly build itself.

    Raises:
        UserError: a text is no version, or bad is not newer than good.
    """
    low, high = _version(good), _version(bad)
    if low >= high:
        raise UserError(f"versions: found good {good}, bad {bad}; expected the bad one to be newer")
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
        raise UserError(f'version: found "{text}"; expected one such as 2.13.0') from None


# --- in the spool -------------------------------------------------------------------------


def store_bisect(
    spool: Spool,
    bisect_id: str,
    request: BisectRequest,
    requested_by: str,
    suite: str,
    cluster: str,
) -> RunSpool:
    """Write the request before anything is measured, and return the bisect's folder.

    One that is there goes on with what it was begun with; only its limits change.

    Raises:
        UserError: the id belongs to another request.
    """
    folder = spool.bisect(bisect_id)
    known = folder.run()
    if known is not None:
        # The nodes stay those of the first step: results of others would not be comparable.
        request = dataclasses.replace(request, left_out=request_of(folder).left_out)
    document = to_document(request)
    free = ("budget_s", "most_tests", "outside_hours", "left_out")
    identity = {key: value for key, value in document.items() if key not in free}
    state = {"state": "running", "stopped": None, "ended_at": None}
    names = {"suite": suite, "cluster": cluster}
    store_request(folder, BISECT, document, identity, requested_by, **names, **state)
    return folder


def request_of(folder: RunSpool) -> BisectRequest:
    """Return the request of a bisect.

    Raises:
        UserError: there is no such bisect.
    """
    return from_document(BisectRequest, read_request(folder, BISECT)["request"])


def read_steps(folder: RunSpool) -> list[Document]:
    """Return the steps that were begun, in their order."""
    steps: list[Document] = []
    while (document := read_json(_step_file(folder, len(steps) + 1))) is not None:
        steps.append(document)
    return steps


def save_step(folder: RunSpool, step: Mapping[str, Any]) -> None:
    """Store a step as it stands."""
    write_json(_step_file(folder, step["number"]), step)


def _step_file(folder: RunSpool, number: int) -> Any:
    return folder.folder / "steps" / f"{number:03d}.json"


def read_state(folder: RunSpool) -> SearchState:
    """Return the state of the search after the steps that have ended."""
    ended = [
        EndedStep(StepKind(s["kind"]), s["version"], s["against"], VersionResult(s["result"]))
        for s in read_steps(folder)
        if s["status"] == "ended"
    ]
    return search_state(request_of(folder).versions, ended)


def mark_stopped(folder: RunSpool, why: str) -> None:
    """Store that a bisect is not measured any more, although its search has not ended."""
    folder.save_run({**(folder.run() or {}), "state": "stopped", "stopped": why})


def bisect_document(folder: RunSpool) -> Document:
    """Return all that is known of a bisect: what `--json` prints and the warehouse stores."""
    document, request = read_request(folder, BISECT), request_of(folder)
    steps, state = read_steps(folder), read_state(folder)
    stopped = document["stopped"]
    return {
        "bisect_id": folder.run_id,
        **{key: document[key] for key in _RUN_KEYS},
        "alert_id": request.alert_id,
        "case_id": request.case_id,
        "line": request.line,
        "good": request.versions[0],
        "bad": request.versions[-1],
        "versions": list(request.versions),
        "outcome": str(state.end) if document["state"] == "ended" else None,
        "last_good": state.last_good,
        "first_bad": state.first_bad,
        "suspects": list(state.suspects),
        "sentence": f"{stopped}; {state.sentence}" if stopped else state.sentence,
        "notes": list(state.notes),
        "ratio": checked_ratio(steps),
        "budget_s": request.budget_s,
        "spent_s": spent_s(steps),
        "steps": steps,
    }


def load_bisect(connect: Connect, folder: RunSpool, on_error: Callable[[UserError], None]) -> None:
    """Store a bisect in the warehouse; where that does not take it the spool has all of it."""
    document = bisect_document(folder)
    try:
        with opened(connect) as warehouse:
            warehouse.bisects.store(document, document["steps"])
    except (WarehouseUnavailable, WarehouseRefused) as error:
        on_error(error)


def checked_ratio(steps: Sequence[Document]) -> float | None:
    """Return the bad version's throughput over the good one's; None before the check."""
    ratios = [s["ratio"] for s in steps if s["kind"] == StepKind.CHECK and s["status"] == "ended"]
    return ratios[-1] if ratios else None


def spent_s(steps: Sequence[Document]) -> float:
    """Return the seconds that steps have taken."""
    return math.fsum(step["spent_s"] for step in steps)
