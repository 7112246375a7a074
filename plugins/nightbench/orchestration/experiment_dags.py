"""The DAGs of experiments: `nightbench_confirm` measures suspects again, `nightbench_bisect`."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from nightbench.core.errors import UserError
from nightbench.orchestration import places
from nightbench.orchestration.heads import cluster_names, suite_heads
from nightbench.orchestration.shared import DEFAULTS, OWNER, START, SUSPECTS
from nightbench.orchestration.texts import BISECT_DOC, CONFIRM_DOC

if TYPE_CHECKING:
    from nightbench.experiments.bisect_request import BisectRequest
    from nightbench.experiments.confirm import ConfirmRequest
    from nightbench.experiments.engine import ExperimentContext

CONFIRMED_AT_ONCE = 4
"""Nights, mostly of other clusters; locks of the nodes keep those apart that share any."""
CONFIRM_RETRIES = 2
BISECT_TIMEOUT = timedelta(hours=48)

log = logging.getLogger(__name__)


# --- nightbench_confirm -------------------------------------------------------------------


def confirm_dag() -> DAG:
    """Return the DAG that measures a night's suspects again before its message is sent."""
    with DAG(
        "nightbench_confirm",
        schedule=[SUSPECTS],
        start_date=START,
        catchup=False,
        max_active_runs=CONFIRMED_AT_ONCE,
        dagrun_timeout=timedelta(hours=23),
        default_args={**DEFAULTS, "owner": OWNER},
        # It measures only what a night has asked for; paused it would keep messages waiting.
        is_paused_upon_creation=False,
        description="Measures suspected regressions again before a night is told of",
        doc_md=CONFIRM_DOC,
        tags=["nightbench", "verdicts"],
    ) as dag:
        confirm.expand(confirmation=suspects()) >> tell()
    return dag


@task(doc_md="What the night wants measured again, the largest fall first.")
def suspects(**context: Any) -> list[int]:
    """Return the ids of the confirmations that a message waits for."""
    from nightbench.orchestration.runs import connect
    from nightbench.warehouse.confirmations import ConfirmationBook

    with closing(connect()) as connection:
        book = ConfirmationBook(connection)
        rows = [row for run_id in _run_ids(context) for row in book.waiting(run_id)]
    for row in rows:
        log.info(
            "%s on %s: %+.1f %%", row["case_id"], row["cluster"], 100 * row["detail"]["change"]
        )
    return [row["confirmation_id"] for row in rows]


@task(
    retries=CONFIRM_RETRIES,
    max_active_tis_per_dagrun=1,
    # What it may take is said by the night's budget: no launch begins that cannot end by then.
    execution_timeout=timedelta(hours=12),
    map_index_template="{{ case_id }}",
    doc_md="One task for each suspect; a retry goes on after the last launch that has ended.",
)
def confirm(confirmation: int, **context: Any) -> dict[str, Any]:
    """Measure one suspect again and store the outcome."""
    from nightbench.experiments.confirm import begin_confirmation
    from nightbench.orchestration.runs import connect

    context["case_id"] = str(confirmation)
    try:
        request = begin_confirmation(connect, confirmation)
        if request is None:
            raise AirflowSkipException(f"confirmation {confirmation} has ended or was given up")
        context["case_id"] = request.suspect.case_id
        instance = context["ti"]
        return _confirm(request, last_try=instance.try_number > instance.max_tries)
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None


@task(trigger_rule="all_done", doc_md="Sends the night's message, which has waited for this.")
def tell(**context: Any) -> list[str]:
    """Send the messages of the runs whose suspects were measured; a failure stops no other."""
    from nightbench.experiments.confirm import give_up_rest
    from nightbench.orchestration import runs

    told = list(_run_ids(context))
    problems = []
    for run_id in told:
        try:
            if given_up := give_up_rest(runs.connect, places.spool(), run_id):
                log.warning("run %s: %d suspects were not measured again", run_id, given_up)
            runs.tell(run_id)
        except UserError as error:
            log.error("run %s: %s", run_id, error)
            problems.append(f"run {run_id}: {error}")
    if problems:
        raise AirflowException("\n".join(problems))
    return told


def _run_ids(context: Any) -> Iterable[str]:
    events = [e for each in (context.get("triggering_asset_events") or {}).values() for e in each]
    # An event that a person made may name none.
    named = [run_id for event in events for run_id in (event.extra or {}).get("run_ids", [])]
    return dict.fromkeys(named)


