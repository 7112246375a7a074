"""What each table, view and column means: comments of views, and the data dictionary."""

from itertools import groupby

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from nightbench.warehouse.connection import Connection

SCHEMAS = {
    "marts": "what to query",
    "staging": "facts beside their run and axes",
    "raw": "what was planned, what came back and what was made of it",
}
"""In the order in which a reader meets them."""
_HEAD = """<!-- Made by tools/make_dictionary.py from the comments in sql/. Do not edit. -->

# The warehouse's data dictionary

Tables, views and columns by schema; `\\d+ marts.fct_measurement` in psql shows the same. How to use
them: [warehouse.md](../warehouse.md). Times are UTC, durations seconds (`_s`), sizes bytes
(`_bytes`). Months of partitioned tables are left out.
"""
_COLUMNS = """
select
    n.nspname,
    c.relname,
    case
        when c.relkind = 'v' then 'view'
        when c.relkind = 'p' then 'table, partitioned by month'
        else 'table'
    end as kind,
    coalesce(obj_description(c.oid, 'pg_class'), '') as about,
    a.attname,
    format_type(a.atttypid, null) as type,
    coalesce(col_description(c.oid, a.attnum), '') as meaning
from pg_class as c
inner join pg_namespace as n on c.relnamespace = n.oid
inner join pg_attribute as a on c.oid = a.attrelid
where
    n.nspname = any(%s)
    and c.relkind in ('r', 'p', 'v')
    and not c.relispartition
    and a.attnum > 0
    and not a.attisdropped
order by array_position(%s, n.nspname::text), c.relname, a.attnum
"""


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

    PostgreSQL tells which column of which table or view a result column is; a column that is
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


def page(connection: Connection) -> str:
    """Return the data dictionary of a migrated warehouse as Markdown."""
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS, (list(SCHEMAS), list(SCHEMAS)))
        rows = cursor.fetchall()
    lines = [_HEAD]
    for schema, of_schema in groupby(rows, key=lambda row: row[0]):
        lines += [f"## Schema `{schema}`: {SCHEMAS[schema]}", ""]
        for (name, kind, about), columns in groupby(of_schema, key=lambda row: row[1:4]):
            lines += [f"### `{schema}.{name}`", "", f"{about}. ({kind.capitalize()}.)", ""]
            lines += ["| column | type | meaning |", "|---|---|---|"]
            lines += [f"| `{c[4]}` | {c[5]} | {_cell(c[6])} |" for c in columns]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _cell(meaning: str) -> str:
    return meaning.replace("|", "\\|").replace("<", "&lt;")


def _comment(cursor: Cursor, view: sql.Identifier, column: str, comment: str | None) -> None:
    statement = sql.SQL("comment on column {}.{} is {}")
    cursor.execute(statement.format(view, sql.Identifier(column), sql.Literal(comment)))


def _only(cursor: Cursor) -> str:
    found = cursor.fetchone()
    assert found is not None
    return str(found[0])
