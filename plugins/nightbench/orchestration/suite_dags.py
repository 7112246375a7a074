"""The DAGs that measure: one for each suite with a schedule, and `on_demand` with its form.

Imported at every parse of a DAG file and at every task start: whatever is heavy (SSH, databases,
checks) is imported in the body of a task.
"""

import dataclasses
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from socket import gethostname
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from nightbench.config import locations
from nightbench.config.locations import find_clusters
from nightbench.config.run_request import RunRequest
from nightbench.config.suite_heads import (
    SuiteHead,
    framework_names,
    parallel_cases,
    suite_heads,
    workload_scales,
)
from nightbench.config.suites import case_names
from nightbench.core.model import Strategy
from nightbench.orchestration.connections import connect
from nightbench.orchestration.dag_common import (
    MEDIANS,
    dag_run_state,
    experiment_context,
    form,
    measured,
    our_dag,
    user_errors_fail_task,
)
from nightbench.orchestration.operators import PREPARE_TIMEOUT, RUN, GangOperator, PlanOperator
from nightbench.spool import open_spool
from nightbench.spool.plans import load_job, read_plan

log = logging.getLogger(__name__)

RUN_TIMEOUT = timedelta(hours=23)
"""A nightly run has ended when the next night's begins."""

NIGHTLY_DOC = """\
### {name}

{description}

Measures every case of the suite `{name}` on the cluster `{cluster}` at `{schedule}` (UTC), cases
{at_once}. A retry does not launch a failed case again; clear its task to measure it again. Then the
DAG `nightbench_verdicts` gives each case a verdict.

Results: *Benchmarks* in the navigation, or the tab *Results* of a run.
"""

ON_DEMAND_DOC = """\
### Measure now

Measures a suite or a part of it on request. **Trigger** opens the form. An empty field keeps the
value of the suite.

Only runs of the kind `nightly` count for the baselines of later verdicts. A build is written as
`LINE=VERSION`, `LINE=/path/to/file.whl` (on the control plane) or `LINE=/prefix` (on the nodes).
"""


def nightly_dags() -> dict[str, DAG]:
    """A DAG for each suite with a schedule, by dag_id; also for a suite that cannot be read."""
    heads = [head for head in suite_heads(locations.dags_folder()) if head.schedule or head.problem]
    return {head.dag_id: nightly_dag(head) for head in heads}


def nightly_dag(head: SuiteHead) -> DAG:
    """The DAG of a suite with a schedule."""
    at_once = parallel_cases(locations.dags_folder()).get(head.cluster, 1)
    fields = {
        **dataclasses.asdict(head),
        "schedule": head.schedule or "-",
        "at_once": "one after another" if at_once == 1 else f"at most {at_once} at once",
    }
    doc = NIGHTLY_DOC.format(**fields)
    if head.problem:
        doc = f"**This suite is not scheduled:** {head.problem}\n\n{doc}"
    return suite_dag(
        head.dag_id,
        suite=head.name,
        schedule=head.schedule,
        owner=head.owner,
        description=head.description or f"Measures the suite {head.name} every night",
        tags=head.tags,
        doc_md=doc,
        at_once=at_once,
    )


def on_demand_dag() -> DAG:
    """Return the DAG with the form.

    If there is no suite, or none can be read, the form shows why. Without its DAG a run in progress
    would have no tasks, and people would see no reason.
    """
    heads = suite_heads(locations.dags_folder())
    names = [head.name for head in heads if head.problem is None]
    problems = "".join(
        f"**This suite cannot be read:** {h.problem}\n\n" for h in heads if h.problem
    )
    if not heads:
        problems = f"**There is no suite:** add a file to {locations.dags_folder() / 'suites'}\n\n"
    offered = names or [head.name for head in heads] or [""]
    return suite_dag(
        "on_demand",
        suite=None,
        description="Measures a suite, or a part of it, on request",
        tags=["on demand"],
        doc_md=problems + ON_DEMAND_DOC,
        params=_form(offered, problems if not names else ""),
        is_paused_upon_creation=False,
        # A form may choose any cluster, but this number is fixed: if the chosen cluster takes
        # fewer cases at once, the other cases wait for the locks of its nodes.
        at_once=max(parallel_cases(locations.dags_folder()).values(), default=1),
    )


# --- the form of `on_demand` -----------------------------------------------------------------


def _form(suites: Sequence[str], problems: str = "") -> dict[str, Param]:
    """Return the fields of the trigger form; `problems` says why no suite can be measured."""
    dags, benchmarks = locations.dags_folder(), locations.benchmarks_folder()
    scales = workload_scales(benchmarks, dags)
    sizes = sorted({scale for each in scales.values() for scale in each})
    usual = {"values_display": {"null": "as in the suite"}}
    return form(
        RunRequest,
        {
            "suite": {
                "default": "demo" if "demo" in suites else suites[0],
                "enum": list(suites),
                "description_md": problems or None,
            },
            "cluster": {"enum": [None, *find_clusters(dags)], **usual},
            "frameworks": {"examples": framework_names(benchmarks, dags)},
            "workloads": {"examples": sorted(scales)},
            "strategies": {"examples": [each.value for each in Strategy]},
            "cases": {"examples": case_names(dags, suites)},
            "scale": {"enum": [None, *sizes], **usual},
        },
    )


# --- the DAG of a run ------------------------------------------------------------------------


