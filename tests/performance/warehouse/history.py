"""A PostgreSQL with years of nights: cases and plans by the project's code, medians by SQL.

The last `JUDGED` nights are judged by the project's code, which opens and explains their alerts:
what the pages show of them is real. Verdicts and alerts of earlier nights are drawn too.
"""

from __future__ import annotations

import itertools
import math
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiosql
import psycopg2
from psycopg2.extras import RealDictCursor
from tests.contained import folder_of_server
from tests.performance.warehouse.judging import judge_runs, plan_of

from nightbench.core.errors import UserError
from nightbench.core.model import Build, Case, Cluster, Node, PlannedCase, Run, RunKind, Strategy
from nightbench.local import postgres, processes
from nightbench.local.home import Home, Secrets, load_or_create_secrets
from nightbench.local.ports import Ports, choose_ports
from nightbench.warehouse import Warehouse, connect, migrate
from nightbench.warehouse.connection import Connection

UNITS = {
    "resnet50_v1.5": "images",
    "vgg16": "images",
    "se_resnext50_32x4d": "images",
    "bert_base": "sequences",
    "transformer_base": "tokens",
    "wide_deep": "samples",
}
AXES: dict[str, tuple[Any, ...]] = {
    "workload": tuple(UNITS),
    "framework": ("pytorch", "paddle3", "tensorflow2", "oneflow"),
}
SHAPES = (
    *itertools.product((1, 2, 4), ("fp32", "bf16"), (32,)),
    *((1, "fp32", batch) for batch in (64, 128)),
)
"""Nodes, precision and batch size: curves over nodes and over batches."""
MORE = 512
"""What further series have more in a batch, once the others are used up."""

CLUSTERS = ("a100", "h100", "cpu")
SUITES = (
    ("training", "a100", 0.4),
    ("training", "h100", 0.24),
    *(
        (suite, cluster, 0.02)
        for suite in ("scaling", "precision", "compilers", "batch_sizes", "bandwidth", "serving")
        for cluster in CLUSTERS
    ),
)
"""Suite, cluster, and their share of the series."""

NODES = 8
NIGHTS_OF_RANKS = 90
"""Nights of which ranks have their steps, as the DAG maintenance keeps them."""

JUDGED = 6
"""Nights that are judged, which hold all falls of live alerts."""

BYTES_OF_MEDIAN = 3_000
"""With its plan, repeats, nodes, verdict and all indexes, and the copy without partitions."""
BYTES_OF_RANKS = 41_000
"""Of a median whose ranks are kept."""
SERVER_BYTES = 1_500_000_000
"""PostgreSQL's log, its own tables, and room to sort."""

STATEMENT_TIMEOUT_S = 3600.0
UNSAFE = ("fsync", "full_page_writes", "synchronous_commit", "autovacuum")
"""Off while the history is made: a crash then means to make it again."""
FACTS = (
    *("planned_case", "measurement", "measurement_node", "repeat"),
    *("repeat_rank", "failed_check", "verdict"),
)


@dataclass(frozen=True)
class History:
    """A warehouse with a history, and the night that comes next."""

    ports: Ports
    secrets: Secrets
    folder: Path
    tonight: datetime

    def dsn(self, role: str) -> str:
        """Connection string of a role."""
        return postgres.dsn(self.ports, self.secrets, role)

    def connect(
        self, role: str = "nightbench_loader", timeout_s: float = STATEMENT_TIMEOUT_S
    ) -> Connection:
        """Open a connection whose statements may take so long."""
        return connect(self.dsn(role), statement_timeout_s=timeout_s)


def clusters() -> dict[str, Cluster]:
    """Return the clusters of the history by name."""
    return {
        name: Cluster(
            name,
            tuple(Node(f"{name}-{n}", f"10.0.0.{n}", name) for n in range(1, NODES + 1)),
            description=f"{NODES} nodes",
            device_kind="cpu" if name == "cpu" else "gpu",
            devices_per_node=1 if name == "cpu" else 8,
        )
        for name in CLUSTERS
    }


