"""What the tasks of a run do on a worker: plan it, load it, judge it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightbench.errors import UserError
from nightbench.model import Build, Catalog, Cluster, RunKind, Suite
from nightbench.orchestration import places
from nightbench.orchestration.connections import WAREHOUSE, channel_url, warehouse_dsn

if TYPE_CHECKING:
    from nightbench.warehouse.connection import Connection

ABANDONED = timedelta(days=2)
"""A run that nobody has ended for so long will not be ended: its tasks were ended from outside."""

log = logging.getLogger(__name__)


# --- planning -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Wish:
    """What somebody asks for: the form of `on_demand`, or a night's suite as it is."""

    suite: str
    cluster: str | None = None
    frameworks: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    repeats: int | None = None
    scale: str | None = None
    run_kind: RunKind = RunKind.ON_DEMAND

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Wish:
        """From the values of the form; empty fields mean the suite's own.

        Raises:
            UserError: a field holds what it cannot.
        """

        def text(name: str) -> str | None:
            value = params.get(name)
            if value is not None and not isinstance(value, str):
                raise UserError(f"{name}: found {value!r}; expected a name")
            return value.strip() or None if value else None

        def several(name: str) -> tuple[str, ...]:
            value = params.get(name) or []
            entries = [value] if isinstance(value, str) else value
            if not isinstance(entries, list) or not all(isinstance(e, str) for e in entries):
                raise UserError(f"{name}: found {value!r}; expected a list of names")
            return tuple(entry.strip() for entry in entries if entry.strip())

        repeats = params.get("repeats")
        whole = isinstance(repeats, int) and not isinstance(repeats, bool)
        if repeats is not None and not (whole and repeats >= 1):
            raise UserError(
                f"repeats: found {repeats!r}; expected a whole number of at least 1, or nothing"
            )
        kind = text("run_kind") or RunKind.ON_DEMAND.value
        if kind not in {k.value for k in RunKind}:
            have = ", ".join(k.value for k in RunKind)
            raise UserError(f'run_kind: found "{kind}"; expected one of {have}')
        suite = text("suite")
        if suite is None:
            raise UserError("suite: found nothing; expected the name of a suite")
        return cls(
            suite=suite,
            cluster=text("cluster"),
            frameworks=several("frameworks"),
            workloads=several("workloads"),
            strategies=several("strategies"),
            builds=several("builds"),
            repeats=repeats,
            scale=text("scale"),
            run_kind=RunKind(kind),
        )


def choose(wish: Wish) -> tuple[Suite, Cluster, Catalog]:
    """The suite and the cluster that a wish means, after every check.

    Raises:
        UserError: an unknown name, a wrong file, or a case that cannot run there.
    """
    from nightbench.config import (
        customise,
        find_clusters,
        find_suites,
        load_catalog,
        load_cluster,
        load_suite,
        parse_build,
    )
    from nightbench.plan import select

    dags, home = places.dags_folder(), places.home_folder()
    catalog = load_catalog(places.benchmarks_folder())
    clusters = find_clusters(dags)
    path = _known("suite", wish.suite, find_suites(dags))
    named: Cluster | None = None
    if wish.cluster:
        file = _known("cluster", wish.cluster, clusters)
        named = load_cluster(file, home=home, catalog=catalog)
    suite = load_suite(path, catalog, cluster=named)
    cluster = named or load_cluster(
        _known("cluster", suite.cluster, clusters), home=home, catalog=catalog
    )
    cases = select(
        suite.cases,
        frameworks=wish.frameworks,
        workloads=wish.workloads,
        strategies=wish.strategies,
    )
    builds: dict[str, Build] = {build.line: build for build in map(parse_build, wish.builds)}
    chosen = customise(
        dataclasses.replace(suite, cases=cases),
        catalog,
        cluster,
        scale=wish.scale,
        repeats=wish.repeats,
        builds=builds,
    )
    return chosen, cluster, catalog


def _known(what: str, name: str, files: Mapping[str, Path]) -> Path:
    if name not in files:
        have = ", ".join(sorted(files)) or "none"
        raise UserError(
            f'{what}: found "{name}"; expected one of {have} (below {places.dags_folder()})'
        )
    return files[name]


