"""Columns of axes, which are generated from the document of a case."""

from __future__ import annotations

import dataclasses
from contextlib import closing

import psycopg2
import pytest
from psycopg2.extras import Json
from tests.sql.conftest import Database
from tests.sql.given import Given

from nightbench.core.model import Case


@pytest.mark.parametrize(
    "wrong", [{"workload": None}, {"strategy": "swarm"}, {"nodes": 0}, {"precision": ""}]
)
def test_a_case_with_a_wrong_axis_is_refused(
    warehouse: Database, given: Given, wrong: dict[str, object]
) -> None:
    with (
        closing(psycopg2.connect(warehouse.owner)) as owner,
        pytest.raises(psycopg2.IntegrityError, match=next(iter(wrong))),
    ):
        owner.cursor().execute(
            'insert into raw."case" (case_id, axes, mode) values (%s, %s, %s)',
            ("c", Json(given.case().axes() | wrong), "collective"),
        )


def test_a_case_from_before_an_axis_has_its_default(warehouse: Database, given: Given) -> None:
    axes = {name: x for name, x in given.case().axes().items() if name != "tensor"}
    with closing(psycopg2.connect(warehouse.owner)) as owner, owner.cursor() as cursor:
        cursor.execute(
            'insert into raw."case" (case_id, axes, mode) values (%s, %s, %s) returning tensor',
            ("c", Json(axes), "collective"),
        )
        default = {each.name: each.default for each in dataclasses.fields(Case)}["tensor"]
        assert cursor.fetchone() == (default,)
