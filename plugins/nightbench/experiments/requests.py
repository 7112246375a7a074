"""Requests of users: checks that need no node, and the row in the queue."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

from nightbench.accept.states import accepting_catalog
from nightbench.config.compare_builds import MERGE_BASE, committed, planned_build, uploaded
from nightbench.config.experiment_requests import BisectRequest, CompareRequest
from nightbench.config.run_request import RunRequest, resolve_request
from nightbench.core.budget import guess_repeat_s
from nightbench.core.documents import to_document
from nightbench.core.errors import UserError
from nightbench.core.model import Cluster
from nightbench.core.model.experiments import PRIORITIES, ExperimentKind
from nightbench.core.run_plan import new_run_id
from nightbench.experiments.bisect_request import complete_request
from nightbench.experiments.compare import with_cases
from nightbench.experiments.comparison import ComparisonContext, plan_comparison
from nightbench.experiments.profiles import refuse_unprofiled
from nightbench.night.planning import case_histories
from nightbench.spool import Spool
from nightbench.warehouse.connection import Connect
from nightbench.warehouse.repository import Row


def checked_compare(request: CompareRequest, connect: Connect, spool: Spool) -> Row:
    """Return the row of a comparison for the queue.

    Raises:
        UserError: an unknown name, a build that may not be named, a case that cannot run there, or
            more than a person's budget.
    """
    catalog = accepting_catalog(connect)
    suite, cluster, known = resolve_request(
        RunRequest(request.suite, cluster=request.cluster), catalog
    )
    builds = (planned_build(request.a, cluster), planned_build(request.b, cluster))
    for text in (request.a, request.b):
        if (sent := uploaded(text)) and not spool.uploads.path(*sent).exists():
            raise UserError(f'build: found "{text}", which is not uploaded; upload the wheel first')
    _refuse_lone_merge_base(request)
    plan = plan_comparison(
        ComparisonContext(with_cases(suite, request.cases), cluster, known),
        builds,
        comparison_id="compare",
        rounds=request.rounds,
        min_effect=request.min_effect,
        seed=request.seed,
    )
    if request.profile:
        refuse_unprofiled(builds[0].line, known)
    past = case_histories(cluster.name, connect)
    launches_s = [
        (past[case.case_id].repeat_s if case.case_id in past else None)
        or guess_repeat_s(suite.protocol, suite.repeat_timeout_s)
        for case in plan.cases
    ]
    estimate_s = 2 * request.rounds * sum(launches_s)
    if request.budget_s is not None:
        estimate_s = min(estimate_s, request.budget_s)
    _refuse_long(
        cluster,
        estimate_s,
        f"rounds: {request.rounds} rounds of {len(plan.cases)} cases take about "
        f"{estimate_s / 60:.0f} min",
        "Use fewer cases or rounds, or set budget_s",
    )
    cases = [case.case_id for case in plan.cases]
    return {
        "name": new_run_id("compare", datetime.now(UTC)),
        "kind": ExperimentKind.COMPARE,
        "state": "held" if request.fork else "queued",
        "request": {**asdict(request), "suite": suite.name, "cluster": cluster.name}
        | {"cases": cases},
        "suite": suite.name,
        "cluster": cluster.name,
        "priority": PRIORITIES[request.priority],
        "budget_s": request.budget_s,
        "estimate_s": estimate_s,
        "profile": request.profile,
    }


def checked_bisect(request: BisectRequest, connect: Connect) -> Row:
    """Return the row of a bisect for the queue; its alert names what the request leaves open.

    Raises:
        UserError: an unknown name, something is missing, or more than a person's budget.
    """
    request = complete_request(request, connect)
    if not request.suite:
        raise UserError("suite: found nothing; expected an alert, or the suite of the case")
    catalog = accepting_catalog(connect)
    asked = RunRequest(request.suite, cluster=request.cluster, cases=(request.case_id,))
    suite, cluster, _ = resolve_request(asked, catalog)
    _refuse_long(
        cluster,
        request.budget_s,
        f"budget: found {request.budget_s / 60:.0f} min",
        "Use a smaller budget",
    )
    return {
        "name": new_run_id("bisect", datetime.now(UTC)),
        "kind": ExperimentKind.BISECT,
        "request": to_document(request),
        "suite": suite.name,
        "cluster": cluster.name,
        "alert_id": request.alert_id,
        "budget_s": request.budget_s,
        "estimate_s": request.budget_s,
    }


def _refuse_long(cluster: Cluster, seconds: float, found: str, way_out: str) -> None:
    if seconds > cluster.compare.person_s:
        raise UserError(
            f"{found}; expected {cluster.compare.person_s / 60:.0f} min at most "
            f"(compare.person of cluster {cluster.name}). {way_out}"
        )


def _refuse_lone_merge_base(request: CompareRequest) -> None:
    a, b = committed(request.a), committed(request.b)
    if (b and b[1] == MERGE_BASE) or (a and a[1] == MERGE_BASE and (b is None or b[0] != a[0])):
        raise UserError(
            f"builds: found {request.a} and {request.b}; expected {MERGE_BASE} only as A, with a "
            "commit of the same repository as B"
        )
