"""Answers are shared while what they were made from is the same, and asked for once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, get_ident
from time import monotonic

import pytest

from nightbench.web.answer_cache import KEPT, AnswerCache


def test_an_answer_serves_while_its_stamp_is_the_same_and_it_is_young() -> None:
    now = [0.0]
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        return len(asked)

    cache = AnswerCache[int](10.0, lambda: now[0])
    assert [cache.get("morning", "a", ask), cache.get("morning", "a", ask)] == [1, 1]
    assert cache.get("axes", "a", ask) == 2
    assert cache.get("morning", "b", ask) == 3
    now[0] = 10.0
    assert cache.get("morning", "b", ask) == 4


def test_readers_at_the_same_time_ask_once_whatever_is_written_meanwhile() -> None:
    together = Barrier(10)
    asked: list[int] = []
    seen: set[int] = set()
    all_wait = Event()

    def clock() -> float:
        now_s = monotonic()
        seen.add(get_ident())
        if len(seen) == 10:
            all_wait.set()
        return now_s

    cache = AnswerCache[int](600.0, clock)

    def ask() -> int:
        # The first one answers when all others have asked: one more answer serves them all.
        assert all_wait.wait(timeout=120)
        asked.append(1)
        return 7

    def read(number: int) -> int:
        together.wait(timeout=120)
        return cache.get("morning", number, ask)

    with ThreadPoolExecutor(10) as readers:
        assert list(readers.map(read, range(10))) == [7] * 10
    assert len(asked) <= 2


def test_an_answer_that_was_begun_before_is_not_enough_for_another_stamp() -> None:
    cache = AnswerCache[str](10.0)
    assert cache.get("x", 1, lambda: "old") == "old"
    assert cache.get("x", 2, lambda: "new") == "new"


def test_a_failure_is_not_kept_and_the_cache_stays_small() -> None:
    cache = AnswerCache[int](10.0)
    for number in range(3 * KEPT):
        assert cache.get(number, "a", lambda: 1) == 1
    assert len(cache._slots) <= KEPT

    def fails() -> int:
        raise OSError("away")

    for _ in range(2):
        with pytest.raises(OSError, match="away"):
            cache.get("x", "a", fails)
    assert cache.get("x", "a", lambda: 2) == 2
