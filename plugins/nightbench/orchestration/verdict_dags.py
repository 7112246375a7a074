"""The DAGs from verdicts on: judging, the public site, confirming suspected regressions."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, AssetAny, task
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from nightbench.config.airflow_provider import variable
from nightbench.core.errors import UserError
from nightbench.orchestration.connections import WAREHOUSE_READER, channel_url, connect
from nightbench.orchestration.dag_common import (
    MEDIANS,
    SUSPECTS,
    SUSPECTS_ALIAS,
    VERDICTS,
    base_url,
    experiment_context,
    is_last_try,
    log_refused,
    measured,
    optional_names,
    our_dag,
    triggering_run_ids,
    user_errors_fail_task,
)

if TYPE_CHECKING:
    from nightbench.experiments.confirm import ConfirmRequest

DOC = """\
### Verdicts and alerts

Runs when new medians have been loaded. Every planned case gets a verdict: ok, regressed,
watched, improved, insufficient_data, failed, unavailable or missing. What is new is sent once to
the channels that the suite names; the reports of each run, HTML and Markdown, lie in the spool
below `reports/`.

Then, and when a night's suspects were measured again, `publish` writes what changed of the site
that `nightbench publish` writes, into the folder or object store that the setting `site` names;
without the setting the task is skipped. The key `publish` of a suite says what the site shows.
"""

log = logging.getLogger(__name__)


def verdicts_dag() -> DAG:
    """The DAG that judges what was loaded, and then publishes."""
    with our_dag(
        "nightbench_verdicts",
        schedule=AssetAny(MEDIANS, VERDICTS),
        dagrun_timeout=timedelta(hours=12),
        defaults={"retries": 2},
        params={
            "run_ids": optional_names(
                "Runs", "Judge these runs again. Empty: those that were loaded just now."
            )
        },
        # It only ever runs when something was loaded: paused it would leave runs without verdicts.
        is_paused_upon_creation=False,
        description="A verdict for every planned case, alerts, reports, the site",
        doc_md=DOC,
        tags=["verdicts"],
    ) as dag:
        judged = judge.expand(loaded=loaded_runs())
        judged >> request_confirmations()
        # The run's state says whether each was judged, and its message taken by a channel.
        judged >> publish()
    return dag


@task(doc_md="The runs that the asset's events name, or the form.")
def loaded_runs(**context: Any) -> list[str]:
    """Ids of the runs to judge, in the order in which they were loaded."""
    return _run_ids(context)


@task(
    # One after the other: judging holds the lock of the cluster's alerts.
    max_active_tis_per_dagrun=1,
    map_index_template="{{ task.op_kwargs['loaded'] }}",
    doc_md="One task for each run that was loaded; what is new is sent once, suspects wait.",
)
def judge(loaded: str) -> str:
    """Judge one run and write its reports; a retry also sends the message that no channel took."""
    from nightbench.night.judge import judge_run
    from nightbench.night.run_digest import write_run_digest
    from nightbench.orchestration.metrics import count_judged
    from nightbench.spool import open_spool
    from nightbench.spool.plans import read_plan

    spool, began_s = open_spool(), time.monotonic()
    run = spool.run(loaded)
    with user_errors_fail_task():
        result = judge_run(
            spool, loaded, connect, resolve=channel_url, base_url=base_url(), confirms=True
        )
        log_refused(result.deliveries)
        count_judged(read_plan(run).run, result, timedelta(seconds=time.monotonic() - began_s))
        with TemporaryDirectory() as folder:
            headline, file = write_run_digest(
                run, connect, Path(folder), _results_page(loaded), result.graded
            )
            kept = spool.keep_reports(Path(folder)) / file.name
    said = f"{headline}; {len(result.opened)} alerts opened, {len(result.resolved)} resolved"
    log.info("run %s: %s; report %s", loaded, said, kept)
    return said


def _results_page(run_id: str) -> list[str]:
    """Return the line of a report that links to the run's page; none without `[api] base_url`."""
    site = base_url()
    return [f"Results page: {site}/nightbench/?run={run_id}"] if site else []


@task(
    outlets=[SUSPECTS_ALIAS],
    # A failed task's events are lost: whether a run's suspects are measured again must not depend
    # on whether another run could be judged, nor on whether a channel took its message.
    trigger_rule="all_done",
    doc_md="Requests that suspects are measured again, whatever came of the messages.",
)
def request_confirmations(**context: Any) -> list[str]:
    """Ids of the runs with suspects that their message waits for; `SUSPECTS` names them."""
    from nightbench.experiments.confirm import runs_to_confirm

    with user_errors_fail_task():
        waiting = runs_to_confirm(connect, _run_ids(context))
    if waiting:
        context["outlet_events"][SUSPECTS_ALIAS].add(SUSPECTS, extra={"run_ids": waiting})
    return waiting


def _run_ids(context: Mapping[str, Any]) -> list[str]:
    named = list(context["params"].get("run_ids") or [])
    return list(dict.fromkeys([*named, *triggering_run_ids(context)]))


RUNS_AT_ONCE = 4
"""Nights, mostly of other clusters; locks of the nodes keep those apart that share any."""