def build_of(case: Case, version: str) -> Build:
    """Return the build of a case's framework."""
    return Build(case.framework, "cu126", "index", version)


def plans(series: int, at: datetime) -> Iterator[tuple[Run, list[PlannedCase]]]:
    """Yield a run of each suite at a time, and what it plans: so many series together."""
    counts = [math.floor(series * share) for _, _, share in SUITES]
    counts[0] += series - sum(counts)
    cases = {cluster: _cases() for cluster in CLUSTERS}
    for number, ((suite, cluster, _), count) in enumerate(zip(SUITES, counts, strict=True)):
        name, began = f"{suite}_{cluster}", at + number * timedelta(minutes=2)
        run_id = f"{name}-{began:%Y%m%dT%H%M%S}-0a1b"
        run = Run(run_id, name, cluster, RunKind.NIGHTLY, began)
        planned = [
            PlannedCase(case, build_of(case, "2.0"), "d1", UNITS[case.workload])
            for case in itertools.islice(cases[cluster], count)
        ]
        if planned:
            yield run, planned


def _cases() -> Iterator[Case]:
    for more in itertools.count(0, MORE):
        for compiler, *values, (nodes, precision, batch) in itertools.product(
            ("none", "xla"), *AXES.values(), SHAPES
        ):
            yield Case(
                **dict(zip(AXES, values, strict=True)),
                strategy=Strategy.COLLECTIVE,
                nodes=nodes,
                trainers=nodes,
                precision=precision,
                compiler=compiler,
                batch_size_per_device=batch + more,
            )


@contextmanager
def opened(series: int, nights: int, nights_of_ranks: int, keep: Path | None) -> Iterator[History]:
    """Start a server, and fill it unless the folder holds a history already.

    Raises:
        UserError: the disk is too small, or the folder holds another history.
    """
    folder = keep.absolute() if keep else folder_of_server("nbwarehouse-")
    home = Home(folder)
    try:
        is_new = not (home.postgres / "PG_VERSION").is_file()
        if is_new:
            _check_disk(folder, series, nights, nights_of_ranks)
        home.make()
        secrets = load_or_create_secrets(home)
        postgres.initialise(home, secrets)
        with ExitStack() as reserved:
            ports = choose_ports(home, reserved)
            postgres.start(home, ports.postgres)
        try:
            postgres.wait_ready(home, ports, secrets)
            postgres.provide(home, ports, secrets)
            migrate.apply(postgres.dsn(ports, secrets, "nightbench_owner"))
            superuser = postgres.dsn(ports, secrets, postgres.SUPERUSER)
            with closing(psycopg2.connect(superuser)) as connection:
                connection.autocommit = True
                if is_new:
                    loader = postgres.dsn(ports, secrets, "nightbench_loader")
                    _fill(connection, series, nights, nights_of_ranks, loader, folder)
                tonight = _tonight(connection, folder, series, nights)
            yield History(ports, secrets, folder, tonight)
        finally:
            processes.stop(home.run / "postgres.pid", first=postgres.STOP_SIGNAL, patience_s=120.0)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _check_disk(folder: Path, series: int, nights: int, nights_of_ranks: int) -> None:
    needed = (
        series * (nights * BYTES_OF_MEDIAN + min(nights, nights_of_ranks) * BYTES_OF_RANKS)
        + SERVER_BYTES
    )
    place = next(each for each in (folder, *folder.parents) if each.is_dir())
    free = shutil.disk_usage(place).free
    _say(
        f"{series:,} series of {nights:,} nights take about {needed / 1e9:.1f} GB in {folder}, "
        f"{free / 1e9:.1f} GB are free"
    )
    if free < needed:
        raise UserError(
            f"{folder}: the disk has {free / 1e9:,.1f} GB free, expected {needed / 1e9:,.1f} GB. "
            "Ask for fewer series or nights, or name a folder on another disk: --keep FOLDER"
        )


