"""A real PostgreSQL for the SQL tests, and an empty database for each test that asks for one."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from psycopg2.extras import RealDictCursor
from tests.contained import folder_of_server
from tests.sql.given import Given
from tests.sql.nights import Inbox, receiving
from tests.sql.pipeline import Pipeline
from tests.sql.shared_database import SharedDatabase

from nightbench.cli import common
from nightbench.core.model import Verdict, VerdictKind
from nightbench.local import postgres, processes
from nightbench.local.home import Home, Secrets
from nightbench.local.ports import Ports, choose_ports
from nightbench.night import detector_grade
from nightbench.spool import Spool
from nightbench.warehouse import Triage, Warehouse, connect, migrate, statements
from nightbench.warehouse.connection import Connection

FORGETFUL = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"
"""No test survives a crash of the machine: nothing has to be on the disk."""

GUESSABLE = "scram_iterations = 1\n"
"""Nobody guesses the passwords of a test, and each of its 10 connections would take 4 ms more."""


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


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    folder = folder_of_server("nbsql-")
    home, secrets = Home(folder), Secrets()
    for needed in (home.run, home.logs):
        needed.mkdir(mode=0o700)
    try:
        postgres.initialise(home, secrets)
        with (home.postgres / "postgresql.auto.conf").open("a") as settings:
            settings.write(FORGETFUL + GUESSABLE)
        # Held until it listens: the servers of other workers start at the same time.
        with ExitStack() as reserved:
            ports = choose_ports(home, reserved)
            postgres.start(home, ports.postgres)
            postgres.wait_ready(home, ports, secrets)
        postgres.provide(home, ports, secrets)
        server = Server(ports, secrets)
        # That of initdb was hashed before the server had its settings.
        server.execute(f"alter role {postgres.SUPERUSER} password '{secrets.postgres}'")
        yield server
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
def own_warehouse(make_database: Callable[..., Database], template: str) -> Database:
    """A migrated, empty warehouse for a test that changes more than the rows of its tables.

    It is what `warehouse` gives a test that uses this fixture too.
    """
    return make_database(template)


@pytest.fixture(scope="session")
def shared_database(server: Server, template: str) -> SharedDatabase:
    return SharedDatabase(server, template)


@pytest.fixture
def warehouse(
    shared_database: SharedDatabase, request: pytest.FixtureRequest
) -> Iterator[Database]:
    """A migrated, empty warehouse."""
    if "own_warehouse" in request.fixturenames:
        yield request.getfixturevalue("own_warehouse")
        return
    name = shared_database.lend()
    yield Database(shared_database.server, name)
    shared_database.take_back(name, request.node.nodeid)


@pytest.fixture
def connection(warehouse: Database) -> Iterator[Connection]:
    """The loader's connection."""
    with closing(connect(warehouse.loader)) as made:
        yield made


@pytest.fixture
def loader(connection: Connection) -> Warehouse:
    return Warehouse(connection)


@pytest.fixture
def reader(warehouse: Database) -> Iterator[Warehouse]:
    """Reads with the rights of nightbench_reader and no others."""
    with closing(connect(warehouse.reader)) as made:
        yield Warehouse(made)


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


Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def ask(warehouse: Database) -> Iterator[Ask]:
    """Rows of a ready-made question as nightbench_reader; keywords set values of `chosen`."""

    def answer(name: str, **chosen: str) -> list[dict[str, Any]]:
        question = statements.text(f"queries/analysts/{name}.sql")
        for column, value in chosen.items():
            edited = re.compile(rf"^ {{8}}.* as {column}(,?)$", re.MULTILINE)
            question, found = edited.subn(f"        {value} as {column}\\1", question, count=1)
            assert found == 1, f"{name}.sql: `chosen` has no {column}"
        with analyst.cursor(cursor_factory=RealDictCursor) as cursor:
            cursor.execute(question)
            return [dict(row) for row in cursor.fetchall()]

    with closing(connect(warehouse.reader)) as analyst:
        yield answer


@pytest.fixture(autouse=True)
def without_grading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grades of the detector copy no series, which is most of what a graded night computes.

    A file whose subject is the grade replaces this fixture.
    """
    monkeypatch.setattr(detector_grade, "SERIES", 0)


# --- alerts -------------------------------------------------------------------------------


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with receiving() as made:
        yield made


@pytest.fixture
def pipeline(
    spool: Spool, warehouse: Database, loader: Warehouse, given: Given, inbox: Inbox
) -> Pipeline:
    return Pipeline(spool, warehouse, loader, given, inbox)


@pytest.fixture
def triage(warehouse: Database) -> Iterator[Triage]:
    """Moves alerts with the rights of nightbench_triage and no others."""
    with closing(connect(warehouse.triage)) as made:
        yield Triage(made, "ada")


@pytest.fixture
def alert_id(loader: Warehouse, reader: Warehouse, given: Given) -> int:
    run, case = given.run(), given.case()
    loader.runs.load(given.batch(run, given.came_back(run, case)))
    kind = VerdictKind.REGRESSED
    loader.alerts.open(Verdict(case.case_id, "local", run.run_id, kind, "slower", 9.0, 10.0, -0.1))
    return int(reader.alerts.find()[0]["alert_id"])


@pytest.fixture
def roles(warehouse: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command asks for the role that it needs, and gets no other."""
    by_role = {"nightbench_reader": warehouse.reader, "nightbench_triage": warehouse.triage}
    monkeypatch.setattr(common, "has_warehouse", lambda: True)
    monkeypatch.setattr(common, "warehouse_dsn", by_role.__getitem__)
