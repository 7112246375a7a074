"""The DAG `nightbench_experiments`: measures the queue of experiments, between nights."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable, Param, task
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from nightbench.config import locations
from nightbench.config.experiment_requests import BisectRequest, CompareRequest
from nightbench.config.locations import find_clusters
from nightbench.config.request_fields import given, refuse_unknown
from nightbench.config.suite_heads import suite_names
from nightbench.config.validate import checked
from nightbench.core.errors import ItemErrors, UserError, WarehouseRefused, WarehouseUnavailable
from nightbench.core.model.experiments import NIGHT, ExperimentKind
from nightbench.night.scheduled_suites import scheduled_suites
from nightbench.orchestration.connections import channel_url, connect
from nightbench.orchestration.dag_common import (
    SUSPECTS,
    VERDICTS,
    base_url,
    dag_run_state,
    experiment_context,
    form,
    is_last_try,
    log_refused,
    measured,
    our_dag,
    user_errors_fail_task,
)
from nightbench.spool import open_spool

if TYPE_CHECKING:
    from nightbench.core.model.experiments import Experiment
    from nightbench.experiments.experiment_queue import Gap
    from nightbench.warehouse.repository import Row

DAG_ID = "nightbench_experiments"
SPARE_RUNS = 2
"""DAG runs in addition to one for each cluster: they find the queue empty, and send messages."""

TIMEOUT = timedelta(hours=23)

DOC = """\
### Comparisons of builds, bisects, confirmations

**Trigger** requests a comparison of two builds, or a bisect of versions, and puts it into the
queue, as `POST /nightbench/api/comparisons` does.

The DAG measures the next experiment of each cluster. It runs every five minutes, after each request
by form, and after each night with suspected regressions. Requests of a night come first. Then
higher priority comes first, then the user who measured least, then the oldest request. A task that
was ended continues when it is cleared, or in the next DAG run. The message of a night is sent when
its suspected regressions have been measured again. It waits for `policy.confirm` of its suite at
most.
"""

log = logging.getLogger(__name__)


def experiments_dag() -> DAG:
    """Return the DAG that measures the queue of experiments."""
    with our_dag(
        DAG_ID,
        schedule=AssetOrTimeSchedule(
            timetable=CronTriggerTimetable("*/5 * * * *", timezone="UTC"), assets=[SUSPECTS]
        ),
        max_active_runs=len(find_clusters(locations.dags_folder())) + SPARE_RUNS,
        dagrun_timeout=TIMEOUT,
        params=_form(),
        # The DAG measures only what users and nights request. Paused, it would delay messages.
        is_paused_upon_creation=False,
        description="Measures requested comparisons, bisects and confirmations",
        doc_md=DOC,
        tags=["verdicts"],
    ) as dag:
        measure() >> send_messages()
    return dag


def _form() -> dict[str, Param]:
    suites = suite_names(locations.dags_folder())
    clusters = list(find_clusters(locations.dags_folder()))
    # All fields may be empty, because a scheduled run requests nothing.
    text = {"type": ["null", "string"]}
    compare = form(
        CompareRequest,
        {
            "a": text,
            "b": text,
            "suite": {**text, "examples": suites},
            "cluster": {"examples": clusters},
            "rounds": {"type": ["null", "integer"], "default": None},
        },
    )
    bisect = form(BisectRequest, {})
    return compare | {name: field for name, field in bisect.items() if name not in compare}


_BISECT = ("alert_id", "good", "bad")
"""Fields of the form that request a bisect."""


@task(
    retries=2,
    execution_timeout=TIMEOUT,
    doc_md="Queues the form's request, then measures the queue. A retry continues.",
)
def measure(**context: Any) -> list[dict[str, Any]]:
    """Queue what the form requests, and measure what is next until nothing is."""
    run, params = context["dag_run"], context["params"]
    with user_errors_fail_task(for_good=True):
        refuse_unknown(params, CompareRequest, BisectRequest)
    with user_errors_fail_task():
        if any(params.get(name) for name in ("a", "b", "suite", *_BISECT)):
            number = _request(params, run.triggering_user_name or "airflow", run.run_id)
            log.info("experiment %d is in the queue", number)
        return _measure_queue(run.run_id, dag_run_state(context), last_try=is_last_try(context))


def _request(params: Mapping[str, Any], by: str, dag_run_id: str) -> int:
    """Put the form's request into the queue and return its number; a retry gets the same number."""
    from nightbench.warehouse import MoveRefused
    from nightbench.warehouse.experiments import ExperimentDesk

    try:
        row = _checked(params, open_spool())
        with closing(connect()) as connection:
            return ExperimentDesk(connection, by).request(row, dag_run_id)
    except UserError as error:
        for_good = isinstance(error, MoveRefused) or not isinstance(error, _OF_WAREHOUSE)
        with user_errors_fail_task(for_good=for_good):
            raise


