"""Builds the DAGs. The files in `dags/` call one function each and hold nothing else.

Imported at every parse of a DAG file and at every task start: whatever is heavy (SSH, databases,
checks) is imported in the body of a task.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, Param, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from nightbench.errors import UserError
from nightbench.model import RunKind, Strategy
from nightbench.orchestration import places
from nightbench.orchestration.heads import (
    SuiteHead,
    cluster_names,
    framework_names,
    suite_heads,
    workload_scales,
)
from nightbench.orchestration.operator import PREPARE_TIMEOUT, GangOperator

MEDIANS = Asset("nightbench_medians", uri="x-nightbench://warehouse/marts/fct_measurement")
"""Updated when a run has been loaded; its event's extra holds `run_ids`."""

START = datetime(2026, 1, 1, tzinfo=UTC)
RUN_TIMEOUT = timedelta(hours=23)
"""A nightly run has ended when the next night's begins."""

OWNER = "nightbench"
log = logging.getLogger(__name__)
DEFAULTS: dict[str, Any] = {
    "retries": 1,
    "retry_delay": timedelta(seconds=30),
    "execution_timeout": timedelta(minutes=30),
}

_NIGHTLY_DOC = """\
### {name}

{description}

Measures every case of the suite `{name}` on the cluster `{cluster}` at `{schedule}` (UTC).

1. **plan** stores what is to be measured, before anything is launched.
2. **measure** holds one task for each case, one after another: the nodes are prepared, then the
   gang is launched over SSH and watched until it has ended everywhere. A case that failed is not
   launched again by a retry; clear its task to measure it anew.
3. **ingest** checks and loads whatever came back; `nightbench_regressions` judges it.

Results: *Benchmarks* in the navigation, or the tab *Results* of a run.
"""

_ON_DEMAND_DOC = """\
### Measure now

Measures a suite, or a part of it, when somebody asks: **Trigger** opens the form. What is left
empty stays as the suite has it.

Runs of the kind `nightly` feed the baselines of later verdicts; the others do not. A build is
written `LINE=VERSION`, `LINE=/path/to/file.whl` (on the control plane) or `LINE=/prefix` (on the
nodes), for example `pytorch=2.13.0`.
"""

_REGRESSIONS_DOC = """\
### Verdicts and alerts

Runs when new medians have been loaded. Every planned case gets a verdict: ok, regressed,
improved, insufficient_data, failed or missing. What is news goes to the channels that the suite
names, once; the digest of each run lies in the state folder below `reports/`.
"""

_MAINTENANCE_DOC = """\
### Keeping house

Loads runs that wait in the spool, removes loaded runs and task logs after their time, ends
orphaned processes of ours on the nodes and removes environments that nothing has used for long.
Only processes that carry our mark are ever ended.
"""


# --- one DAG for each suite ---------------------------------------------------------------


def nightly_dags() -> dict[str, DAG]:
    """A DAG for each suite with a schedule, by dag_id; also for a suite that cannot be read."""
    heads = [head for head in suite_heads(places.dags_folder()) if head.schedule or head.problem]
    return {f"nightly_{head.name}": nightly_dag(head) for head in heads}


def nightly_dag(head: SuiteHead) -> DAG:
    """The DAG of a suite with a schedule."""
    doc = _NIGHTLY_DOC.format(**{**dataclasses.asdict(head), "schedule": head.schedule or "-"})
    if head.problem:
        doc = f"**This suite is not scheduled:** {head.problem}\n\n{doc}"
    return build_suite_dag(
        f"nightly_{head.name}",
        suite=head.name,
        schedule=head.schedule,
        owner=head.owner,
        description=head.description or f"The suite {head.name}, every night",
        tags=["nightly", head.name, *([head.cluster] if head.cluster else [])],
        doc_md=doc,
    )


