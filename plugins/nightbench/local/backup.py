"""Backup and restore of a home's warehouse by PostgreSQL's own programs, with roles' rights."""

import subprocess
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psycopg2
import psycopg2.errors
from psycopg2 import sql

from nightbench.core.errors import UserError
from nightbench.local import postgres
from nightbench.local.deployment import Stack
from nightbench.warehouse import migrate
from nightbench.warehouse.connection import reported

OWNER = postgres.DATABASES[postgres.WAREHOUSE]
EXCHANGES = 5
"""Attempts to exchange the databases' names, each of about five seconds, while others connect."""


def back_up(stack: Stack, file: Path, database: str = postgres.WAREHOUSE) -> None:
    """Write an archive of the warehouse: one snapshot, while others read and write.

    The file has pg_dump's custom format, compressed.

    Raises:
        UserError: PostgreSQL is away, or the file cannot be written.
    """
    words = ["--format=custom", f"--file={file}"]
    _run(stack, database, "pg_dump", *words, doing="back up the warehouse")


def restore(
    stack: Stack, file: Path, now: datetime, database: str = postgres.WAREHOUSE
) -> tuple[str, list[str]]:
    """Put an archive in the place of the warehouse, once it is whole; what was there is kept.

    The archive is restored into a database of its own, with rights and limits of the roles,
    migrated to this version's schema, and analysed. Then the names are exchanged, which ends all
    connections to the old one. If something fails before, the warehouse is as it was. `now`
    names the database that keeps what was there.

    Returns:
        Name of the database that keeps what was there, and the migrations that were applied.

    Raises:
        UserError: the file is no such archive, or PostgreSQL refuses it.
    """
    _run(stack, "postgres", "pg_restore", "--list", str(file), doing=f"read {file}")
    fresh, kept = f"{database}_restoring", f"{database}_{now.astimezone(UTC):%Y%m%dt%H%M%S}"
    superuser = postgres.dsn(stack.ports, stack.secrets, postgres.SUPERUSER, "postgres")
    with (
        reported(f"restore {file}"),
        closing(psycopg2.connect(superuser)) as connection,
        connection.cursor() as cursor,
    ):
        connection.autocommit = True  # no database is made or dropped inside a transaction
        _execute(cursor, "drop database if exists {} with (force)", fresh)
        try:
            applied = _fill(stack, cursor, file, fresh)
        except BaseException:
            _execute(cursor, "drop database if exists {} with (force)", fresh)
            raise
        connection.autocommit = False
        for attempt in range(1, EXCHANGES + 1):
            try:
                with connection:
                    _exchange(cursor, database, kept, fresh)
                break
            except psycopg2.errors.ObjectInUse:
                if attempt == EXCHANGES:
                    raise
    return kept, applied


def _exchange(cursor: psycopg2.extensions.cursor, database: str, kept: str, fresh: str) -> None:
    """Rename both in the caller's transaction; psycopg2's ObjectInUse if somebody connected."""
    cursor.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (database,)
    )
    # This locks the name, so that nobody can connect, and waits for the ended connections.
    _execute(cursor, "alter database {} rename to {}", database, kept)
    _execute(cursor, "alter database {} rename to {}", fresh, database)


def _fill(stack: Stack, cursor: psycopg2.extensions.cursor, file: Path, database: str) -> list[str]:
    """Make a database from an archive; return the migrations that it lacked."""
    postgres.provide_database(cursor, database, OWNER)
    words = ["--exit-on-error", f"--dbname={database}", str(file)]
    _run(stack, database, "pg_restore", *words, doing=f"restore {file}")
    postgres.limit_reader(postgres.dsn(stack.ports, stack.secrets, postgres.SUPERUSER, database))
    applied = migrate.apply(postgres.dsn(stack.ports, stack.secrets, OWNER, database))
    # An archive holds no statistics, without which the first queries take bad plans.
    _run(stack, database, "vacuumdb", "--analyze-only", "--quiet", doing="analyse the warehouse")
    return applied


def _execute(cursor: psycopg2.extensions.cursor, statement: str, *names: str) -> None:
    cursor.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _run(stack: Stack, database: str, program: str, *words: str, doing: str) -> None:
    environment = {
        **postgres.environment(),
        "PGHOST": "127.0.0.1",
        "PGPORT": str(stack.ports.postgres),
        "PGUSER": postgres.SUPERUSER,
        "PGPASSWORD": stack.secrets.postgres,
        "PGDATABASE": database,
    }
    done = subprocess.run(
        [str(postgres.binaries() / program), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise UserError(f"Cannot {doing}: {said}")