def _fill(
    connection: Connection,
    series: int,
    nights: int,
    nights_of_ranks: int,
    loader: str,
    folder: Path,
) -> None:
    started = time.monotonic()
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    first = now - timedelta(hours=2, days=nights)
    statements: Any = aiosql.from_path(
        Path(__file__).with_name("history.sql"),
        "psycopg2",
        mandatory_parameters=False,
        kwargs={"cursor_factory": RealDictCursor},
    )
    warehouse = Warehouse(connection)
    for run, planned in plans(series, first):
        warehouse.runs.plan(run, planned, clusters()[run.cluster])
    with connection.cursor() as cursor:
        # All rows fit together: triggers of foreign keys would take most of the time.
        cursor.execute("set session_replication_role = replica")
        cursor.execute("set work_mem = '256MB'")
        cursor.execute("set maintenance_work_mem = '512MB'")
        for name in UNSAFE:
            cursor.execute(f"alter system set {name} = off")
        cursor.execute("select pg_reload_conf()")
    statements.prepare(connection)
    list(statements.store_runs(connection, nights=nights))
    statements.number_runs(connection)
    months = [row["month"] for row in statements.months(connection)]
    for number, month in enumerate(months, start=1):
        with connection.cursor() as cursor:
            cursor.execute("select raw.ensure_month(%s)", (month,))
        statements.forget_results(connection)
        statements.draw_results(connection, month=month, nights=nights)
        for table in FACTS:
            fill = getattr(statements, f"fill_{table}")
            fill(connection, nights=nights, nights_of_ranks=nights_of_ranks, judged=JUDGED)
        spent = time.monotonic() - started
        _say(f"{month:%Y-%m}: {number} of {len(months)} months, {spent:.0f} s")
    statements.fill_nodes(connection, nights=nights)
    statements.fill_alerts(connection, nights=nights)
    statements.fill_grades(connection)
    statements.copy_unpartitioned(connection)
    _say(f"analysing, {time.monotonic() - started:.0f} s")
    statements.settle(connection)
    with connection.cursor() as cursor:
        cursor.execute("reset session_replication_role")
    _say(f"judging the last {min(JUDGED, nights - 1)} nights, {time.monotonic() - started:.0f} s")
    judged = [
        [
            plan_of(_night(run, number), planned, clusters()[run.cluster])
            for run, planned in plans(series, first)
        ]
        for number in range(max(1, nights - JUDGED), nights)
    ]
    judge_runs(judged, loader, folder, STATEMENT_TIMEOUT_S)
    with connection.cursor() as cursor:
        cursor.execute("set session_replication_role = replica")
        statements.date_alerts(connection)
        cursor.execute("reset session_replication_role")
        cursor.execute("alter system reset all")
        cursor.execute("select pg_reload_conf()")
        cursor.execute("checkpoint")
        cursor.execute("select pg_database_size(current_database())")
        (size,) = cursor.fetchone() or (0,)
    _say(f"filled: {size / 1e9:.2f} GB in {time.monotonic() - started:.0f} s")


def _night(run: Run, number: int) -> Run:
    """A suite's run so many nights after its first, as the statement `store_runs` names it."""
    at = run.started_at + timedelta(days=number)
    return replace(run, run_id=f"{run.suite}-{at:%Y%m%dT%H%M%S}-0a1b", started_at=at)


def _tonight(connection: Connection, folder: Path, series: int, nights: int) -> datetime:
    """Return the start of the night after the last one that is stored."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select (select count(*) from benchmark.series), max(n.number) + 1, min(r.started_at), "
            "max(r.started_at) from raw.run as r left join benchmark.run as n using (run_key)"
        )
        ((*known, first, last),) = cursor.fetchall()
    if known != [series, nights]:
        raise UserError(
            f"{folder}: holds {known[0]} series of {known[1]} nights, expected {series} of "
            f"{nights}. Ask for those, or name another folder."
        )
    tonight: datetime = first + timedelta(days=(last - first).days + 1)
    return tonight


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
