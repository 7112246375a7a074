"""The DAG `nightbench_bisect`: finds the first version of a framework that is slower."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task

from nightbench.config import locations
from nightbench.config.suite_heads import find_clusters, suite_heads
from nightbench.core.errors import UserError
from nightbench.orchestration.connections import connect
from nightbench.orchestration.dag_common import (
    experiment_context,
    measured,
    optional,
    optional_names,
    our_dag,
    switch,
    user_errors_fail_task,
)

if TYPE_CHECKING:
    from nightbench.experiments.bisect_request import BisectRequest
    from nightbench.experiments.engine import ExperimentContext

TIMEOUT = timedelta(hours=48)

DOC = """\
### Which version made it slower

**Trigger** asks for an alert, or for two versions and a case. Versions between are installed and
compared with the good one in rounds, half of them left out by each test, until the first bad one is
found or the budget is used up. A task that was ended goes on where it was when it is cleared. The
answer stands on the alert: `nightbench alert show ID`.
"""

log = logging.getLogger(__name__)


def bisect_dag() -> DAG:
    """Return the DAG that finds the first version of a framework that is slower, from a form."""
    with our_dag(
        "nightbench_bisect",
        schedule=None,
        dagrun_timeout=TIMEOUT,
        params=_form(),
        # It runs only when somebody fills in its form.
        is_paused_upon_creation=False,
        description="Finds the first version of a framework that made a case slower",
        doc_md=DOC,
        tags=["verdicts"],
    ) as dag:
        bisect()
    return dag


def _form() -> dict[str, Param]:
    suites = [head.name for head in suite_heads(locations.dags_folder()) if head.problem is None]
    clusters = list(find_clusters(locations.dags_folder()))
    return {
        "alert": optional(
            "integer",
            "Alert",
            "Its versions, case and cluster. Empty: those named below.",
            minimum=1,
        ),
        "good": optional("string", "Good version", "The last one that was fast."),
        "bad": optional("string", "Bad version", "One that is slower."),
        "case": optional("string", "Case", "Slug of the case that shows it."),
        "suite": optional("string", "Suite", "Of the case.", examples=suites),
        "cluster": optional("string", "Cluster", "Empty: the suite's own.", examples=clusters),
        "versions": optional_names(
            "Versions", "Only these between good and bad. Empty: all that a node offers."
        ),
        "budget_h": Param(
            4, type="number", exclusiveMinimum=0, maximum=40, title="Budget in hours", section="How"
        ),
        "most_tests": Param(20, type="integer", minimum=1, title="Tests at most", section="How"),
        "rounds": Param(5, type="integer", minimum=3, maximum=1000, title="Rounds", section="How"),
        "outside_hours": switch("Also outside the cluster's hours"),
    }


@task(
    retries=2,
    execution_timeout=TIMEOUT,
    doc_md="One long task: a retry, or a person who clears it, goes on after the last test.",
)
def bisect(**context: Any) -> dict[str, Any]:
    """Find the first bad version, or go on with it."""
    # The same id for every try.
    run = context["dag_run"]
    digest = hashlib.sha256(run.run_id.encode()).hexdigest()[:4]
    with user_errors_fail_task():
        return _bisect(f"bisect-{run.run_after:%Y%m%dT%H%M%S}-{digest}", context["params"])


def _bisect(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    from nightbench.experiments.bisect import measure_bisect
    from nightbench.experiments.bisect_request import request_of, store_bisect
    from nightbench.experiments.experiment_spool import BISECT, resumable_request
    from nightbench.experiments.reporting import BisectReporter
    from nightbench.spool import open_spool

    spool = open_spool()
    folder = spool.bisect(name)
    if folder.run() is None:
        request, context = _request(params)
    else:
        resumable_request(folder, BISECT)
        request = request_of(folder)
        context = experiment_context(
            request.suite, request.cluster, request.case_id, outside_hours=request.outside_hours
        )
    store_bisect(spool, name, request, "airflow", context.suite.name, context.cluster.name)
    reporter = BisectReporter(log.info, all_events=True)
    work = measure_bisect(folder, spool, context, reporter, connect)
    document = measured(work, reporter.refresh)
    log.info("%s: %s", name, document["sentence"])
    return {key: document[key] for key in ("bisect_id", "state", "outcome", "first_bad")}


def _request(params: Mapping[str, Any]) -> tuple[BisectRequest, ExperimentContext]:
    from nightbench.experiments.bisect_request import BisectGoal, complete_goal, make_request

    named = {key: params.get(key) or "" for key in ("good", "bad", "suite")}
    goal = BisectGoal(
        alert_id=params.get("alert"),
        case_id=params.get("case") or "",
        cluster=params.get("cluster"),
        versions=params.get("versions") or (),
        **named,
    )
    with user_errors_fail_task(for_good=True):
        goal = complete_goal(goal, connect)
        if not goal.suite:
            raise UserError("suite: found nothing; expected an alert, or the suite of the case")
    limits = {
        "budget_s": params["budget_h"] * 3600.0,
        "most_tests": params["most_tests"],
        "rounds": params["rounds"],
        "outside_hours": bool(params["outside_hours"]),
    }
    context = experiment_context(
        goal.suite, goal.cluster, goal.case_id, outside_hours=limits["outside_hours"]
    )
    request, problems = asyncio.run(make_request(goal, context, **limits))
    for problem in problems:
        log.warning("no answer from %s", problem)
    return request, context
