"""The DAG that measures suspects again before their night is told of."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from nightbench.core.errors import UserError
from nightbench.orchestration.dag_common import (
    DEFAULTS,
    OWNER,
    START,
    SUSPECTS,
    base_url,
    log_refused,
)

if TYPE_CHECKING:
    from nightbench.core.run_plan import RunPlan
    from nightbench.experiments.compare import Ended, Listener
    from nightbench.experiments.comparisons import ComparisonPlan
    from nightbench.experiments.confirm import Asked, Ground
    from nightbench.gang import GangEvent
    from nightbench.spool import RunSpool

AT_ONCE = 4
"""Nights, mostly of other clusters; locks of the nodes keep those apart that share any."""

RETRIES = 2

DOC = """\
### Before a night is told of

Runs when a night has suspected regressions. Each is measured again: the last good build and the
night's in turn on the same nodes, and once on others. The night's message waits for it, no longer
than the suite's `policy.confirm`, and says what came out.
"""

log = logging.getLogger(__name__)


def confirm_dag() -> DAG:
    """The DAG of confirmations."""
    with DAG(
        "nightbench_confirm",
        schedule=[SUSPECTS],
        start_date=START,
        catchup=False,
        max_active_runs=AT_ONCE,
        dagrun_timeout=timedelta(hours=23),
        default_args={**DEFAULTS, "owner": OWNER},
        # It measures only what a night has asked for; paused it would keep messages waiting.
        is_paused_upon_creation=False,
        description="Measures suspected regressions again before a night is told of",
        doc_md=DOC,
        tags=["nightbench", "verdicts"],
    ) as dag:
        confirm.expand(confirmation=suspects()) >> tell()
    return dag


@task(doc_md="What the night wants measured again, the largest fall first.")
def suspects(**context: Any) -> list[int]:
    """Ids of the confirmations that a message waits for."""
    from nightbench.orchestration.connections import connect
    from nightbench.warehouse.experiments import ConfirmationRepository

    connection = connect()
    try:
        repository = ConfirmationRepository(connection)
        rows = [row for run_id in _run_ids(context) for row in repository.waiting(run_id)]
    finally:
        connection.close()
    for row in rows:
        log.info(
            "%s on %s: %+.1f %%", row["case_id"], row["cluster"], 100 * row["detail"]["change"]
        )
    return [row["confirmation_id"] for row in rows]


@task(
    retries=RETRIES,
    max_active_tis_per_dagrun=1,
    # What it may take is said by the night's budget: no launch begins that cannot end by then.
    execution_timeout=timedelta(hours=12),
    map_index_template="{{ case_id }}",
    doc_md="One task for each suspect; a retry goes on after the last launch that has ended.",
)
def confirm(confirmation: int, **context: Any) -> dict[str, Any]:
    """Measure one suspect again and store what came out."""
    context["case_id"] = str(confirmation)
    try:
        asked, plan = _begin(confirmation)
        context["case_id"] = asked.suspect.case_id
        instance = context["ti"]
        return _confirm(asked, plan, instance.try_number > instance.max_tries)
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None


@task(trigger_rule="all_done", doc_md="Sends the night's message, which has waited for this.")
def tell(**context: Any) -> list[str]:
    """Tell of the runs whose suspects were measured; one that fails keeps no other from it."""
    from nightbench.alerts.notify import notify_run
    from nightbench.experiments.confirm import give_up_rest
    from nightbench.orchestration.connections import channel_url, connect
    from nightbench.spool import open_spool

    told = list(_run_ids(context))
    problems = []
    for run_id in told:
        try:
            if given_up := give_up_rest(connect, open_spool(), run_id):
                log.warning("run %s: %d suspects were not measured again", run_id, given_up)
            log_refused(
                notify_run(open_spool(), run_id, connect, resolve=channel_url, base_url=base_url())
            )
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


# --- on a worker --------------------------------------------------------------------------


def waiting_runs(run_ids: Iterable[str]) -> list[str]:
    """Which of the runs have suspects that their message waits for."""
    from nightbench.orchestration.connections import connect
    from nightbench.warehouse.experiments import ConfirmationRepository

    connection = connect()
    try:
        repository = ConfirmationRepository(connection)
        return [run_id for run_id in dict.fromkeys(run_ids) if repository.waiting(run_id)]
    finally:
        connection.close()


def give_up_late() -> None:
    """Give up what did not end in time, so that nobody takes it for something that goes on."""
    from nightbench.experiments.confirm import overdue
    from nightbench.orchestration.connections import connect

    for run_id in overdue(connect):
        log.warning("run %s: not all of its suspects were measured again in time", run_id)


def _begin(confirmation: int) -> tuple[Asked, RunPlan]:
    from nightbench.experiments.confirm import begin
    from nightbench.orchestration.connections import connect
    from nightbench.spool import open_spool
    from nightbench.spool.plans import read_plan

    asked = begin(connect, confirmation)
    if asked is None:
        raise AirflowSkipException(f"confirmation {confirmation} has ended or was given up")
    return asked, read_plan(open_spool().run(asked.suspect.run_id))


def _confirm(asked: Asked, plan: RunPlan, last_try: bool) -> dict[str, Any]:
    import asyncio

    from nightbench.experiments.confirm import Busy, end, measure_again
    from nightbench.experiments.confirmation_outcome import inconclusive
    from nightbench.gang import NodeError, direct
    from nightbench.orchestration.connections import connect
    from nightbench.spool import open_spool

    detail: dict[str, Any] = {}
    try:
        work = measure_again(asked, plan, open_spool(), _ground(asked, plan), _watch)
        found, detail = asyncio.run(direct.until_done(work, lambda: None))
    except KeyboardInterrupt:
        raise AirflowException("ended from outside; a retry goes on") from None
    except Busy as error:
        raise AirflowSkipException(str(error)) from None
    except UserError as error:
        if isinstance(error, NodeError) and not last_try:
            raise
        # Nothing that a retry would mend: the night is told of without it.
        log.error("%s", error)
        found = inconclusive(str(error))
    end(connect, asked, found, detail)
    log.info("%s", found.sentence)
    return {"case_id": asked.suspect.case_id, "outcome": str(found.outcome)}


def _ground(asked: Asked, plan: RunPlan) -> Ground:
    from datetime import UTC, datetime

    from nightbench.config.run_request import RunRequest, resolve_request
    from nightbench.experiments.confirm import Ground
    from nightbench.gang import local_shipment
    from nightbench.night.night_plan import open_now
    from nightbench.orchestration.ssh_targets import ssh_targets

    suite, cluster, catalog = resolve_request(RunRequest(plan.run.suite, cluster=plan.run.cluster))
    span = open_now(cluster, datetime.now(UTC))
    ends = [end for end in (asked.until, span.end if span else None) if end is not None]
    return Ground(
        suite,
        cluster,
        catalog,
        ssh_targets(cluster),
        local_shipment(cluster.environments.wheelhouse),
        min(ends, default=None),
    )


def _watch(plan: ComparisonPlan, folder: RunSpool) -> Listener:
    from nightbench.experiments.compare import Listener
    from nightbench.experiments.rounds import Side

    a, b = (plan.builds[side].build_id for side in Side)
    nodes = ", ".join(node.name for node in plan.cases[0].jobs[Side.A].nodes)
    log.info("%s: A %s, B %s, %d rounds on %s", folder.run_id, a, b, plan.rounds, nodes)

    def hear(event: GangEvent) -> None:
        log.info("%s", f"{event.node}: {event.message}" if event.node else event.message)

    def ended(launch: Ended) -> None:
        half = launch.half
        said = half.reason if half.throughput is None else f"{half.throughput:.5g}/s"
        log.info("round %d of %d, %s: %s", half.round, plan.rounds, half.side.upper(), said)

    return Listener(on_event=hear, on_end=ended)
