"""The base of all repositories: named statements on one connection, rows as dicts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any

from psycopg2 import sql
from psycopg2.extras import Json, execute_values

from nightbench.warehouse.connection import Connection, reported
from nightbench.warehouse.statements import queries

Row = dict[str, Any]

ROWS_AT_ONCE = 1000
"""Rows of one INSERT."""


class Repository:
    """Reads and writes one aggregate. Storing the same thing again changes nothing.

    Every method raises `WarehouseUnavailable` if PostgreSQL is away and `WarehouseRefused`
    if it refuses the data; in both cases nothing of the call was stored.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[None]:
        """One transaction; `doing` completes "Cannot ..." in the message of a database error."""
        with reported(doing), self._connection:
            yield

    def read(self, name: str, /, **parameters: Any) -> list[Row]:
        """Rows of a statement of `sql/queries/`, which says what they are; in no transaction."""
        with reported(f"read from the warehouse ({name})"):
            return self._rows(name, **parameters)

    def first(self, name: str, /, **parameters: Any) -> Row | None:
        """First row of such a statement; None if there is none."""
        return next(iter(self.read(name, **parameters)), None)

    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """Rows of a statement, inside of a transaction."""
        run = getattr(queries(), name)
        return [dict(row) for row in run(self._connection, **_fitted(parameters))]

    def _function(self, name: str, *given: Any) -> Any:
        """Return the result of a database function, inside a transaction."""
        with self._connection.cursor() as cursor:
            cursor.callproc(name, [_fit(each) for each in given])
            (found,) = cursor.fetchone() or (None,)
        return found

    def _tuples(self, name: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of a statement as tuples, for large results."""
        with reported(f"read from the warehouse ({name})"), self._connection.cursor() as cursor:
            cursor.execute(getattr(queries(), name).sql, _fitted(parameters))
            return cursor.fetchall()

    def _lock_for_transaction(self, name: str) -> None:
        """Lock a name until the transaction ends."""
        self._rows("lock_for_transaction", lock_name=name)

    def _try_session_lock(self, name: str) -> bool:
        """Lock a name until the connection is closed; False if another session has it."""
        return bool(self.read("try_session_lock", lock_name=name)[0]["is_locked"])

    def _write(self, name: str, /, *rows: Mapping[str, Any]) -> int:
        """Run a writing statement for each row, inside of a transaction; rows that changed."""
        run = getattr(queries(), name)
        changed: int = run(self._connection, [_fitted(row) for row in rows])
        return changed

    def _do(self, doing: str, name: str, /, **row: Any) -> int:
        """Run a writing statement in a transaction of its own; rows that changed."""
        with self._transaction(doing):
            return self._write(name, row)

    def _store(
        self,
        table: str,
        rows: Sequence[Mapping[str, Any]],
        key: str = "",
        keep: str = "",
        stamp: str = "",
    ) -> int:
        """Insert rows or update those that differ, many at once, inside of a transaction.

        The table is one of schema raw, `key` the columns of the unique constraint that tells rows
        apart and `keep` those that are never updated, separated by blanks. No two rows may have the
        same key. Without a key nothing is updated: what is there stays. `stamp` is a column that
        says when a row was stored, and later when it was last updated.

        Returns:
            How many rows were new or different.
        """
        if not rows:
            return 0
        columns = list(rows[0])
        changing = [c for c in columns if c not in {*key.split(), *keep.split()}]

        def names(wanted: Sequence[str], of: str | None = None) -> sql.Composed:
            return sql.SQL(", ").join(
                sql.Identifier(of, name) if of else sql.Identifier(name) for name in wanted
            )

        update = sql.SQL(
            "do update set ({changing}) = row({new}){stamped} "
            "where row({old}) is distinct from row({new})"
        ).format(
            changing=names(changing),
            new=names(changing, "excluded"),
            old=names(changing, "t"),
            stamped=sql.SQL(", {} = clock_timestamp()").format(sql.Identifier(stamp))
            if stamp
            else sql.SQL(""),
        )
        statement = sql.SQL(
            "insert into raw.{table} as t ({columns}) values %s on conflict {key} {update} "
            "returning 1"
        ).format(
            table=sql.Identifier(table),
            columns=names(columns),
            key=sql.SQL("({})").format(names(key.split())) if key else sql.SQL(""),
            update=update if key and changing else sql.SQL("do nothing"),
        )
        with self._connection.cursor() as cursor:
            values = [tuple(_fit(row[column]) for column in columns) for row in rows]
            changed = execute_values(cursor, statement, values, page_size=ROWS_AT_ONCE, fetch=True)
        return len(changed)


def document(value: Any) -> Json:
    """Return a value as jsonb takes it, whose texts may not hold NUL either."""
    return Json(_without_nul(value))


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "\\x00")
    if isinstance(value, Mapping):
        return {key: _without_nul(each) for key, each in value.items()}
    return [_without_nul(each) for each in value] if isinstance(value, list | tuple) else value


def _fitted(parameters: Mapping[str, Any]) -> Row:
    return {name: _fit(value) for name, value in parameters.items()}


def _fit(value: Any) -> Any:
    """Return a value in the form that psycopg2 and PostgreSQL need."""
    if isinstance(value, str):
        # A process's message may contain NUL, which PostgreSQL's text cannot.
        return value.replace("\x00", "\\x00")
    if not isinstance(value, int) and isinstance(value, Real):
        return float(value)  # SQL cannot read numpy's `np.float64(...)`
    return list(value) if isinstance(value, tuple) else value