def plan_run(
    wish: Wish,
    run_id: str,
    started_at: datetime,
    requested_by: str = "",
    dag_id: str | None = None,
    dag_run_id: str | None = None,
) -> list[str]:
    """Store the plan of a run, in the spool and, where it answers, in the warehouse.

    Returns:
        The cases, in the order in which they are measured.

    Raises:
        UserError: see `choose`.
    """
    from nightbench.orchestration.jobs import PlannedJob, save_job
    from nightbench.pipeline import make_plan, store_plan
    from nightbench.warehouse import Loader, WarehouseUnavailable

    suite, cluster, catalog = choose(wish)
    plan = make_plan(
        suite,
        cluster,
        catalog,
        run_kind=wish.run_kind,
        requested_by=requested_by,
        run_id=run_id,
        started_at=started_at,
        dag_id=dag_id,
        dag_run_id=dag_run_id,
    )
    folder = store_plan(plan, places.spool())
    for job in plan.jobs:
        save_job(folder, PlannedJob(job, cluster.known_hosts))
    try:
        connection = connect()
    except WarehouseUnavailable as error:
        log.warning("The plan waits in the spool: %s", error)
    else:
        try:
            Loader(connection).plan_run(plan.run, [case.planned for case in plan.cases], cluster)
        finally:
            connection.close()
    return [job.case.case_id for job in plan.jobs]


def connect(conn_id: str = WAREHOUSE) -> Connection:
    """A connection to the warehouse through an Airflow Connection.

    Raises:
        WarehouseUnavailable: it is away.
        UserError: nobody knows the Connection.
    """
    from nightbench.warehouse import connect as open_connection

    return open_connection(warehouse_dsn(conn_id))


# --- after measuring ----------------------------------------------------------------------


def ingest(run_id: str | None) -> list[str]:
    """Load a run, and every other that has ended and waits; returns those that were loaded.

    A waiting run that cannot be loaded keeps waiting and does not keep the others from it.

    Raises:
        UserError: the warehouse is away (everything stays in the spool), the run cannot be read,
            or no run that waits can be loaded.
    """
    from nightbench.pipeline import ingest_run, mark_ended, waiting_runs

    spool = places.spool()
    loaded: list[str] = []
    if run_id is not None:
        mark_ended(spool.run(run_id))
        log.info("%s", ingest_run(spool, run_id, connect).sentence())
        loaded.append(run_id)
    failure: UserError | None = None
    for waiting in waiting_runs(spool):
        try:
            log.info("%s", ingest_run(spool, waiting.run_id, connect).sentence())
        except UserError as error:
            log.error("run %s still waits: %s", waiting.run_id, error)
            failure = error
        else:
            loaded.append(waiting.run_id)
    if failure is not None and not loaded:
        raise failure
    return loaded


def close_ended(state_of: Callable[[str, str], str | None]) -> list[str]:
    """Mark runs as ended whose DAG run a person ended before its ingest; they can be loaded then.

    A run whose gang is still being ended keeps waiting: its outcome is about to be written.

    Args:
        state_of: DAG and DAG run -> the DAG run's state; None where Airflow has no such run.
    """
    from nightbench.pipeline import mark_ended

    closed = []
    for run in places.spool().runs():
        document = run.run() or {}
        dag_id, dag_run_id = document.get("dag_id"), document.get("dag_run_id")
        if document.get("ended_at") or run.loaded() is not None or not (dag_id and dag_run_id):
            continue
        begun = [store for case_id in run.case_ids() if (store := run.latest(case_id))]
        if any(store.outcome() is None for store in begun):
            continue
        if state_of(dag_id, dag_run_id) in ("success", "failed"):
            mark_ended(run)
            closed.append(run.run_id)
    return closed


def close_abandoned(now: datetime) -> list[str]:
    """Mark runs as ended whose DAG run was ended from outside long ago; they can be loaded then."""
    from nightbench.pipeline import mark_ended

    closed = []
    for run in places.spool().runs():
        document = run.run() or {}
        started = document.get("started_at")
        if not started or document.get("ended_at") or run.loaded() is not None:
            continue
        moment = datetime.fromisoformat(started)
        if (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) < now - ABANDONED:
            mark_ended(run)
            closed.append(run.run_id)
    return closed


def judge(run_id: str) -> str:
    """Judge a loaded run, tell who must know, write its digest; returns one line of summary.

    Raises:
        UserError: the warehouse is away, the run was never loaded, or no channel took the message.
    """
    from airflow.sdk.configuration import conf

    from nightbench.pipeline import judge_run, read_plan
    from nightbench.report import digest_text, from_warehouse, write_digest
    from nightbench.report.digest import headline
    from nightbench.warehouse import Reader

    spool = places.spool()
    link = f"{conf.get('api', 'base_url').rstrip('/')}/nightbench/?run={run_id}"
    result = judge_run(spool, run_id, connect, resolve=channel_url, link=link)
    for delivery in result.deliveries:
        if not delivery.sent:
            log.warning("%s took no message: %s", delivery.channel, delivery.error)
    connection = connect()
    try:
        rows = from_warehouse(Reader(connection).results_rows(run_id))
    finally:
        connection.close()
    run = read_plan(spool.run(run_id)).run
    text = digest_text(run, rows, [f"Results page: {link}"])
    path = write_digest(places.home_folder() / "reports", run, text)
    said = f"{headline(rows)}; {len(result.opened)} alerts opened, {len(result.resolved)} resolved"
    log.info("run %s: %s; digest %s", run_id, said, path)
    return said