RETRIES = 2

CONFIRM_DOC = """\
### Confirming a night's regressions

Runs when a night has suspected regressions. Each is measured again: the last good build and the
night's in turn on the same nodes, and once on others. The night's message waits for it, no longer
than the suite's `policy.confirm`, and holds the outcome.
"""


def confirm_dag() -> DAG:
    """Return the DAG that measures a night's suspects again before its message is sent."""
    with our_dag(
        "nightbench_confirm",
        schedule=[SUSPECTS],
        max_active_runs=RUNS_AT_ONCE,
        dagrun_timeout=timedelta(hours=23),
        # It measures only what a night requests; paused it would keep messages waiting.
        is_paused_upon_creation=False,
        description="Measures a night's suspected regressions again before its message is sent",
        doc_md=CONFIRM_DOC,
        tags=["verdicts"],
    ) as dag:
        confirm.expand(confirmation=suspects()) >> send_message()
    return dag


@task(doc_md="What the night wants measured again, by expected gain for each second.")
def suspects(**context: Any) -> list[int]:
    """Return the ids of the confirmations that a message waits for."""
    from nightbench.warehouse import opened

    with opened(connect) as warehouse:
        rows = [
            row
            for run_id in triggering_run_ids(context)
            for row in warehouse.confirmations.waiting(run_id)
        ]
    for row in rows:
        log.info(
            "%s on %s: %+.1f %%", row["case_id"], row["cluster"], 100 * row["detail"]["change"]
        )
    return [row["confirmation_id"] for row in rows]


@task(
    retries=RETRIES,
    max_active_tis_per_dagrun=1,
    # The night's budget limits it: no launch begins that cannot end by then.
    execution_timeout=timedelta(hours=12),
    map_index_template="{{ case_id }}",
    doc_md="One task for each suspect; a retry goes on after the last launch that has ended.",
)
def confirm(confirmation: int, **context: Any) -> dict[str, Any]:
    """Measure one suspect again and store the outcome."""
    from nightbench.experiments.confirm import begin_confirmation

    context["case_id"] = str(confirmation)
    with user_errors_fail_task():
        request = begin_confirmation(connect, confirmation)
        if request is None:
            raise AirflowSkipException(f"confirmation {confirmation} has ended or was given up")
        context["case_id"] = request.suspect.case_id
        return _confirm(request, last_try=is_last_try(context))


@task(
    trigger_rule="all_done",
    outlets=[VERDICTS],
    doc_md="Sends the night's message, which has waited for this.",
)
def send_message(**context: Any) -> list[str]:
    """Send the messages of the runs whose suspects were measured; a failure stops no other."""
    from nightbench.alerts.notify import Notifier, notify_run
    from nightbench.experiments.confirm import give_up_rest
    from nightbench.spool import open_spool

    run_ids = triggering_run_ids(context)
    problems = []
    for run_id in run_ids:
        try:
            if given_up := give_up_rest(connect, open_spool(), run_id):
                log.warning("run %s: %d suspects were not measured again", run_id, given_up)
            log_refused(
                notify_run(open_spool(), run_id, connect, Notifier.of(channel_url, base_url()))
            )
        except UserError as error:
            log.error("run %s: %s", run_id, error)
            problems.append(f"run {run_id}: {error}")
    if problems:
        raise AirflowException("\n".join(problems))
    return run_ids


def _confirm(request: ConfirmRequest, *, last_try: bool) -> dict[str, Any]:
    from nightbench.experiments.confirm import (
        MeasuredElsewhere,
        end_confirmation,
        measure_again,
        spare_seconds,
    )
    from nightbench.experiments.confirm_outcome import inconclusive
    from nightbench.experiments.reporting import ComparisonReporter
    from nightbench.gang import NodeError
    from nightbench.spool import open_spool
    from nightbench.spool.plans import read_plan

    spool = open_spool()
    night = read_plan(spool.run(request.suspect.run_id))
    reporter = ComparisonReporter(log.info, all_events=True)
    detail: dict[str, Any] = {}
    try:
        context = experiment_context(night.run.suite, night.run.cluster, until=request.until)
        work = measure_again(
            request, night, spool, context, reporter, lambda: spare_seconds(connect, request)
        )
        found, detail = measured(work, reporter.refresh)
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


@task(
    retries=1,
    trigger_rule="none_failed",
    doc_md="Writes the files that changed, and removes those of what may leave no longer.",
)
def publish() -> str:
    """Write the site; returns what was done, in words."""
    from nightbench.report.site import SiteWriter, published_suites
    from nightbench.report.site_folder import SiteFolder
    from nightbench.warehouse.site import SiteRepository

    where = os.environ.get(variable("site"))
    if not where:
        raise AirflowSkipException(f"nothing is published: {variable('site')} is not set")
    with user_errors_fail_task():
        suites, folder = published_suites(), SiteFolder(where)
        with closing(connect(WAREHOUSE_READER)) as connection:
            stored = SiteRepository(connection, suites)
            SiteWriter(suites, stored, folder, os.environ.get(variable("site_url"), "")).write()
    log.info("%s: %s", folder.root, folder.said)
    return folder.said