def on_demand_dag() -> DAG | None:
    """The DAG with the form; None where there is no suite to offer."""
    names = [head.name for head in suite_heads(places.dags_folder()) if head.problem is None]
    if not names:
        return None
    return build_suite_dag(
        "on_demand",
        description="Measure a suite, or a part of it, now",
        tags=["on demand"],
        doc_md=_ON_DEMAND_DOC,
        params=form(names),
        paused=False,
    )


def form(suites: Sequence[str]) -> dict[str, Param]:
    """The fields of the trigger form; the plan checks them once more, against each other."""
    benchmarks = places.benchmarks_folder()
    clusters = cluster_names(places.dags_folder())
    scales = workload_scales(benchmarks)
    every_scale = sorted({scale for each in scales.values() for scale in each})

    def subset(title: str, names: Sequence[str], text: str) -> Param:
        return Param(
            None,
            type=["null", "array"],
            items={"type": "string"},
            examples=list(names),
            title=title,
            description=text,
            section="Which cases",
        )

    return {
        "suite": Param(
            "demo" if "demo" in suites else suites[0],
            type="string",
            enum=list(suites),
            title="Suite",
            description="What is measured: a file of dags/suites.",
        ),
        "cluster": Param(
            None,
            type=["null", "string"],
            enum=[None, *clusters],
            values_display={"null": "the suite's own"},
            title="Cluster",
            description="Where: a file of dags/clusters.",
        ),
        "frameworks": subset(
            "Frameworks", framework_names(benchmarks), "Only these framework lines. Empty: all."
        ),
        "workloads": subset("Workloads", sorted(scales), "Only these workloads. Empty: all."),
        "strategies": subset(
            "Strategies", [s.value for s in Strategy], "Only these strategies. Empty: all."
        ),
        "builds": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "pattern": "^[^=]+=.+$"},
            title="Builds",
            description="One a line: LINE=VERSION, LINE=/path/file.whl or LINE=/prefix.",
            section="How",
        ),
        "repeats": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=99,
            title="Repeats",
            description="Fresh launches of each case. Empty: the suite's own.",
            section="How",
        ),
        "scale": Param(
            None,
            type=["null", "string"],
            enum=[None, *every_scale],
            values_display={"null": "the suite's own"},
            title="Scale",
            description="Size of the workloads.",
            section="How",
        ),
        "run_kind": Param(
            RunKind.ON_DEMAND.value,
            type="string",
            enum=[kind.value for kind in RunKind],
            title="Kind of run",
            description="Only `nightly` feeds baselines; `drill` never shows among the latest.",
            section="How",
        ),
    }


def build_suite_dag(
    dag_id: str,
    *,
    suite: str | None = None,
    schedule: str | None = None,
    owner: str = OWNER,
    description: str = "",
    tags: Sequence[str] = (),
    doc_md: str = "",
    params: Mapping[str, Param] | None = None,
    paused: bool | None = None,
) -> DAG:
    """A DAG that plans, measures and ingests.

    Args:
        dag_id: its name.
        suite: the suite; None where the form says which.
        schedule: cron expression or preset, in UTC.
        owner: shown in the UI.
        description: one line.
        tags: beside `nightbench`.
        doc_md: shown in the UI.
        params: fields of the trigger form.
        paused: whether it starts paused; as Airflow is configured when None.
    """
    with DAG(
        dag_id,
        schedule=schedule,
        start_date=START,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=RUN_TIMEOUT,
        default_args={**DEFAULTS, "owner": owner},
        params=dict(params or {}),
        is_paused_upon_creation=paused,
        description=description,
        doc_md=doc_md,
        tags=["nightbench", *tags],
    ) as dag:
        planned = plan(suite)
        measured = GangOperator.partial(
            task_id="measure",
            max_active_tis_per_dagrun=1,
            map_index_template="{{ task.case_id }}",
            execution_timeout=PREPARE_TIMEOUT,
            doc_md="One task for each case; its log shows the gang's progress.",
        ).expand_kwargs(planned)
        loaded = ingest(planned)  # type: ignore[arg-type]
        # The run fails where a case failed, although the ingest loaded all that came back.
        all_measured = EmptyOperator(task_id="all_measured", trigger_rule="all_success")
        measured >> loaded >> all_measured
        measured >> all_measured
    return dag