def suite_dag(
    dag_id: str,
    *,
    suite: str | None,
    at_once: int,
    tags: Sequence[str],
    schedule: str | None = None,
    owner: str = "",
    **more: Any,
) -> DAG:
    """A DAG that plans a run, examines the nodes, measures and ingests; `more` as `our_dag` has it.

    Without a suite the form says which. Several cases may be measured at once; the locks of the
    nodes keep those apart that share nodes.
    """
    with our_dag(
        dag_id,
        schedule=schedule,
        dagrun_timeout=RUN_TIMEOUT,
        defaults={"owner": owner} if owner else None,
        tags=tags,
        **more,
    ) as dag:
        plan = PlanOperator(
            task_id="plan",
            suite=suite,
            doc_md="Waits for the night, selects the cases that fit into it, stores this plan.",
        )
        planned = plan.output
        measured = GangOperator.partial(
            task_id="measure",
            max_active_tis_per_dagrun=at_once,
            map_index_template="{{ task.case_id }}",
            execution_timeout=PREPARE_TIMEOUT,
            doc_md="One task for each case; its log shows the progress of the case's processes.",
        ).expand_kwargs(planned)
        # The annotation of a task's argument is the type of the value, not of the reference.
        preflight(planned) >> measured  # type: ignore[arg-type] # mapped tasks have no type
        paired, loaded = reference(), ingest()
        # The run fails if a case failed, although all results were loaded. A case that
        # did not fit into the night is skipped and is no failure.
        all_measured = EmptyOperator(task_id="all_measured", trigger_rule="none_failed")
        measured >> paired >> loaded >> all_measured
        measured >> loaded
        measured >> all_measured
    return dag


@task(
    execution_timeout=timedelta(minutes=20),
    doc_md="Ends Nightbench's orphaned processes, checks nodes, leaves unhealthy nodes out.",
)
def preflight(planned: list[dict[str, str]] | None) -> str | None:
    """Examine the run's nodes and place its cases around unhealthy ones."""
    from nightbench.night.run_preflight import examine_run
    from nightbench.orchestration.ssh_targets import ssh_targets_async

    if not planned:
        return None
    run = open_spool().run(planned[0]["nightbench_run"])
    if run.run() is None:
        raise AirflowFailException(
            f"{gethostname()} found no plan of run {run.run_id} in the spool {run.folder}; "
            "expected the plan that the task `plan` has just stored. All workers and triggerers "
            "need one spool: set NIGHTBENCH_SPOOL to a folder that they share, or to an object "
            "store such as s3://bucket/spool"
        )
    return examine_run(run, ssh_targets_async, connect)


@task(
    trigger_rule="all_done",
    retries=2,
    # The night's end limits it: no launch begins that cannot end by then.
    execution_timeout=timedelta(hours=12),
    doc_md="Measures cases again, in turn with the suite's reference build. A retry continues.",
)
def reference(**context: Any) -> dict[str, int]:
    """Measure the planned cases with a reference build; skipped if there are none."""
    from nightbench.experiments.reference_measuring import measure_references
    from nightbench.experiments.reporting import ComparisonReporter

    nightbench_run = context["ti"].xcom_pull(task_ids="plan", key=RUN)
    plan = read_plan(open_spool().run(nightbench_run)) if nightbench_run else None
    if plan is None or not plan.pairs:
        raise AirflowSkipException("no case is compared with a reference build")
    with user_errors_fail_task():
        until = load_job(open_spool().run(nightbench_run), plan.pairs[0].case_id, 0).job.deadline
        where = experiment_context(
            plan.run.suite, plan.run.cluster, outside_hours=True, until=until
        )
        reporter = ComparisonReporter(log.info, all_events=True)
        work = measure_references(plan, open_spool(), where, reporter, connect)
        found = measured(work, reporter.refresh)
    for pair in found:
        if pair.why:
            log.warning("%s compared with %s: %s", pair.case_id, pair.reference.build_id, pair.why)
    return {"measured": sum(bool(pair.pairs) for pair in found), "planned": len(found)}


@task(
    trigger_rule="all_done",
    outlets=[MEDIANS],
    # Half an hour in total: after a restart or failover the warehouse answers again by then.
    retries=5,
    retry_delay=timedelta(minutes=1),
    retry_exponential_backoff=2.0,
    doc_md="Summarises, checks and loads all results, even if cases failed.",
)
def ingest(**context: Any) -> dict[str, Any]:
    """Load the run, and others that wait; publishes the asset."""
    from nightbench.night.ingest import close_ended, ingest_ended
    from nightbench.orchestration.metrics import count_loaded

    # Read here, not as an argument: if the plan was refused, a missing argument is an error,
    # and Airflow would retry the task for half an hour.
    nightbench_run = context["ti"].xcom_pull(task_ids="plan", key=RUN)
    if not nightbench_run:
        raise AirflowSkipException("nothing was planned, so there is nothing to load")
    spool, began_s = open_spool(), time.monotonic()
    close_ended(spool, dag_run_state(context), datetime.now(UTC))
    with user_errors_fail_task():
        loaded = ingest_ended(spool, connect, nightbench_run)
    count_loaded(len(loaded), timedelta(seconds=time.monotonic() - began_s))
    context["outlet_events"][MEDIANS].extra = {"run_ids": loaded}
    return {"run_ids": loaded}