def waiting_runs(run_ids: Iterable[str]) -> list[str]:
    """Return those of the runs whose message waits for suspects."""
    from nightbench.orchestration.runs import connect
    from nightbench.warehouse.confirmations import ConfirmationBook

    with closing(connect()) as connection:
        book = ConfirmationBook(connection)
        return [run_id for run_id in dict.fromkeys(run_ids) if book.waiting(run_id)]


def give_up_late() -> None:
    """Give up what did not end in time, so that nobody takes it for something that goes on."""
    from nightbench.experiments.confirm import give_up_overdue
    from nightbench.orchestration.runs import connect

    for run_id in give_up_overdue(connect):
        log.warning("run %s: not all of its suspects were measured again in time", run_id)


def _confirm(request: ConfirmRequest, *, last_try: bool) -> dict[str, Any]:
    from nightbench.experiments.confirm import (
        MeasuredElsewhere,
        end_confirmation,
        inconclusive,
        measure_again,
    )
    from nightbench.experiments.reporting import ComparisonReporter
    from nightbench.gang import NodeError, direct
    from nightbench.orchestration.runs import connect
    from nightbench.spool.plans import read_plan

    spool = places.spool()
    night = read_plan(spool.run(request.suspect.run_id))
    reporter = ComparisonReporter(log.info, all_events=True)
    detail: dict[str, Any] = {}
    try:
        context = _experiment_context(night.run.suite, night.run.cluster, until=request.until)
        work = measure_again(request, night, spool, context, reporter)
        found, detail = asyncio.run(direct.until_done(work, reporter.refresh))
    except KeyboardInterrupt:
        raise AirflowException("ended from outside; a retry goes on") from None
    except MeasuredElsewhere as error:
        raise AirflowSkipException(str(error)) from None
    except UserError as error:
        if isinstance(error, NodeError) and not last_try:
            raise
        # Nothing that a retry would mend: the night's message is sent without it.
        log.error("%s", error)
        found = inconclusive(str(error))
    end_confirmation(connect, request, found, detail)
    log.info("%s", found.sentence)
    return {"case_id": request.suspect.case_id, "outcome": str(found.outcome)}


# --- nightbench_bisect --------------------------------------------------------------------


def bisect_dag() -> DAG:
    """Return the DAG that finds the first version of a framework that is slower, from a form."""
    with DAG(
        "nightbench_bisect",
        schedule=None,
        start_date=START,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=BISECT_TIMEOUT,
        default_args={**DEFAULTS, "owner": OWNER},
        params=_bisect_form(),
        # It runs only when somebody fills in its form.
        is_paused_upon_creation=False,
        description="Finds the first version of a framework that made a case slower",
        doc_md=BISECT_DOC,
        tags=["nightbench", "verdicts"],
    ) as dag:
        bisect()
    return dag


def _bisect_form() -> dict[str, Param]:
    suites = [head.name for head in suite_heads(places.dags_folder()) if head.problem is None]

    def text(title: str, description: str, **more: Any) -> Param:
        return Param(None, type=["null", "string"], title=title, description=description, **more)

    return {
        "alert": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Alert",
            description="Its versions, case and cluster. Empty: those named below.",
        ),
        "good": text("Good version", "The last one that was fast."),
        "bad": text("Bad version", "One that is slower."),
        "case": text("Case", "Slug of the case that shows it."),
        "suite": text("Suite", "Of the case.", examples=suites),
        "cluster": text(
            "Cluster", "Empty: the suite's own.", examples=cluster_names(places.dags_folder())
        ),
        "versions": Param(
            None,
            type=["null", "array"],
            items={"type": "string"},
            title="Versions",
            description="Only these between good and bad. Empty: all that a node offers.",
        ),
        "budget_h": Param(
            4, type="number", exclusiveMinimum=0, maximum=40, title="Budget in hours", section="How"
        ),
        "most_tests": Param(20, type="integer", minimum=1, title="Tests at most", section="How"),
        "rounds": Param(5, type="integer", minimum=3, maximum=1000, title="Rounds", section="How"),
        "outside_hours": Param(
            False, type="boolean", title="Also outside the cluster's hours", section="How"
        ),
    }


