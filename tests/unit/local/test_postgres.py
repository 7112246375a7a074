"""The real server from the wheel: made, provided, stopped, started again."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg2
import pytest

from nightbench.core.errors import UserError
from nightbench.local import ports, postgres, processes
from nightbench.local.home import Home, Secrets, load_or_create_secrets


def choose(home: Home) -> ports.Ports:
    with ExitStack() as reserved:
        return ports.choose_ports(home, reserved)


Running = tuple[Home, ports.Ports, Secrets]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.make()
    chosen, made = choose(home), load_or_create_secrets(home)
    assert postgres.initialise(home, made) is True
    postgres.start(home, chosen.postgres)
    try:
        postgres.wait_ready(home, chosen, made)
        postgres.provide(home, chosen, made)
        yield home, chosen, made
    finally:
        processes.stop(home.run / "postgres.pid", first=postgres.STOP_SIGNAL)
        assert processes.leftovers(home.root, home.postgres) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it takes another identity")
def test_the_other_identity_reaches_programs_below_roots_own_home(tmp_path: Path) -> None:
    private = tmp_path / "root"
    private.mkdir(mode=0o700)
    program = private / "initdb"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    # As `initdb` looks for `postgres`: by access(2), which forgets capabilities.
    subprocess.run([*postgres._OTHER_USER, "test", "-x", str(program)], check=True)


def query(dsn: str, text: str) -> list[tuple[object, ...]]:
    connection = psycopg2.connect(dsn)
    try:
        with connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())
    finally:
        connection.close()


def test_each_role_logs_in_with_its_own_password(running: Running) -> None:
    _, chosen, made = running
    for role in postgres.ROLES:
        assert query(postgres.dsn(chosen, made, role), "select current_user") == [(role,)]
    wrong = Secrets()
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(postgres.dsn(chosen, wrong, "nightbench_reader"))


def test_the_reader_cannot_reach_airflows_database(running: Running) -> None:
    _, chosen, made = running
    with pytest.raises(psycopg2.OperationalError, match="permission denied for database"):
        psycopg2.connect(postgres.dsn(chosen, made, "nightbench_reader", "airflow"))


def test_passwords_are_stored_as_scram_and_the_server_is_on_loopback(running: Running) -> None:
    _, chosen, made = running
    dsn = postgres.dsn(chosen, made, "postgres", "postgres")
    kept = query(dsn, "select left(rolpassword, 13) from pg_authid where rolcanlogin")
    assert set(kept) == {("SCRAM-SHA-256",)}
    assert query(dsn, "show listen_addresses") == [("127.0.0.1",)]
    assert query(dsn, "show data_checksums") == [("on",)]


def test_providing_again_makes_nothing_and_sets_a_changed_password(running: Running) -> None:
    home, chosen, made = running
    assert postgres.provide(home, chosen, made) == []
    other = Secrets(**{**vars(made), "nightbench_reader": "another"})
    postgres.provide(home, chosen, other)
    assert query(postgres.dsn(chosen, other, "nightbench_reader"), "select 1") == [(1,)]
    postgres.provide(home, chosen, made)


def test_the_psql_line_works_as_printed(running: Running) -> None:
    home, chosen, _ = running
    line = postgres.psql_line(home, chosen)
    answer = subprocess.run(
        f"{line} -Atc 'select current_user'",
        shell=True,
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "nightbench_reader\n"
    assert home.pgpass_file.stat().st_mode & 0o777 == 0o600


def test_a_killed_server_comes_back_with_its_data(running: Running) -> None:
    home, chosen, made = running
    owner = postgres.dsn(chosen, made, "nightbench_owner")
    connection = psycopg2.connect(owner)
    with connection, connection.cursor() as cursor:
        cursor.execute("create table kept (id integer); insert into kept values (7)")
    connection.close()
    service = processes.read(home.run / "postgres.pid")
    assert service is not None
    os.kill(service.pid, 9)
    os.waitpid(service.pid, 0)
    processes.end_leftovers(home.root, home.postgres)

    assert postgres.initialise(home, made) is False
    postgres.start(home, chosen.postgres)
    postgres.wait_ready(home, chosen, made)
    assert query(owner, "select id from kept") == [(7,)]


def test_a_server_that_cannot_start_shows_its_log(running: Running, tmp_path: Path) -> None:
    made = running[2]
    home = Home(tmp_path)
    home.make()
    postgres.initialise(home, made)
    with (home.postgres / "postgresql.conf").open("a") as stream:
        stream.write("no_such_setting = 1\n")
    postgres.start(home, choose(home).postgres)
    with pytest.raises(UserError, match=r"(?s)ended.*no_such_setting"):
        postgres.wait_ready(home, choose(home), made)
