"""Meanings of the columns of views: comments that pass through them."""

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor


def forget_comments(cursor: Cursor, view: sql.Identifier) -> None:
    """Remove the comments of a view's columns, if it exists: its file is about to be run."""
    cursor.execute(
        "select attname from pg_attribute where attrelid = to_regclass(%s) and attnum > 0 "
        "and col_description(attrelid, attnum) is not null",
        (view.as_string(cursor),),
    )
    for (column,) in cursor.fetchall():
        _comment(cursor, view, column, None)


def inherit_comments(cursor: Cursor, view: sql.Identifier) -> None:
    """Give each column of a view that has no comment that of the column that it passes through.

    PostgreSQL reports which column of which table or view a result column is; a column that is
    computed is none, and keeps the comment of its own file.
    """
    cursor.execute("select pg_get_viewdef(%s::regclass)", (view.as_string(cursor),))
    definition = sql.SQL(_only(cursor).rstrip(";"))
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


def _only(cursor: Cursor) -> str:
    found = cursor.fetchone()
    assert found is not None
    return str(found[0])
