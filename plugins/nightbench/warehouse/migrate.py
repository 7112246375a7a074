"""Forward-only migrations by yoyo, the views, the references: all in one transaction.

yoyo reads the files and keeps the book (schema `migrations`), but by itself it commits a migration
and its mark in two transactions. It locks by a row that a killed process leaves behind. So the
steps run inside one transaction, under a lock that PostgreSQL drops with the connection
(docs/adr/0007-migrations.md).
"""

import hashlib
import re
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.errors
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from nightbench.core.errors import UserError, WarehouseRefused
from nightbench.warehouse import columns, statements
from nightbench.warehouse.connection import Connection, connect, reported
from nightbench.warehouse.references import FILES, load_references

OWNER = "nightbench_owner"

SCHEMAS = ("staging", "marts")
"""Folders of `sql/` with a file for each view."""

_NO_NAMES = re.compile(r"--.*|'(?:[^']|'')*'")
"""Comments and texts, in which a view may be spoken of that is not needed."""
_NAME = re.compile(r"\b\w+\.\w+")

_BOOK = "migrations"
_PURPOSE = "Views for analysts and pages; the comment of each view says what a row is"
_TIMEOUT_S = 600.0

_JUST_MADE = (
    psycopg2.errors.UniqueViolation,
    psycopg2.errors.DuplicateObject,
    psycopg2.errors.DuplicateTable,
    psycopg2.errors.DuplicateSchema,
)
"""Errors of `create … if not exists` if another process has just created it."""


def apply(dsn: str | Mapping[str, Any], folder: Path | None = None) -> list[str]:
    """Update a warehouse; safe when two call at once, and free when nothing is new.

    The login is nightbench_owner, or may take on that role.

    Returns:
        Names of the migrations that were applied now, oldest first.

    Raises:
        WarehouseUnavailable: PostgreSQL is away, or the role does not exist.
        WarehouseRefused: a migration or view failed; the database is as it was before.
    """
    connection = _connect(dsn)
    with closing(connection), reported("apply the migrations"):
        _lock(connection)
        with closing(_connect(dsn)) as applying:
            return _apply_locked(applying, folder or statements.SQL / "migrations")


