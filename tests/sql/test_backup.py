"""Backup and restore by PostgreSQL's own programs: figures, rights and limits come back."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg2
import psycopg2.errors
import pytest
from typer.testing import CliRunner

from nightbench.cli import db
from nightbench.cli.db import upgrades_of
from nightbench.cli.main import app
from nightbench.core.errors import UserError
from nightbench.core.model import Verdict, VerdictKind
from nightbench.local import backup
from nightbench.local.backup import back_up, restore
from nightbench.local.deployment import Stack
from nightbench.local.home import Home
from nightbench.local.lifecycle import migrate_warehouse
from nightbench.local.postgres import SUPERUSER, WAREHOUSE, limit_reader
from nightbench.warehouse import Triage, Warehouse, connect, migrate, statements

pytestmark = pytest.mark.usefixtures("own_warehouse")  # restored under its name

NOW = datetime(2026, 3, 5, 8, 0, tzinfo=UTC)
RIGHTS = """
select 'relation', oid::regclass::text, relkind::text, relowner::regrole::text, relacl::text
from pg_class
where relnamespace::regnamespace::text in ('raw', 'staging', 'marts', 'triage', 'migrations')
union all
select 'function', oid::regprocedure::text, prokind::text, proowner::regrole::text, proacl::text
from pg_proc
where
    pronamespace::regnamespace::text in ('raw', 'staging', 'marts', 'triage')
    or proname like 'lo\\_%' or proname in ('loread', 'lowrite')
union all
select 'schema', nspname, '', nspowner::regrole::text, nspacl::text
from pg_namespace
where nspname not like 'pg\\_%'
union all
select
    'default', defaclnamespace::regnamespace::text, defaclobjtype::text, defaclrole::regrole::text,
    defaclacl::text