@task(doc_md="Checks what is asked for and stores the plan of the run, row by row.")
def plan(suite: str | None, **context: Any) -> list[dict[str, str]]:
    """Plan a run; one entry for each case."""
    from nightbench.orchestration.runs import plan_run
    from nightbench.orchestration.wishes import Wish
    from nightbench.pipeline import new_run_id

    dag_run, state = context["dag_run"], context["task_state_store"]
    run_type = str(getattr(dag_run.run_type, "value", dag_run.run_type))
    kind = {"scheduled": RunKind.NIGHTLY, "backfill": RunKind.BACKFILL}.get(run_type)
    try:
        params = dict(context["params"])
        wish = (
            Wish(suite, run_kind=kind or RunKind.ON_DEMAND) if suite else Wish.from_params(params)
        )
        # A retry goes on with the same run; after a clear (max_tries raised) a new one begins.
        remembered = state.get("run")
        tries = context["ti"].max_tries
        if not remembered or tries > remembered["max_tries"]:
            now = datetime.now(UTC)
            run_id = new_run_id(wish.suite, now)
            remembered = {"run_id": run_id, "started_at": now.isoformat(), "max_tries": tries}
            state.set("run", remembered)
        cases = plan_run(
            wish,
            remembered["run_id"],
            datetime.fromisoformat(remembered["started_at"]),
            requested_by=dag_run.triggering_user_name or "",
            dag_id=dag_run.dag_id,
            dag_run_id=dag_run.run_id,
        )
    except UserError as error:
        # No retry mends what a person wrote. Said in a line of its own, because the text of an
        # exception is a detail that terminals do not show.
        log.error("%s", error)
        raise AirflowFailException(str(error)) from None
    return [{"nightbench_run": remembered["run_id"], "case_id": case} for case in cases]


@task(
    trigger_rule="all_done",
    outlets=[MEDIANS],
    # Half an hour in all: a warehouse that is restarted or failed over is back by then.
    retries=5,
    retry_delay=timedelta(minutes=1),
    retry_exponential_backoff=2.0,
    doc_md="Summarises, checks and loads what came back, whatever the cases' end.",
)
def ingest(planned: list[dict[str, str]] | None, **context: Any) -> dict[str, Any]:
    """Load the run, and others that wait; publishes the asset."""
    from nightbench.orchestration import runs

    if not planned:
        raise AirflowFailException("nothing was planned, so there is nothing to load")
    runs.close_ended(_state_of(context))
    try:
        loaded = runs.ingest(planned[0]["nightbench_run"])
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None
    context["outlet_events"][MEDIANS].extra = {"run_ids": loaded}
    return {"run_ids": loaded}


def _state_of(context: Mapping[str, Any]) -> Callable[[str, str], str | None]:
    """What asks Airflow for the state of a DAG run."""
    from airflow.sdk import DagRunState
    from airflow.sdk.exceptions import AirflowRuntimeError

    def state_of(dag_id: str, dag_run_id: str) -> str | None:
        try:
            # An enumeration, in spite of its annotation: its text is the value's name.
            return str(DagRunState(context["ti"].get_dagrun_state(dag_id, dag_run_id)).value)
        except AirflowRuntimeError as error:
            log.info("Airflow does not know DAG run %s of %s: %s", dag_run_id, dag_id, error)
            return None

    return state_of


# --- after loading ------------------------------------------------------------------------