def applied(dsn: str | Mapping[str, Any]) -> list[tuple[str, datetime]]:
    """Return the migrations that a warehouse has had, oldest first, and when; none before tables.

    Raises:
        WarehouseUnavailable: PostgreSQL is away, or the role does not exist.
    """
    with (
        reported("read which migrations were applied"),
        closing(_connect(dsn)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("select to_regclass(%s)", (f"{_BOOK}._yoyo_migration",))
        if cursor.fetchone() == (None,):
            return []
        book = sql.Identifier(_BOOK)
        cursor.execute(
            sql.SQL(
                "select migration_id, applied_at_utc from {}._yoyo_migration order by migration_id"
            ).format(book)
        )
        return [(name, at.replace(tzinfo=UTC)) for name, at in cursor.fetchall()]


def pending(dsn: str | Mapping[str, Any]) -> list[str]:
    """Return the migrations that would change a warehouse; none for one that has no tables yet."""
    had = {name for name, _ in applied(dsn)}
    files = (file.stem for file in (statements.SQL / "migrations").glob("*.sql"))
    return sorted(set(files) - had) if had else []


def _connect(dsn: str | Mapping[str, Any]) -> Connection:
    return connect(
        dsn,
        application_name="nightbench db migrate",
        statement_timeout_s=_TIMEOUT_S,
        lock_timeout_s=_TIMEOUT_S,
        role=OWNER,
    )


def _lock(connection: Connection) -> None:
    """Open a transaction that locks a table of the owner, which no reader can block."""
    book = sql.Identifier(_BOOK)
    with connection.cursor() as cursor:
        for what in ("schema if not exists {}", "table if not exists {}.applying ()"):
            with suppress(*_JUST_MADE):
                cursor.execute(sql.SQL("create " + what).format(book))
        cursor.execute("begin")
        cursor.execute(sql.SQL("lock table {}.applying in exclusive mode").format(book))


def _apply_locked(connection: Connection, folder: Path) -> list[str]:
    import yoyo
    from yoyo.backends.core.postgresql import PostgresqlBackend
    from yoyo.connections import DatabaseURI

    class OneTransaction(PostgresqlBackend):  # type: ignore[misc] # yoyo has no types
        """yoyo's backend on the connection that holds the lock."""

        def connect(self, dburi: DatabaseURI) -> Connection:
            self.schema = _BOOK
            return connection

    uri = DatabaseURI("postgresql", None, None, None, None, None, {})
    backend = OneTransaction(uri, "_yoyo_migration")
    backend.create_lock_table()
    backend.break_lock()  # a killed process may leave it; our own lock is the one that counts
    backend.ensure_internal_schema_updated()
    wanted = yoyo.read_migrations(str(folder))
    if not wanted:
        raise UserError(f"{folder}: holds no migrations; the folder sql/ must be complete.")
    pending = list(backend.to_apply(wanted))
    texts = _views()
    digest = _digest(texts)
    if not pending and _mark(connection) == digest:
        return []
    if unknown := set(_existing(connection)) - {tuple(view.split("/")) for view in texts}:
        raise WarehouseRefused(
            f"{statements.SQL} has no file for {', '.join(sorted(map('.'.join, unknown)))}, which "
            "the warehouse has: a file is missing, or a newer version made it. A view of your own "
            "belongs into another schema. The database is as it was before."
        )
    doing = ""
    try:
        with backend.transaction():
            if pending:
                # A migration may change what a view selects from.
                doing = "dropping the views"
                _drop_views(connection)
            for migration in pending:
                doing = f"migration {Path(migration.path).name}"
                migration.process_steps(backend, "apply")
                backend.mark_one(migration, log=False)
            doing = "adding axes"
            with connection.cursor() as cursor:
                cursor.execute(columns.axis_columns())
            doing = "making the views"
            _make_views(connection, texts)
            doing = "loading the references"
            load_references(connection)
            with connection.cursor() as cursor:
                cursor.execute("comment on schema marts is %s", (f"{_PURPOSE}\n{digest}",))
    except psycopg2.errors.DependentObjectsStillExist as error:
        raise WarehouseRefused(
            "Views of staging and marts must be created again, but objects outside of Nightbench "
            f"depend on them: {error.diag.message_detail}. Drop these objects, migrate, and "
            "create the objects again."
        ) from error
    except psycopg2.ProgrammingError as error:
        raise WarehouseRefused(
            f"Failed at {doing}: {str(error).strip()}. The database is as it was before."
        ) from error
    return [migration.id for migration in pending]


def is_current(connection: Connection) -> bool:
    """Whether a warehouse has the tables and views of this version; any role may ask."""
    return _mark(connection) == _digest(_views())


def _views() -> dict[str, str]:
    """Return the text of each view in an order in which they need each other."""
    texts = {
        f"{schema}/{file.stem}": columns.listed(statements.text(f"{schema}/{file.name}"))
        for schema in SCHEMAS
        for file in sorted((statements.SQL / schema).glob("*.sql"))
    }
    needs: dict[str, list[str]] = {}
    for view, text in texts.items():
        named = {name.replace(".", "/") for name in _NAME.findall(_NO_NAMES.sub("", text))}
        needs[view] = sorted(named & texts.keys() - {view})
    return {view: texts[view] for view in TopologicalSorter(needs).static_order()}


def _digest(views: Mapping[str, str]) -> str:
    """Return the comment of schema `marts` after all migrations."""
    names = sorted(file.stem for file in (statements.SQL / "migrations").glob("*.sql"))
    references = (statements.text(f"references/{name}") for name in FILES)
    content = "".join((columns.axis_columns(), *views.values(), *references, *names))
    return f"sql/ {hashlib.sha256(content.encode()).hexdigest()}"


def _mark(connection: Connection) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "select obj_description(oid, 'pg_namespace') from pg_namespace where nspname = 'marts'"
        )
        found = cursor.fetchone()
        comment = str(found[0] or "") if found else ""
    return comment.rpartition("\n")[2] or None


def _make_views(connection: Connection, texts: Mapping[str, str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("savepoint before_views")
        try:
            _run_files(cursor, texts)
        except psycopg2.errors.InvalidTableDefinition:
            # `create or replace` cannot rename, drop or retype a column.
            cursor.execute("rollback to savepoint before_views")
            _drop_views(connection)
            _run_files(cursor, texts)


def _run_files(cursor: Cursor, texts: Mapping[str, str]) -> None:
    for name, content in texts.items():
        view = sql.Identifier(*name.split("/"))
        _forget_comments(cursor, view)
        cursor.execute(content)
        _inherit_comments(cursor, view)


def _forget_comments(cursor: Cursor, view: sql.Identifier) -> None:
    cursor.execute(
        "select attname from pg_attribute where attrelid = to_regclass(%s) and attnum > 0 "
        "and col_description(attrelid, attnum) is not null",
        (view.as_string(cursor),),
    )
    for (column,) in cursor.fetchall():
        _comment(cursor, view, column, None)


def _inherit_comments(cursor: Cursor, view: sql.Identifier) -> None:
    """Give each column of a view that has no comment that of the column that it passes through.

    PostgreSQL reports which column of which table or view a result column is; a column that is
    computed is none, and keeps the comment of its own file.
    """
    cursor.execute("select pg_get_viewdef(%s::regclass)", (view.as_string(cursor),))
    ((text,),) = cursor.fetchall()
    definition = sql.SQL(text.rstrip(";"))
    cursor.execute(sql.SQL("select * from ({}) as view limit 0").format(definition))
    for number, column in enumerate(cursor.description or (), start=1):
        cursor.execute(
            "select col_description(%s, %s) where col_description(%s::regclass, %s) is null",
            (column.table_oid, column.table_column, view.as_string(cursor), number),
        )
        if found := cursor.fetchone():
            _comment(cursor, view, column.name, found[0])


def _comment(cursor: Cursor, view: sql.Identifier, column: str, comment: str | None) -> None:
    statement = sql.SQL("comment on column {}.{} is {}")
    cursor.execute(statement.format(view, sql.Identifier(column), sql.Literal(comment)))


def _existing(connection: Connection) -> list[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "select schemaname, viewname from pg_views where schemaname = any(%s)",
            (list(SCHEMAS),),
        )
        return [(schema, view) for schema, view in cursor.fetchall()]


def _drop_views(connection: Connection) -> None:
    names = [sql.Identifier(schema, view) for schema, view in _existing(connection)]
    if names:
        # In one statement: dependent views are dropped together; a view of somebody else stops it.
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL("drop view {} restrict").format(sql.SQL(", ").join(names)))
