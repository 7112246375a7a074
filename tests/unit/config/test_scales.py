"""Values by scale: what a suite is at one scale, and what is said where a value has none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nightbench.config import ConfigError, load_suite
from nightbench.config.scales import written_scales
from nightbench.config.source import read_document
from nightbench.core.errors import UserError
from nightbench.core.model import Catalog

Write = Callable[..., Path]

BY_SCALE = (
    ("owner: tests", "owner: tests\nprotocol:\n  full: {repeats: 7}\n  smoke: {repeats: 3}"),
    ("devices: [1x1, 2x1]", "devices: {full: [1x1, 2x1], smoke: 1x1}"),
    ("batch_size_per_device: 2", "batch_size_per_device: {full: 32, smoke: 2}"),
)


def test_a_suite_is_another_at_each_scale(suite_file: Write, catalog: Catalog) -> None:
    path = suite_file(*BY_SCALE)
    full, smoke = load_suite(path, catalog), load_suite(path, catalog, scale="smoke")
    assert (full.scale, full.protocol.repeats, len(full.cases)) == ("full", 7, 4)
    assert (smoke.scale, smoke.protocol.repeats, len(smoke.cases)) == ("smoke", 3, 2)
    assert {case.batch_size_per_device for case in full.cases} == {32}
    assert [case.case_id for case in smoke.cases] == [
        "net-pytorch-collective-1x1-bs2-smoke",
        "net-paddle3-collective-1x1-bs2-smoke",
    ]
    assert written_scales(read_document(path), {"full", "smoke"}) == ["full", "smoke"]


def test_an_asked_scale_replaces_those_of_blocks(suite_file: Write, catalog: Catalog) -> None:
    path = suite_file(("strategy: collective", "strategy: collective\n    scale: [full, smoke]"))
    assert len(load_suite(path, catalog).cases) == 8
    assert {case.scale for case in load_suite(path, catalog, scale="smoke").cases} == {"smoke"}


def test_a_mistake_is_named_on_its_own_line(suite_file: Write, catalog: Catalog) -> None:
    path = suite_file(
        *BY_SCALE[:2], ("batch_size_per_device: 2", "batch_size_per_device: {full: 1, smoke: -2}")
    )
    with pytest.raises(ConfigError, match=r"trial.yaml:12: matrix\[0\].batch_size_per_device"):
        load_suite(path, catalog, scale="smoke")
    assert load_suite(path, catalog).scale == "full"


def test_a_value_without_the_asked_scale(suite_file: Write, catalog: Catalog) -> None:
    path = suite_file(("devices: [1x1, 2x1]", "devices: {full: [1x1, 2x1]}"))
    with pytest.raises(
        ConfigError, match="found values for full; expected also one for the scale smo"
    ):
        load_suite(path, catalog, scale="smoke")
    with pytest.raises(UserError, match='scale: found "huge"; expected one of full, smoke'):
        load_suite(path, catalog, scale="huge")


def test_cases_that_cannot_run_are_skipped_where_the_block_says_so(
    suite_file: Write, catalog: Catalog
) -> None:
    wrong = ("devices: [1x1, 2x1]", "devices: [1x1, 4x1]\n    precision: [fp32, bf16]")
    with pytest.raises(ConfigError, match="needs 4 nodes"):
        load_suite(suite_file(wrong), catalog)
    skip = ("strategy: collective", "strategy: collective\n    unsupported: skip")
    suite = load_suite(suite_file(wrong, skip), catalog)
    assert [case.case_id for case in suite.cases] == [
        "net-pytorch-collective-1x1-bs2",
        "net-paddle3-collective-1x1-bs2",
    ]
    assert len(suite.skipped) == 6
    assert "too slow" in suite.skipped["net-pytorch-collective-1x1-bs2-bf16"]
    assert "cluster pair has 2 nodes" in suite.skipped["net-paddle3-collective-4x1-bs2"]


def test_as_many_servers_as_trainers(suite_file: Write, catalog: Catalog) -> None:
    block = """\
  - workload: net
    frameworks: paddle1
    strategy: parameter_server
    trainers: [1, 2]
    pservers: trainers
    batch_size_per_device: 4
"""
    suite = load_suite(suite_file(("matrix:\n", f"matrix:\n{block}")), catalog)
    assert [(c.pservers, c.trainers) for c in suite.cases[:2]] == [(1, 1), (2, 2)]
    wrong = suite_file(("matrix:\n", f"matrix:\n{block.replace(': trainers', ': many')}"))
    with pytest.raises(ConfigError, match='found "many"; expected a number of at least 1, or "tr'):
        load_suite(wrong, catalog)


TABLE = """\
tables:
  sizes:
    title: By devices
    rows: framework
    columns: devices
    published: {document: paper, figures: one, only: {old: gone}}
matrix:
"""


def test_a_table_holds_the_cases_of_the_blocks_that_name_it(
    suite_file: Write, catalog: Catalog
) -> None:
    named = ("strategy: collective", "strategy: collective\n    tables: sizes")
    (table,) = load_suite(suite_file(("matrix:\n", TABLE), named), catalog).tables
    assert (table.name, table.rows, table.columns) == ("sizes", ("framework",), ("devices",))
    assert (table.published.document, table.published.figures) == ("paper", ("one",))
    assert table.published.only == {"old": "gone"}
    assert len(table.cases) == 4
    other = ("strategy: collective", "strategy: collective\n    tables: shapes")
    with pytest.raises(ConfigError, match=r'found "shapes"; expected sizes'):
        load_suite(suite_file(("matrix:\n", TABLE), other), catalog)


def test_two_tables_may_hold_the_same_case(suite_file: Write, catalog: Catalog) -> None:
    second = "  twice:\n    title: T\n    rows: framework\n    columns: devices\nmatrix:"
    more = TABLE.replace("matrix:", second)
    block = """\
  - workload: net
    frameworks: pytorch
    strategy: collective
    devices: [1x1, 2x1]
    batch_size_per_device: 2
    tables: twice
"""
    named = ("[pytorch, paddle3]", "[pytorch, paddle3]\n    tables: sizes")
    suite = load_suite(suite_file(("matrix:\n", more + block), named), catalog)
    assert len(suite.cases) == 4
    assert [len(table.cases) for table in suite.tables] == [4, 2]
    with pytest.raises(
        ConfigError, match="defines the case net-pytorch-collective-1x1-bs2 a second time"
    ):
        load_suite(suite_file(("matrix:\n", more + block)), catalog)