def regressions_dag() -> DAG:
    """The DAG that judges what was loaded."""
    with DAG(
        "nightbench_regressions",
        schedule=[MEDIANS],
        start_date=START,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=2),
        default_args={**DEFAULTS, "owner": OWNER, "retries": 2},
        params={
            "run_ids": Param(
                None,
                type=["null", "array"],
                items={"type": "string"},
                title="Runs",
                description="Judge these runs again. Empty: those that were loaded just now.",
            )
        },
        # It only ever runs when something was loaded: paused it would leave runs without verdicts.
        is_paused_upon_creation=False,
        description="A verdict for every planned case, alerts, a digest",
        doc_md=_REGRESSIONS_DOC,
        tags=["nightbench", "verdicts"],
    ) as dag:
        judge()
    return dag


@task(doc_md="Judges each run that was loaded; what is news is sent once.")
def judge(**context: Any) -> dict[str, Any]:
    """Judge the runs that the asset's events name, or the form."""
    from nightbench.orchestration import runs

    wanted = list(context["params"].get("run_ids") or [])
    for events in (context.get("triggering_asset_events") or {}).values():
        for event in events:
            wanted += (event.extra or {}).get("run_ids", [])
    sentences = {}
    try:
        for run_id in dict.fromkeys(wanted):
            sentences[run_id] = runs.judge(run_id)
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None
    return sentences


# --- keeping house ------------------------------------------------------------------------


def maintenance_dag() -> DAG:
    """The DAG of retention and of the orphan sweep."""
    clusters = cluster_names(places.dags_folder())
    with DAG(
        "nightbench_maintenance",
        schedule="30 12 * * *",
        start_date=START,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=4),
        default_args={**DEFAULTS, "owner": OWNER},
        params={
            "spool_days": Param(90, type="integer", minimum=1, title="Days to keep loaded runs"),
            "log_days": Param(30, type="integer", minimum=1, title="Days to keep task logs"),
            "node_days": Param(
                60, type="integer", minimum=1, title="Days to keep what nodes do not use"
            ),
            "clusters": Param(
                [name for name in clusters if name == "local"],
                type=["null", "array"],
                items={"type": "string"},
                examples=clusters,
                title="Clusters to look at",
                description="Nodes of these are swept and cleaned.",
            ),
        },
        description="Retention of spool and logs, orphan sweep",
        doc_md=_MAINTENANCE_DOC,
        tags=["nightbench", "maintenance"],
    ) as dag:
        waiting = load_waiting()
        waiting >> expire_files()
        sweep.expand(cluster=clusters_to_sweep())
    return dag


@task(outlets=[MEDIANS], retries=2)
def load_waiting(**context: Any) -> list[str]:
    """Load runs that wait in the spool, also those whose DAG run was ended from outside."""
    from airflow.sdk.exceptions import AirflowSkipException

    from nightbench.orchestration import runs

    runs.close_ended(_state_of(context))
    runs.close_abandoned(datetime.now(UTC))
    try:
        loaded = runs.ingest(None)
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None
    if not loaded:
        raise AirflowSkipException("no run waits in the spool")
    context["outlet_events"][MEDIANS].extra = {"run_ids": loaded}
    return loaded


@task(trigger_rule="all_done")
def expire_files(**context: Any) -> dict[str, int]:
    """Remove loaded runs and task logs that are older than their time."""
    from nightbench.orchestration import housekeeping

    return {
        "runs": housekeeping.expire_spool(context["params"]["spool_days"]),
        "logs": housekeeping.expire_logs(context["params"]["log_days"]),
    }


@task
def clusters_to_sweep(**context: Any) -> list[str]:
    """The clusters that the form names."""
    return list(context["params"].get("clusters") or [])


@task(
    map_index_template="{{ cluster }}",
    max_active_tis_per_dagrun=1,
    execution_timeout=timedelta(hours=1),
)
def sweep(cluster: str, **context: Any) -> dict[str, Any]:
    """End orphans and remove what is old on the nodes of one cluster."""
    from nightbench.orchestration import housekeeping

    context["cluster"] = cluster
    try:
        return housekeeping.sweep_cluster(cluster, context["params"]["node_days"])
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None
