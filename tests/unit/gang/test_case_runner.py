"""Cases of a direct run that share no node go at once; nothing is left behind when one breaks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from nightbench.core.model import Node
from nightbench.gang.case_runner import run_disjoint


def job(name: str, *nodes: str, lock: str = "node", devices: tuple[str, ...] = ()) -> Any:
    on = tuple(Node(each, each, "ssh", devices=devices) for each in nodes)
    return SimpleNamespace(job_id=name, nodes=on, lock=lock)


class Measured:
    """Measures by waiting; remembers who went together and who was cancelled."""

    def __init__(self, breaks: str = "") -> None:
        self.order: list[str] = []
        self.together: set[frozenset[str]] = set()
        self.cancelled: list[str] = []
        self._going: set[str] = set()
        self._breaks = breaks

    async def __call__(self, one: Any) -> str:
        self.order.append(one.job_id)
        self._going.add(one.job_id)
        self.together.add(frozenset(self._going))
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            if one.job_id == self._breaks:
                raise RuntimeError("broken")
            if self._breaks:
                await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.append(one.job_id)
            raise
        finally:
            self._going.discard(one.job_id)
        return f"{one.job_id} measured"


def test_what_shares_a_node_goes_one_after_another_and_is_not_overtaken() -> None:
    jobs = [job("a", "n1"), job("b", "n2"), job("c", "n1", "n2"), job("d", "n3"), job("e", "n1")]
    measured = Measured()
    ends = asyncio.run(run_disjoint(jobs, measured, 2))
    assert ends == [f"{name} measured" for name in "abcde"]
    assert measured.order == ["a", "b", "c", "d", "e"]
    assert frozenset("ab") in measured.together
    assert frozenset("cd") in measured.together
    assert all(len(each) <= 2 for each in measured.together)
    assert not any({"a", "c"} <= each or {"c", "e"} <= each for each in measured.together)


def test_one_at_a_time_where_the_cluster_says_so() -> None:
    measured = Measured()
    asyncio.run(run_disjoint([job("a", "n1"), job("b", "n2")], measured, 1))
    assert measured.together == {frozenset("a"), frozenset("b")}


def test_devices_of_one_node_go_at_once() -> None:
    measured = Measured()
    jobs = [job(n, "n1", lock="devices", devices=(d,)) for n, d in (("a", "0"), ("b", "1"))]
    asyncio.run(run_disjoint(jobs, measured, 2))
    assert frozenset("ab") in measured.together


def test_a_broken_one_cancels_the_others_before_it_is_told() -> None:
    measured = Measured(breaks="b")
    with pytest.raises(RuntimeError, match="broken"):
        asyncio.run(run_disjoint([job("a", "n1"), job("b", "n2"), job("c", "n3")], measured, 2))
    assert measured.cancelled == ["a"]
    assert "c" not in measured.order


def test_cancelled_it_waits_until_all_have_cleaned_up() -> None:
    measured = Measured(breaks="nobody")

    async def stopped() -> None:
        work = asyncio.create_task(
            run_disjoint([job("a", "n1"), job("b", "n2"), job("c", "n1")], measured, 2)
        )
        await asyncio.sleep(0.05)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(stopped())
    assert sorted(measured.cancelled) == ["a", "b"]
    assert measured.order == ["a", "b"]
