"""The DAG of verdicts: judging, then publishing."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.sdk import DAG, AssetAny, task
from airflow.sdk.exceptions import AirflowSkipException

from nightbench.config.airflow_provider import variable
from nightbench.orchestration.connections import WAREHOUSE_READER, channel_url, connect
from nightbench.orchestration.dag_common import (
    MEDIANS,
    SUSPECTS,
    SUSPECTS_ALIAS,
    VERDICTS,
    base_url,
    log_refused,
    optional_names,
    our_dag,
    user_errors_fail_task,
)
from nightbench.spool import open_spool
from nightbench.spool.plans import read_plan

DOC = """\
### Verdicts and alerts

Runs when new medians have been loaded. Every planned case gets a verdict: ok, regressed,
watched, improved, insufficient_data, failed, unavailable or missing. New alerts are sent once to
the channels of the suite. The reports of each run, HTML and Markdown, are in the spool below
`reports/`.

Afterwards, and when suspected regressions were measured again, the task `publish` updates the
public site, like `nightbench publish`. The setting `site` names the site's folder or object store;
without this setting the task is skipped. The key `publish` of a suite selects what the site shows.
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
            "run_ids": optional_names("Runs", "Runs for new verdicts; empty: newly loaded runs.")
        },
        # The DAG runs only after a load. If it were paused, runs would have no verdicts.
        is_paused_upon_creation=False,
        description="Gives each case a verdict, sends alerts, writes reports and the public site",
        doc_md=DOC,
        tags=["verdicts"],
    ) as dag:
        judged = judge.expand(loaded=loaded_runs())
        judged >> request_confirmations()
        # The DAG run's state shows whether all runs were judged and all messages were accepted.
        judged >> publish()
    return dag


@task(doc_md="Lists the runs to judge: the newly loaded ones, or those from the form.")
def loaded_runs(**context: Any) -> list[str]:
    """Ids of the runs to judge, in the order in which they were loaded."""
    return _run_ids(context)


@task(
    # One after the other: judging holds the lock of the cluster's alerts.
    max_active_tis_per_dagrun=1,
    map_index_template="{{ task.op_kwargs['loaded'] }}",
    doc_md="One task for each run. Suspected regressions are measured again before a message.",
)
def judge(loaded: str) -> str:
    """Judge one run and write its reports; a retry also sends the message that no channel took."""
    from nightbench.night.judge import judge_run
    from nightbench.night.run_report_data import write_run_report
    from nightbench.orchestration.metrics import count_judged

    spool, began_s = open_spool(), time.monotonic()
    run = spool.run(loaded)
    with user_errors_fail_task():
        result = judge_run(
            spool, loaded, connect, resolve=channel_url, base_url=base_url(), confirms=True
        )
        log_refused(result.deliveries)
        count_judged(read_plan(run).run, result, timedelta(seconds=time.monotonic() - began_s))
        with TemporaryDirectory() as folder:
            notes = [*_results_page(loaded), *filter(None, [result.graded])]
            headline, file = write_run_report(run, connect, Path(folder), notes)
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
    doc_md="Requests new measurements of suspected regressions, even if messages failed.",
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
    """Runs of the form, then those that the asset events name; an event may have no run_ids."""
    found = list(context["params"].get("run_ids") or [])
    for events in (context.get("triggering_asset_events") or {}).values():
        for event in events:
            found += (event.extra or {}).get("run_ids", [])
    return list(dict.fromkeys(found))


@task(
    retries=1,
    trigger_rule="none_failed",
    doc_md="Updates the site: writes changed files, removes files that are not published now.",
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
        (suites, refused), folder = published_suites(), SiteFolder(where)
        with closing(connect(WAREHOUSE_READER)) as connection:
            stored = SiteRepository(connection, suites)
            SiteWriter(suites, stored, folder, os.environ.get(variable("site_url"), "")).write()
        log.info("%s: %s", folder.root, folder.summary)
        if refused:
            raise refused
    return folder.summary
