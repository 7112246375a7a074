#!/usr/bin/env python3
"""Write docs/reference/warehouse.md from the comments of a warehouse that is migrated for it.

.venv/bin/python tools/make_dictionary.py

tests/sql/test_dictionary.py compares the page with the comments.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import closing
from itertools import groupby
from pathlib import Path

from nightbench.local import postgres, processes
from nightbench.local.home import Home, Secrets
from nightbench.local.ports import Ports, is_free
from nightbench.warehouse import connect, migrate
from nightbench.warehouse.connection import Connection

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "warehouse.md"
SCHEMAS = {
    "marts": "what to query",
    "staging": "facts with their run and axes",
    "raw": "plans, results and verdicts as stored",
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


def main() -> int:
    """Start a PostgreSQL of its own, migrate, write the page, and remove the server."""
    home, secrets = Home(Path(tempfile.mkdtemp(prefix="nbdict-"))), Secrets()
    ports = Ports(postgres=next(port for port in range(57000, 58000) if is_free(port)))
    try:
        for folder in (home.run, home.logs):
            folder.mkdir(mode=0o700)
        postgres.initialise(home, secrets)
        postgres.start(home, ports.postgres)
        postgres.wait_ready(home, ports, secrets)
        postgres.provide(home, ports, secrets)
        dsn = postgres.dsn(ports, secrets, "nightbench_owner")
        migrate.apply(dsn)
        with closing(connect(dsn)) as connection:
            PAGE.write_text(page(connection), encoding="utf-8")
    finally:
        processes.stop(home.run / "postgres.pid", first=postgres.STOP_SIGNAL)
        shutil.rmtree(home.root, ignore_errors=True)
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
