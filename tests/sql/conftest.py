"""A real PostgreSQL for the SQL tests, and a fresh database for each test that asks for one."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import psycopg2
import pytest
from psycopg2.extras import RealDictCursor

from nightbench.model import (
    Build,
    Case,
    CaseStatus,
    CheckResult,
    ClockOffset,
    Cluster,
    Measurement,
    Node,
    RankResult,
    RepeatRecord,
    RepeatSummary,
    Run,
    RunKind,
    Severity,
    Strategy,
)
from nightbench.stack import postgres, processes
from nightbench.stack.paths import Home
from nightbench.stack.ports import Ports, is_free
from nightbench.stack.secrets import Secrets
from nightbench.warehouse import (
    CaseBundle,
    Loader,
    PlannedCase,
    Reader,
    RepeatBundle,
    RunBundle,
    connect,
    migrate,
)
from nightbench.warehouse.connection import Connection


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL with Nightbench's roles."""

    ports: Ports
    secrets: Secrets

    def dsn(self, role: str, database: str) -> str:
        return postgres.dsn(self.ports, self.secrets, role, database)

    def execute(self, statement: str, database: str = "postgres") -> None:
        with closing(psycopg2.connect(self.dsn(postgres.SUPERUSER, database))) as connection:
            connection.autocommit = True
            connection.cursor().execute(statement)


@dataclass(frozen=True)
class Database:
    """One database of the server, by role."""

    server: Server
    name: str

    @property
    def owner(self) -> str:
        return self.server.dsn("nightbench_owner", self.name)

    @property
    def loader(self) -> str:
        return self.server.dsn("nightbench_loader", self.name)

    @property
    def reader(self) -> str:
        return self.server.dsn("nightbench_reader", self.name)

    @property
    def triage(self) -> str:
        return self.server.dsn("nightbench_triage", self.name)


def _free_port(first: int) -> int:
    return next(port for port in range(first, first + 500) if is_free(port))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    # Short: PostgreSQL refuses long data paths.
    folder = Path(tempfile.mkdtemp(prefix="nbsql-", dir="/tmp"))
    home, secrets = Home(folder), Secrets()
    ports = Ports(postgres=_free_port(56000 + os.getpid() % 1000))
    for needed in (home.run, home.logs):
        needed.mkdir(mode=0o700)
    try:
        postgres.initialise(home, secrets)
        postgres.start(home, ports.postgres)
        postgres.wait_ready(home, ports, secrets)
        postgres.provide(home, ports, secrets)
        yield Server(ports, secrets)
    finally:
        processes.stop(home.run / "postgres.pid", first=postgres.STOP_SIGNAL)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(server: Server) -> str:
    """A migrated database that others are copied from."""
    server.execute("create database nb_template owner nightbench_owner")
    migrate.apply(server.dsn("nightbench_owner", "nb_template"))
    return "nb_template"


@pytest.fixture
def make_database(server: Server) -> Iterator[Callable[..., Database]]:
    made: list[str] = []

    def make(template: str | None = None) -> Database:
        name = f"nb_{os.getpid()}_{time.monotonic_ns()}"
        source = f" template {template}" if template else ""
        server.execute(f"create database {name} owner nightbench_owner{source}")
        made.append(name)
        return Database(server, name)

    yield make
    for name in made:
        server.execute(f"drop database {name} with (force)")


@pytest.fixture
def empty(make_database: Callable[..., Database]) -> Database:
    """A database without any of our tables."""
    return make_database()


@pytest.fixture
def warehouse(make_database: Callable[..., Database], template: str) -> Database:
    """A migrated, empty warehouse."""
    return make_database(template)


@pytest.fixture
def connection(warehouse: Database) -> Iterator[Connection]:
    """The loader's connection."""
    with closing(connect(warehouse.loader)) as made:
        yield made


@pytest.fixture
def loader(connection: Connection) -> Loader:
    return Loader(connection)


@pytest.fixture
def reader(warehouse: Database) -> Iterator[Reader]:
    """Reads with the rights of nightbench_reader and no others."""
    with closing(connect(warehouse.reader)) as made:
        yield Reader(made)


# --- given --------------------------------------------------------------------------------

NIGHT = datetime(2026, 3, 1, 1, 0, tzinfo=UTC)
PYTORCH = Build(line="pytorch", version="2.13.0")
CLUSTER = Cluster(
    name="local",
    nodes=tuple(Node(name=n, host="127.0.0.2", ssh_conn_id="local") for n in ("n1", "n2")),
    description="Two local nodes",
    shared=True,
)