_OF_WAREHOUSE = (WarehouseRefused, WarehouseUnavailable)


def _checked(params: Mapping[str, Any], spool: Any) -> Row:
    from nightbench.experiments.requests import checked_bisect, checked_compare

    if not any(params.get(name) for name in _BISECT):
        asked = CompareRequest.from_params(given(CompareRequest, params))
        return checked_compare(asked, connect, spool)
    cases = params.get("cases") or []
    if len(cases) > 1:
        raise UserError(f"cases: found {len(cases)}; expected one case for a bisect")
    request = checked(BisectRequest, {**given(BisectRequest, params), "case_id": "".join(cases)})
    return checked_bisect(request, connect)


def _measure_queue(
    dag_run_id: str, state_of: Callable[[str, str], str | None], *, last_try: bool
) -> list[dict[str, Any]]:
    from nightbench.experiments.experiment_queue import take

    spool, ended, night = open_spool(), list[dict[str, Any]](), None
    put_back, dag_run_of = set[str](), partial(state_of, DAG_ID)
    while taken := take(
        connect, spool, dag_run_id, dag_run_of, scheduled_suites, night=night, but_not=put_back
    ):
        experiment, gap = taken
        state, yields = _measure(experiment, gap, last_try=last_try)
        ended.append({"name": experiment.name, "state": state})
        if state == "queued" and not yields:
            put_back.add(experiment.name)  # Otherwise it would be taken again at once.
        # The next task sends this night's message, which waits for no other experiment.
        if experiment.priority == NIGHT:
            night = night or experiment.run_id
    return ended


def _measure(experiment: Experiment, gap: Gap, *, last_try: bool) -> tuple[str, bool]:
    """Measure an experiment and store its end; return its state, and whether it yields."""
    from nightbench.experiments.confirm import MeasuredElsewhere
    from nightbench.experiments.engine import Turn
    from nightbench.experiments.measuring import MEASURES, failed
    from nightbench.experiments.record import Ended, ExperimentRecord
    from nightbench.experiments.reporting import ComparisonReporter
    from nightbench.gang import EnvironmentUnavailable, NodeError

    name = experiment.name
    log.info("%s of %s: %s", name, experiment.requested_by, experiment.request)
    record = ExperimentRecord(experiment, connect, log.warning)
    reporter = ComparisonReporter(log.info, all_events=True)
    try:
        if gap.why_not:
            ended = Ended("queued", gap.why_not)
        else:
            context = experiment_context(
                experiment.suite, experiment.cluster, until=_deadline(experiment, gap)
            )
            work = MEASURES[experiment.kind](Turn(record, open_spool(), context, reporter))
            ended = measured(work, reporter.refresh)
    except MeasuredElsewhere as error:
        ended = Ended("queued", str(error))
    except _OF_WAREHOUSE:
        raise
    except UserError as error:
        again = isinstance(error, NodeError) and not isinstance(error, EnvironmentUnavailable)
        if again and not last_try:
            raise
        log.error("%s", error)
        ended = failed(experiment, error)
    record.leave(ended)
    log.info("%s: %s %s", name, ended.state, ended.why)
    return ended.state, record.ends_as == "queued"


def _deadline(experiment: Experiment, gap: Gap) -> datetime | None:
    ends = [gap.until] if gap.until else []
    # A bisect limits its tests by what they are expected to take.
    if experiment.budget_s is not None and experiment.kind is ExperimentKind.COMPARE:
        left_s = max(0.0, experiment.budget_s - experiment.spent_s)
        ends.append(datetime.now(UTC) + timedelta(seconds=left_s))
    return min(ends, default=None)


@task(
    trigger_rule="all_done",
    retries=2,
    outlets=[VERDICTS],
    doc_md="Sends the messages of nights whose suspected regressions were measured again.",
)
def send_messages() -> list[str]:
    """Send the messages of nights whose suspects were measured, or had no time; skip if none."""
    from nightbench.alerts.notify import Notifier, notify_run
    from nightbench.experiments.confirm import runs_to_notify

    with user_errors_fail_task():
        run_ids = runs_to_notify(connect)
    if not run_ids:
        raise AirflowSkipException("no night waits for a second measurement")
    errors, notifier = ItemErrors(), Notifier.of(channel_url, base_url())
    for run_id in run_ids:
        with errors.of(f"run {run_id}"):
            log_refused(notify_run(open_spool(), run_id, connect, notifier))
    if errors:
        raise AirflowException("\n".join(f"{run}: {error}" for run, error in errors.items()))
    with user_errors_fail_task():
        waiting = runs_to_notify(connect)
    # The message of a snoozed alert still waits: publish verdicts only for sent messages.
    if not (sent := [run_id for run_id in run_ids if run_id not in waiting]):
        raise AirflowSkipException("the messages wait for another measurement")
    return sent