from pg_default_acl
union all
select 'comment', classoid::regclass::text, '', '', description
from pg_description
where objoid >= 16384
order by 1, 2, 3, 4, 5
"""


@pytest.fixture
def stack(server, tmp_path) -> Stack:
    return Stack(Home(tmp_path), server.ports, server.secrets)


@pytest.fixture
def stored(loader, given):
    """A night with an open alert; the connection that loaded it is closed."""
    run, case = given.run(0), given.case()
    loader.runs.load(given.batch(run, given.came_back(run, case)))
    found = Verdict(case.case_id, "local", run.run_id, VerdictKind.REGRESSED, "slower", 9.0, 10.0)
    loader.alerts.open(found)
    return run


def answers(dsn: str, query: str) -> list[tuple[object, ...]]:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def put_back(stack: Stack, warehouse, file: Path) -> tuple[str, list[str]]:
    return restore(stack, file, NOW, warehouse.name)


@pytest.fixture
def restored(stack, stored, warehouse, given, tmp_path):
    """The warehouse after it was backed up, changed and restored; its rights before; the old."""
    file = tmp_path / "warehouse.backup"
    superuser = warehouse.server.dsn(SUPERUSER, warehouse.name)
    limit_reader(superuser)
    before = answers(superuser, RIGHTS)
    back_up(stack, file, warehouse.name)
    with closing(connect(warehouse.loader)) as connection:
        later = given.run(1)
        batch = given.batch(later, given.came_back(later, given.case()))
        Warehouse(connection).runs.load(batch)
        kept, applied = put_back(stack, warehouse, file)
    assert applied == []
    yield before, kept
    warehouse.server.execute(f"drop database {kept} with (force)")


def test_what_was_backed_up_is_there_and_what_was_replaced_is_kept(restored, warehouse, stored):
    _, kept = restored
    runs = "select run_id from marts.fct_measurement order by 1"
    assert answers(warehouse.reader, runs) == [(stored.run_id,)]
    assert len(answers(warehouse.server.dsn("nightbench_owner", kept), runs)) == 2
    assert kept == f"{warehouse.name}_20260305t080000"
    assert migrate.apply(warehouse.owner) == []


def test_every_role_may_what_it_could_before_and_no_more(restored, warehouse, given):
    before, _ = restored
    assert len(before) > 200
    assert answers(warehouse.server.dsn(SUPERUSER, warehouse.name), RIGHTS) == before
    with closing(connect(warehouse.reader)) as connection:
        assert len(Warehouse(connection).series.find()) == 1
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        answers(warehouse.reader, "delete from raw.run returning 1")
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        answers(warehouse.reader, "select lo_create(0)")
    with closing(connect(warehouse.loader)) as connection:
        after = given.run(2)
        batch = given.batch(after, given.came_back(after, given.case()))
        assert Warehouse(connection).runs.load(batch)
        assert Warehouse(connection).alerts.find()
    with closing(connect(warehouse.triage)) as connection:
        triage = Triage(connection, "ada")
        (alert,) = answers(warehouse.reader, "select alert_id from marts.fct_alert")
        triage.move(int(str(alert[0])), "acknowledged", "seen")
    # A table that a later migration makes: rights by default.
    with closing(connect(warehouse.owner)) as connection, connection.cursor() as cursor:
        cursor.execute("create table raw.later as select 1 as one")
    assert answers(warehouse.reader, "select one from raw.later") == [(1,)]


def test_what_is_no_archive_changes_nothing(stack, stored, warehouse, tmp_path):
    file = tmp_path / "broken"
    back_up(stack, file, warehouse.name)
    whole = file.read_bytes()
    for content, said in ((b"garbage", "Cannot read .*broken"), (whole[:-2000], "Cannot restore")):
        file.write_bytes(content)
        with pytest.raises(UserError, match=said):
            put_back(stack, warehouse, file)
    assert len(answers(warehouse.reader, "select 1 from marts.fct_measurement")) == 1
    databases = {name for (name,) in answers(warehouse.owner, "select datname from pg_database")}
    assert not {f"{warehouse.name}_restoring", f"{warehouse.name}_20260305t080000"} & databases


def test_a_restore_that_is_killed_between_the_two_names_changes_nothing(
    stack, stored, warehouse, tmp_path, monkeypatch
):
    file = tmp_path / "warehouse.backup"
    back_up(stack, file, warehouse.name)
    execute = backup._execute

    def killed(cursor, statement, *names):
        if names == (f"{warehouse.name}_restoring", warehouse.name):
            raise KeyboardInterrupt
        execute(cursor, statement, *names)

    monkeypatch.setattr(backup, "_execute", killed)
    with pytest.raises(KeyboardInterrupt):
        put_back(stack, warehouse, file)
    assert len(answers(warehouse.reader, "select 1 from marts.fct_measurement")) == 1
    monkeypatch.undo()
    kept, _ = put_back(stack, warehouse, file)
    assert len(answers(warehouse.reader, "select 1 from marts.fct_measurement")) == 1
    warehouse.server.execute(f"drop database {kept} with (force)")


def test_a_restore_ends_whoever_is_connected(stack, stored, warehouse, tmp_path):
    file = tmp_path / "warehouse.backup"
    back_up(stack, file, warehouse.name)
    done = threading.Event()

    def reconnect() -> int:
        ended = 0
        while not done.is_set():
            with suppress(psycopg2.OperationalError):
                answers(warehouse.reader, "select pg_sleep(0.05)")
                continue
            ended += 1
        return ended

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(reconnect) for _ in range(4)]
        try:
            kept, _ = put_back(stack, warehouse, file)
        finally:
            done.set()
        assert sum(client.result() for client in clients)
    assert len(answers(warehouse.reader, "select 1 from marts.fct_measurement")) == 1
    warehouse.server.execute(f"drop database {kept} with (force)")


def test_a_backup_that_cannot_be_written_says_so(stack, warehouse, tmp_path):
    with pytest.raises(UserError, match=r"Cannot back up the warehouse: .*No such file"):
        back_up(stack, tmp_path / "no" / "folder", warehouse.name)


@contextmanager
def newer_release(monkeypatch, tmp_path) -> Iterator[None]:
    """The code with one migration more, which loses something."""
    newer = tmp_path / "newer"
    shutil.copytree(statements.SQL, newer)
    (newer / "migrations" / "0099_mistake.sql").write_text("delete from raw.repeat;\n")
    with monkeypatch.context() as patch:
        patch.setattr(statements, "SQL", newer)
        yield


REPEATS = "select * from raw.repeat"


def test_an_upgrade_archives_the_warehouse_first_and_the_archive_brings_it_back(
    stack, stored, warehouse, monkeypatch, tmp_path
):
    before = answers(warehouse.reader, REPEATS)
    assert before
    assert list(migrate_warehouse(stack, True, warehouse.name)) == []
    usual = stack.home.backups / "warehouse-before-0099_mistake.backup"
    with newer_release(monkeypatch, tmp_path):
        said = list(migrate_warehouse(stack, True, warehouse.name))
    (file,) = stack.home.backups.iterdir()
    assert said == [
        f"warehouse: archiving it as {usual} before it changes",
        f"warehouse: the archive is {file}",
        "warehouse: applied 0099_mistake",
    ]
    assert answers(warehouse.reader, REPEATS) == []
    (upgrade,) = upgrades_of(migrate.applied(warehouse.owner), stack.home.backups)
    assert upgrade["migrations"] == ["0099_mistake"]
    assert upgrade["archives"] == [str(file)]
    kept, applied = put_back(stack, warehouse, file)
    assert applied == []
    assert upgrades_of(migrate.applied(warehouse.owner), stack.home.backups) == []
    assert answers(warehouse.reader, REPEATS) == before
    warehouse.server.execute(f"drop database {kept} with (force)")
    # The newer version migrates an archive of the older one when it restores it.
    with newer_release(monkeypatch, tmp_path / "restoring"):
        kept, applied = put_back(stack, warehouse, file)
    assert applied == ["0099_mistake"]
    assert answers(warehouse.reader, REPEATS) == []
    warehouse.server.execute(f"drop database {kept} with (force)")
    kept, _ = put_back(stack, warehouse, file)
    assert answers(warehouse.reader, REPEATS) == before
    warehouse.server.execute(f"drop database {kept} with (force)")
    # A second upgrade leaves the first one's archive.
    file = file.rename(file.with_stem(f"{usual.stem}-20260306T000000"))
    first = file.read_bytes()
    with newer_release(monkeypatch, tmp_path / "again"):
        list(migrate_warehouse(stack, True, warehouse.name))
    assert file.read_bytes() == first
    assert len(list(stack.home.backups.iterdir())) == 2


def test_what_cannot_be_archived_is_not_migrated_unless_told_to(
    stack, stored, warehouse, monkeypatch, tmp_path
):
    before = answers(warehouse.reader, REPEATS)
    stack.home.backups.write_text("no folder")
    with newer_release(monkeypatch, tmp_path):
        with pytest.raises(UserError, match=r"(?s)backups.*0099_mistake would.*--no-backup"):
            list(migrate_warehouse(stack, True, warehouse.name))
        assert answers(warehouse.reader, REPEATS) == before
        said = list(migrate_warehouse(stack, False, warehouse.name))
    assert said == ["warehouse: applied 0099_mistake"]


def test_the_commands_back_up_and_restore_this_machines_warehouse(
    stack, server, tmp_path, monkeypatch
):
    monkeypatch.setattr(db, "_running_stack", lambda: stack)
    migrate.apply(server.dsn("nightbench_owner", WAREHOUSE))
    file = tmp_path / "of a day" / "warehouse.backup"
    said = [
        CliRunner().invoke(app, ["db", word, str(file)], catch_exceptions=False).output
        for word in ("backup", "restore")
    ]
    assert f"restore it: nightbench db restore {file}" in said[0]
    kept = re.search(r"the old database is kept as (\w+)", said[1])
    assert kept
    assert answers(server.dsn("nightbench_reader", WAREHOUSE), "select * from staging.run") == []
    server.execute(f"drop database {kept[1]}")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"NIGHTBENCH_WAREHOUSE": "host=db"}, "NIGHTBENCH_WAREHOUSE names another warehouse"),
        ({}, "Nothing was started in"),
    ],
)
def test_the_commands_are_for_the_warehouse_of_this_machine(tmp_path, monkeypatch, variables, said):
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path))
    monkeypatch.delenv("NIGHTBENCH_WAREHOUSE", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=said):
        CliRunner().invoke(app, ["db", "backup", str(tmp_path / "x")], catch_exceptions=False)
    with pytest.raises(UserError, match="no such file"):
        CliRunner().invoke(app, ["db", "restore", str(tmp_path / "x")], catch_exceptions=False)