class Given:
    """Makes what a pipeline would hand over."""

    cluster = CLUSTER
    build = PYTORCH

    def case(self, nodes: int = 1, **axes: Any) -> Case:
        given = {"workload": "resnet50_v1.5", "framework": "pytorch", "scale": "smoke"} | axes
        strategy = given.pop("strategy", Strategy.COLLECTIVE)
        trainers = given.pop("trainers", nodes)
        return Case(
            strategy=strategy,
            nodes=nodes,
            trainers=trainers,
            **{"batch_size_per_device": 2} | given,
        )

    def run(self, night: int = 0, suite: str = "demo", cluster: str = "local", **more: Any) -> Run:
        at = NIGHT + timedelta(days=night)
        kind = more.pop("run_kind", RunKind.NIGHTLY)
        return Run(
            run_id=f"{suite}-{at:%Y%m%dT%H%M%S}-{more.pop('tail', '0a1b')}",
            suite=suite,
            cluster=cluster,
            run_kind=kind,
            started_at=at,
            **more,
        )

    def rank(self, rank: int, node: str, steps: tuple[float, ...]) -> RankResult:
        ends = tuple(100.0 + sum(steps[: i + 1]) for i in range(len(steps)))
        return RankResult(
            name=f"trainer-{rank}",
            role="trainer",
            rank=rank,
            node=node,
            samples_per_step=2.0,
            window_open_s=100.0,
            window_close_s=100.0 + sum(steps),
            window_wall_s=sum(steps),
            step_seconds=steps,
            step_end_s=ends,
            time_to_first_step_s=1.5,
            loss_first=6.9,
            loss_window=(6.8, 6.7),
            weights_digest="ab" * 32,
            parameters=25_557_032,
            peak_resident_bytes=512_000_000,
            precision="fp32",
            versions={"python": "3.11.7", "pytorch": "2.13.0+cpu"},
        )

    def repeat(
        self, number: int, throughput: float, nodes: tuple[str, ...] = ("n1",)
    ) -> RepeatBundle:
        step = 2.0 * len(nodes) / throughput
        # The last rank is the slowest by a little.
        ranks = tuple(
            self.rank(i, node, (step * (1 - 0.01 * (len(nodes) - 1 - i)),) * 4)
            for i, node in enumerate(nodes)
        )
        return RepeatBundle(
            record=RepeatRecord(
                repeat=number,
                status="ok",
                reason=None,
                ranks=ranks,
                clocks={node: ClockOffset(-12.5, 0.001) for node in nodes},
                fingerprints={node: f"fp-{node}" for node in nodes},
                started_at=NIGHT,
            ),
            summary=RepeatSummary(
                repeat=number,
                throughput=throughput,
                window_s=4 * step,
                samples=8.0 * len(nodes),
                step_throughput=throughput,
                drift=0.0,
                time_to_first_step_s=1.5,
                peak_resident_bytes=512_000_000,
                loss_first=6.9,
                loss_median=6.75,
            ),
        )

    def measurement(self, run: Run, case: Case, throughputs: tuple[float, ...]) -> Measurement:
        middle = median(throughputs)
        return Measurement(
            run_id=run.run_id,
            case=case,
            cluster=run.cluster,
            build=PYTORCH,
            unit="images",
            repeats=(),
            n=len(throughputs),
            throughput=middle,
            minimum=min(throughputs),
            maximum=max(throughputs),
            mad=median(abs(t - middle) for t in throughputs),
            spread=(max(throughputs) - min(throughputs)) / middle,
            framework_version="2.13.0+cpu",
            definition_digest="d1",
            fingerprint_id="fp-n1",
        )

    def came_back(
        self,
        run: Run,
        case: Case,
        throughputs: tuple[float, ...] = (10.0, 11.0, 12.0),
        *,
        checks: tuple[CheckResult, ...] = (),
        nodes: tuple[str, ...] | None = None,
        generation: int = 0,
        elapsed_s: float | None = 60.0,
        **changed: Any,
    ) -> CaseBundle:
        on = nodes or tuple(n.name for n in CLUSTER.nodes[: case.nodes])
        return CaseBundle(
            case=case,
            generation=generation,
            status=CaseStatus.OK,
            repeats=tuple(self.repeat(i, t, on) for i, t in enumerate(throughputs, start=1)),
            measurement=replace(self.measurement(run, case, throughputs), **changed),
            checks=checks,
            elapsed_s=elapsed_s,
        )

    def failed_check(self, repeat: int | None = None) -> CheckResult:
        return CheckResult(
            subject="measurement" if repeat is None else "repeat",
            repeat=repeat,
            check="throughput_consistent",
            severity=Severity.FAIL,
            success=False,
            observed="1.7 % apart",
            expected="within 1 %",
        )

    def bundle(
        self, run: Run, *cases: CaseBundle, missing: tuple[Case, ...] = (), **more: Any
    ) -> RunBundle:
        every = (*(c.case for c in cases), *missing)
        planned = {c.case_id: PlannedCase(c, PYTORCH, "d1", "images") for c in every}
        return RunBundle(
            run=run,
            planned=tuple(planned.values()),
            cases=cases,
            fingerprints={
                f"fp-{n}": {"schema": "nightbench.fingerprint/1", "node": n} for n in ("n1", "n2")
            },
            cluster=CLUSTER,
            **more,
        )


@pytest.fixture
def given() -> Given:
    return Given()


Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def rows(connection: Connection) -> Rows:
    """Rows of a query as dicts."""

    def select(query: str, *parameters: Any) -> list[dict[str, Any]]:
        with connection.cursor(cursor_factory=RealDictCursor) as cursor:
            cursor.execute(query, parameters)
            return [dict(row) for row in cursor.fetchall()]

    return select
