"""The DAG that looks for the first version of a framework that is slower."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowException

from nightbench.config import locations
from nightbench.config.suite_heads import cluster_names, suite_heads
from nightbench.core.errors import UserError
from nightbench.orchestration.dag_common import DEFAULTS, OWNER, START

if TYPE_CHECKING:
    from nightbench.experiments.bisect import Ground
    from nightbench.experiments.bisect_store import Asked, Document
    from nightbench.experiments.bisection import State, Trial
    from nightbench.experiments.compare import Listener
    from nightbench.experiments.comparisons import ComparisonPlan
    from nightbench.spool import RunSpool

LONGEST = timedelta(hours=48)

DOC = """\
### Which version made it slower

**Trigger** asks for an alert, or for two versions and a case. Versions between are installed and
held against the good one by the paired method, half of them left out by each test, until the first
bad one is found or the budget is used up. A task that was ended goes on where it was when it is
cleared. The answer stands on the alert: `nightbench alert show ID`.
"""

log = logging.getLogger(__name__)


def bisect_dag() -> DAG:
    """The DAG with the form of a bisect."""
    with DAG(
        "nightbench_bisect",
        schedule=None,
        start_date=START,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=LONGEST,
        default_args={**DEFAULTS, "owner": OWNER},
        params=_form(),
        # It runs only when somebody fills in its form.
        is_paused_upon_creation=False,
        description="Finds the first version of a framework that made a case slower",
        doc_md=DOC,
        tags=["nightbench", "verdicts"],
    ) as dag:
        bisect()
    return dag


def _form() -> dict[str, Param]:
    suites = [head.name for head in suite_heads(locations.dags_folder()) if head.problem is None]

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
            "Cluster", "Empty: the suite's own.", examples=cluster_names(locations.dags_folder())
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
    execution_timeout=LONGEST,
    doc_md="One long task: a retry, or a person who clears it, goes on after the last test.",
)
def bisect(**context: Any) -> dict[str, Any]:
    """Find the first bad version, or go on with it."""
    try:
        return _bisect(_id_of(context), context["params"])
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None


def _id_of(context: Mapping[str, Any]) -> str:
    """The bisect of a DAG run: the same for every try."""
    run = context["dag_run"]
    digest = hashlib.sha256(run.run_id.encode()).hexdigest()[:4]
    return f"bisect-{run.run_after:%Y%m%dT%H%M%S}-{digest}"


# --- on a worker --------------------------------------------------------------------------


def _bisect(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    import asyncio

    from nightbench.experiments import bisect as bisecting
    from nightbench.experiments import bisect_store
    from nightbench.gang import direct
    from nightbench.spool import open_spool

    spool = open_spool()
    folder = spool.bisect(name)
    if folder.is_steered():
        raise UserError(
            f"{name} is measured right now by another process; once that has ended, clear this "
            "task to go on"
        )
    limits = {
        "budget_s": params["budget_h"] * 3600.0,
        "most_tests": params["most_tests"],
        "outside_hours": bool(params["outside_hours"]),
    }
    if folder.run() is None:
        asked, ground = _asked(params, limits)
    else:
        asked = bisect_store.known_of(folder)[1]
        ground = _ground(asked.suite, asked.cluster, asked.case_id, asked.outside_hours)
    bisect_store.begin(spool, name, asked, "airflow")
    work = bisecting.measure_bisect(folder, ground, spool, _Log(), _store)
    try:
        with folder.steered():
            document = asyncio.run(direct.until_done(work, lambda: None))
    except KeyboardInterrupt:
        raise AirflowException("ended from outside; a retry goes on") from None
    log.info("%s: %s", name, document["sentence"])
    return {key: document[key] for key in ("bisect_id", "state", "outcome", "first_bad")}


def _asked(params: Mapping[str, Any], limits: Mapping[str, Any]) -> tuple[Asked, Ground]:
    import asyncio

    from nightbench.experiments import bisect as bisecting
    from nightbench.experiments import bisect_store
    from nightbench.orchestration.connections import connect
    from nightbench.warehouse import NodeRepository, Reader
    from nightbench.warehouse.experiments import BisectRepository

    given: dict[str, Any] = {
        name: params.get(name) for name in ("good", "bad", "case", "suite", "cluster")
    }
    alert = params.get("alert")
    with closing(connect()) as connection:
        if alert is not None:
            found = bisect_store.of_alert(
                Reader(connection), BisectRepository(connection), alert, given["good"], given["bad"]
            )
            known = {"good": found.good, "bad": found.bad, "case": found.case_id}
            known |= {"suite": found.suite, "cluster": found.cluster}
            given = {name: given[name] or known[name] for name in given}
        missing = [name for name in ("good", "bad", "case", "suite") if not given[name]]
        if missing:
            raise UserError(
                f"{missing[0]}: found nothing; expected an alert, or versions, case and suite"
            )
        ground = _ground(given["suite"], given["cluster"], given["case"], limits["outside_hours"])
        states = NodeRepository(connection).states(ground.cluster.name)
    named = params.get("versions") or ()
    found_versions = asyncio.run(
        bisecting.candidates(ground, given["good"], given["bad"], named, states)
    )
    for problem in found_versions.problems:
        log.warning("no answer from %s", problem)
    asked = bisect_store.Asked(
        case_id=given["case"],
        suite=given["suite"],
        cluster=given["cluster"],
        line=ground.suite.cases[0].framework,
        versions=found_versions.versions,
        rounds=params["rounds"],
        alert_id=alert,
        left_out=dict(found_versions.left_out),
        **limits,
    )
    return asked, ground


def _ground(suite: str, cluster: str | None, case: str, outside_hours: bool) -> Ground:
    import dataclasses
    from datetime import UTC, datetime

    from nightbench.config.run_request import RunRequest, resolve_request
    from nightbench.config.source import one_of
    from nightbench.experiments.bisect import Ground
    from nightbench.gang import local_shipment
    from nightbench.night.night_plan import open_now
    from nightbench.orchestration.ssh_targets import ssh_targets

    chosen, where, catalog = resolve_request(RunRequest(suite, cluster=cluster))
    known = {each.case_id: each for each in chosen.cases}
    if case not in known:
        raise UserError(f"case: {one_of(case, known)}; of the suite {suite}")
    span = None if outside_hours else open_now(where, datetime.now(UTC))
    return Ground(
        suite=dataclasses.replace(chosen, cases=(known[case],)),
        cluster=where,
        catalog=catalog,
        targets=ssh_targets(where),
        shipment=local_shipment(where.environments.wheelhouse),
        end=span.end if span else None,
    )


def _store(document: Document) -> None:
    """Keep a copy in the warehouse; where that does not take it the spool has all of it."""
    from nightbench.experiments import bisect_store
    from nightbench.orchestration.connections import connect
    from nightbench.warehouse import WarehouseRefused, WarehouseUnavailable
    from nightbench.warehouse.experiments import BisectRepository

    try:
        with closing(connect()) as connection:
            bisect_store.store(BisectRepository(connection), document)
    except (WarehouseUnavailable, WarehouseRefused) as error:
        log.warning("stored after the next test: %s", error)


class _Log:
    """Tells how a bisect goes in the task's log."""

    def begins(self, number: int, test: Trial, plan: ComparisonPlan, folder: RunSpool) -> Listener:
        from nightbench.experiments.compare import Ended, Listener

        log.info(
            "test %d (%s): %s beside %s, %d rounds: %s",
            number,
            test.kind,
            test.version,
            test.against,
            plan.rounds,
            folder.run_id,
        )

        def ended(launch: Ended) -> None:
            half = launch.half
            said = half.reason if half.throughput is None else f"{half.throughput:.5g}/s"
            log.info("round %d of %d, %s: %s", half.round, plan.rounds, half.side.upper(), said)

        return Listener(on_end=ended)

    def ended(self, document: Document, state: State) -> None:
        log.info("%s is %s: %s", document["version"], document["result"], document["why"])
        log.info("%s", state.sentence)