@task(
    retries=2,
    execution_timeout=BISECT_TIMEOUT,
    doc_md="One long task: a retry, or a person who clears it, goes on after the last test.",
)
def bisect(**context: Any) -> dict[str, Any]:
    """Find the first bad version, or go on with it."""
    # The same id for every try.
    run = context["dag_run"]
    digest = hashlib.sha256(run.run_id.encode()).hexdigest()[:4]
    try:
        return _bisect(f"bisect-{run.run_after:%Y%m%dT%H%M%S}-{digest}", context["params"])
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None


def _bisect(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    from nightbench.experiments.bisect import measure_bisect, request_of, store_bisect
    from nightbench.experiments.experiment_spool import BISECT, resumable_request
    from nightbench.experiments.reporting import BisectReporter
    from nightbench.gang import direct

    spool = places.spool()
    folder = spool.bisect(name)
    if folder.run() is None:
        request, context = _bisect_request(params)
    else:
        resumable_request(folder, BISECT)
        request = request_of(folder)
        context = _experiment_context(
            request.suite, request.cluster, request.case_id, outside_hours=request.outside_hours
        )
    names = context.suite.name, context.cluster.name
    store_bisect(spool, name, request, "airflow", *names)
    reporter = BisectReporter(log.info)
    work = measure_bisect(folder, spool, context, reporter, _keep)
    try:
        document = asyncio.run(direct.until_done(work, reporter.refresh))
    except KeyboardInterrupt:
        raise AirflowException("ended from outside; a retry goes on") from None
    log.info("%s: %s", name, document["sentence"])
    return {key: document[key] for key in ("bisect_id", "state", "outcome", "first_bad")}


def _bisect_request(params: Mapping[str, Any]) -> tuple[BisectRequest, ExperimentContext]:
    from nightbench.experiments.bisect_request import (
        BisectGoal,
        check_goal,
        goal_of_alert,
        make_request,
    )
    from nightbench.orchestration.runs import connect
    from nightbench.warehouse import Reader
    from nightbench.warehouse.bisects import Bisects

    goal = BisectGoal(
        alert_id=params.get("alert"),
        good=params.get("good"),
        bad=params.get("bad"),
        case_id=params.get("case"),
        suite=params.get("suite"),
        cluster=params.get("cluster"),
        versions=params.get("versions") or (),
    )
    if goal.alert_id is not None:
        with closing(connect()) as connection:
            goal = goal_of_alert(goal, Reader(connection), Bisects(connection))
    check_goal(goal)
    if not goal.suite:
        raise UserError("suite: found nothing; expected an alert, or the suite of the case")
    limits = {
        "budget_s": params["budget_h"] * 3600.0,
        "most_tests": params["most_tests"],
        "rounds": params["rounds"],
        "outside_hours": bool(params["outside_hours"]),
    }
    context = _experiment_context(
        goal.suite, goal.cluster, goal.case_id, outside_hours=limits["outside_hours"]
    )
    request, problems = asyncio.run(make_request(goal, context, **limits))
    for problem in problems:
        log.warning("no answer from %s", problem)
    return request, context


def _keep(document: Mapping[str, Any]) -> None:
    """Store a bisect in the warehouse; where that does not take it the spool has all of it."""
    from nightbench.orchestration.runs import connect
    from nightbench.warehouse import WarehouseRefused, WarehouseUnavailable
    from nightbench.warehouse.bisects import Bisects

    try:
        with closing(connect()) as connection:
            Bisects(connection).store(document, document["steps"])
    except (WarehouseUnavailable, WarehouseRefused) as error:
        log.warning("stored after the next test: %s", error)


# --- of both ------------------------------------------------------------------------------


def _experiment_context(
    suite: str,
    cluster: str | None,
    case_id: str | None = None,
    *,
    outside_hours: bool = False,
    until: datetime | None = None,
) -> ExperimentContext:
    from nightbench.experiments.ab import with_cases
    from nightbench.experiments.engine import experiment_context
    from nightbench.orchestration.connections import ssh_targets
    from nightbench.orchestration.runs import connect
    from nightbench.orchestration.wishes import Wish, choose

    chosen, where, catalog = choose(Wish(suite, cluster=cluster))
    return experiment_context(
        with_cases(chosen, [case_id] if case_id else []),
        where,
        catalog,
        ssh_targets(where),
        places.shipment(where.environments.wheelhouse),
        connect,
        places.spool(),
        outside_hours=outside_hours,
        until=until,
    )
