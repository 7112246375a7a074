"""The order of the suite's own tests: tests/conftest.py."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import SINGLY, group, pytest_collection_modifyitems, rank, share, shuffle

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


def test_each_slow_test_is_in_one_share_and_its_group_stays_together() -> None:
    slow = [f"tests/{SINGLY[0]}::test_a[{number}]" for number in range(60)] + IDS
    shares = {nodeid: share(nodeid, 3) for nodeid in slow}
    assert Counter(shares[nodeid] for nodeid in slow[:60]).keys() == {1, 2, 3}
    for name in map(group, IDS):
        assert len({shares[nodeid] for nodeid in IDS if group(nodeid) == name}) == 1


def test_a_share_leaves_out_slow_and_browser_tests_alone() -> None:
    """Three shares have each of these tests once, and each other test three times."""
    ids = [*IDS, *(f"tests/browser/test_a.py::test_{number}" for number in range(9))]
    slow = {nodeid for nodeid in ids if "sql/test_a" in nodeid or "browser" in nodeid}
    found = Counter[str]()
    for number in (1, 2, 3):
        options = {"random_order": None, "passed_in": None, "slow_share": f"{number}/3"}
        hook = SimpleNamespace(pytest_deselected=lambda items: None)
        config: Any = SimpleNamespace(option=SimpleNamespace(**options), hook=hook)
        marks = [{"slow"} if "sql" in nodeid and nodeid in slow else set() for nodeid in ids]
        items: list[Any] = [
            SimpleNamespace(nodeid=nodeid, keywords=marked)
            for nodeid, marked in zip(ids, marks, strict=True)
        ]
        pytest_collection_modifyitems(config, items)
        found.update(item.nodeid for item in items)
    assert found == {nodeid: 1 if nodeid in slow else 3 for nodeid in ids}


@pytest.mark.parametrize("text", ["0/3", "4/3", "2", "a/3", "1/0"])
def test_a_share_that_there_is_not_is_refused(text: str) -> None:
    options = {"random_order": None, "passed_in": None, "slow_share": text}
    config: Any = SimpleNamespace(option=SimpleNamespace(**options))
    with pytest.raises(pytest.UsageError, match="expected N/M"):
        pytest_collection_modifyitems(config, [])
