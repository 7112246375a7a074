"""Every table, view and column says what it is, and the data dictionary says the same."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from tools.make_dictionary import page

from nightbench.warehouse import connect, migrate, statements

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "warehouse.md"
MEANING = "select col_description('marts.fct_alert'::regclass, 1) as meaning"


def test_every_column_says_what_it_is(rows):
    silent = rows(
        "select c.oid::regclass::text || '.' || a.attname as name from pg_class c"
        " join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped"
        " where c.relnamespace::regnamespace::text in ('raw', 'staging', 'marts')"
        " and c.relkind in ('r', 'p', 'v') and not c.relispartition"
        " and col_description(c.oid, a.attnum) is null"
    )
    assert silent == []


def test_the_dictionary_is_up_to_date(warehouse):
    with closing(connect(warehouse.owner)) as connection:
        assert PAGE.read_text() == page(connection), "run .venv/bin/python tools/make_dictionary.py"


def test_a_month_is_no_table_of_its_own(warehouse, connection):
    with closing(connect(warehouse.owner)) as owner:
        before = page(owner)
        with connection:
            connection.cursor().execute("select raw.ensure_month(now())")
        assert page(owner) == before


@pytest.mark.usefixtures("own_warehouse")
def test_a_column_that_passes_through_has_the_comment_of_its_table(
    warehouse, rows, monkeypatch, tmp_path
):
    def made(view: str) -> str | None:
        changed = tmp_path / "sql" / "marts" / "fct_alert.sql"
        changed.write_text("create or replace view marts.fct_alert as " + view)
        migrate.apply(warehouse.owner)
        return rows(MEANING)[0]["meaning"]

    shutil.copytree(statements.SQL, tmp_path / "sql")
    monkeypatch.setattr(statements, "SQL", tmp_path / "sql")
    through = "with a as (select * from raw.alert) select x.kind as verdict from (table a) as x;"
    assert made(through) == "The verdict"
    # Another column by the same name: the comment that it had inherited goes.
    other = "select sentence as verdict from raw.alert;"
    assert made(other) == "Evidence of the run in last_run_id"
    assert made("select upper(kind) as verdict from raw.alert;") is None
    own = "comment on column marts.fct_alert.verdict is 'ours';"
    assert made(f"select kind as verdict from raw.alert; {own}") == "ours"
