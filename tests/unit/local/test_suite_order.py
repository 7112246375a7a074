"""The order of the suite's own tests: tests/conftest.py."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.conftest import SINGLY, group, rank, shuffle

IDS = [
    f"tests/{file}::test_{number}"
    for file in (
        "sql/test_a.py",
        "sql/test_b.py",
        "integration/test_airflow_a.py",
        "unit/test_c.py",
    )
    for number in range(4)
] + [f"tests/integration/test_airflow_b.py::test_{number}" for number in range(4)]


def order(seed: int) -> list[str]:
    items: list[Any] = [SimpleNamespace(nodeid=nodeid) for nodeid in IDS]
    shuffle(items, seed)
    return [item.nodeid for item in items]


def test_a_random_order_keeps_together_what_shares_servers() -> None:
    found = [order(seed) for seed in range(20)]
    for ids in found:
        assert sorted(ids) == sorted(IDS)
        runs = [name for name, _ in groupby(ids, group)]
        assert len(runs) == len(set(runs)), ids
    assert order(3) == found[3]
    assert len({ids.index("tests/sql/test_a.py::test_0") for ids in found}) > 5


def test_files_without_servers_are_handed_out_test_by_test_after_those_with() -> None:
    tests = Path(__file__).parents[2]
    for file in SINGLY:
        text = (tests / file).read_text()
        assert 'scope="module"' not in text, file
        assert "_nodes" not in text, file
    one, other = (f"tests/{SINGLY[0]}::test_a[{line}]" for line in ("pytorch", "jax"))
    assert group(one) != group(other)
    ids = [other, *IDS, "tests/integration/test_ab.py::test_a", one]
    items: list[Any] = [SimpleNamespace(nodeid=nodeid) for nodeid in ids]
    ordered = [item.nodeid for item in sorted(items, key=rank)]
    folders = [folder for folder, _ in groupby(nodeid.split("/")[1] for nodeid in ordered)]
    assert folders == ["integration", "sql", "unit"]
    trained = ordered.index(other)
    assert ordered[trained - 1 : trained + 2] == [ids[-2], other, one]
